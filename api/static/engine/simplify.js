// What an expression is calculated by where numbers in between would be needlessly long
// (calcgpt/inference/simplify.py).
//
// 170!/168!               170*169, the factors that are left
// 10^400/10^398           10^2
// ln(50!), log2(3^500)    Stirling's series; 500*log2(3)
// 7^(10^9) mod 13         square and reduce

import { Decimal } from "./arithmetic.js";
import { literal } from "./expression_stack.js";
import { Expression, fold } from "./expression_tree.js";
import { whole } from "./fractions.js";
import { fraction, isWhole } from "./real.js";

const LONG = 40; // digits of a number that is better not written
const LEAST = 64n; // for which the terms of Stirling's series are enough for 35 places

/** @import { Real } from "./real.js" */
/** @typedef {Map<Expression, Real>} Known the values of nodes */

/** Returns an expression of the same value. values: those of `root`, in postorder.
 * @type {(root: Expression, values: Real[]) => Expression} */
export function simplify(root, values) {
  /** @type {Known} */ const known = new Map();
  const remaining = values.values();
  return fold(root, (node, /** @type {Expression[]} */ operands) => {
    const value = /** @type {Real} */ (remaining.next().value);
    if (operands.some((operand, index) => operand !== node.operands[index])) node = like(node, node.sign, operands);
    node = RULES[node.sign]?.(node, known) ?? node;
    known.set(node, value);
    return node;
  });
}

/** Returns a node at the position of another one.
 * @type {(node: Expression, sign: string, operands: Expression[]) => Expression} */
function like({ start, end }, sign, operands) {
  return new Expression(sign, operands, start, end);
}

/** Cancels the factors of factorials, and powers of one base.
 * @type {(node: Expression, known: Known) => Expression | null} */
function quotient(node, known) {
  const [above, below] = node.operands;
  if (sizeOf(above, known) < LONG) return null;
  if (above.sign === "^" && below.sign === "^") {
    const [[base, first], [other, second]] = [above.operands, below.operands];
    const [n, m] = [wholeOf(first, known), wholeOf(second, known)];
    const isOneBase = !base.sign && !other.sign && isSame(base.number, other.number);
    if (n === null || m === null || !isOneBase) return null;
    return new Expression("^", [base, numberLike(node, n - m, known)], above.start, node.end);
  }
  const factorials = factorialsOf(below);
  if (above.sign !== "!" || !factorials.length) return null;
  const [argument] = above.operands;
  const sizes = factorials.map(({ operands }) => wholeOf(operands[0], known) ?? 0n);
  const largest = sizes.reduce((best, size, index) => (size > sizes[best] ? index : best), 0);
  const [n, m] = [wholeOf(argument, known) ?? 0n, sizes[largest]];
  if (n < m) return null;
  const result = like(node, "perm", [argument, numberLike(node, n - m, known)]);
  const others = factorials.filter((_, index) => index !== largest);
  return others.reduce((a, b) => like(node, "/", [a, b]), result);
}

/** @type {(a: import("./arithmetic.js").Decimal, b: import("./arithmetic.js").Decimal) => boolean} */
function isSame(a, b) {
  return a.units === b.units && a.places === b.places;
}

/** Returns the factorials of a product of nothing else, else []. @param {Expression} node */
function factorialsOf(node) {
  return fold(node, (part, /** @type {Expression[][]} */ operands) => {
    if (part.sign === "!") return [part];
    return part.sign === "*" && operands.every(({ length }) => length) ? operands.flat() : [];
  });
}

/** Works out the logarithm of a factorial or a power without writing it.
 * @type {(node: Expression, known: Known) => Expression | null} */
function logarithm(node, known) {
  const [of, ...base] = node.operands;
  if (sizeOf(of, known) < LONG) return null;
  if (of.sign === "^" && /** @type {Real} */ (known.get(of.operands[0])).sign() > 0) {
    return like(node, "*", [of.operands[1], like(node, node.sign, [of.operands[0], ...base])]);
  }
  const n = of.sign === "!" ? wholeOf(of.operands[0], known) : null;
  if (n === null || n < LEAST) return null;
  const result = like(node, "ln!", of.operands);
  if (node.sign === "ln") return result;
  const divisor = base[0] ?? numberLike(node, node.sign === "log2" ? 2n : 10n, known);
  return like(node, "/", [result, like(node, "ln", [divisor])]);
}

/** Reduces the parts of a long whole number. @type {(node: Expression, known: Known) => Expression | null} */
function remainder(node, known) {
  const [number, modulus] = node.operands;
  const m = wholeOf(modulus, known);
  if (m === null || m < 1n || sizeOf(number, known) < LONG) return null;
  // What has the remainder of a part, null if that is not whole.
  const reduced = fold(number, (part, /** @type {(Expression | null)[]} */ operands) => {
    const parts = operands.filter((operand) => operand !== null);
    const n = part.sign === "^" && operands[0] ? wholeOf(part.operands[1], known) : null;
    if (n !== null && n >= 0n) return like(part, "^mod", [parts[0], part.operands[1], modulus]);
    if (["+", "-", "*"].includes(part.sign) && parts.length === 2) {
      const same = like(part, part.sign, parts);
      return part.sign === "*" ? like(part, "mod", [same, modulus]) : same;
    }
    const value = known.get(part);
    return value && isWhole(value) ? part : null;
  });
  return reduced && like(node, "mod", [reduced, modulus]);
}

/** Returns the decimal logarithm of the value of a node. @type {(node: Expression, known: Known) => number} */
function sizeOf(node, known) {
  return /** @type {Real} */ (known.get(node)).size();
}

/** Returns the value of a node if it is a whole number, else null.
 * @type {(node: Expression, known: Known) => bigint | null} */
function wholeOf(node, known) {
  const value = /** @type {Real} */ (known.get(node));
  return isWhole(value) ? value.floor() : null;
}

/** @type {(node: Expression, value: bigint, known: Known) => Expression} */
function numberLike({ start, end }, value, known) {
  const number = literal(new Decimal(value), start, end);
  known.set(number, fraction(whole(value)));
  return number;
}

/** @type {Record<string, (node: Expression, known: Known) => Expression | null>} */
const RULES = { "/": quotient, mod: remainder, ln: logarithm, log: logarithm, log2: logarithm };
