// Expressions: text that people type to a tree of operations on numbers, and back
// (calcgpt/inference/expression.py). It also says where a text is wrong, and in which words.

import { MAX_PLACES, decimal, numberText } from "./arithmetic.js";

const MAX_LENGTH = 400; // characters of an expression
const MAX_DEPTH = 40; // of nested operations
const MAX_OPERATIONS = 200; // of an expression, the products of its powers included
const MAX_EXPONENT = 40;

/** @type {Record<string, string>} */
const TYPED = { "×": "*", "✕": "*", "∗": "*", "·": "*", "⋅": "*", "÷": "/", "∕": "/", "−": "-", "–": "-" };
const SEPARATORS = ",_'’\u00a0\u202f\u2009"; // between thousands; the last three are spaces
const THOUSANDS = `[1-9][0-9]{0,2}(?<mark>[${SEPARATORS}])[0-9]{3}(?:\\k<mark>[0-9]{3})*(?![0-9])`;
const NUMBER = new RegExp(`(?:${THOUSANDS}|[0-9]+)(?:\\.[0-9]*)?|(?<![0-9.])\\.[0-9]+`, "uy");
const WORD = /[A-Za-z]{2,}/y;
/** @type {Record<string, string>} */
const HINTS = {
  x: "; to multiply, write * or ×",
  X: "; to multiply, write * or ×",
  e: "; write a number with all its digits",
  E: "; write a number with all its digits",
  ":": "; to divide, write / or ÷",
  _: "; it may only separate thousands",
  "'": "; it may only separate thousands",
  "’": "; it may only separate thousands",
};

/** @typedef {import("./arithmetic.js").Decimal} Decimal */

/**
 * A number, an operation on two expressions, or a power, at `text[start:end]` in code points.
 * Parentheses around an operand belong to the operation that uses it. `depth` is 0 for a number.
 * @typedef {{start: number, end: number, depth: number, count: number}} Extent
 * @typedef {Extent & {number: Decimal}} Literal
 * @typedef {Extent & {op: string, left: Expression, right: Expression}} Operation
 * @typedef {Extent & {base: Expression, exponent: number}} Power
 * @typedef {Literal | Operation | Power} Expression
 */

/**
 * An expression within its parentheses, if it has any.
 * @template {Expression} [T=Expression]
 * @typedef {{node: T, start: number, end: number}} Parsed
 */

/** What is wrong with an expression, in one line, and where, in code points. */
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
 * Returns the tree of an expression. It may end with `=`.
 * @param {string} text
 * @returns {Expression}
 * @throws {ExpressionError}
 */
export function parse(text) {
  const characters = [...text];
  if (characters.length > MAX_LENGTH) {
    const reason = `longer than ${MAX_LENGTH} characters`;
    throw new ExpressionError("too-long", reason, MAX_LENGTH, characters.length);
  }
  return new Parser(characters.map((character) => TYPED[character] ?? character)).parse();
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

/** @param {Expression} expression */
function rankOf(expression) {
  if (!("op" in expression)) return 2;
  return "*/".includes(expression.op) ? 1 : 0;
}

/** Recursive descent. */
class Parser {
  #characters;
  #text;
  #units; // code point -> UTF-16 unit
  #at = 0;

  /** @param {string[]} characters */
  constructor(characters) {
    this.#characters = characters;
    this.#text = characters.join("");
    this.#units = [0];
    for (const [at, character] of characters.entries()) this.#units.push(this.#units[at] + character.length);
  }

  /** @returns {Expression} */
  parse() {
    const whole = this.#sum();
    if (this.#peek() === "=") {
      this.#at += 1;
      const next = this.#peek();
      if (next === ",") throw this.#comma();
      if (next) throw this.#error("nothing may follow the =");
    } else if (this.#peek()) throw this.#unexpected();
    if (whole.node.count > MAX_OPERATIONS) {
      throw new ExpressionError("too-long", `more than ${MAX_OPERATIONS} operations`, whole.start, whole.end);
    }
    return whole.node;
  }

  /** @returns {Parsed} */
  #sum() {
    let left = this.#product();
    while (["+", "-"].includes(this.#peek())) left = this.#binary(left, () => this.#product());
    return left;
  }

  /** @returns {Parsed} */
  #product() {
    let left = this.#operand();
    while (["*", "/"].includes(this.#peek())) left = this.#binary(left, () => this.#operand());
    return left;
  }

  /**
   * @param {Parsed} left
   * @param {() => Parsed} readRight
   */
  #binary(left, readRight) {
    const op = this.#characters[this.#at];
    this.#at += 1;
    return operation(left, op, readRight());
  }

  /** @returns {Parsed} */
  #operand() {
    const sign = this.#peek();
    const start = this.#at;
    if (!["-", "+"].includes(sign)) return this.#power();
    this.#at += 1;
    const operand = this.#operand();
    return sign === "-" ? negative(start, operand) : { ...operand, start };
  }

  /** @returns {Parsed} */
  #power() {
    const base = this.#percentage();
    if (this.#peek() !== "^") return base;
    this.#at += 1;
    const exponent = this.#operand();
    const { units, places } = numberOf(exponent.node) ?? { units: -1n, places: 0 };
    if (places || units < 0n || units > MAX_EXPONENT) {
      const reason = `an exponent must be a whole number from 0 to ${MAX_EXPONENT}`;
      throw new ExpressionError("out-of-range", reason, exponent.start, exponent.end);
    }
    const n = Math.max(0, Number(units) - 1); // products, each but the first on the one before it
    const { depth, count } = base.node;
    const size = { depth: depth + n, count: count + n };
    return checked({ base: base.node, exponent: Number(units), ...size }, base.start, exponent.end);
  }

  /** @returns {Parsed} */
  #percentage() {
    let operand = this.#atom();
    while (this.#peek() === "%") {
      const start = this.#at;
      this.#at += 1;
      operand = operation(operand, "/", literal({ units: 100n, places: 0 }, start, this.#at));
    }
    return operand;
  }

  /** @returns {Parsed} */
  #atom() {
    const character = this.#peek();
    const start = this.#at;
    if (character === "(") {
      this.#at += 1;
      const inner = this.#sum();
      if (this.#peek() !== ")") throw this.#unexpected();
      this.#at += 1;
      return { node: inner.node, start, end: this.#at };
    }
    const typed = this.#number();
    if (typed === null) {
      if (character === ",") throw this.#comma();
      const found = character ? quoted(character) : "the end";
      const isDoubled = character === "*" && this.#characters[this.#at - 1] === "*";
      const hint = isDoubled ? "; for a power, write ^" : "";
      throw this.#error(`a number is expected, not ${found}${hint}`);
    }
    this.#at += [...typed].length;
    return literal(read(typed, this.#at), start, this.#at);
  }

  /** Returns the number typed here, or null. */
  #number() {
    NUMBER.lastIndex = this.#units[this.#at];
    return NUMBER.exec(this.#text)?.[0] ?? null;
  }

  /** Skips spaces and returns the next character, "" at the end. */
  #peek() {
    while (/^\s$/u.test(this.#characters[this.#at] ?? "")) this.#at += 1;
    return this.#characters[this.#at] ?? "";
  }

  /** An operation could follow here, or the end. */
  #unexpected() {
    const character = this.#peek();
    if (character === ",") return this.#comma();
    const typed = this.#number();
    if (typed !== null || character === "(") return this.#missingOperation([...(typed ?? "(")].length);
    if (character === ")") return this.#error("a ) without its (");
    if (!character || character === "=") {
      const open = this.#lastOpen();
      return this.#error(`a ) is missing: the ( at position ${open} is not closed`);
    }
    const hint = HINTS[character] ?? "";
    return this.#error(`${quoted(character)} is not an operation; valid are + - * / ^${hint}`);
  }

  #comma() {
    const reason = "a comma; write decimals with a point: a comma may only separate thousands";
    return new ExpressionError("decimal-comma", reason, this.#at);
  }

  /** @param {string} reason - unless a word stands here */
  #error(reason) {
    WORD.lastIndex = this.#units[this.#at];
    const word = WORD.exec(this.#text)?.[0];
    if (word) {
      const unknown = `'${word}' is not known: an expression has numbers, + - * / ^ % and parentheses`;
      return new ExpressionError("syntax", unknown, this.#at, this.#at + word.length);
    }
    const end = Math.min(this.#at + 1, this.#characters.length);
    return new ExpressionError("syntax", reason, this.#at, end);
  }

  /** @param {number} length */
  #missingOperation(length) {
    const before = this.#characters.slice(0, this.#at).join("").trimEnd();
    const hint = before.endsWith("%") ? "; % divides by 100, and there is no remainder" : "";
    const reason = `an operation is missing: one of + - * / ^${hint}`;
    return new ExpressionError("no-operation", reason, this.#at, this.#at + length);
  }

  #lastOpen() {
    const positions = [];
    for (let at = 0; at < this.#at; at += 1) {
      if (this.#characters[at] === "(") positions.push(at);
      else if (this.#characters[at] === ")") positions.pop();
    }
    return positions.at(-1);
  }
}

/** @param {Expression} expression */
function numberOf(expression) {
  return "number" in expression ? expression.number : null;
}

/**
 * @param {Decimal} number
 * @param {number} start
 * @param {number} end
 * @returns {Parsed<Literal>}
 */
function literal(number, start, end) {
  return { node: { number, start, end, depth: 0, count: 0 }, start, end };
}

/**
 * @param {number} start
 * @param {Parsed} operand
 */
function negative(start, operand) {
  const number = numberOf(operand.node);
  if (number) return literal({ ...number, units: -number.units }, start, operand.end);
  return operation(literal({ units: 0n, places: 0 }, start, start + 1), "-", operand);
}

/**
 * @param {Parsed} a
 * @param {string} op
 * @param {Parsed} b
 */
function operation({ node: left, start }, op, { node: right, end }) {
  const depth = 1 + Math.max(left.depth, right.depth);
  return checked({ op, left, right, depth, count: left.count + 1 + right.count }, start, end);
}

/**
 * @param {Omit<Operation, "start" | "end"> | Omit<Power, "start" | "end">} node
 * @param {number} start
 * @param {number} end
 * @returns {Parsed}
 */
function checked(node, start, end) {
  if (node.depth > MAX_DEPTH) {
    const reason = `more than ${MAX_DEPTH} operations, each on the result of another`;
    throw new ExpressionError("too-deep", reason, start, end);
  }
  return { node: { ...node, start, end }, start, end };
}

/**
 * Returns the number typed without a sign. It ends at `end` in the text.
 * @param {string} typed
 * @param {number} end
 */
function read(typed, end) {
  const bare = [...typed].filter((character) => !SEPARATORS.includes(character)).join("");
  const [whole, places = ""] = bare.split(".");
  const superfluous = places.slice(MAX_PLACES).replace(/^0+/, "");
  if (superfluous) {
    const reason = `more than ${MAX_PLACES} decimal places`;
    throw new ExpressionError("too-many-places", reason, end - superfluous.length, end);
  }
  const units = BigInt(whole + places.slice(0, MAX_PLACES).padEnd(MAX_PLACES, "0"));
  return decimal(units, MAX_PLACES, bare.includes("."));
}

/** @param {string} character */
function quoted(character) {
  return character === "'" ? '"\'"' : `'${character}'`;
}
