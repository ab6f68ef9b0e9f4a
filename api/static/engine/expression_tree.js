// The tree of an expression: numbers and operations, each with the position of its text. A tree may be a
// thousand operations deep, so nothing here is recursive (calcgpt/inference/expression_tree.py).

import { numberText } from "./arithmetic.js";
import tables from "./tables.js";
import { shorten } from "./text.js";

/** @typedef {import("./arithmetic.js").Decimal} Decimal */

/** A number, or an operation on other expressions, with its position in code points. The parentheses around an operand
 * belong to the operation that uses it. sign: "" for a number, else one of RANKS; the name of a function or a constant.
 * @typedef {{sign: string, operands: Expression[], start: number, end: number, number: Decimal}} Expression */

/** @import { Fraction } from "./fractions.js" */
const { PROGRAMS } = tables;
const CONSTANTS = new Set(Object.values(tables.CONSTANTS));
const SIGNS = ["^", "°"]; // functions that are written as signs
/** @type {Decimal} */ const NO_NUMBER = { units: 0n, places: 0 }; // of an operation
/** Sign -> precedence. `+%` and `-%` add and subtract a percentage of their left operand, `%` is a
 * hundredth, and `||` a magnitude.
 * @type {Record<string, number>} */
export const RANKS = {
  ...Object.fromEntries([...Object.keys(PROGRAMS), ...CONSTANTS].map((name) => [name, 5])),
  ...tables.RANKS,
  ...{ "+%": 1, "-%": 1, "!": 4, "%": 4, "°": 4, "||": 5, "": 5 },
};

/** @type {(sign: string, operands: Expression[], start: number, end: number, number?: Decimal) => Expression} */
export function expression(sign, operands, start, end, number = NO_NUMBER) {
  return { sign, operands, start, end, number };
}

/** Returns whether a node is a number of this value. @type {(node: Expression, value: bigint) => boolean} */
export function isNumber({ sign, number }, value) {
  return !sign && number.units === value * 10n ** BigInt(number.places);
}

/** Returns whether a node is a constant such as pi. @param {Expression} node */
export function isConstant({ sign }) {
  return CONSTANTS.has(sign);
}

/** Returns whether a node is a function of some numbers. A power is one if its exponent is not whole.
 * @type {(node: Expression, numbers: Fraction[]) => boolean} */
export function isFunction({ sign }, numbers) {
  return sign === "^" ? numbers[1].d !== 1n : Object.hasOwn(PROGRAMS, sign);
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
  if (isConstant(node)) return sign;
  if (sign.length > 1 && sign.endsWith("°")) {
    const operand = RANKS[node.operands[0].sign] === 5 ? parts[0] : `(${parts[0]})`;
    return `${sign.slice(0, -1)}(${operand}°)`;
  }
  if (isNamed(sign)) return `${sign}(${parts.join(", ")})`;
  if (["!", "%", "°"].includes(sign)) return `${parts[0]}${sign}`;
  return parts.join(sign === "mod" ? " mod " : sign.replace("%", ""));
}

/** Returns whether a function is written with its name. @param {string} sign */
function isNamed(sign) {
  return Object.hasOwn(PROGRAMS, sign) && !SIGNS.includes(sign);
}

/** Returns whether an operand of a node is written in parentheses.
 * @type {(node: Expression, index: number) => boolean} */
function needsParentheses({ sign, operands }, index) {
  const operand = operands[index];
  const [rank, operandRank] = [RANKS[sign], RANKS[operand.sign]];
  const isNegative = !operand.sign && operand.number.units < 0n;
  if (sign === "||" || isNamed(sign)) return false;
  if (sign === "^") return index ? Boolean(operand.sign) : operandRank <= rank || isNegative;
  if (sign === "!") return operandRank <= rank || isNegative;
  if ((sign === "+" || sign === "-") && index) {
    return operandRank <= rank || operand.sign === "%"; // 100-10% is 100-10% of 100
  }
  return operandRank < rank + index;
}
