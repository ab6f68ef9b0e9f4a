// Real numbers, and what can be decided about them: sign, order, rounding (calcgpt/inference/real.py).
//
// A number is a fraction, or an operation on numbers. Of the latter, a ball encloses the value, to any precision
// (ball.js). Two numbers are different if their balls are. They are equal by a theorem, never because they are near:
// - by their closed forms (closed_form.js),
// - if they are algebraic, by a bound of how near to 0 such a number can be without being 0.
// If neither decides by MAX_BITS, the question is undecided.

import { divideHalfEven } from "./arithmetic.js";
import * as balls from "./ball.js";
import * as closedForm from "./closed_form.js";
import { ArithmeticError, EffortError, spend } from "./effort.js";
import * as elementary from "./elementary.js";
import * as fractions from "./fractions.js";
import { bitLength, magnitude, product, sizeOf, whole } from "./fractions.js";
import { separation } from "./separation.js";

const MAX_BITS = 2 ** 15; // of enclosures
export const DECIDED_DIGITS = Math.floor(MAX_BITS * Math.log10(2)); // beyond which a question is undecided
export const MAX_EXACT_BITS = 2 ** 17; // of a fraction, numerator or denominator
const FIRST_BITS = 128;
const [MAX_FORM_BITS, MAX_DEPTH] = [4_000, 50]; // of a fraction, and of a number, that has a form
const [SIMPLE, SIMPLE_DIGITS] = [10n ** 15n, 60]; // denominator of a simple fraction; digits to guess it by
const LONGEST_FACTORIAL = 10_000n; // that is written out

/** @import { Ball } from "./ball.js" */
/** @import { Form } from "./closed_form.js" */
/** @import { Fraction } from "./fractions.js" */

/** An operation divides by 0. */
export class DivisionError extends ArithmeticError {}

/** No theorem says whether a number is 0, and no enclosure shows that it is not. */
export class UndecidedError extends ArithmeticError {}

/** A real number. `exact` is its value if that is known to be a fraction, else null. */
export class Real {
  /** @type {Fraction | null} */ exact = null;
  operation = "";
  /** @type {Real[]} */ operands = [];
  exponent = whole(1n); // of a power
  depth = 0; // of functions, roots and quotients in each other
  bits = 0; // with which `ball` was worked out
  /** @type {Ball | null} */ ball = null;
  /** @type {Form | null | undefined} */ #form;

  /** The closed form, or null if there is none of a moderate size. */
  get form() {
    if (this.#form === undefined) this.#form = formOf(this);
    return this.#form;
  }

  /** @param {Real} other */
  plus(other) {
    if (areExact(this, other)) return fraction(fractions.add(exactOf(this), exactOf(other)));
    return operationOn("+", [this, other]);
  }

  /** @param {Real} other */
  minus(other) {
    return this.plus(other.negative());
  }

  negative() {
    return this.exact ? fraction(fractions.negative(this.exact)) : fraction(whole(-1n)).times(this);
  }

  /** @param {Real} other */
  times(other) {
    if (areExact(this, other)) return fraction(fractions.multiply(exactOf(this), exactOf(other)));
    return operationOn("*", [this, other]);
  }

  /** @param {Real} other
   * @throws {DivisionError}
   * @throws {UndecidedError} if the divisor may be 0 */
  over(other) {
    if (!other.sign()) throw new DivisionError();
    if (areExact(this, other)) return fraction(fractions.multiply(exactOf(this), fractions.inverse(exactOf(other))));
    return operationOn("/", [this, other]);
  }

  /** Returns a ball with the value, worked out with so many binary digits. It may be wider than they say, or null.
   * @param {number} bits */
  enclose(bits) {
    for (const real of partsOf(this, (part) => part.bits >= bits)) {
      spend(costOf(real, bits));
      [real.ball, real.bits] = [ballOf(real, bits), bits];
    }
    return this.ball;
  }

  /** Returns -1, 0 or 1. @throws {UndecidedError} */
  sign() {
    let distance = null;
    for (let bits = FIRST_BITS; !this.exact; bits *= 2) {
      if (bits > MAX_BITS) throw new UndecidedError();
      const ball = this.enclose(bits);
      const sign = balls.signOf(ball);
      if (sign) return sign;
      if (bits === FIRST_BITS) distance = separation(partsOf(this));
      if (ball && distance !== null && balls.isBelow(ball, -distance)) this.exact = whole(0n);
    }
    return Number(this.exact.n > 0n) - Number(this.exact.n < 0n);
  }

  /** Returns the sign of this number minus a fraction. @param {Fraction} value @throws {UndecidedError} */
  compare(value) {
    const order = this.minus(fraction(value)).sign();
    if (!order) this.exact = value;
    return order;
  }

  /** Returns the number rounded down. @throws {UndecidedError} @throws {ArithmeticError} if it has more than
   * MAX_EXACT_BITS */
  floor() {
    if (this.exact) return fractions.floor(this.exact);
    const nearest = this.#nearest();
    return nearest - (this.compare(whole(nearest)) < 0 ? 1n : 0n);
  }

  /** Returns the number rounded to decimal places, which may be negative; ties to even.
   * @param {number} places @throws {ArithmeticError} what `floor` throws @returns {Fraction} */
  rounded(places) {
    const [n, d] = places < 0 ? [1n, 10n ** BigInt(-places)] : [10n ** BigInt(places), 1n]; // what it is multiplied by
    let units;
    if (this.exact) units = divideHalfEven(this.exact.n * n, this.exact.d * d);
    else {
      let halves = this.times(fraction(fractions.fraction(2n * n, d))).#nearest();
      if (halves % 2n) halves += BigInt(this.compare(fractions.fraction(halves * d, 2n * n)));
      units = divideHalfEven(halves, 2n);
    }
    return places < 0 ? whole(units * d) : fractions.ofDecimal(units, places);
  }

  /** Returns a whole number that is less than 1 from this number. */
  #nearest() {
    if (this.exact) return divideHalfEven(this.exact.n, this.exact.d);
    for (const ball of this.#approximations()) {
      if (ball.r && BigInt(bitLength(ball.r)) + ball.e > -2n) continue;
      const { n, d } = balls.middleOf(ball);
      return divideHalfEven(n, d);
    }
    throw new UndecidedError();
  }

  /** Yields balls that are smaller and smaller. @param {number} bits */
  *#approximations(bits = FIRST_BITS) {
    for (; bits <= MAX_BITS; bits *= 2) {
      const ball = this.enclose(bits);
      if (!ball) continue;
      if (balls.logarithm(ball) > MAX_EXACT_BITS) throw new ArithmeticError();
      yield ball;
    }
  }

  /** Returns the number, or one that is near it, to so many digits unless it is nearly 0. It decides nothing.
   * @throws {ArithmeticError} if it has more than MAX_EXACT_BITS */
  approximate(digits = 40) {
    if (this.exact) return this.exact;
    const wanted = Math.floor(digits / Math.log10(2)) + 8;
    let last = null;
    for (const ball of this.#approximations(wanted + 32)) {
      last = ball;
      if (balls.accuracy(ball) >= wanted || BigInt(bitLength(ball.r)) + ball.e <= -1000n) break;
    }
    if (!last) throw new ArithmeticError();
    return balls.middleOf(last);
  }

  /** Returns the decimal logarithm of the magnitude, about: -Infinity for 0, also if the number may be 0. It decides
   * nothing. @throws {ArithmeticError} for a number that has too many digits for a logarithm */
  size() {
    if (this.exact) {
      const { n, d } = this.exact;
      return n ? (bitLength(n) - bitLength(d)) * Math.log10(2) : -Infinity;
    }
    let ball = null;
    for (let bits = 2 * FIRST_BITS; bits <= MAX_BITS; bits *= 2) {
      ball = this.enclose(bits);
      if (!ball || !balls.signOf(ball)) continue;
      const size = Number(balls.logarithm(ball)) * Math.log10(2);
      if (!Number.isFinite(size)) throw new ArithmeticError();
      return size;
    }
    return ball ? -Infinity : Infinity;
  }

  /** Returns this number, as a fraction if it is shown to be a simple one. */
  settle() {
    if (this.exact) return this;
    try {
      const near = this.approximate(2 * SIMPLE_DIGITS);
      const simple = fractions.simplified(near, SIMPLE);
      const { n, d } = fractions.subtract(simple, near);
      if (magnitude(n) * 10n ** BigInt(SIMPLE_DIGITS) < d) this.compare(simple);
    } catch (error) {
      if (!(error instanceof ArithmeticError) || error instanceof EffortError) throw error;
    }
    return this;
  }
}

/** Returns a fraction as a real number. @param {Fraction} value */
export function fraction(value) {
  spend(1 + sizeOf(value) / 1_000);
  const real = new Real();
  real.exact = value;
  return real;
}

/** Whether both numbers are fractions, and short enough to calculate with. @type {(a: Real, b: Real) => boolean} */
function areExact(a, b) {
  return Boolean(a.exact && b.exact) && sizeOf(exactOf(a)) + sizeOf(exactOf(b)) <= MAX_EXACT_BITS;
}

/** @param {Real} real */
function exactOf(real) {
  return /** @type {Fraction} */ (real.exact);
}

export function pi() {
  return operationOn("pi", []);
}

/** Returns a power. The base is not 0 if the exponent is negative; a negative base needs an exponent with an odd
 * denominator, and gives the real power.
 * @throws {UndecidedError}
 * @type {(base: Real, exponent: Fraction) => Real} */
export function power(base, exponent) {
  const { n, d } = exponent;
  if (d > 1n && base.sign() < 0) {
    const result = power(base.negative(), exponent);
    return n % 2n ? result.negative() : result;
  }
  const root = base.exact && exactRoot(base.exact, d);
  if (root) {
    if (sizeOf(root) <= 1) return fraction(fractions.power(root, n % 2n ? 1n : 2n));
    if (BigInt(sizeOf(root)) * magnitude(n) <= MAX_EXACT_BITS) return fraction(fractions.power(root, n));
  }
  return operationOn("^", [base], exponent);
}

/** Returns n!, for n that is not negative. @param {bigint} n */
export function factorial(n) {
  if (n <= LONGEST_FACTORIAL) return fraction(whole(product(1n, n)));
  return operationOn("!", [fraction(whole(n))]);
}

/** @param {Real} x */
export function exp(x) {
  return operationOn("exp", [x]);
}

/** @param {Real} x positive */
export function ln(x) {
  return operationOn("ln", [x]);
}

/** @param {Real} x */
export function sin(x) {
  return odd("sin", x);
}

/** @param {Real} x */
export function cos(x) {
  return operationOn("cos", [isBelow0(x) ? x.negative() : x]);
}

/** @param {Real} x from -1 to 1 */
export function asin(x) {
  return odd("asin", x);
}

/** @param {Real} x */
export function atan(x) {
  return odd("atan", x);
}

/** Whether a number is known to be whole. @param {Real} real */
export function isWhole({ exact }) {
  return exact?.d === 1n;
}

/** @type {(name: string, x: Real) => Real} */
function odd(name, x) {
  return isBelow0(x) ? operationOn(name, [x.negative()]).negative() : operationOn(name, [x]);
}

/** Whether a number is seen to be negative. @param {Real} x */
function isBelow0(x) {
  return x.exact ? x.exact.n < 0n : balls.signOf(x.enclose(FIRST_BITS)) < 0;
}

/** Returns an operation on numbers, or a fraction if its form is one.
 * @type {(name: string, operands: Real[], exponent?: Fraction) => Real} */
function operationOn(name, operands, exponent = whole(1n)) {
  spend(20);
  const real = new Real();
  Object.assign(real, { operation: name, operands, exponent });
  real.depth = Math.max(0, ...operands.map(({ depth }) => depth)) + Number(name !== "+" && name !== "*");
  real.exact = real.form && closedForm.rationalOf(real.form);
  return real;
}

/** @type {Record<string, (...forms: Form[]) => Form>} */
const FORMS = {
  pi: () => closedForm.PI,
  "+": closedForm.add,
  "*": closedForm.multiply,
  "/": (a, b) => closedForm.multiply(a, closedForm.inverse(b)),
  ...{ exp: closedForm.exp, ln: closedForm.ln, sin: closedForm.sin, cos: closedForm.cos },
  ...{ asin: closedForm.asin, atan: closedForm.atan, "!": (n) => closedForm.atom("!", n) },
};

/** @type {(real: Real) => Form | null} */
function formOf({ exact, depth, operation, operands, exponent }) {
  if (depth > MAX_DEPTH) return null;
  try {
    if (exact) return sizeOf(exact) <= MAX_FORM_BITS ? closedForm.rational(exact) : null;
    const forms = operands.map(({ form }) => form).filter((form) => form !== null);
    if (forms.length < operands.length) return null;
    return operation === "^" ? closedForm.power(forms[0], exponent) : FORMS[operation](...forms);
  } catch (error) {
    if (error instanceof closedForm.TooLargeError) return null;
    throw error;
  }
}

/** Returns the ball of a number, from those of its operands. @type {(real: Real, bits: number) => Ball | null} */
function ballOf({ exact, operation, operands, exponent: { n, d } }, bits) {
  if (exact) return balls.ofFraction(exact, bits);
  if (operation === "pi") return elementary.pi(bits);
  if (operation === "!") return elementary.factorial(exactOf(operands[0]).n, bits);
  const [a, b] = operands.map(({ ball }) => ball);
  if (!a || b === null) return null;
  if (operation === "+") return balls.add(a, b, bits);
  if (operation === "*") return balls.multiply(a, b, bits);
  if (operation === "/") return balls.divide(a, b, bits);
  if (operation !== "^") return ELEMENTARY[operation](a, bits);
  const root = d > 1n ? elementary.root(a, d, bits) : a;
  return root && balls.power(root, n, bits);
}

const { exp: expOf, ln: lnOf, sin: sinOf, cos: cosOf, asin: asinOf, atan: atanOf } = elementary;
/** @type {Record<string, elementary.Real>} */
const ELEMENTARY = { exp: expOf, ln: lnOf, sin: sinOf, cos: cosOf, asin: asinOf, atan: atanOf };

/** Returns the microseconds that a ball takes, about. @type {(real: Real, bits: number) => number} */
function costOf({ exact, operation }, bits) {
  if (exact || ["+", "*", "/"].includes(operation)) return 2 + bits / 400;
  return operation === "!" ? 400 + (bits / 100) ** 3 : 20 + (bits / 180) ** 2;
}

/** Returns the numbers that one is made of, operands first, without those that are known and what these are made of.
 * @type {(real: Real, isKnown?: (real: Real) => boolean) => Real[]} */
export function partsOf(real, isKnown = () => false) {
  /** @type {Set<Real>} */ const seen = new Set();
  const ordered = [];
  /** @type {[Real, boolean][]} */ const waiting = [[real, false]];
  for (let next; (next = waiting.pop()); ) {
    const [part, isComplete] = next;
    if (isComplete) ordered.push(part);
    else if (!seen.has(part) && !isKnown(part)) {
      seen.add(part);
      waiting.push([part, true]);
      for (const operand of part.exact ? [] : part.operands) waiting.push([operand, false]);
    }
  }
  return ordered;
}

/** Returns the root of a number that is not negative if it is a fraction, else null.
 * @type {(value: Fraction, degree: bigint) => Fraction | null} */
function exactRoot(value, degree) {
  if (degree === 1n || !value.n || (value.n === 1n && value.d === 1n)) return value;
  if (degree > sizeOf(value)) return null;
  const root = { n: elementary.integerRoot(value.n, degree), d: elementary.integerRoot(value.d, degree) };
  return root.n ** degree === value.n && root.d ** degree === value.d ? root : null;
}
