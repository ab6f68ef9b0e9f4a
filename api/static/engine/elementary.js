// Roots, logarithms, exponential and circular functions of balls. A function of the middle is worked out with integers
// that are numbers times 2**-bits; then the radius grows by what was rounded, and by that of the argument times the
// largest derivative. Arguments are reduced until a few terms of a power series are enough (Brent and Zimmermann,
// Modern Computer Arithmetic, chapter 4).

import { add, ball, divide, multiply, negative, ofFraction, signOf, upperBits, widen } from "./ball.js";
import { bitLength, fraction, magnitude, make } from "./fractions.js";

const GUARD = 16; // bits, of which the errors of a series take less than half
const MAX_NEWTON = 16n; // the degree of a root up to which Newton's iteration finds it, and not powers of e
const [DOUBLE_BITS, FROM_DOUBLE] = [50, 800]; // how exact numbers of the machine are; how far Newton starts from them

/** @import { Ball } from "./ball.js" */
/** Returns a ball with the values of a ball, or null if it is too wide for one.
 * @typedef {(x: Ball, bits: number) => Ball | null} Real */

// Roots

/** Returns the root of degree n > 0 of a number that is not negative.
 * @type {(x: Ball, n: bigint, bits: number) => Ball | null} */
export function root(x, n, bits) {
  const least = x.m - x.r;
  if (!x.m && !x.r) return x;
  if (least <= 0n) return null;
  if (n > MAX_NEWTON) {
    const logarithm = ln(x, bits);
    return logarithm && exp(/** @type {Ball} */ (divide(logarithm, { m: n, r: 0n, e: 0n }, bits)), bits);
  }
  let shift = n * BigInt(bits + 2) - BigInt(bitLength(x.m));
  if (shift < 0n) shift = 0n;
  shift += (((x.e - shift) % n) + n) % n; // then n divides the exponent
  const value = integerRoot(x.m << shift, n);
  return ball(value, ((value + 1n) * x.r) / least + 2n, (x.e - shift) / n, bits);
}

/** Returns the root of degree n of an integer >= 0, rounded down: Newton's steps go down to it.
 * @type {(value: bigint, n: bigint) => bigint} */
export function integerRoot(value, n) {
  if (value < 2n || n === 1n) return value;
  const length = bitLength(value);
  if (n >= length) return 1n;
  const half = BigInt(length) / (2n * n);
  let root = 4n; // above the root, as the others are
  if (length <= 900) root = BigInt(Math.ceil(Number(value) ** (1 / Number(n)) * (1 + 1e-12)));
  else if (half) root = (integerRoot(value >> (half * n), n) + 1n) << half;
  for (let next; (next = ((n - 1n) * root + value / root ** (n - 1n)) / n) < root; ) root = next;
  return root;
}

// Logarithms and the exponential function

/** @type {Real} */
export function exp(x, bits) {
  const most = { m: x.m + x.r, r: 0n, e: x.e }; // the largest of the numbers
  if (signOf(most) < 0 && upperBits(most) > 21n) return { m: 0n, r: 1n, e: -(2n ** 20n) }; // below 2**-(2**20)
  if (upperBits(x) > BigInt(4 * bits) || isWide(x)) return null;
  const wide = BigInt(bits + GUARD);
  const [k, rest] = reduce(x, LN2, wide);
  const value = exponential(rest, wide);
  const radius = times(2n * x.r, x.e + wide) + 5n; // e**r - 1 is at most 2 r
  return ball(value, ((value * radius) >> wide) + 4n, k - wide, bits);
}

/** Returns e**x for |x| < 1/2, with an error of at most 2. @type {(x: bigint, bits: bigint) => bigint} */
function exponential(x, bits) {
  const squarings = BigInt(Math.floor(Math.sqrt(Number(bits)) / 3)); // each doubles the error
  const wide = bits + squarings + BigInt(GUARD);
  let value = series(x << BigInt(GUARD), wide, (n) => n);
  for (let n = 0n; n < squarings; n += 1n) value = (value * value) >> wide;
  return value >> (squarings + BigInt(GUARD));
}

/** @type {Real} */
export function ln(x, bits) {
  const least = x.m - x.r;
  if (least <= 0n) return null;
  const length = BigInt(bitLength(x.m));
  const isSmall = 10n * x.m < 7n << length;
  const middle = { m: x.m, r: 0n, e: isSmall ? 1n - length : -length }; // from 0.7 to 1.4
  const k = x.e - middle.e;
  const wide = bits + GUARD;
  const near = bits > FROM_DOUBLE ? middleOf(ln(middle, bits >> 3)) : ofDouble(Math.log(toDouble(middle)));
  const power = /** @type {Ball} */ (exp(near, wide));
  const z = divide(add(middle, negative(power), wide), add(middle, power, wide), wide);
  const rest = arctangent(/** @type {Ball} */ (z), 1n, wide);
  const powers = multiply({ m: k, r: 0n, e: 0n }, constantBall(LN2, wide + bitLength(k)), wide + bitLength(k));
  const value = add(add(near, { ...rest, e: rest.e + 1n }, wide), powers, wide + bitLength(k));
  return widen(value, x.r ? (x.r << BigInt(wide)) / least + 1n : 0n, BigInt(-wide), bits);
}

/** Returns n! for n > 10,000: Stirling's series, whose error is less than the first term that is left out (Abramowitz
 * and Stegun, 6.1.42). @type {(n: bigint, bits: number) => Ball | null} */
export function factorial(n, bits) {
  const wide = bits + 2 * bitLength(n) + GUARD;
  const x = { m: n, r: 0n, e: 0n };
  const logarithm = /** @type {Ball} */ (ln(x, wide));
  const circle = /** @type {Ball} */ (ln({ ...pi(wide), e: pi(wide).e + 1n }, wide)); // ln(2 pi)
  let sum = add(multiply({ m: 2n * n + 1n, r: 0n, e: -1n }, logarithm, wide), { m: -n, r: 0n, e: 0n }, wide);
  sum = add(sum, { ...circle, e: circle.e - 1n }, wide);
  let power = n; // n**(2k - 1)
  for (const [index, { n: b, d }] of bernoulli(Math.ceil(wide / 8)).entries()) {
    const k = BigInt(index + 1);
    const term = ofFraction(make(b, d * 2n * k * (2n * k - 1n) * power), wide);
    if (upperBits(term) < BigInt(-wide)) return exp(widen(sum, 1n, BigInt(-wide), wide), bits);
    sum = add(sum, term, wide);
    power *= n * n;
  }
  return null;
}

/** Returns the Bernoulli numbers B(2), B(4), ..., B(2n), from tangent numbers (Brent and Harvey 2013, Fast computation
 * of Bernoulli, tangent and secant numbers, algorithm TangentNumbers). @param {number} n */
function bernoulli(n) {
  const tangents = [1n];
  for (let k = 1; k < n; k += 1) tangents.push(BigInt(k) * tangents[k - 1]);
  for (let k = 1; k < n; k += 1) {
    for (let j = k; j < n; j += 1) tangents[j] = BigInt(j - k) * tangents[j - 1] + BigInt(j - k + 2) * tangents[j];
  }
  return tangents.map((tangent, index) => {
    const [k, power] = [BigInt(index + 1), 4n ** BigInt(index + 1)];
    return fraction((index % 2 ? -2n : 2n) * k * tangent, power * (power - 1n));
  });
}

// Circular functions and their inverses, in radians

/** @type {Real} */
export function sin(x, bits) {
  return circular(x, 0n, bits);
}

/** @type {Real} */
export function cos(x, bits) {
  return circular(x, 1n, bits);
}

/** Returns the sine of a number and some right angles. @type {(x: Ball, quarters: bigint, bits: number) => Ball} */
function circular(x, quarters, bits) {
  const size = upperBits(x);
  if (size > BigInt(4 * bits) || isWide(x)) return { m: 0n, r: 1n, e: 0n };
  const wide = BigInt(bits + GUARD);
  const [k, rest] = size < 0n ? [0n, times(x.m, x.e + wide)] : reduce(x, (bits) => PI(bits) >> 1n, wide);
  const quarter = (k + quarters) & 3n;
  const square = -(rest * rest) >> wide;
  let value;
  if (quarter & 1n) value = { m: series(square, wide, (n) => 2n * n * (2n * n - 1n)), r: 16n, e: -wide };
  else {
    // Of a small angle, the sine has all digits.
    const angle = k ? { m: rest, r: 2n, e: -wide } : { m: x.m, r: 0n, e: x.e };
    value = multiply({ m: series(square, wide, (n) => 2n * n * (2n * n + 1n)), r: 16n, e: -wide }, angle, bits + GUARD);
  }
  return widen(quarter & 2n ? negative(value) : value, x.r, x.e, bits);
}

/** Returns the angle from -pi/2 to pi/2 with this sine. @type {Real} */
export function asin(x, bits) {
  const one = { m: 1n, r: 0n, e: 0n };
  const cosine = root(multiply(add(one, x, bits), add(one, negative(x), bits), bits), 2n, bits);
  const half = cosine && atan(/** @type {Ball} */ (divide(x, add(one, cosine, bits), bits)), bits);
  return half && { ...half, e: half.e + 1n };
}

/** @type {Real} */
export function atan(x, bits) {
  if (signOf(x) < 0) return negative(/** @type {Ball} */ (atan(negative(x), bits)));
  const size = upperBits(x);
  if (size > 1n) {
    const rest = divide({ m: 1n, r: 0n, e: 0n }, x, bits);
    if (!rest) return { m: 0n, r: 2n, e: 0n };
    const quarter = constantBall(PI, bits + GUARD);
    return add({ ...quarter, e: quarter.e - 1n }, negative(/** @type {Ball} */ (atan(rest, bits))), bits);
  }
  const middle = { m: x.m, r: 0n, e: x.e };
  let value;
  if (-12n * size > BigInt(bits)) value = arctangent(middle, -1n, bits + GUARD);
  else {
    const wide = bits + GUARD - Math.min(0, Number(size));
    const near = bits > FROM_DOUBLE ? middleOf(atan(middle, bits >> 3)) : ofDouble(Math.atan(toDouble(middle)));
    const [sine, cosine] = [sin(near, wide), cos(near, wide)].map((value) => /** @type {Ball} */ (value));
    const above = add(multiply(middle, cosine, wide), negative(sine), wide);
    const rest = divide(above, add(cosine, multiply(middle, sine, wide), wide), wide);
    value = add(near, arctangent(/** @type {Ball} */ (rest), -1n, wide), wide);
  }
  return widen(value, x.r, x.e, bits);
}

// Constants

/** @param {number} bits */
export function pi(bits) {
  return constantBall(PI, bits);
}

/** @type {(value: (bits: bigint) => bigint, bits: number) => Ball} */
function constantBall(value, bits) {
  return { m: value(BigInt(bits)), r: 2n, e: BigInt(-bits) };
}

/** Returns a function that returns the sum of factor * artanh(1/n), or of arctan(1/n) if the sign is -1, with an error
 * of less than 2. It keeps the longest sum.
 * @type {(sign: bigint, ...terms: [bigint, bigint][]) => (bits: bigint) => bigint} */
function constant(sign, ...terms) {
  let [known, sum] = [0n, 0n];
  return (bits) => {
    if (bits > known) {
      known = bits + (bits >> 2n);
      const wide = known + 2n * BigInt(GUARD);
      sum = 0n;
      for (const [factor, n] of terms) {
        let term = (factor << wide) / n;
        for (let k = 1n; term; k += 2n) {
          sum += term / k;
          term = term / (sign * n * n);
        }
      }
      sum >>= 2n * BigInt(GUARD);
    }
    return sum >> (known - bits);
  };
}

const PI = constant(-1n, [16n, 5n], [-4n, 239n]); // Machin
const LN2 = constant(1n, [14n, 31n], [10n, 49n], [6n, 161n]);

// Numbers times 2**bits

/** Returns value * 2**shift rounded down. @type {(value: bigint, shift: bigint) => bigint} */
function times(value, shift) {
  return shift < 0n ? value >> -shift : value << shift;
}

/** Returns k, and x - k * unit with an error of at most 2. k is near the quotient; unit: its value, with an error of
 * less than 2. @type {(x: Ball, unit: (bits: bigint) => bigint, bits: bigint) => [bigint, bigint]} */
function reduce({ m, e }, unit, bits) {
  const size = BigInt(bitLength(m)) + e;
  const lost = (size > 0n ? size : 0n) + 3n; // bits of k, and of its error
  const [value, one] = [times(m, e + bits + lost), unit(bits + lost)];
  const k = (2n * value + (value < 0n ? -one : one)) / (2n * one);
  return [k, (value - k * one) >> lost];
}

/** Returns the sum of x**n / (d(1) d(2) ... d(n)) for n >= 0, with an error of at most 16. |x| < 5/8; d: at least n.
 * Powers up to the root of the number of terms are multiplied by integers only (Smith 1989, Efficient
 * multiple-precision evaluation of elementary functions).
 * @type {(x: bigint, bits: bigint, d: (n: bigint) => bigint) => bigint} */
function series(x, bits, d) {
  const one = 1n << bits;
  const gained = Math.max(0, Number(bits) - bitLength(x)); // bits of each power
  let nTerms = 0;
  for (let left = Number(bits) + 2; left > 0; left -= gained + bitLength(d(BigInt(nTerms))) - 1) nTerms += 1;
  const powers = [one];
  const most = Math.max(1, Math.round(Math.sqrt(nTerms)));
  while (powers.length <= most) powers.push((powers[powers.length - 1] * x) >> bits);
  let sum = 0n;
  for (let n = nTerms; n > 0; n -= 1) {
    sum = (sum + powers[n % most]) / d(BigInt(n));
    if (n % most === 0) sum = (sum * powers[most]) >> bits;
  }
  return one + sum;
}

/** Returns artanh(z), or arctan(z) if the sign is -1. @type {(z: Ball, sign: bigint, bits: number) => Ball} */
function arctangent(z, sign, bits) {
  const wide = BigInt(bits);
  const middle = times(z.m, z.e + wide);
  const square = (sign * middle * middle) >> wide;
  let [sum, term, n] = [1n << wide, 1n << wide, 1n];
  for (; term && term !== -1n; n += 1n) {
    term = (term * square) >> wide;
    sum += term / (2n * n + 1n);
  }
  const value = multiply({ m: z.m, r: 0n, e: z.e }, { m: sum, r: 4n * n, e: -wide }, bits);
  return widen(value, 2n * z.r, z.e, bits);
}

/** Returns whether the radius is 1 or more. @param {Ball} x */
function isWide({ r, e }) {
  return r !== 0n && BigInt(bitLength(r)) + e > 0n;
}

/** @param {Ball} x from 2**-1000 to 2 */
function toDouble({ m, e }) {
  const excess = BigInt(Math.max(0, bitLength(m) - 60));
  return Number(m >> excess) * 2 ** Number(e + excess);
}

/** @param {number} value */
function ofDouble(value) {
  return { m: BigInt(Math.round(value * 2 ** DOUBLE_BITS)), r: 0n, e: BigInt(-DOUBLE_BITS) };
}

/** @param {Ball | null} x */
function middleOf(x) {
  return { .../** @type {Ball} */ (x), r: 0n };
}
