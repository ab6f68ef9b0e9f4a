// Values of functions, which the model's answers are checked against (calcgpt/inference/real.py). That of sqrt(2) is
// near the true one, to PLACES places. A value that comes that near to a simple fraction is that fraction.

import { divideHalfEven } from "./arithmetic.js";
import * as elementary from "./elementary.js";
import {
  add, compare, floor, fraction, gcd, inverse, magnitude, multiply, negative, subtract, whole,
} from "./fractions.js";

const PLACES = 150; // of a value that is not exact
const UNIT = 10n ** BigInt(PLACES);
const LARGEST = 10n ** 60n; // of such a value
const DIGITS = PLACES + 85; // significant ones, of what is worked out for it
const SIMPLE = 10n ** 20n; // denominator of a simple fraction
const [NEAR, NEAR_ZERO] = [{ n: 1n, d: 10n ** 80n }, { n: 1n, d: 10n ** 130n }];
const [MAX_ROOT, MAX_POWER, MAX_ROUND, MAX_FACTORS] = [1_000n, 100_000n, 30n, 1_000n];
const [TOO_LARGE, TOO_SMALL] = [150n, -310n]; // powers of e beyond LARGEST, and below NEAR_ZERO

/** @import { Fraction } from "./fractions.js" */
/** @typedef {{value: Fraction, isExact: boolean}} Real a value, and whether it is exact */
/** @typedef {(...numbers: Fraction[]) => Fraction} Exact */

/** An operation divides by a number that is rounded to 0, or has a result that is too large; or a program does not
 * approach a value. */
export class ArithmeticError extends Error {}

/** A function has no value there. key: of the message; index: of the argument that is wrong, or -1 for the whole
 * function. */
export class DomainError extends ArithmeticError {
  /** @param {string} key @param {number} index */
  constructor(key, index) {
    super(key);
    this.key = key;
    this.index = index;
  }
}

/** Returns a value that is known to PLACES places, or the simple fraction that it is near to.
 * @throws {DomainError} if it is too large
 * @type {(value: Fraction) => Real} */
export function near(value) {
  if (magnitude(value.n) >= LARGEST * value.d) throw new DomainError("large", -1);
  const simple = simplified(value);
  if (compare(distance(simple, value), simple.n ? NEAR : NEAR_ZERO) < 0) return { value: simple, isExact: true };
  return { value: fraction(divideHalfEven(value.n * UNIT, value.d), UNIT), isExact: false };
}

/** Returns the last convergent of a value's continued fraction whose denominator is at most SIMPLE. If a fraction with
 * such a denominator is NEAR the value, it is this one (Legendre).
 * @param {Fraction} value */
function simplified(value) {
  let [before, last] = [{ n: 0n, d: 1n }, { n: 1n, d: 0n }];
  for (let { n, d } = value; d; ) {
    const quotient = n / d - (n < 0n && n % d ? 1n : 0n);
    const next = { n: before.n + quotient * last.n, d: before.d + quotient * last.d };
    if (next.d > SIMPLE) break;
    [before, last] = [last, next];
    [n, d] = [d, n - quotient * d];
  }
  return last;
}

/** @type {(a: Fraction, b: Fraction) => Fraction} */
function distance(a, b) {
  const { n, d } = subtract(a, b);
  return { n: magnitude(n), d };
}

/** @type {Map<string, Real>} */ const constants = new Map();

/** Returns pi, e, tau or phi. @param {string} name */
export function constant(name) {
  const known = constants.get(name) ?? near(CONSTANTS[name]());
  constants.set(name, known);
  return known;
}

/** Returns the value of a function.
 * @throws {DomainError} where it has none
 * @type {(name: string, numbers: Fraction[]) => Real} */
export function call(name, numbers) {
  if (Object.hasOwn(EXACT, name)) return { value: EXACT[name](...numbers), isExact: true };
  check(name, numbers);
  return near(REAL[name](...numbers));
}

/** @throws {DomainError} for arguments without a value, or so large that computing takes long
 * @type {(name: string, numbers: Fraction[]) => void} */
function check(name, numbers) {
  const [x, last] = [numbers[0], numbers[numbers.length - 1]];
  if (name === "sqrt" && x.n < 0n) throw new DomainError("even-root", 0);
  if (name === "root") {
    if (last.d !== 1n || last.n <= 0n || last.n > MAX_ROOT) throw new DomainError("root", 1);
    if (x.n < 0n && last.n % 2n === 0n) throw new DomainError("even-root", 0);
  }
  if (["ln", "log", "log2"].includes(name)) {
    for (const [index, { n, d }] of numbers.entries()) {
      if (n <= 0n || (index && n === d)) throw new DomainError(n <= 0n ? "logarithm" : "base", index);
    }
  }
  if ((name === "asin" || name === "acos") && magnitude(x.n) > x.d) throw new DomainError("arc", 0);
  if (name === "^" && x.n < 0n && last.d !== 1n) throw new DomainError("power", 0);
  if (name === "^" && !x.n && last.n < 0n) throw new DomainError("division", -1);
  const isInRange = x.d === 1n ? x.n > 0n : x.d === 2n && x.n >= -MAX_FACTORS * x.d;
  if (name === "gamma" && !(isInRange && x.n <= MAX_FACTORS * x.d)) throw new DomainError("gamma", 0);
  if (name === "atan2" && !x.n && !last.n) throw new DomainError("origin", -1);
  const isLarge = ["exp", "sinh", "cosh", "^"].includes(name) && magnitude(last.n) > MAX_POWER * last.d;
  if (isLarge || numbers.some(({ n, d }) => magnitude(n) >= LARGEST * d)) throw new DomainError("large", -1);
}

/** @type {(a: Fraction, b: Fraction) => Fraction} */
const divide = (a, b) => multiply(a, inverse(b));
const pi = elementary.pi(DIGITS);
const degree = divide(pi, whole(180n));
/** @type {Exact} */ const ln = (x) => elementary.ln(x, DIGITS);
/** @type {Exact} */ const root = (x, n = whole(2n)) => elementary.root(x, n.n, DIGITS);
/** @type {Exact} */ const log = (x, base = whole(10n)) => divide(ln(x), ln(base));
/** @type {Exact} */ const sin = (x) => elementary.sin(x, DIGITS);
/** @type {Exact} */ const cos = (x) => elementary.cos(x, DIGITS);
/** @type {Exact} */ const sum = (...numbers) => numbers.reduce(add);
/** @type {Exact} */ const mean = (...numbers) => divide(sum(...numbers), whole(BigInt(numbers.length)));

/** @param {Fraction} x */
function tan(x) {
  const [sine, cosine] = [sin(x), cos(x)];
  if (magnitude(cosine.n) * UNIT < cosine.d) throw new DomainError("tangent", -1);
  return divide(sine, cosine);
}

/** Returns a function that works out powers of e: the exponential or a hyperbolic function.
 * @type {(name: "exp" | "sinh" | "cosh") => Exact} */
const powerOfE = (name) => (x) => {
  if (x.n > TOO_LARGE * x.d) throw new DomainError("large", -1);
  if (x.n >= TOO_SMALL * x.d) return elementary[name](x, DIGITS);
  if (name !== "exp") throw new DomainError("large", -1);
  return whole(0n);
};
const exp = powerOfE("exp");

/** @type {(x: Fraction, y: Fraction) => Fraction} */
function power(x, y) {
  if (!x.n) return y.n ? x : whole(1n);
  const size = exp(multiply(y, ln({ n: magnitude(x.n), d: x.d })));
  return x.n < 0n && y.n % 2n ? negative(size) : size;
}

/** @param {Fraction[]} numbers */
function stdev(...numbers) {
  const middle = mean(...numbers);
  const squares = numbers.map((number) => square(subtract(number, middle)));
  return root(divide(sum(...squares), whole(BigInt(numbers.length - 1))));
}

/** @param {Fraction} x */
function square(x) {
  return multiply(x, x);
}

/** @type {Exact} */
function atan2(y, x) {
  const half = divide(pi, whole(y.n < 0n ? -2n : 2n));
  if (!x.n) return y.n ? half : whole(0n);
  const angle = elementary.atan(divide(y, x), DIGITS);
  return x.n < 0n ? add(angle, multiply(whole(2n), half)) : angle;
}

/** Returns the gamma function of a whole number, or of a half. @type {Exact} */
function gamma(x) {
  let value = x.d === 1n ? whole(1n) : root(pi);
  let at = x.d === 1n ? whole(1n) : fraction(1n, 2n);
  for (; compare(at, x) < 0; at = add(at, whole(1n))) value = multiply(value, at);
  for (; compare(x, at) < 0; value = divide(value, at)) at = subtract(at, whole(1n));
  return value;
}

/** @type {Record<string, () => Fraction>} */
const CONSTANTS = {
  pi: () => pi,
  e: () => elementary.e(DIGITS),
  tau: () => multiply(whole(2n), pi),
  phi: () => elementary.phi(DIGITS),
};

/** @type {Record<string, Exact>} */
const REAL = {
  ...{ sqrt: (x) => root(x), cbrt: (x) => root(x, whole(3n)), root, ln, log, log2: (x) => log(x, whole(2n)) },
  ...{ sin, cos, tan, exp, sinh: powerOfE("sinh"), cosh: powerOfE("cosh"), stdev },
  "sin°": (x) => sin(multiply(x, degree)),
  "cos°": (x) => cos(multiply(x, degree)),
  "tan°": (x) => tan(multiply(x, degree)),
  asin: (x) => elementary.asin(x, DIGITS),
  acos: (x) => elementary.acos(x, DIGITS),
  atan: (x) => elementary.atan(x, DIGITS),
  atan2,
  gamma,
  tanh: (x) => elementary.tanh(x, DIGITS),
  "^": /** @type {Exact} */ (power),
  degrees: (x) => divide(x, degree),
  "°": (x) => multiply(x, degree),
  hypot: (...numbers) => root(sum(...numbers.map(square))),
};

/** Returns a function of whole numbers, which is called with one after the other.
 * @type {(join: (a: bigint, b: bigint) => bigint) => Exact} */
const ofWhole = (join) => (...numbers) => {
  const index = numbers.findIndex(({ d }) => d !== 1n);
  if (index >= 0) throw new DomainError("whole", index);
  return whole(magnitude(numbers.map(({ n }) => n).reduce(join)));
};

/** Returns how many ways there are to choose k of n, in order or not.
 * @type {(isOrdered: boolean) => Exact} */
const choices = (isOrdered) => ({ n, d }, { n: k, d: e }) => {
  if (d !== 1n || e !== 1n) throw new DomainError("whole", d === 1n ? 1 : 0);
  const count = isOrdered || 2n * k < n ? k : n - k;
  if (k < 0n || k > n || n >= LARGEST || count > MAX_FACTORS) throw new DomainError("binomial", -1);
  let value = 1n;
  for (let j = 1n; j <= count; j += 1n) value = (value * (n - count + j)) / (isOrdered ? 1n : j);
  return whole(value);
};

/** @type {(x: Fraction, places?: Fraction) => Fraction} */
function round(x, places = whole(0n)) {
  if (places.d !== 1n || magnitude(places.n) > MAX_ROUND) throw new DomainError("round-places", 1);
  const power = 10n ** magnitude(places.n);
  if (places.n < 0n) return whole(divideHalfEven(x.n, x.d * power) * power);
  return fraction(divideHalfEven(x.n * power, x.d), power);
}

/** @type {(...numbers: Fraction[]) => Fraction} */
function median(...numbers) {
  const sorted = [...numbers].sort(compare);
  const middle = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return mean(...middle);
}

/** @type {Record<string, Exact>} */
const EXACT = {
  abs: ({ n, d }) => ({ n: magnitude(n), d }),
  floor: (x) => whole(floor(x)),
  ceil: (x) => whole(-floor(negative(x))),
  trunc: ({ n, d }) => whole(n / d),
  round: /** @type {Exact} */ (round),
  sign: ({ n }) => whole(n > 0n ? 1n : n < 0n ? -1n : 0n),
  binomial: choices(false),
  perm: choices(true),
  gcd: ofWhole(gcd),
  lcm: ofWhole((a, b) => (a && b ? (a / gcd(a, b)) * b : 0n)),
  min: (...numbers) => numbers.reduce((a, b) => (compare(b, a) < 0 ? b : a)),
  max: (...numbers) => numbers.reduce((a, b) => (compare(b, a) > 0 ? b : a)),
  ...{ sum, mean, median },
};
