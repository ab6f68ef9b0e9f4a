// The tree of an expression: numbers and operations, each with the position of its text. A tree may be a
// thousand operations deep, so nothing here is recursive (calcgpt/inference/expression_tree.py).

import { numberText } from "./arithmetic.js";
import { ExpressionError } from "./expression_errors.js";
import { bitLength, magnitude } from "./fractions.js";
import tables from "./tables.js";
import { shorten } from "./text.js";

/** @typedef {import("./arithmetic.js").Decimal} Decimal */

/** A number, or an operation on other expressions, with its position in code points. The parentheses around an operand
 * belong to the operation that uses it. sign: "" for a number, else one of RANKS; the name of a function or a constant;
 * text: as `show` returns it, but without its middle if it is long.
 * @typedef {{sign: string, operands: Expression[], start: number, end: number, number: Decimal, text: string,
 * nOperations: number}} Expression */

const { MAX_OPERATIONS, MAX_SHOWN, MESSAGES, PROGRAMS } = tables;
const CONSTANTS = new Set(Object.values(tables.CONSTANTS));
const NAMED = new Set(Object.keys(PROGRAMS).filter((name) => name !== "^" && name !== "°")); // others are signs
/** @type {Decimal} */ const NO_NUMBER = { units: 0n, places: 0 }; // of an operation
/** Sign -> precedence. `+%` and `-%` add and subtract a percentage of their left operand, `%` is a
 * hundredth, and `||` a magnitude.
 * @type {Record<string, number>} */
export const RANKS = {
  ...tables.RANKS,
  ...Object.fromEntries([...NAMED, ...CONSTANTS].map((name) => [name, 5])),
  ...{ "+%": 1, "-%": 1, "!": 4, "%": 4, "°": 4, "||": 5, "": 5 },
};

/** Returns a node.
 * @throws {ExpressionError} for more than MAX_OPERATIONS
 * @type {(sign: string, operands: Expression[], start: number, end: number, number?: Decimal) => Expression} */
export function expression(sign, operands, start, end, number = NO_NUMBER) {
  const nOperations = operands.reduce((sum, operand) => sum + operand.nOperations, sign ? 1 : 0);
  if (nOperations > MAX_OPERATIONS) throw new ExpressionError("too-long", MESSAGES.operations, start, end);
  const node = { sign, operands, start, end, number, text: "", nOperations };
  if (sign) node.text = shorten(piecesOf(node).map((piece) => (typeof piece === "string" ? piece : piece.text)).join(""));
  else node.text = short(number);
  return node;
}

/** @type {Map<bigint, {places: number, text: string}>} */ const known = new Map(); // -(-(-(9...9))) has two numbers

/** Returns the text of a number as `shorten` does. @param {Decimal} number */
function short(number) {
  const found = known.get(number.units);
  if (found?.places === number.places) return found.text;
  if (known.size > 64) known.clear();
  const text = shortened(number);
  known.set(number.units, { places: number.places, text });
  return text;
}

/** One of the many digits of 1e9990 is not written out, which takes long. @param {Decimal} number */
function shortened(number) {
  const { units, places } = number;
  const nDropped = Math.floor(bitLength(units) * Math.log10(2)) - 2 * MAX_SHOWN;
  if (places || nDropped <= 0) return shorten(numberText(number));
  const half = MAX_SHOWN / 2;
  const first = `${units < 0n ? "-" : ""}${magnitude(units) / 10n ** BigInt(nDropped)}`;
  return `${first.slice(0, half)}...${String(magnitude(units) % 10n ** BigInt(half)).padStart(half, "0")}`;
}

/** Returns whether a node is a number of this value. @type {(node: Expression, value: bigint) => boolean} */
export function isNumber({ sign, number }, value) {
  return !sign && number.units === value * 10n ** BigInt(number.places);
}

/** Returns whether a node is a constant such as pi. @param {Expression} node */
export function isConstant({ sign }) {
  return CONSTANTS.has(sign);
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

/** Returns the canonical text of a tree, without spaces and superfluous parentheses. `parse` returns the same tree for
 * it, except for positions.
 * @type {(root: Expression) => string} */
export function show(root) {
  let text = "";
  /** @type {(string | Expression)[]} */ const waiting = [root];
  for (let piece; (piece = waiting.pop()) !== undefined; ) {
    if (typeof piece === "string") text += piece;
    else waiting.push(...piecesOf(piece).reverse());
  }
  return text;
}

/** Returns the canonical text of a node, in which operands stand for their texts.
 * @type {(node: Expression) => (string | Expression)[]} */
function piecesOf(node) {
  const { sign, operands, number } = node;
  if (!sign) return [numberText(number)];
  if (!operands.length) return [sign];
  if (sign === "||") return ["|", operands[0], "|"];
  if (NAMED.has(sign) && !sign.endsWith("°")) {
    return [`${sign}(`, operands[0], ...operands.slice(1).flatMap((operand) => [", ", operand]), ")"];
  }
  const parts = operands.map((operand, index) => (needsParentheses(node, index) ? ["(", operand, ")"] : [operand]));
  if (NAMED.has(sign)) return [`${sign.slice(0, -1)}(`, ...parts[0], "°)"];
  if (parts.length === 1) return [...parts[0], sign];
  return [...parts[0], sign === "mod" ? " mod " : sign.replace("%", ""), ...parts[1]];
}

/** Returns whether an operand of a node is written in parentheses.
 * @type {(node: Expression, index: number) => boolean} */
function needsParentheses({ sign, operands }, index) {
  const operand = operands[index];
  const [rank, operandRank] = [RANKS[sign], RANKS[operand.sign] ?? 5]; // a program has names, too
  const isNegative = !operand.sign && operand.number.units < 0n;
  if (sign === "^") return index ? Boolean(operand.sign) : operandRank <= rank || isNegative;
  if (sign === "!") return operandRank <= rank || isNegative;
  if ((sign === "+" || sign === "-") && index) {
    return operandRank <= rank || operand.sign === "%"; // 100-10% is 100-10% of 100
  }
  return operandRank < rank + index;
}
