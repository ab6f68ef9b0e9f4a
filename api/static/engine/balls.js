// What real numbers are enclosed in (calcgpt/inference/balls.py).

import * as ball from "./ball.js";
import * as elementary from "./elementary.js";

/** @import { Ball } from "./ball.js" */
/** @import { Fraction } from "./fractions.js" */

export const { accuracy, logarithm, ofFraction } = ball;
export const [middle, sign] = [ball.middleOf, ball.signOf];

const { exp, ln, sin, cos, asin, atan } = elementary;
/** @type {Record<string, elementary.Real>} */ const ELEMENTARY = { exp, ln, sin, cos, asin, atan };

/** Returns the microseconds that a ball takes, about; "" for that of a fraction.
 * @type {(operation: string, bits: number) => number} */
export function cost(operation, bits) {
  if (["", "+", "*", "/"].includes(operation)) return 2 + bits / 400;
  return operation === "!" ? 400 + (bits / 100) ** 3 : 20 + (bits / 180) ** 2;
}

/** Returns the ball of an operation on numbers, given theirs; null if nothing is known. exponent: that of a power.
 * @type {(operation: string, operands: (Ball | null)[], exponent: Fraction, bits: number) => Ball | null} */
export function apply(operation, [a, b], { n, d }, bits) {
  if (operation === "pi") return elementary.pi(bits);
  if (!a || b === null) return null;
  if (operation === "!") return elementary.factorial(a.m << a.e, bits);
  if (operation === "+") return ball.add(a, b, bits);
  if (operation === "*") return ball.multiply(a, b, bits);
  if (operation === "/") return ball.divide(a, b, bits);
  if (operation !== "^") return ELEMENTARY[operation](a, bits);
  const root = d > 1n ? elementary.root(a, d, bits) : a;
  return root && ball.power(root, n, bits);
}

/** @param {Ball | null} a */
export const isFinite = (a) => a !== null;

/** Returns whether the numbers are below 2**n, without their sign. @type {(a: Ball, n: number | bigint) => boolean} */
export const isBelow = (a, n) => ball.isBelow(a, BigInt(n));

/** Returns whether the numbers are less than 2**n from the middle. @type {(a: Ball, n: number) => boolean} */
export const isNarrow = ({ r, e }, n) => ball.isBelow({ m: r, r: 0n, e }, BigInt(n));

/** @type {(value: any, degree: any) => bigint} */
export const integerRoot = (value, degree) => elementary.integerRoot(BigInt(value), BigInt(degree));
