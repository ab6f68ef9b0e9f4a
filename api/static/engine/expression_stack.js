// The stacks of a reader of expressions: they join parts of the text to operations
// (calcgpt/inference/expression_stack.py).

import { ExpressionError } from "./expression_errors.js";
import { RANKS, expression, isNumber, show } from "./expression_tree.js";
import tables from "./tables.js";
import { Text, format, match, shorten, strip } from "./text.js";

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
 * called: the function before a parenthesis. Of the signs up to this one: the index of the last opening, the last that
 * is no prefix, and whether a function of several numbers is open.
 * @typedef {{character: string, rank: number, start: number, isSaid?: boolean, isReversed?: boolean,
 * called?: Called, opening: number, last: string, inList: boolean}} Sign */

/** A function before a parenthesis. base: of a logarithm, log 2(8); nBefore: arguments that are complete.
 * @typedef {{name: string, base: Expression | null, nBefore: number}} Called */

const { ANGLED, ARCS, DEFINITIONS, MAX_READINGS, MESSAGES, PAIRS, PROGRAMS, READINGS, SAID } = tables;
const DEGREES = 10n; // from here on, an angle may be meant in degrees
/** The precedence of a sign that waits for its right side, the weakest first. -2^2 is -(2^2). */
export const RANK = { OPENING: 0, SUM: 1, PRODUCT: 2, PREFIX: 3, POWER: 4, FUNCTION: 5 };
const APPLIED = [...Object.keys(tables.RANKS), "off"]; // signs that have operands

/** @type {Sign} */ const NO_SIGN = { character: "", rank: RANK.OPENING, start: 0, opening: -1, last: "", inList: false };

/** The parts of an expression that were read, and the signs that wait for their right side (operator
 * precedence; Dijkstra 1961). So nesting needs no recursion. */
export class Stack {
  #text;
  #normal;
  #style;
  /** @type {Part[]} */ parts = [];
  /** @type {Sign[]} */ signs = [];
  /** @type {Reading[]} */ readings = [];

  /** @param {Text} text @param {string} normal @param {Style} style */
  constructor(text, normal, style) {
    this.#text = text;
    this.#normal = normal;
    this.#style = style;
  }

  /** The last sign that waits. @returns {Sign} */
  get last() {
    return this.signs[this.signs.length - 1] ?? NO_SIGN;
  }

  /** Adds a sign to those that wait. @param {Omit<Sign, "opening" | "last" | "inList">} sign */
  push(sign) {
    const { last } = this;
    const isOpening = sign.rank === RANK.OPENING && !APPLIED.includes(sign.character);
    this.signs.push({
      ...sign,
      opening: isOpening ? this.signs.length : last.opening,
      last: sign.rank === RANK.PREFIX ? last.last : sign.character,
      inList: last.inList || takesSeveral(sign.called),
    });
  }

  pop() {
    return /** @type {Part} */ (this.parts.pop());
  }

  /** Returns the last parenthesis, bar or pair of words that is open. */
  lastOpening() {
    return /** @type {Sign | undefined} */ (this.signs[this.last.opening]);
  }

  /** Makes a reading repeat the function that waits for the last operand, if there is one. */
  sayLast() {
    if (this.last.rank === RANK.FUNCTION) this.last.isSaid = true;
  }

  /** Ends an argument of a function at a comma, or at the word `and` of a list in words. Returns whether there can be
   * another.
   * @param {number} position */
  separate(position) {
    const opening = this.lastOpening();
    if (!opening?.called || !takesSeveral(opening.called)) return false;
    if (this.#normal[position] === "a" && opening.character !== "of") return false;
    this.complete(RANK.OPENING);
    opening.called.nBefore += 1;
    opening.isSaid ||= match("thousands", this.#normal, position) !== null;
    return true;
  }

  /** @param {number} end */
  close(end) {
    this.complete(RANK.OPENING);
    const sign = /** @type {Sign} */ (this.signs.pop());
    const { character, start, called } = sign;
    if (called) {
      const parts = this.parts.splice(-called.nBefore - 1);
      const last = character === "of" ? parts[parts.length - 1].end : end;
      this.#call(sign, parts.map(({ node }) => node), last);
      return;
    }
    const { node } = this.pop();
    this.parts.push({ node: character === "|" ? expression("||", [node], start, end) : node, start, end });
  }

  /** Returns whether a ) or | has its opening. A list in words ends before a ). @param {string} character */
  closes(character) {
    while (character === ")" && this.lastOpening()?.character === "of") this.close(0);
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
    this.push({ ...pair, rank: RANK.OPENING, start });
    return end;
  }

  /** Adds an operation to the signs that wait. Returns `end`.
   * @type {(operation: string, start: number, end: number) => number} */
  wait(operation, start, end) {
    const rank = [RANK.SUM, RANK.PRODUCT, RANK.POWER][(tables.RANKS[operation] ?? 2) - 1];
    const isAfterFunction = operation === "^" && this.last.rank === RANK.FUNCTION; // sin 2^2 is sin(2)^2
    this.complete(rank === RANK.POWER ? rank + 1 : rank); // 2^3^2 is 2^(3^2), 2-3-2 is (2-3)-2
    const typed = this.#normal.slice(start, end);
    const isSaid = isAfterFunction || SAID.includes(typed) || (operation === "mod" && typed === "%");
    this.push({ character: operation, rank, start, isSaid });
    return end;
  }

  /** Applies the waiting signs, back to the first that binds less tightly than `rank`. @param {number} rank */
  complete(rank) {
    for (let sign; (sign = this.signs.at(-1)) && sign.rank >= rank; ) {
      const isFunction = sign.rank === RANK.FUNCTION;
      if (!isFunction && !APPLIED.includes(sign.character)) break;
      this.signs.pop();
      if (isFunction) {
        const { node, end } = this.pop();
        this.#call(sign, [node], end);
      } else this.#apply(sign);
    }
  }

  /** Adds a function of some arguments. The sine of 30° has a name of its own, so that it is not calculated by way of
   * radians.
   * @throws {ExpressionError} for the wrong number of arguments
   * @type {(sign: Sign, nodes: Expression[], end: number) => void} */
  #call({ character, start, called, isSaid }, nodes, end) {
    let { name, base } = called ?? { name: character, base: null };
    if (base && isNumber(base, 2n)) name = "log2";
    else if (base && !isNumber(base, 10n)) nodes.push(base);
    checkArity(name, nodes.length, start, end);
    const [first] = nodes;
    const isDegrees = this.#style.angle === "degrees";
    const isAngled = ANGLED.includes(name) && (isDegrees || first.sign === "°");
    let node;
    if (Object.hasOwn(DEFINITIONS, name)) node = defined(DEFINITIONS[name], first, start, end);
    else if (isAngled) node = expression(`${name}°`, first.sign === "°" ? first.operands : nodes, start, end);
    else node = expression(name, nodes, start, end);
    if (ARCS.includes(name) && isDegrees) node = expression("degrees", [node], start, end);
    this.parts.push({ node, start, end });
    const typed = this.#text.slice(start, end);
    if (isSaid) this.say(typed, node.text);
    if (!ANGLED.includes(node.sign) || first.sign) return;
    const { units, places } = first.number;
    if ((units < 0n ? -units : units) < DEGREES * 10n ** BigInt(places)) return;
    const read = format(READINGS.radians, { x: first.text });
    this.say(typed, read, start, end, `${name}(${show(first)}°)`);
  }

  /** @param {Sign} sign */
  #apply(sign) {
    let right = this.pop();
    if (sign.rank === RANK.PREFIX) {
      this.parts.push(this.#signed(sign, right));
      return;
    }
    let left = this.pop();
    if (sign.isReversed) [left, right] = [{ ...right, start: left.start }, { ...left, end: right.end }];
    if (sign.character === "off" || (sign.rank === RANK.SUM && right.isPercentage)) {
      this.parts.push(this.#percentage(left, sign.character, right));
      return;
    }
    const root = sign.character === "^" ? oddRoot(left, right) : null;
    const part = root ?? operation(sign.character, left, right);
    this.parts.push(part);
    let other = null;
    const { node } = right;
    const isChain = sign.character === "^" && node.sign === "^" && right.start === node.start;
    if (!root && isChain && this.readings.length < MAX_READINGS) {
      const [inner, last] = node.operands;
      const first = operation("^", left, { node: inner, start: right.start, end: inner.end });
      other = operation("^", first, { node: last, start: last.start, end: right.end }).node;
    }
    if (!root && !other && !sign.isSaid) return;
    const { text } = part.node;
    const read = root ? format(READINGS.root, { root: text }) : text;
    this.say(this.#text.slice(part.start, part.end), read, part.start, part.end, other);
  }

  /** Returns a part with a sign before it, and with those directly before that sign. A minus is the sign of a number,
   * also of one with signs such as % after it.
   * @type {(sign: Sign, operand: Part) => Part} */
  #signed({ character, start }, operand) {
    const minuses = character === "-" ? [start] : [];
    while (this.last.rank === RANK.PREFIX) {
      ({ character, start } = /** @type {Sign} */ (this.signs.pop()));
      if (character === "-") minuses.push(start);
    }
    let { node } = operand;
    const after = []; // percentages and degrees
    for (; (node.sign === "%" || node.sign === "°") && node.start === operand.start; [node] = node.operands) {
      after.push(node);
    }
    if (minuses.length && !node.sign) {
      const { units, places } = node.number;
      const first = minuses[minuses.length - 1];
      const number = { units: minuses.length % 2 ? -units : units, places };
      node = literal(number, first, after.length ? node.end : operand.end);
      for (const { sign, end } of after.reverse()) node = expression(sign, [node], first, end);
    } else {
      node = operand.node;
      for (const minus of minuses) {
        const zero = literal({ units: 0n, places: 0 }, minus, minus + 1);
        node = expression("-", [zero, node], minus, operand.end);
      }
    }
    return { ...operand, node, start };
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
    const [base, percent] = operands.map(({ text }) => text);
    const of = RANKS[left.node.sign] === 1 ? `(${base})` : base;
    const read = format(READINGS.of, { left: base, sign: character, percent, of });
    const typed = this.#text.slice(right.start, right.end);
    const other = isOff ? null : `${this.#text.slice(left.start, right.start)}(${typed})`;
    this.say(this.#text.slice(start, end), read, start, end, other);
    return part;
  }

  /** Adds that a part was read in this way; `other` is the part in another reading.
   * @type {(typed: string, read: string, start?: number, end?: number, other?: string | Expression | null) => void} */
  say(typed, read, start = 0, end = 0, other = null) {
    const text = format(READINGS.all, { typed: shorten(strip(typed)), read });
    if (this.readings.length >= MAX_READINGS || this.readings.some((reading) => reading.text === text)) return;
    const part = other && typeof other === "object" ? show(other) : other;
    const alternative = part ? `${this.#text.slice(0, start)}${part}${this.#text.slice(end)}` : null;
    this.readings.push({ text, alternative });
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
export function arity(name) {
  const n = name === "mod" ? 2 : 1; // of those that are written as signs, too
  return PROGRAMS[name] ?? { least: n, most: n };
}

/** Returns whether a function takes several numbers. @param {Called | undefined} called */
function takesSeveral(called) {
  return called !== undefined && arity(called.name).most !== 1;
}

/** @type {(name: string, n: number, start: number, end: number) => void} */
function checkArity(name, n, start, end) {
  const { least, most } = arity(name);
  if (least <= n && n <= (most || n)) return;
  let expected = most ? `${least} to ${most} numbers` : `at least ${least} numbers`;
  if (least === most) expected = least > 1 ? `${least} numbers` : "1 number";
  throw new ExpressionError("syntax", format(MESSAGES.arguments, { name, n: expected, m: n }), start, end);
}

/** Returns the real root that is meant by (-8)^(1/3), or null for another power.
 * @type {(left: Part, right: Part) => Part | null} */
function oddRoot(left, right) {
  const { sign, operands } = right.node;
  const isNegative = !left.node.sign && left.node.number.units < 0n;
  if (!isNegative || sign !== "/" || operands.some((part) => part.sign || part.number.places)) return null;
  const [p, q] = operands.map(({ number }) => number.units);
  if (q < 0n || q % 2n === 0n || p % q === 0n) return null;
  const [exponent, degree] = operands.map((node) => ({ ...right, node }));
  const root = operation("root", left, degree);
  return p === 1n ? root : operation("^", root, exponent);
}

/** Returns what a form of DEFINITIONS stands for.
 * @type {(form: any, x: Expression, start: number, end: number) => Expression} */
function defined(form, x, start, end) {
  if (form === "x") return x;
  if (typeof form === "number") return literal({ units: BigInt(form), places: 0 }, start, end);
  const [sign, ...operands] = form;
  return expression(sign, operands.map((/** @type {any} */ part) => defined(part, x, start, end)), start, end);
}
