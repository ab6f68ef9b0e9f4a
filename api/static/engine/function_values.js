// Values of functions as real numbers, which the model's answers are checked against
// (calcgpt/inference/function_values.py).

import { ArithmeticError } from "./effort.js";
import * as fractions from "./fractions.js";
import { bitLength, gcd, magnitude, powerModulo, product, whole } from "./fractions.js";
import * as real from "./real.js";
import { DivisionError, MAX_EXACT_BITS, Real, fraction, isWhole } from "./real.js";
import tables from "./tables.js";

const MAX_HALF = 5_000n; // of a half of which there is the gamma function
const MAX_ROOT = 1_000n; // the degree of a root
const MAX_ROUND = 30n; // places to which a number is rounded
const MAX_FACTORIAL = BigInt(tables.MAX_FACTORIAL);
const HALF = { n: 1n, d: 2n };
const [ONE, TWO] = [whole(1n), whole(2n)];

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

/** Returns pi, e, tau or phi. @param {string} name */
export function constant(name) {
  return CONSTANTS[name]();
}

/** Returns the value of a function.
 * @throws {DomainError} where it has none
 * @throws {ArithmeticError} if that is not decided, or for a whole number of more than MAX_EXACT_BITS
 * @type {(name: string, numbers: Real[]) => Real} */
export function call(name, numbers) {
  return VALUES[name](...numbers);
}

/** @param {bigint} n */
function wholeReal(n) {
  return fraction(whole(n));
}

/** @type {(x: Real, degree: bigint) => Real} */
function rootOf(x, degree) {
  if (degree % 2n === 0n && x.sign() < 0) throw new DomainError("even-root", 0);
  return real.power(x, { n: 1n, d: degree });
}

/** @param {Real} x */
const sqrt = (x) => rootOf(x, 2n);

/** @type {(x: Real, degree: Real) => Real} */
function root(x, { exact }) {
  if (exact?.d !== 1n || exact.n <= 0n || exact.n > MAX_ROOT) throw new DomainError("root", 1);
  return rootOf(x, exact.n);
}

/** @param {Real} x */
function ln(x) {
  if (x.sign() <= 0) throw new DomainError("logarithm", 0);
  return real.ln(x);
}

/** @type {(x: Real, base?: Real) => Real} */
function log(x, base = wholeReal(10n)) {
  const result = ln(x);
  if (base.sign() <= 0) throw new DomainError("logarithm", 1);
  if (!base.compare(ONE)) throw new DomainError("base", 1);
  return result.over(real.ln(base));
}

/** Returns x^y. @throws {ArithmeticError} what `call` throws @type {(x: Real, y: Real) => Real} */
export function power(x, y) {
  const sign = x.sign();
  if (!sign) {
    if (y.sign() < 0) throw new DomainError("division", -1);
    return wholeReal(y.sign() ? 0n : 1n);
  }
  if (y.exact && (y.exact.d === 1n || sign > 0)) return real.power(x, y.exact);
  if (sign < 0) throw new DomainError("power", 0);
  return real.exp(y.times(real.ln(x)));
}

/** @param {Real} x */
function tan(x) {
  try {
    return real.sin(x).over(real.cos(x));
  } catch (error) {
    throw error instanceof DivisionError ? new DomainError("tangent", -1) : error;
  }
}

/** @param {Real} x */
function radians(x) {
  return x.times(fraction({ n: 1n, d: 180n })).times(real.pi());
}

/** @param {Real} x */
function asin(x) {
  if (x.compare(ONE) > 0 || x.compare(whole(-1n)) < 0) throw new DomainError("arc", 0);
  return real.asin(x);
}

/** @type {(x: Real, sign: bigint) => Real} */
function hyperbolic(x, sign) {
  return real.exp(x).plus(wholeReal(sign).times(real.exp(x.negative()))).times(fraction(HALF));
}

/** @param {Real[]} numbers */
function sum(...numbers) {
  return numbers.reduce((a, b) => a.plus(b));
}

/** @param {Real[]} numbers */
function mean(...numbers) {
  return sum(...numbers).times(fraction({ n: 1n, d: BigInt(numbers.length) }));
}

/** @param {Real[]} numbers */
function hypot(...numbers) {
  return sqrt(sum(...numbers.map((x) => x.times(x))));
}

/** @param {Real[]} numbers */
function stdev(...numbers) {
  const middle = mean(...numbers);
  const squares = numbers.map((x) => x.minus(middle).times(x.minus(middle)));
  return sqrt(sum(...squares).times(fraction({ n: 1n, d: BigInt(numbers.length - 1) })));
}

/** @type {(a: Real, b: Real) => number} */
function order(a, b) {
  return a.minus(b).sign();
}

/** @param {Real[]} numbers */
function median(...numbers) {
  const sorted = [...numbers].sort(order);
  return mean(sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]);
}

/** @type {(x: Real, places?: Real) => Real} */
function round(x, places = wholeReal(0n)) {
  if (places.exact?.d !== 1n || magnitude(places.exact.n) > MAX_ROUND) throw new DomainError("round-places", 1);
  return fraction(x.rounded(Number(places.exact.n)));
}

/** Returns the angle of the point (x, y). @type {(y: Real, x: Real) => Real} */
function atan2(y, x) {
  const sign = x.sign();
  if (!sign) {
    if (!y.sign()) throw new DomainError("origin", -1);
    return real.pi().times(fraction({ n: BigInt(y.sign()), d: 2n }));
  }
  const angle = real.atan(y.over(x));
  if (sign > 0) return angle;
  return y.sign() < 0 ? angle.minus(real.pi()) : angle.plus(real.pi());
}

/** @param {Real} x */
function gamma({ exact: x }) {
  if (x?.d === 1n && x.n > 0n && x.n <= MAX_FACTORIAL) return real.factorial(x.n - 1n);
  if (x?.d !== 2n || magnitude(x.n) > MAX_HALF * x.d) throw new DomainError("gamma", 0);
  const n = magnitude(fractions.floor(x));
  let factor = ONE; // of gamma(1/2), the root of pi
  for (let k = 1n; k < 2n * n; k += 2n) factor = fractions.multiply(factor, { n: k, d: 2n });
  if (x.n < 0n) factor = fractions.multiply(whole(n % 2n ? -1n : 1n), fractions.inverse(factor));
  return fraction(factor).times(real.power(real.pi(), HALF));
}

/** Returns a function of n and of k chosen of them, in order or not.
 * @type {(isOrdered: boolean) => (n: bigint, k: bigint) => bigint} */
const choice = (isOrdered) => (n, k) => {
  const count = isOrdered || 2n * k < n ? k : n - k;
  if (k < 0n || k > n || count * BigInt(bitLength(n)) > MAX_EXACT_BITS) throw new DomainError("binomial", -1);
  return product(n - count + 1n, n) / (isOrdered ? 1n : product(1n, count));
};

/** @type {(value: (...numbers: bigint[]) => bigint) => (...numbers: Real[]) => Real} */
const ofWhole = (value) => (...numbers) => {
  const index = numbers.findIndex((x) => !isWhole(x));
  if (index >= 0) throw new DomainError("whole", index);
  return wholeReal(value(...numbers.map((x) => x.floor())));
};

/** @type {(n: bigint, m: bigint) => bigint} */
function lcm(n, m) {
  return n && m ? magnitude((n / gcd(n, m)) * m) : 0n;
}

/** @type {Record<string, () => Real>} */
const CONSTANTS = {
  pi: real.pi,
  e: () => real.exp(wholeReal(1n)),
  tau: () => wholeReal(2n).times(real.pi()),
  phi: () => wholeReal(1n).plus(sqrt(wholeReal(5n))).times(fraction(HALF)),
};

/** @type {Record<string, (...numbers: Real[]) => Real>} */
const VALUES = {
  ...{ sqrt, cbrt: (x) => rootOf(x, 3n), root, exp: real.exp, ln, log, log2: (x) => log(x, fraction(TWO)) },
  ...{ sin: real.sin, cos: real.cos, tan, asin, atan: real.atan, atan2 },
  "sin°": (x) => real.sin(radians(x)),
  "cos°": (x) => real.cos(radians(x)),
  "tan°": (x) => tan(radians(x)),
  acos: (x) => fraction(HALF).times(real.pi()).minus(asin(x)),
  sinh: (x) => hyperbolic(x, -1n),
  cosh: (x) => hyperbolic(x, 1n),
  tanh: (x) => hyperbolic(x, -1n).over(hyperbolic(x, 1n)),
  "^": power,
  "^mod": ofWhole(powerModulo),
  "ln!": (x) => real.ln(real.factorial(x.floor())),
  degrees: (x) => x.times(wholeReal(180n)).over(real.pi()),
  "°": radians,
  abs: (x) => (x.sign() < 0 ? x.negative() : x),
  floor: (x) => wholeReal(x.floor()),
  ceil: (x) => wholeReal(-x.negative().floor()),
  trunc: (x) => wholeReal(x.sign() >= 0 ? x.floor() : -x.negative().floor()),
  sign: (x) => wholeReal(BigInt(x.sign())),
  ...{ round, gamma, binomial: ofWhole(choice(false)), perm: ofWhole(choice(true)) },
  gcd: ofWhole((...numbers) => numbers.reduce(gcd, 0n)),
  lcm: ofWhole((...numbers) => numbers.reduce(lcm, 1n)),
  min: (...numbers) => numbers.reduce((a, b) => (order(b, a) < 0 ? b : a)),
  max: (...numbers) => numbers.reduce((a, b) => (order(b, a) > 0 ? b : a)),
  ...{ sum, mean, median, stdev, hypot },
};
