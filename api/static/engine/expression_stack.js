// The stacks of a reader of expressions: they join parts of the text to operations
// (calcgpt/inference/expression_stack.py).

import { RANKS, expression, isOne, show } from "./expression_tree.js";
import tables from "./tables.js";
import { Text, format, shorten, strip } from "./text.js";

/** @import { Decimal } from "./arithmetic.js" */
/** @import { Expression } from "./expression_tree.js" */

/** How a text is read where people write in two ways. percent: whether `100-10%` takes a percentage of 100 (`relative`)
 * or 0.1 (`plain`); decimalComma: whether `12,500` is 12.5.
 * @typedef {{percent: "relative" | "plain", decimalComma: boolean}} Style */

/** How a part of the text was read. alternative: the whole text, written for another reading.
 * @typedef {{text: string, alternative: string | null}} Reading */

/** A node, and the position of its text including parentheses around it. isPercentage: without parentheses, or a sum of
 * such percentages.
 * @typedef {{node: Expression, start: number, end: number, isPercentage?: boolean}} Part */

/** An operation, a sign before an operand, or a parenthesis. character: the operation, a parenthesis, a bar, or the
 * first words of a pair; isSaid: whether the reading repeats the operation; isReversed: subtract 3 from 10.
 * @typedef {{character: string, rank: number, start: number, isSaid?: boolean, isReversed?: boolean}} Sign */

const { MAX_READINGS, PAIRS, READINGS, SAID } = tables;
/** The precedence of a sign that waits for its right side, the weakest first. -2^2 is -(2^2). */
export const RANK = { OPENING: 0, SUM: 1, PRODUCT: 2, PREFIX: 3, POWER: 4 };
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

  /** @param {number} end */
  close(end) {
    this.complete(RANK.OPENING);
    const { character, start } = /** @type {Sign} */ (this.signs.pop());
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
    for (let sign; (sign = this.signs.at(-1)) && sign.rank >= rank && APPLIED.includes(sign.character); ) {
      this.signs.pop();
      this.#apply(sign);
    }
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
    const isPlain = left.isPercentage || isOne(left.node) || this.#style.percent === "plain";
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

/** Returns a part with a minus before it. It is the sign of a number, also of a percentage. start: of the minus.
 * @type {(start: number, operand: Part) => Part} */
function negative(start, operand) {
  let { node } = operand;
  const ends = []; // of percentages
  for (; node.sign === "%"; [node] = node.operands) ends.unshift(node.end);
  if (node.sign) {
    const zero = literal({ units: 0n, places: 0 }, start, start + 1);
    return { ...operand, node: expression("-", [zero, operand.node], start, operand.end), start };
  }
  const { units, places } = node.number;
  let negated = literal({ units: -units, places }, start, ends.length ? node.end : operand.end);
  for (const end of ends) negated = expression("%", [negated], start, end);
  return { ...operand, node: negated, start };
}
