// Trees of operations on numbers: their parts, their text, and errors that say what is wrong, and where
// (calcgpt/inference/expression_tree.py).

import { numberText } from "./arithmetic.js";

const MAX_DEPTH = 40; // of nested operations
const MAX_EXPONENT = 40;
const MAX_SHOWN = 30; // characters of an expression that a message repeats

/** @typedef {import("./arithmetic.js").Decimal} Decimal */

/**
 * A number, an operation on two expressions, or a power. start, end: its code points in the text. The
 * parentheses around an operand belong to the operation that uses it. depth: of nested operations, 0 for
 * a number; count: of operations.
 * @typedef {{start: number, end: number, depth: number, count: number}} Extent
 * @typedef {Extent & {number: Decimal}} Literal
 * @typedef {Extent & {op: string, left: Expression, right: Expression}} Operation
 * @typedef {Extent & {base: Expression, exponent: number}} Power
 * @typedef {Literal | Operation | Power} Expression
 */

/**
 * An expression with its extent, including any parentheses around it.
 * isPercentage: whether it is a percentage without parentheses, or a sum of such percentages.
 * @template {Expression} [T=Expression]
 * @typedef {{node: T, start: number, end: number, isPercentage?: boolean}} Parsed
 */

/** An error in an expression: a message of one line, and the position in code points. */
export class ExpressionError extends Error {
  /**
   * @param {string} kind
   * @param {string} reason
   * @param {number} position
   * @param {number} [end]
   */
  constructor(kind, reason, position, end = position + 1) {
    super(reason);
    this.kind = kind;
    this.position = position;
    this.end = end;
  }
}

/**
 * Returns the text of a tree, without spaces and superfluous parentheses.
 * @param {Expression} expression
 * @returns {string}
 */
export function show(expression) {
  if ("number" in expression) return numberText(expression.number);
  if ("base" in expression) {
    const base = show(expression.base);
    const isPlain = "number" in expression.base && !base.startsWith("-");
    return `${isPlain ? base : `(${base})`}^${expression.exponent}`;
  }
  const rank = rankOf(expression);
  let [left, right] = [show(expression.left), show(expression.right)];
  if (rankOf(expression.left) < rank) left = `(${left})`;
  if (rankOf(expression.right) <= rank) right = `(${right})`;
  return `${left}${expression.op}${right}`;
}

/** Returns the precedence of an expression's operation.
 * @param {Expression} expression */
function rankOf(expression) {
  if (!("op" in expression)) return 2;
  return "*/".includes(expression.op) ? 1 : 0;
}

/** Returns the number of a literal, or null for any other expression.
 * @param {Expression} expression */
export function numberOf(expression) {
  return "number" in expression ? expression.number : null;
}

/**
 * @param {Decimal} number
 * @param {number} start
 * @param {number} end
 * @returns {Parsed<Literal>}
 */
export function literal(number, start, end) {
  return { node: { number, start, end, depth: 0, count: 0 }, start, end };
}

/**
 * Returns the negative of an operand: a negative literal, or a difference from 0.
 * @param {number} start
 * @param {Parsed} operand
 */
export function negative(start, operand) {
  const number = numberOf(operand.node);
  if (number) return literal({ ...number, units: -number.units }, start, operand.end);
  const zero = literal({ units: 0n, places: 0 }, start, start + 1);
  return { ...operation(zero, "-", operand), isPercentage: operand.isPercentage };
}

/**
 * @param {Expression} node
 * @returns {string}
 */
function showPercentage(node) {
  if (!("op" in node)) return show(node);
  if (node.op === "-") return `-${showPercentage(node.right)}`; // -15% is 0-15/100
  return numberOf(node.left) ? `${show(node.left)}%` : `(${show(node.left)})%`;
}

/**
 * Throws the error of a percentage that is added or subtracted. To some, 80+15% is 80.15, to others 92.
 * After 1 both readings agree, and a sum of percentages is a percentage.
 * @param {Parsed} left
 * @param {string} sign
 * @param {number} start of the sign
 * @param {Parsed} right
 * @throws {ExpressionError}
 */
export function checkPercentage(left, sign, start, right) {
  const { units, places } = numberOf(left.node) ?? { units: 0n, places: 0 };
  if (left.isPercentage || units === 10n ** BigInt(places)) return;
  const typed = showPercentage(right.node);
  const more = sign === "+" ? "more" : "less";
  const ways = `for ${typed} ${more}, write ${factorOf(left)}*(1${sign}${typed}), else ${sign}(${typed})`;
  throw new ExpressionError("syntax", `${sign}${typed} has two meanings: ${ways}`, start, right.end);
}

/**
 * Returns a sum without parentheses as a factor, with parentheses; "" for any other part.
 * @param {Parsed} part
 */
function factorOf({ node, start }) {
  if (!("op" in node) || !"+-".includes(node.op) || start < node.start) return "";
  const text = show(node);
  return text.length <= MAX_SHOWN ? `(${text})` : "(...)";
}

/**
 * Returns a base to the power of a whole number.
 * @param {Parsed} base
 * @param {Parsed} exponent
 * @throws {ExpressionError} if the exponent is another number, or not a number
 */
export function power(base, exponent) {
  const { units, places } = numberOf(exponent.node) ?? { units: -1n, places: 0 };
  if (places || units < 0n || units > MAX_EXPONENT) {
    const reason = `an exponent must be written as a whole number from 0 to ${MAX_EXPONENT}`;
    throw new ExpressionError("out-of-range", reason, exponent.start, exponent.end);
  }
  const n = Math.max(0, Number(units) - 1); // the number of products, which are nested
  const { depth, count } = base.node;
  const size = { depth: depth + n, count: count + n };
  return withExtent({ base: base.node, exponent: Number(units), ...size }, base.start, exponent.end);
}

/**
 * @param {Parsed} a
 * @param {string} op
 * @param {Parsed} b
 */
export function operation({ node: left, start }, op, { node: right, end }) {
  const depth = 1 + Math.max(left.depth, right.depth);
  return withExtent({ op, left, right, depth, count: left.count + 1 + right.count }, start, end);
}

/**
 * Returns a node with its extent.
 * @param {Omit<Operation, "start" | "end"> | Omit<Power, "start" | "end">} node
 * @param {number} start
 * @param {number} end
 * @returns {Parsed}
 * @throws {ExpressionError} if the operations are nested too deeply
 */
function withExtent(node, start, end) {
  if (node.depth > MAX_DEPTH) {
    const reason = `more than ${MAX_DEPTH} operations, each on the result of another`;
    throw new ExpressionError("too-deep", reason, start, end);
  }
  return { node: { ...node, start, end }, start, end };
}
