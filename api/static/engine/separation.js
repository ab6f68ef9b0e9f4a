// How near to 0 an algebraic number can be without being 0 (calcgpt/inference/separation.py).
//
// A number that is made of fractions by + - * /, roots and sines of rational parts of pi is a quotient of two algebraic
// integers of a degree of at most D. If all conjugates of these are at most 2^a and 2^b, the number is 0 or at least
// 1 / 2^((D - 1) a + b) (Burnikel, Funke, Mehlhorn, Schirra and Schmitt 2001, A separation bound for real algebraic
// expressions, theorem 1).

import { halfTurns } from "./closed_form.js";
import { spend } from "./effort.js";
import { bitLength } from "./fractions.js";

const MAX_DEGREE = 2n ** 12n; // beyond which no enclosure is as small as the bound

/** @import { Real } from "./real.js" */
/** @typedef {[bigint, bigint]} Bounds a and b */

/** Returns n for which the last of some numbers is 0 or at least 2**-n; null if it is not algebraic or the bound too
 * small. parts: what it is made of, in order. @param {Real[]} parts */
export function separation(parts) {
  /** @type {Map<Real, Bounds | null>} */ const bounds = new Map();
  let degree = 1n;
  for (const part of parts) {
    spend(1);
    const turns = halfTurnsOf(part);
    /** @type {Bounds | null} */ let bound = null;
    if (part.exact) bound = [BigInt(bitLength(part.exact.n)), BigInt(bitLength(part.exact.d))];
    else if (turns) {
      bound = [1n, 1n]; // twice this number is a sum of two roots of unity
      degree *= 2n * turns.d;
    } else if (["+", "*", "/", "^"].includes(part.operation)) {
      const known = part.operands.map((operand) => bounds.get(operand) ?? null);
      if (known.every((bound) => bound !== null)) bound = combined(part, known[0], known[1]);
      degree *= part.exponent.d;
    }
    bounds.set(part, bound);
  }
  const last = bounds.get(parts[parts.length - 1]);
  return last && degree <= MAX_DEGREE ? (degree - 1n) * last[0] + last[1] : null;
}

/** Returns the bounds of an operation (table 1 of the paper), rounded up.
 * @type {(part: Real, x: Bounds, y?: Bounds) => Bounds} */
function combined({ operation, exponent }, [a, b], [c, d] = [0n, 0n]) {
  if (operation === "+") return [(a + d > c + b ? a + d : c + b) + 1n, b + d];
  if (operation === "*") return [a + c, b + d];
  if (operation === "/") return [a + d, b + c];
  const { n, d: root } = exponent;
  [a, b] = n > 0n ? [a * n, b * n] : [-b * n, -a * n];
  return a >= b ? [ceil(a + (root - 1n) * b, root), b] : [a, ceil((root - 1n) * a + b, root)];
}

/** @type {(n: bigint, d: bigint) => bigint} */
function ceil(n, d) {
  return (n + d - 1n) / d;
}

/** Returns q for the sine or cosine of q*pi, else null. @param {Real} part */
function halfTurnsOf({ operation, operands }) {
  const form = operation === "sin" || operation === "cos" ? operands[0].form : null;
  return form && halfTurns(form);
}
