// Fractions of integers. Their greatest common divisors are found from their parts, which are shorter (Knuth, The Art
// of Computer Programming, 4.5.1).

import { spend } from "./effort.js";

const LONG = 500n; // bits of a number for which Lehmer's algorithm is faster

/** @typedef {{n: bigint, d: bigint}} Fraction n / d in lowest terms; d is positive */

/** @param {bigint} n */
export function whole(n) {
  return { n, d: 1n };
}

/** d: other than 0. @type {(n: bigint, d: bigint) => Fraction} */
export function fraction(n, d) {
  const divisor = d < 0n ? -gcd(n, d) : gcd(n, d);
  return { n: n / divisor, d: d / divisor };
}

/** Returns the decimal number n / 10**places, for which no other common divisors are looked for than powers of 2 and 5.
 * @type {(n: bigint, places: number) => Fraction} */
export function ofDecimal(n, places) {
  let d = 10n ** BigInt(places);
  if (!n) return whole(0n);
  for (const divisor of [1n << 64n, 5n ** 27n, 2n, 5n]) {
    for (; d % divisor === 0n && n % divisor === 0n; d /= divisor) n /= divisor;
  }
  return { n, d };
}

/** @type {(a: Fraction, b: Fraction) => Fraction} */
export function add(a, b) {
  const divisor = gcd(a.d, b.d);
  const rest = a.d / divisor;
  const n = a.n * (b.d / divisor) + b.n * rest;
  const common = gcd(n, divisor);
  return { n: n / common, d: rest * (b.d / common) };
}

/** @type {(a: Fraction, b: Fraction) => Fraction} */
export function subtract(a, b) {
  return add(a, negative(b));
}

/** @type {(a: Fraction, b: Fraction) => Fraction} */
export function multiply(a, b) {
  const [left, right] = [fraction(a.n, b.d), fraction(b.n, a.d)];
  return { n: left.n * right.n, d: left.d * right.d };
}

/** @param {Fraction} value */
export function negative({ n, d }) {
  return { n: -n, d };
}

/** @param {Fraction} value other than 0 */
export function inverse({ n, d }) {
  return n < 0n ? { n: -d, d: -n } : { n: d, d: n };
}

/** Returns a power. A value of 0 needs an exponent that is not negative.
 * @type {(a: Fraction, exponent: bigint) => Fraction} */
export function power(a, exponent) {
  const { n, d } = exponent < 0n ? inverse(a) : a;
  return { n: n ** magnitude(exponent), d: d ** magnitude(exponent) };
}

/** Returns a / b rounded down. @type {(a: Fraction, b?: Fraction) => bigint} */
export function floor(a, b = whole(1n)) {
  const { n, d } = multiply(a, inverse(b));
  return n / d - (n < 0n && n % d ? 1n : 0n);
}

/** Returns value * 10**exponent. @type {(value: Fraction, exponent: number) => Fraction} */
export function timesTen({ n, d }, exponent) {
  const power = 10n ** BigInt(Math.abs(exponent));
  return exponent < 0 ? fraction(n, d * power) : fraction(n * power, d);
}

/** Returns -1, 0 or 1, with the sign of a - b. @type {(a: Fraction, b: Fraction) => number} */
export function compare(a, b) {
  const [left, right] = [a.n * b.d, b.n * a.d];
  return Number(left > right) - Number(left < right);
}

/** @type {(a: bigint, b: bigint) => bigint} */
export function gcd(a, b) {
  [a, b] = [magnitude(a), magnitude(b)];
  if (a < b) [a, b] = [b, a];
  if (b >> LONG) [a, b] = shortened(a, b);
  while (b) [a, b] = [b, a % b];
  return a;
}

/** Returns shorter numbers with the same common divisors: Lehmer's algorithm, which takes many steps of Euclid's at
 * once by the leading digits (Knuth, 4.5.2, algorithm L). @type {(a: bigint, b: bigint) => [bigint, bigint]} */
function shortened(a, b) {
  spend((bitLength(b) / 340) ** 2);
  while (b >> LONG) {
    const shift = BigInt(bitLength(a) - 52);
    let [x, y] = [Number(a >> shift), Number(b >> shift)];
    let [[p, q], [r, s]] = [[1, 0], [0, 1]];
    while (y + r && y + s) {
      const quotient = Math.floor((x + p) / (y + r));
      if (quotient !== Math.floor((x + q) / (y + s))) break;
      [p, r, q, s, x, y] = [r, p - quotient * r, s, q - quotient * s, y, x - quotient * y];
    }
    if (q) [a, b] = [BigInt(p) * a + BigInt(q) * b, BigInt(r) * a + BigInt(s) * b];
    else [a, b] = [b, a % b];
  }
  return [a, b];
}

/** Returns the remainder with the sign of the modulus. @type {(n: bigint, modulus: bigint) => bigint} */
export function modulo(n, modulus) {
  const rest = n % modulus;
  return rest && rest < 0n !== modulus < 0n ? rest + modulus : rest;
}

/** Returns the remainder of a power with an exponent >= 0.
 * @type {(base: bigint, exponent: bigint, modulus: bigint) => bigint} */
export function powerModulo(base, exponent, modulus) {
  let result = 1n;
  for (const digit of exponent.toString(2)) {
    result = (result * result) % modulus;
    if (digit === "1") result = (result * base) % modulus;
  }
  return modulo(result, modulus);
}

/** Returns the product of the whole numbers from `least` to `most`. @type {(least: bigint, most: bigint) => bigint} */
export function product(least, most) {
  if (most - least > 8n) {
    const middle = (least + most) / 2n;
    return product(least, middle) * product(middle + 1n, most);
  }
  let result = 1n;
  for (; least <= most; least += 1n) result *= least;
  return result;
}

/** @param {bigint} n */
export function magnitude(n) {
  return n < 0n ? -n : n;
}

/** Returns the number of binary digits of an integer without its sign. @param {bigint} n */
export function bitLength(n) {
  const digits = magnitude(n).toString(16);
  return 4 * digits.length - Math.clz32(parseInt(digits[0], 16)) + 28;
}

/** Returns the number of binary digits of the longer one of numerator and denominator. @param {Fraction} value */
export function sizeOf({ n, d }) {
  return Math.max(bitLength(n), bitLength(d));
}

/** Returns the last convergent of a value's continued fraction whose denominator is at most `most`. If a fraction with
 * such a denominator is near, it is this one (Legendre).
 * @type {(value: Fraction, most: bigint) => Fraction} */
export function simplified(value, most) {
  let [before, last] = [{ n: 0n, d: 1n }, { n: 1n, d: 0n }];
  for (let { n, d } = value; d; ) {
    const quotient = floor({ n, d });
    const next = { n: before.n + quotient * last.n, d: before.d + quotient * last.d };
    if (next.d > most) break;
    [before, last] = [last, next];
    [n, d] = [d, n - quotient * d];
  }
  return last;
}

/** Returns the decimal digits of a fraction without its sign, and the period that they end in, "" for none. Returns null
 * if there are more than `most` digits.
 * @type {(value: Fraction, most: number) => {whole: string, digits: string, period: string} | null} */
export function decimal({ n, d }, most) {
  const whole = String(magnitude(n) / d);
  const positions = new Map(); // of the digits, by the remainder before them
  let digits = "";
  let remainder = magnitude(n) % d;
  for (; remainder && !positions.has(remainder); remainder = (10n * remainder) % d) {
    if (whole.length + digits.length === most) return null;
    positions.set(remainder, digits.length);
    digits += (10n * remainder) / d;
  }
  const start = positions.get(remainder) ?? digits.length;
  return { whole, digits: digits.slice(0, start), period: digits.slice(start) };
}

const NUMBER = /^-?\d+(\.\d+)?$/;

/** Returns the fraction of a text such as `1/7`, `3` or `-4.125`. @param {string} text */
export function parse(text) {
  const [n, d = "1"] = text.split("/");
  const [whole, digits = ""] = n.split(".");
  return fraction(BigInt(whole + digits), BigInt(d) * 10n ** BigInt(digits.length));
}

/** Returns whether an answer is one of the two that are nearest to the exact value, which is between them. A calculation
 * takes the even one. exact: null if it is not known.
 * @type {(answer: string | null, exact: string | null, places: number) => boolean} */
export function breaksTie(answer, exact, places) {
  if (!exact || !NUMBER.test(answer ?? "") || !isTie(parse(exact), places)) return false;
  const { n, d } = timesTen(subtract(parse(exact), parse(answer ?? "")), places);
  return d === 2n && magnitude(n) === 1n;
}

/** Returns whether a fraction is exactly between two numbers of some places.
 * @type {(value: Fraction, places: number) => boolean} */
export function isTie(value, places) {
  return timesTen(value, places).d === 2n;
}
