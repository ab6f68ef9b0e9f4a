// How exact the parts of an expression must be, so that its value is right (calcgpt/inference/sensitivity.py).
//
// The value changes by the derivative times the error of a part (reverse accumulation; Griewank and Walther 2008,
// Evaluating Derivatives, section 3.2). So (1-cos(x))*exp(200) needs 87 places more of the cosine, and hardly any of
// the exponential. Derivatives are estimated: a plan is checked by its result.

import { divideHalfEven } from "./arithmetic.js";
import { multiply, subtract, whole } from "./fractions.js";
import { fraction } from "./real.js";

export const LARGEST = 4_000; // places
const DECIDED = ["floor", "ceil", "trunc", "round", "sign"]; // functions whose results are whole

/** @import { Expression } from "./expression_tree.js" */
/** @import { Real } from "./real.js" */

/** Returns how many more places each node needs than the last, which may be negative. nodes: in postorder; values:
 * theirs.
 * @type {(nodes: Expression[], values: Real[]) => number[]} */
export function morePlaces(nodes, values) {
  const sizes = values.map((value) => bounded(value.size()));
  /** @type {number[]} */ const waiting = []; // indices
  const operandsOf = nodes.map(({ operands }, index) => {
    const indices = waiting.splice(waiting.length - operands.length);
    waiting.push(index);
    return indices;
  });
  const places = nodes.map(() => 0);
  for (let index = nodes.length - 1; index >= 0; index -= 1) {
    const { sign } = nodes[index];
    const operands = operandsOf[index];
    const isDecided = DECIDED.includes(sign);
    const change = CHANGES[sign] ?? (() => [0, 0]);
    const changes = isDecided
      ? operands.map((operand) => -places[index] - toWhole(values[operand]))
      : change(...operands.map((operand) => sizes[operand]), sizes[index]);
    for (const [n, operand] of operands.entries()) {
      places[operand] = bounded(places[index] + changes[Math.min(n, changes.length - 1)]);
    }
  }
  return places.map(Math.ceil);
}

/** @param {number} places */
function bounded(places) {
  return Math.min(Math.max(places, -LARGEST), LARGEST);
}

/** Returns the size of the distance to the nearest half, at most 0. @param {Real} value */
function toWhole(value) {
  const near = multiply(whole(2n), value.approximate());
  const distance = subtract(near, whole(divideHalfEven(near.n, near.d)));
  return distance.n ? Math.min(0, fraction(distance).size()) : 0;
}

/** @typedef {(...sizes: number[]) => number[]} Change */
/** @type {Change} */ const ofQuotient = (_, b, r) => [-b, r - b];
/** @type {Change} */ const ofPercentage = (a, b) => [Math.max(b, 0), a];
/** @type {Change} */ const ofHyperbolic = (_, r) => [Math.max(r, 0)];
/** @type {Change} */ const ofLogarithm = (a, other) => [-a, -Math.min(0, other)];
/** @type {Change} */ const ofRoot = (a, r) => [r - a];
/** @type {Change} */ const ofDegrees = () => [-1.7];

/** Sign -> the sizes of the derivatives, one for each operand, given the sizes of the operands and of the result. Those
 * that are not here are at most about 1. @type {Record<string, Change>} */
const CHANGES = {
  "*": (a, b) => [b, a],
  ...{ "/": ofQuotient, "//": ofQuotient, "+%": ofPercentage, "-%": ofPercentage },
  mod: (a, b) => [0, Math.max(0, a - b)],
  "%": () => [-2],
  "^": (a, b, r) => [b + r - a, r + 0.5 + Math.log10(Math.abs(a) + 0.5)],
  exp: (_, r) => [r],
  ...{ sinh: ofHyperbolic, cosh: ofHyperbolic, ln: ofLogarithm, log: ofLogarithm, log2: ofLogarithm },
  ...{ sqrt: ofRoot, cbrt: ofRoot, root: (a, _, r) => [r - a, r] },
  tan: (_, r) => [Math.max(0, 2 * r)],
  "tan°": (_, r) => [Math.max(0, 2 * r) - 1.7],
  ...{ "sin°": ofDegrees, "cos°": ofDegrees, "°": ofDegrees, degrees: () => [1.8] },
};
