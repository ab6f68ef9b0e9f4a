// The tree of an expression: numbers and operations, each with the position of its text. A tree may be a
// thousand operations deep, so nothing here is recursive (calcgpt/inference/expression_tree.py).

import { numberText } from "./arithmetic.js";
import tables from "./tables.js";
import { shorten } from "./text.js";

/** @typedef {import("./arithmetic.js").Decimal} Decimal */

/** A number, or an operation on other expressions, with its position in code points. The parentheses around an operand
 * belong to the operation that uses it. sign: "" for a number, else one of RANKS.
 * @typedef {{sign: string, operands: Expression[], start: number, end: number, number: Decimal}} Expression */

/** @type {Decimal} */ const NO_NUMBER = { units: 0n, places: 0 }; // of an operation
/** Sign -> precedence. `+%` and `-%` add and subtract a percentage of their left operand, `%` is a
 * hundredth, and `||` a magnitude.
 * @type {Record<string, number>} */
export const RANKS = {
  ...tables.RANKS,
  ...{ "+%": 1, "-%": 1, "!": 4, "%": 4, "||": 5, "": 5 },
};

/** @type {(sign: string, operands: Expression[], start: number, end: number, number?: Decimal) => Expression} */
export function expression(sign, operands, start, end, number = NO_NUMBER) {
  return { sign, operands, start, end, number };
}

/** Returns whether a node is the number 1. @param {Expression} node */
export function isOne({ sign, number }) {
  return !sign && number.units === 10n ** BigInt(number.places);
}

/** Returns all nodes of a tree, operands before the operation that uses them. @param {Expression} root */
export function postorder(root) {
  const nodes = [];
  const waiting = [root];
  for (let node; (node = waiting.pop()); waiting.push(...node.operands)) nodes.push(node);
  return nodes.reverse();
}

/** Returns what `combine` makes of a tree. It is called with each node, operands first, and with what it has made of
 * the operands.
 * @template T
 * @param {Expression} root
 * @param {(node: Expression, operands: T[]) => T} combine
 * @returns {T} */
export function fold(root, combine) {
  /** @type {T[]} */ const made = [];
  for (const node of postorder(root)) made.push(combine(node, made.splice(made.length - node.operands.length)));
  return made[0];
}

/** Returns the canonical texts of all nodes in the order of `postorder`, long ones shortened.
 * @param {Expression} root */
export function texts(root) {
  /** @type {string[]} */ const found = [];
  fold(root, (node, /** @type {string[]} */ operands) => {
    const whole = showNode(node, operands);
    found.push(shorten(whole));
    return whole;
  });
  return found;
}

/** Returns the canonical text of a tree, without spaces and superfluous parentheses. `parse` returns the same tree for
 * it, except for positions.
 * @type {(root: Expression) => string} */
export function show(root) {
  return fold(root, showNode);
}

/** Returns the canonical text of a node, given those of its operands.
 * @type {(node: Expression, operands: string[]) => string} */
function showNode(node, operands) {
  const { sign, number } = node;
  if (!sign) return numberText(number);
  const parts = operands.map((text, index) => (needsParentheses(node, index) ? `(${text})` : text));
  if (sign === "||") return `|${parts[0]}|`;
  if (sign === "!" || sign === "%") return `${parts[0]}${sign}`;
  return parts.join(sign === "mod" ? " mod " : sign.replace("%", ""));
}

/** Returns whether an operand of a node is written in parentheses.
 * @type {(node: Expression, index: number) => boolean} */
function needsParentheses({ sign, operands }, index) {
  const operand = operands[index];
  const [rank, operandRank] = [RANKS[sign], RANKS[operand.sign]];
  const isNegative = !operand.sign && operand.number.units < 0n;
  if (sign === "||") return false;
  if (sign === "^") return index ? Boolean(operand.sign) : operandRank <= rank || isNegative;
  if (sign === "!") return operandRank <= rank || isNegative;
  if ((sign === "+" || sign === "-") && index) {
    return operandRank <= rank || operand.sign === "%"; // 100-10% is 100-10% of 100
  }
  return operandRank < rank + index;
}
