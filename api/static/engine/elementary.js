// Roots, logarithms, exponential, circular and hyperbolic functions of fractions, to any number of digits. Numbers are
// integers times 2**-bits. Arguments are reduced until a few terms of a power series are enough (Brent and Zimmermann,
// Modern Computer Arithmetic, chapter 4).

import { bitLength, magnitude, negative, whole } from "./fractions.js";

const GUARD = 32n; // bits beyond the digits asked for, of which errors take less than half
const MAX_POWER = 4_606n; // the exponent of e for which the value has 2,001 digits
const MAX_NEWTON = 16n; // the degree of a root up to which Newton's iteration finds it, and not powers of e

/** @import { Fraction } from "./fractions.js" */
/** Returns a value to `digits` significant digits: the error is less than one unit of the last of them. A value at 0 or
 * 1 that is a whole number is exact.
 * @typedef {(x: Fraction, digits: number) => Fraction} Real */

// Roots

/** Returns the real root of degree n > 0 as a Real does. It is exact if it is a fraction.
 * @throws {RangeError} for a root of even degree of a negative number
 * @type {(x: Fraction, n: bigint, digits: number) => Fraction} */
export function root(x, n, digits) {
  if (x.n < 0n) {
    if (n % 2n === 0n) throw new RangeError("a root of even degree of a negative number");
    return negative(root(negative(x), n, digits));
  }
  const exact = { n: integerRoot(x.n, n), d: integerRoot(x.d, n) };
  if (exact.n ** n === x.n && exact.d ** n === x.d) return exact;
  if (n <= MAX_NEWTON) return toDigits(digits, (bits) => integerRoot((x.n << (n * bits)) / x.d, n));
  const logarithm = ln(x, digits + 5); // is below 10**4
  return exp({ n: logarithm.n, d: logarithm.d * n }, digits + 1);
}

/** Returns the root of degree n of an integer >= 0, rounded down. After the first of Newton's steps, the others go down
 * to it.
 * @type {(value: bigint, n: bigint) => bigint} */
function integerRoot(value, n) {
  if (value < 2n || n === 1n) return value;
  const length = bitLength(value);
  if (n >= length) return 1n;
  const rest = Math.max(0, length - 53);
  const logarithm = (Math.log2(Number(value >> BigInt(rest))) + rest) / Number(n);
  const exponent = Math.max(0, Math.floor(logarithm) - 50);
  const guess = BigInt(Math.ceil(2 ** (logarithm - exponent))) << BigInt(exponent);
  const step = (/** @type {bigint} */ root) => ((n - 1n) * root + value / root ** (n - 1n)) / n;
  let root = step(guess);
  for (let next; (next = step(root)) < root; ) root = next;
  return root;
}

// Logarithms, exponential and hyperbolic functions

/** @throws {RangeError} if x <= 0 @type {Real} */
export function ln(x, digits) {
  if (x.n <= 0n) throw new RangeError("a logarithm of a number that is not positive");
  if (x.n === x.d) return whole(0n);
  const k = BigInt(bitLength(x.n) - bitLength(x.d)); // x = n / d * 2**k
  const [n, d] = k < 0n ? [x.n << -k, x.d] : [x.n, x.d << k];
  return toDigits(digits, (bits) => k * LN2(bits) + 2n * arctangent(((n - d) << bits) / (n + d), 1n, bits));
}

/** @throws {RangeError} if the value or its inverse has more than 2,000 digits @type {Real} */
export function exp(x, digits) {
  if (!x.n) return whole(1n);
  if (magnitude(x.n) > MAX_POWER * x.d) throw new RangeError("a power of e of more than 2,000 digits");
  const squarings = bitsOf(digits) / 128n + 1n; // each loses a bit
  const bits = bitsOf(digits) + squarings;
  const [k, rest] = reduce(x, LN2, bits);
  let value = series(1n << bits, rest >> squarings, bits, (n) => [1n, n]);
  for (let n = 0n; n < squarings; n += 1n) value = (value * value) >> bits;
  return dyadic(value >> squarings, bits - squarings - k);
}

/** @throws {RangeError} as exp @type {Real} */
export function sinh(x, digits) {
  if (!x.n) return x;
  const { n, d } = power(x, digits);
  return quotient(n * n - d * d, 2n * n * d, digits);
}

/** @throws {RangeError} as exp @type {Real} */
export function cosh(x, digits) {
  const { n, d } = power(x, digits);
  return x.n ? quotient(n * n + d * d, 2n * n * d, digits) : whole(1n);
}

/** @type {Real} */
export function tanh(x, digits) {
  if (!x.n) return x;
  if (magnitude(2n * x.n) > bitsOf(digits) * x.d) return whole(x.n < 0n ? -1n : 1n); // within 2 / e**|2x|
  const { n, d } = power(x, digits);
  return quotient(n * n - d * d, n * n + d * d, digits);
}

/** Returns e**x to enough digits, also for what is left of them in the difference of e**x and 1.
 * @type {Real} */
function power(x, digits) {
  return exp(x, digits + 3 + Math.ceil(Math.max(0, bitLength(x.d) - bitLength(x.n)) / 3));
}

// Circular functions and their inverses, in radians

/** @type {Real} */
export function sin(x, digits) {
  return x.n ? toDigits(digits, (bits) => sine(x, 0n, bits)) : x;
}

/** @type {Real} */
export function cos(x, digits) {
  return x.n ? toDigits(digits, (bits) => sine(x, 1n, bits)) : whole(1n);
}

/** @type {Real} */
export function tan(x, digits) {
  if (!x.n) return x;
  const [a, b] = [sin(x, digits + 1), cos(x, digits + 1)]; // both may be small
  return quotient(a.n * b.d, a.d * b.n, digits);
}

/** @type {Real} */
export function atan(x, digits) {
  return x.n ? toDigits(digits, (bits) => angle((x.n << bits) / x.d, bits)) : x;
}

/** @throws {RangeError} if x is not from -1 to 1 @type {Real} */
export function asin(x, digits) {
  return x.n ? toDigits(digits, (bits) => (PI(bits) >> 1n) - arccosine(x, bits)) : x;
}

/** @throws {RangeError} if x is not from -1 to 1 @type {Real} */
export function acos(x, digits) {
  return x.n === x.d ? whole(0n) : toDigits(digits, (bits) => arccosine(x, bits));
}

/** Returns the sine of x and some right angles, times 2**bits.
 * @type {(x: Fraction, quarters: bigint, bits: bigint) => bigint} */
function sine(x, quarters, bits) {
  const [k, rest] = reduce(x, (bits) => PI(bits) >> 1n, bits);
  const quadrant = (k + quarters) & 3n;
  const square = (rest * rest) >> bits;
  const value = quadrant & 1n
    ? series(1n << bits, -square, bits, (n) => [1n, (2n * n - 1n) * (2n * n)])
    : series(rest, -square, bits, (n) => [1n, 2n * n * (2n * n + 1n)]);
  return quadrant & 2n ? -value : value;
}

/** Returns acos(x) times 2**bits: twice the angle whose tangent is the root of (1 - x) / (1 + x).
 * @type {(x: Fraction, bits: bigint) => bigint} */
function arccosine({ n, d }, bits) {
  if (magnitude(n) > d) throw new RangeError("an arcsine or arccosine of a number that is not from -1 to 1");
  if (n === -d) return PI(bits);
  return 2n * angle(integerRoot(((d - n) << (2n * bits)) / (d + n), 2n), bits);
}

/** Returns the angle of a tangent, both times 2**bits. @type {(tangent: bigint, bits: bigint) => bigint} */
function angle(tangent, bits) {
  const one = 1n << bits;
  if (tangent < 0n) return -angle(-tangent, bits);
  if (tangent > one) return (PI(bits) >> 1n) - angle((one << bits) / tangent, bits);
  for (let n = 0; n < 3; n += 1) {
    tangent = (tangent << bits) / (one + integerRoot((one << bits) + tangent * tangent, 2n)); // of half the angle
  }
  return arctangent(tangent, -1n, bits) << 3n;
}

// Constants, to a number of significant digits

/** @typedef {(digits: number) => Fraction} Digits */
/** @type {Digits} */ export const pi = (digits) => toDigits(digits, PI);
/** @type {Digits} */ export const e = (digits) => exp(whole(1n), digits);
/** @type {Digits} */ export const ln2 = (digits) => ln(whole(2n), digits);
/** @type {Digits} */ export const ln10 = (digits) => ln(whole(10n), digits);
/** @type {Digits} */ export const phi = (digits) =>
  toDigits(digits, (bits) => ((1n << bits) + integerRoot(5n << (2n * bits), 2n)) >> 1n);

/** Returns a function that returns the sum of factor * artanh(1/n), or of arctan(1/n) if the sign is -1, times 2**bits.
 * It keeps the longest sum.
 * @type {(sign: bigint, ...terms: [bigint, bigint][]) => (bits: bigint) => bigint} */
function constant(sign, ...terms) {
  let [known, sum] = [0n, 0n];
  return (bits) => {
    if (bits > known) {
      const longer = bits + GUARD;
      const values = terms.map(([factor, n]) => factor * arctangent((1n << longer) / n, sign, longer));
      [known, sum] = [bits, values.reduce((a, b) => a + b) >> GUARD];
    }
    return sum >> (known - bits);
  };
}

const PI = constant(-1n, [16n, 5n], [-4n, 239n]); // Machin
const LN2 = constant(1n, [14n, 31n], [10n, 49n], [6n, 161n]);

// Numbers times 2**bits

/** Returns k, and x - k * unit times 2**bits. k is the nearest whole number; unit: its value times 2**bits.
 * @type {(x: Fraction, unit: (bits: bigint) => bigint, bits: bigint) => [bigint, bigint]} */
function reduce(x, unit, bits) {
  const lost = BigInt(Math.max(0, bitLength(x.n) - bitLength(x.d))) + 2n; // bits of k
  const [value, one] = [(x.n << (bits + lost)) / x.d, unit(bits + lost)];
  const k = (2n * value + (value < 0n ? -one : one)) / (2n * one);
  return [k, (value - k * one) >> lost];
}

/** Returns artanh(z), or arctan(z) if the sign is -1. @type {(z: bigint, sign: bigint, bits: bigint) => bigint} */
function arctangent(z, sign, bits) {
  return series(z, sign * ((z * z) >> bits), bits, (n) => [2n * n - 1n, 2n * n + 1n]);
}

/** Returns the sum of terms. A term is the one before it times `factor`, and times the n-th ratio, numerator and
 * denominator.
 * @type {(first: bigint, factor: bigint, bits: bigint, ratio: (n: bigint) => [bigint, bigint]) => bigint} */
function series(first, factor, bits, ratio) {
  let [sum, term] = [first, first];
  for (let n = 1n; term; n += 1n) {
    const [numerator, denominator] = ratio(n);
    term = (((term * factor) >> bits) * numerator) / denominator;
    sum += term;
  }
  return sum;
}

/** Returns a value other than 0 to significant digits. scaled: it times 2**bits, with an error of less than 2**16.
 * @type {(digits: number, scaled: (bits: bigint) => bigint) => Fraction} */
function toDigits(digits, scaled) {
  for (let bits = bitsOf(digits); ; ) {
    const value = scaled(bits);
    const missing = bitsOf(digits) - BigInt(bitLength(value));
    if (missing <= 0n) return dyadic(value, bits);
    bits += value ? missing : bits;
  }
}

/** @type {(n: bigint, d: bigint, digits: number) => Fraction} */
function quotient(n, d, digits) {
  return toDigits(digits, (bits) => (n << bits) / d);
}

/** Returns how many bits have `digits` digits and what is lost. @param {number} digits */
function bitsOf(digits) {
  return BigInt(Math.ceil(digits * Math.log2(10))) + GUARD;
}

/** Returns value * 2**-bits in lowest terms. @type {(value: bigint, bits: bigint) => Fraction} */
function dyadic(value, bits) {
  if (bits <= 0n) return whole(value << -bits);
  const d = 1n << bits;
  const factor = value & -value; // the largest power of two that divides it
  const common = factor && factor < d ? factor : d;
  return { n: value / common, d: d / common };
}
