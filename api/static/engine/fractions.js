// Fractions of integers. Their greatest common divisors are found from their parts, which are shorter (Knuth, The Art
// of Computer Programming, 4.5.1).

import { divideHalfEven } from "./arithmetic.js";
import { spend } from "./effort.js";
import { ZeroDivisionError } from "./errors.js";

const LONG = 500n; // bits of a number for which Lehmer's algorithm is faster

/** n / d in lowest terms; d is positive. The methods are those of Python's. */
export class Fraction {
  /** @param {any} n @param {any} [d] other than 0 @param {boolean} [isLowest] whether they have no common divisor */
  constructor(n, d = 1n, isLowest = false) {
    let value = { n, d };
    if (typeof n === "object" || typeof d === "object") value = Fraction.from(n).__truediv__(d);
    else if (!isLowest) value = fraction(BigInt(n), BigInt(d));
    /** @type {bigint} */ this.n = value.n;
    /** @type {bigint} */ this.d = value.d;
  }

  /** Returns a fraction or an integer as a fraction. @param {any} x @returns {Fraction} */
  static from(x) {
    return x instanceof Fraction ? x : make(BigInt(x), 1n);
  }

  get numerator() {
    return this.n;
  }

  get denominator() {
    return this.d;
  }

  get hash() {
    return this.d === 1n ? this.n : `\0${this.n.toString(32)}/${this.d.toString(32)}`;
  }

  asIntegerRatio() {
    return [this.n, this.d];
  }

  /** @param {any} other */
  equals(other) {
    return other instanceof Fraction ? this.n === other.n && this.d === other.d : this.d === 1n && this.n == other;
  }

  /** Returns -1, 0 or 1, with the sign of the difference. @param {any} other */
  compare(other) {
    const { n, d } = Fraction.from(other);
    const [left, right] = [this.n * d, n * this.d];
    return Number(left > right) - Number(left < right);
  }

  /** @param {any} other */
  __add__(other) {
    const b = Fraction.from(other);
    const divisor = gcd(this.d, b.d);
    const rest = this.d / divisor;
    const n = this.n * (b.d / divisor) + b.n * rest;
    const common = gcd(n, divisor);
    return make(n / common, rest * (b.d / common));
  }

  /** @param {any} other */
  __sub__(other) {
    return this.__add__(Fraction.from(other).__neg__());
  }

  __neg__() {
    return make(-this.n, this.d);
  }

  /** @param {any} other */
  __mul__(other) {
    const b = Fraction.from(other);
    const [left, right] = [fraction(this.n, b.d), fraction(b.n, this.d)];
    return make(left.n * right.n, left.d * right.d);
  }

  /** @param {any} other other than 0 */
  __truediv__(other) {
    return this.__mul__(inverse(Fraction.from(other)));
  }

  /** @param {any} other other than 0 */
  __mod__(other) {
    const quotient = this.__truediv__(other).__floor__();
    return this.__sub__(Fraction.from(other).__mul__(quotient));
  }

  /** Returns a power. A value of 0 needs an exponent that is not negative. @param {any} exponent a whole one */
  __pow__(exponent) {
    const { n, d } = exponent < 0 ? inverse(this) : this;
    return make(n ** magnitude(BigInt(exponent)), d ** magnitude(BigInt(exponent)));
  }

  __floor__() {
    return this.n / this.d - (this.n < 0n && this.n % this.d ? 1n : 0n);
  }

  __int__() {
    return this.n / this.d;
  }

  __round__() {
    return divideHalfEven(this.n, this.d);
  }

  /** Returns the last convergent of the continued fraction whose denominator is at most `most`. If a fraction with such
   * a denominator is near, it is this one (Legendre). @param {any} most */
  limitDenominator(most) {
    let [before, last] = [{ n: 0n, d: 1n }, { n: 1n, d: 0n }];
    for (let [n, d] = [this.n, this.d]; d; ) {
      const quotient = make(n, d).__floor__();
      const next = { n: before.n + quotient * last.n, d: before.d + quotient * last.d };
      if (next.d > most) break;
      [before, last] = [last, next];
      [n, d] = [d, n - quotient * d];
    }
    return make(last.n, last.d);
  }
}

/** Returns a fraction that is in lowest terms. @type {(n: bigint, d: bigint) => Fraction} */
export function make(n, d) {
  return new Fraction(n, d, true);
}

/** @param {bigint} n */
export function whole(n) {
  return make(n, 1n);
}

/** d: other than 0. @type {(n: bigint, d: bigint) => Fraction} */
export function fraction(n, d) {
  if (!d) throw new ZeroDivisionError();
  const divisor = d < 0n ? -gcd(n, d) : gcd(n, d);
  return make(n / divisor, d / divisor);
}

/** @param {Fraction} value other than 0 */
function inverse({ n, d }) {
  if (!n) throw new ZeroDivisionError();
  return n < 0n ? make(-d, -n) : make(d, n);
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

/** @type {(value: Fraction, places: number) => Fraction} */
const timesTen = (value, places) => value.__mul__(10n ** BigInt(places));
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
  const { n, d } = timesTen(parse(exact).__sub__(parse(answer ?? "")), places);
  return d === 2n && magnitude(n) === 1n;
}

/** Returns whether a fraction is exactly between two numbers of some places.
 * @type {(value: Fraction, places: number) => boolean} */
export function isTie(value, places) {
  return timesTen(value, places).d === 2n;
}
