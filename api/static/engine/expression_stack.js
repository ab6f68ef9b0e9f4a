// The stacks of a reader of expressions: they join parts of the text to operations
// (calcgpt/inference/expression_stack.py).

import { ExpressionError } from "./expression_errors.js";
import { RANKS, expression, isNumber, show } from "./expression_tree.js";
import tables from "./tables.js";
import { Text, format, search, shorten, strip } from "./text.js";

/** @import { Decimal } from "./arithmetic.js" */
/** @import { Expression } from "./expression_tree.js" */

/** How a text is read where people write in two ways. percent: whether `100-10%` takes a percentage of 100 (`relative`)
 * or 0.1 (`plain`); decimalComma: whether `12,500` is 12.5; angle: whether sin(30) is of 30 radians or degrees.
 * @typedef {{percent: "relative" | "plain", decimalComma: boolean, angle: "radians" | "degrees"}} Style */

/** How a part of the text was read. alternative: the whole text, written for another reading.
 * @typedef {{text: string, alternative: string | null}} Reading */

/** A node, and the position of its text including parentheses around it. isPercentage: without parentheses, or a sum of
 * such percentages.
 * @typedef {{node: Expression, start: number, end: number, isPercentage?: boolean}} Part */

/** An operation, a sign before an operand, or a parenthesis. character: the operation, a function, a parenthesis, a
 * bar, or the first words of a pair; isSaid: whether the reading repeats the operation; isReversed: subtract 3 from 10;
 * called: the function before a parenthesis.
 * @typedef {{character: string, rank: number, start: number, isSaid?: boolean, isReversed?: boolean,
 * called?: Called}} Sign */

/** A function before a parenthesis. base: of a logarithm, log 2(8); nBefore: arguments that are complete.
 * @typedef {{name: string, base: Expression | null, nBefore: number}} Called */

const { ANGLED, ARCS, MAX_READINGS, MESSAGES, PAIRS, PROGRAMS, READINGS, SAID } = tables;
const DEGREES = 10n; // from here on, an angle may be meant in degrees
/** The precedence of a sign that waits for its right side, the weakest first. -2^2 is -(2^2). */
export const RANK = { OPENING: 0, SUM: 1, PRODUCT: 2, PREFIX: 3, POWER: 4, FUNCTION: 5 };
const APPLIED = [...Object.keys(tables.RANKS), "off"]; // signs that have operands

/** The parts of an expression that were read, and the signs that wait for their right side (operator
 * precedence; Dijkstra 1961). So nesting needs no recursion. */
export class Stack {
  #text;
  #style;
  /** @type {Part[]} */ parts = [];
  /** @type {Sign[]} */ signs = [];
  /** @type {Reading[]} */ readings = [];

  /** @param {Text} text @param {Style} style */
  constructor(text, style) {
    this.#text = text;
    this.#style = style;
  }

  pop() {
    return /** @type {Part} */ (this.parts.pop());
  }

  /** Returns the last parenthesis, bar or pair of words that is open. */
  lastOpening() {
    return this.signs.findLast(({ rank, character }) => rank === RANK.OPENING && !APPLIED.includes(character));
  }

  /** Returns whether the numbers here are separated by commas. */
  inList() {
    const called = this.lastOpening()?.called;
    return called !== undefined && arity(called.name).most !== 1;
  }

  /** Ends an argument of a function. Returns whether there can be another. */
  separate() {
    if (!this.inList()) return false;
    this.complete(RANK.OPENING);
    const opening = /** @type {Sign} */ (this.lastOpening());
    /** @type {Called} */ (opening.called).nBefore += 1;
    return true;
  }

  /** @param {number} end */
  close(end) {
    this.complete(RANK.OPENING);
    const { character, start, called } = /** @type {Sign} */ (this.signs.pop());
    if (called) {
      const nodes = this.parts.splice(-called.nBefore - 1).map(({ node }) => node);
      this.#call(called, nodes, start, end);
      return;
    }
    const { node } = this.pop();
    this.parts.push({ node: character === "|" ? expression("||", [node], start, end) : node, start, end });
  }

  /** Returns whether a ) or | has its opening. @param {string} character */
  closes(character) {
    return this.lastOpening()?.character === (character === ")" ? "(" : character);
  }

  /** Adds the operation between two operands to the signs that wait. Returns `end`.
   * @type {(words: string, start: number, end: number) => number} */
  waitForSecond(words, start, end) {
    this.complete(RANK.OPENING);
    const opening = /** @type {Sign} */ (this.signs.pop());
    const [sign, , isReversed] = PAIRS[words];
    this.parts.push({ ...this.pop(), start: opening.start });
    const pair = { character: String(sign), isSaid: true, isReversed: Boolean(isReversed) };
    this.signs.push({ ...pair, rank: RANK.OPENING, start });
    return end;
  }

  /** Adds an operation to the signs that wait. Returns `end`.
   * @type {(operation: string, start: number, end: number) => number} */
  wait(operation, start, end) {
    const rank = [RANK.SUM, RANK.PRODUCT, RANK.POWER][(tables.RANKS[operation] ?? 2) - 1];
    this.complete(rank === RANK.POWER ? rank + 1 : rank); // 2^3^2 is 2^(3^2), 2-3-2 is (2-3)-2
    const typed = new Text(this.#text.slice(start, end)).normalize();
    const isSaid = SAID.includes(typed) || (operation === "mod" && typed === "%");
    this.signs.push({ character: operation, rank, start, isSaid });
    return end;
  }

  /** Returns the sign before the last operand, other than its own: "" if there is none. */
  lastSign() {
    return this.signs.findLast(({ rank }) => rank !== RANK.PREFIX)?.character ?? "";
  }

  /** Applies the waiting signs, back to the first that binds less tightly than `rank`. @param {number} rank */
  complete(rank) {
    for (let sign; (sign = this.signs.at(-1)) && sign.rank >= rank; ) {
      const isFunction = sign.rank === RANK.FUNCTION;
      if (!isFunction && !APPLIED.includes(sign.character)) break;
      this.signs.pop();
      if (isFunction) {
        const { node, end } = this.pop();
        this.#call({ name: sign.character, base: null, nBefore: 0 }, [node], sign.start, end);
      } else this.#apply(sign);
    }
  }

  /** Adds a function of some arguments. The sine of 30° has a name of its own, so that it is not calculated by way of
   * radians.
   * @throws {ExpressionError} for the wrong number of arguments
   * @type {(called: Called, nodes: Expression[], start: number, end: number) => void} */
  #call({ name, base }, nodes, start, end) {
    if (base && isNumber(base, 2n)) name = "log2";
    else if (base && !isNumber(base, 10n)) nodes.push(base);
    checkArity(name, nodes.length, start, end);
    const [first] = nodes;
    const isDegrees = this.#style.angle === "degrees";
    let node = expression(name, nodes, start, end);
    if (ANGLED.includes(name) && (isDegrees || first.sign === "°")) {
      node = expression(`${name}°`, first.sign === "°" ? first.operands : nodes, start, end);
    } else if (ARCS.includes(name) && isDegrees) node = expression("degrees", [node], start, end);
    this.parts.push({ node, start, end });
    const typed = this.#text.slice(start, end);
    if (nodes.length > 1 && search("in_thousands", typed)) this.say(typed, show(node));
    if (!ANGLED.includes(node.sign) || first.sign) return;
    const { units, places } = first.number;
    if ((units < 0n ? -units : units) < DEGREES * 10n ** BigInt(places)) return;
    const read = format(READINGS.radians, { x: show(first) });
    this.say(typed, read, start, end, `${name}(${show(first)}°)`);
  }

  /** @param {Sign} sign */
  #apply(sign) {
    let right = this.pop();
    if (sign.rank === RANK.PREFIX) {
      const part = sign.character === "-" ? negative(sign.start, right) : right;
      this.parts.push({ ...part, start: sign.start });
      return;
    }
    let left = this.pop();
    if (sign.isReversed) [left, right] = [{ ...right, start: left.start }, { ...left, end: right.end }];
    if (sign.character === "off" || (sign.rank === RANK.SUM && right.isPercentage)) {
      this.parts.push(this.#percentage(left, sign.character, right));
      return;
    }
    const part = operation(sign.character, left, right);
    this.parts.push(part);
    if (this.readings.length >= MAX_READINGS) return;
    const { node } = right;
    if (sign.isSaid) this.say(this.#text.slice(part.start, part.end), shorten(show(part.node)));
    else if (sign.character === "^" && node.sign === "^" && right.start === node.start) {
      const [inner, last] = node.operands;
      const first = operation("^", left, { node: inner, start: right.start, end: inner.end });
      const other = operation("^", first, { node: last, start: last.start, end: right.end });
      const typed = this.#text.slice(left.start, right.end);
      this.say(typed, show(part.node), left.start, right.end, show(other.node));
    }
  }

  /** Returns a part to which a percentage is added or subtracted: 100-10%, 10% off 100. After 1 or a percentage, that
   * is the same as without the percentage's base.
   * @type {(left: Part, sign: string, right: Part) => Part} */
  #percentage(left, sign, right) {
    const isOff = sign === "off";
    const character = isOff ? "-" : sign;
    if (isOff) [left, right] = [right, left];
    const [start, end] = [Math.min(left.start, right.start), Math.max(left.end, right.end)];
    const operands = [left.node, right.node];
    const isPlain = left.isPercentage || isNumber(left.node, 1n) || this.#style.percent === "plain";
    if (isPlain && !isOff) {
      return { node: expression(character, operands, start, end), start, end, isPercentage: left.isPercentage };
    }
    const part = { node: expression(`${character}%`, operands, start, end), start, end };
    if (this.readings.length >= MAX_READINGS) return part;
    const [base, percent] = operands.map((node) => shorten(show(node)));
    const of = RANKS[left.node.sign] === 1 ? `(${base})` : base;
    const read = format(READINGS.of, { left: base, sign: character, percent, of });
    const typed = this.#text.slice(right.start, right.end);
    const other = isOff ? null : `${this.#text.slice(left.start, right.start)}(${typed})`;
    this.say(this.#text.slice(start, end), read, start, end, other);
    return part;
  }

  /** Adds that a part was read in this way; `other` is the part in another reading.
   * @type {(typed: string, read: string, start?: number, end?: number, other?: string | null) => void} */
  say(typed, read, start = 0, end = 0, other = null) {
    if (this.readings.length >= MAX_READINGS) return;
    const text = format(READINGS.all, { typed: shorten(strip(typed)), read });
    const alternative = other ? `${this.#text.slice(0, start)}${other}${this.#text.slice(end)}` : null;
    if (!this.readings.some((reading) => reading.text === text)) this.readings.push({ text, alternative });
  }
}

/** @type {(number: Decimal, start: number, end: number) => Expression} */
export function literal(number, start, end) {
  return expression("", [], start, end, number);
}

/** @type {(sign: string, left: Part, right: Part) => Part} */
export function operation(sign, left, right) {
  const [start, end] = [Math.min(left.start, right.start), Math.max(left.end, right.end)];
  return { node: expression(sign, [left.node, right.node], start, end), start, end };
}

/** Returns the least and the largest number of arguments of a function; 0 for no limit. @param {string} name */
function arity(name) {
  const n = name === "mod" ? 2 : 1; // of those that are written as signs, too
  return PROGRAMS[name] ?? { least: n, most: n };
}

/** @type {(name: string, n: number, start: number, end: number) => void} */
function checkArity(name, n, start, end) {
  const { least, most } = arity(name);
  if (least <= n && n <= (most || n)) return;
  let expected = most ? `${least} to ${most} numbers` : `at least ${least} numbers`;
  if (least === most) expected = least > 1 ? `${least} numbers` : "1 number";
  throw new ExpressionError("syntax", format(MESSAGES.arguments, { name, n: expected, m: n }), start, end);
}

/** Returns a part with a minus before it. It is the sign of a number, also with signs such as % after it. start: of the
 * minus.
 * @type {(start: number, operand: Part) => Part} */
function negative(start, operand) {
  let { node } = operand;
  const after = []; // percentages and degrees
  for (; node.sign === "%" || node.sign === "°"; [node] = node.operands) after.unshift(node);
  if (node.sign) {
    const zero = literal({ units: 0n, places: 0 }, start, start + 1);
    return { ...operand, node: expression("-", [zero, operand.node], start, operand.end), start };
  }
  const { units, places } = node.number;
  let negated = literal({ units: -units, places }, start, after.length ? node.end : operand.end);
  for (const { sign, end } of after) negated = expression(sign, [negated], start, end);
  return { ...operand, node: negated, start };
}
