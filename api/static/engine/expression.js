// Expressions: parses text that people type to a tree of operations on numbers, and turns trees into
// text (calcgpt/inference/expression.py). Errors say what is wrong, and where.

import { MAX_PLACES, decimal, numberText } from "./arithmetic.js";

export const MAX_LENGTH = 400; // characters of an expression
const MAX_DEPTH = 40; // of nested operations
const MAX_OPERATIONS = 200; // of an expression; a power counts as its products
const MAX_EXPONENT = 40;

const MINUSES = "−–";
const FULL_WIDTH = "０１２３４５６７８９＋－＊／＾％（）．，＝"; // as East Asian keyboards type them
/** The operations by their spellings. */
const OPERATIONS = new Map(
  Object.entries({
    "+": ["+", "plus"],
    "-": ["-", "minus"],
    "*": ["*", "×", "✕", "∗", "·", "⋅", "x", "times", "multiplied by", "of"],
    "/": ["/", "÷", "∕", "over", "divided by"],
    "^": ["^", "**"],
  }).flatMap(([operation, spellings]) => spellings.map((typed) => [typed, operation])),
);
const SEPARATORS = ",_'’\u00a0\u202f\u2009"; // between thousands; the last three are spaces
const THOUSANDS = `[1-9][0-9]{0,2}(?<mark>[${SEPARATORS}])[0-9]{3}(?:\\k<mark>[0-9]{3})*(?![0-9])`;
const NUMBER = new RegExp(`(?:${THOUSANDS}|[0-9]+)(?:\\.[0-9]*)?|(?<![0-9.])\\.[0-9]+`, "uy");
const WORD = /[A-Za-z]{2,}/y;
const OPERATION = new RegExp([...OPERATIONS.keys()].sort((a, b) => b.length - a.length).map(pattern).join("|"), "iy");
const PERCENT = /%|percent(?![A-Za-z])/iy;
const SUPERSCRIPT = /[⁰¹²³⁴⁵⁶⁷⁸⁹]+/y;
/** Hints for characters that are not operations.
 * @type {Record<string, string>} */
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
 * @template {Expression} [T=Expression]
 * @typedef {{node: T, start: number, end: number}} Parsed
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
 * Returns the tree of an expression. The text may end with `=`.
 * @param {string} text
 * @param {number} [maxLength] characters; the text of a tree may be longer than what was typed
 * @returns {Expression}
 * @throws {ExpressionError}
 */
export function parse(text, maxLength = MAX_LENGTH) {
  const characters = [...text];
  if (characters.length > maxLength) {
    const reason = `longer than ${maxLength} characters`;
    throw new ExpressionError("too-long", reason, maxLength, characters.length);
  }
  return new Parser(characters).parse();
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

/** Returns the pattern of an operation as it is typed.
 * @param {string} typed */
function pattern(typed) {
  if (!/^[a-z]/.test(typed)) return typed.replace(/[*+^]/g, "\\$&");
  return `${typed.replace(" ", "[ \\t\\n\\r\\f\\v]+")}(?![A-Za-z])`;
}

/** Returns the usual character for one that is typed.
 * @param {string} typed */
function normal(typed) {
  if (MINUSES.includes(typed)) return "-";
  return FULL_WIDTH.includes(typed) ? String.fromCharCode(typed.charCodeAt(0) - 0xfee0) : typed;
}

/** Parses by recursive descent. */
class Parser {
  #typed; // code points
  #characters; // the same, with the usual characters
  #text;
  #units; // the index of the UTF-16 unit of each code point
  #position = 0;
  #exponentEnd = -1; // the position after the last exponent

  /** @param {string[]} typed */
  constructor(typed) {
    this.#typed = typed;
    this.#characters = typed.map(normal);
    this.#text = this.#characters.join("");
    this.#units = [0];
    for (const [index, character] of typed.entries()) this.#units.push(this.#units[index] + character.length);
  }

  /** Returns the tree of the whole text.
   * @returns {Expression} */
  parse() {
    const whole = this.#sum();
    if (this.#peek() === "=") {
      this.#position += 1;
      const next = this.#peek();
      if (next === ",") throw this.#commaError();
      if (next) throw this.#syntaxError("nothing may follow the =");
    } else if (this.#peek()) throw this.#unexpectedError();
    if (whole.node.count > MAX_OPERATIONS) {
      throw new ExpressionError("too-long", `more than ${MAX_OPERATIONS} operations`, whole.start, whole.end);
    }
    return whole.node;
  }

  /** @returns {Parsed} */
  #sum() {
    let left = this.#product();
    for (let sign; (sign = this.#readOperation("+-")); ) left = operation(left, sign, this.#product());
    return left;
  }

  /** @returns {Parsed} */
  #product() {
    let left = this.#operand();
    for (let sign = ""; (sign = this.#readOperation("*/") || this.#impliedProduct(sign)); ) {
      left = operation(left, sign, this.#operand());
    }
    return left;
  }

  /** Reads an operation if it is one of `signs`. Returns its sign, or "" if nothing is read.
   * @param {string} signs */
  #readOperation(signs) {
    this.#peek();
    const typed = this.#match(OPERATION);
    const spelling = typed.toLowerCase().replace(/\s+/g, " ");
    const sign = OPERATIONS.get(spelling) ?? "";
    if (!sign || !signs.includes(sign)) return "";
    if (spelling === "of" && !this.#followsPercent()) return "";
    if (spelling === "x" && /(?<![0-9.])0$/.test(this.#before())) return ""; // 0x10 is hexadecimal
    this.#position += typed.length;
    return sign;
  }

  /** Returns "*" if the next character is a ( that begins a factor: 2(3+4) is a product. 6/2(3) is refused,
   * and 2^3(4) as well, because people read them in two ways.
   * @param {string} sign of the operation before the last operand */
  #impliedProduct(sign) {
    if (this.#peek() !== "(" || sign === "/") return "";
    const before = this.#before().trimEnd();
    const followsExponent = [...before].length === this.#exponentEnd;
    return /[0-9.)]$/.test(before) && !followsExponent ? "*" : "";
  }

  /** @returns {Parsed} */
  #operand() {
    const sign = this.#peek();
    const start = this.#position;
    if (!["-", "+"].includes(sign)) return this.#power();
    this.#position += 1;
    const operand = this.#operand();
    return sign === "-" ? negative(start, operand) : { ...operand, start };
  }

  /** @returns {Parsed} */
  #power() {
    const base = this.#postfix();
    if (!this.#readOperation("^")) return base;
    const exponent = this.#operand();
    this.#exponentEnd = exponent.end;
    return power(base, exponent);
  }

  /** Reads an operand and the percent signs and superscripts after it.
   * @returns {Parsed} */
  #postfix() {
    let operand = this.#atom();
    for (;;) {
      this.#peek();
      const start = this.#position;
      const percent = this.#match(PERCENT);
      const superscript = this.#match(SUPERSCRIPT);
      this.#position += (percent || superscript).length;
      const span = /** @type {const} */ ([start, this.#position]);
      if (percent) operand = operation(operand, "/", literal({ units: 100n, places: 0 }, ...span));
      else if (superscript) operand = power(operand, literal({ units: BigInt(superscript.normalize("NFKC")), places: 0 }, ...span));
      else return operand;
    }
  }

  /** @returns {Parsed} */
  #atom() {
    const character = this.#peek();
    const start = this.#position;
    if (character === "(") {
      this.#position += 1;
      const inner = this.#sum();
      if (this.#peek() !== ")") throw this.#unexpectedError();
      this.#position += 1;
      return { node: inner.node, start, end: this.#position };
    }
    const typed = this.#number();
    if (typed === null) {
      if (character === ",") throw this.#commaError();
      const actual = character ? quoted(this.#typed[this.#position]) : "the end";
      throw this.#syntaxError(`a number is expected, not ${actual}`);
    }
    this.#position += [...typed].length;
    return literal(readNumber(typed, this.#position), start, this.#position);
  }

  /** Returns the text of the number at the current position, or null. */
  #number() {
    return this.#match(NUMBER) || null;
  }

  /** Returns the text that a pattern matches at the current position, or "".
   * @param {RegExp} pattern sticky */
  #match(pattern) {
    pattern.lastIndex = this.#units[this.#position];
    return pattern.exec(this.#text)?.[0] ?? "";
  }

  /** Returns the text before the current position. */
  #before() {
    return this.#characters.slice(0, this.#position).join("");
  }

  #followsPercent() {
    return /(?:%|percent)$/i.test(this.#before().trimEnd());
  }

  /** Skips spaces and returns the next character, or "" at the end. */
  #peek() {
    while (/^[^\S\ufeff]$/u.test(this.#characters[this.#position] ?? "")) this.#position += 1;
    return this.#characters[this.#position] ?? "";
  }

  /** Returns the error for text after an operand that is neither an operation nor the end. */
  #unexpectedError() {
    const character = this.#peek();
    if (character === ",") return this.#commaError();
    const typed = this.#number();
    if (typed !== null || character === "(") return this.#missingOperationError([...(typed ?? "(")].length);
    if (character === ")") return this.#syntaxError("a ) without its (");
    if (!character || character === "=") {
      const open = this.#lastOpenParenthesis();
      return this.#syntaxError(`a ) is missing: the ( at position ${open} is not closed`);
    }
    const hint = HINTS[character] ?? "";
    return this.#syntaxError(`${quoted(this.#typed[this.#position])} is not an operation; valid are + - * / ^${hint}`);
  }

  #commaError() {
    const reason = "a comma; write decimals with a point: a comma may only separate thousands";
    return new ExpressionError("decimal-comma", reason, this.#position);
  }

  /** Returns a syntax error at the current position.
   * @param {string} reason replaced by another one if there is a word at the position */
  #syntaxError(reason) {
    const word = this.#match(WORD);
    if (word) {
      const unknown = `'${word}' is not known: an expression has numbers, + - * / ^ % and parentheses`;
      return new ExpressionError("syntax", unknown, this.#position, this.#position + word.length);
    }
    const length = [...(this.#number() ?? "?")].length;
    const end = Math.min(this.#position + length, this.#characters.length);
    return new ExpressionError("syntax", reason, this.#position, end);
  }

  /** @param {number} length */
  #missingOperationError(length) {
    const hint = this.#followsPercent() ? "; % divides by 100, and there is no remainder" : "";
    const reason = `an operation is missing: one of + - * / ^${hint}`;
    return new ExpressionError("no-operation", reason, this.#position, this.#position + length);
  }

  #lastOpenParenthesis() {
    const positions = [];
    for (let index = 0; index < this.#position; index += 1) {
      if (this.#characters[index] === "(") positions.push(index);
      else if (this.#characters[index] === ")") positions.pop();
    }
    return positions.at(-1);
  }
}

/** Returns the number of a literal, or null for any other expression.
 * @param {Expression} expression */
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
 * Returns the negative of an operand: a negative literal, or a difference from 0.
 * @param {number} start
 * @param {Parsed} operand
 */
function negative(start, operand) {
  const number = numberOf(operand.node);
  if (number) return literal({ ...number, units: -number.units }, start, operand.end);
  return operation(literal({ units: 0n, places: 0 }, start, start + 1), "-", operand);
}

/**
 * Returns a base to the power of a whole number.
 * @param {Parsed} base
 * @param {Parsed} exponent
 * @throws {ExpressionError} if the exponent is another number, or no number
 */
function power(base, exponent) {
  const { units, places } = numberOf(exponent.node) ?? { units: -1n, places: 0 };
  if (places || units < 0n || units > MAX_EXPONENT) {
    const reason = `an exponent must be a whole number from 0 to ${MAX_EXPONENT}`;
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
function operation({ node: left, start }, op, { node: right, end }) {
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

/**
 * Returns the value of a number without a sign.
 * @param {string} typed
 * @param {number} end the index of its end in the text
 * @throws {ExpressionError} if it has too many decimal places
 */
function readNumber(typed, end) {
  const bare = [...typed].filter((character) => !SEPARATORS.includes(character)).join("");
  const [whole, places = ""] = bare.split(".");
  const excess = places.slice(MAX_PLACES).replace(/^0+/, "");
  if (excess) {
    const reason = `more than ${MAX_PLACES} decimal places`;
    throw new ExpressionError("too-many-places", reason, end - excess.length, end);
  }
  const units = BigInt(whole + places.slice(0, MAX_PLACES).padEnd(MAX_PLACES, "0"));
  return decimal(units, MAX_PLACES, bare.includes("."));
}

/** Returns a character in quotation marks, as Python shows it: one that cannot be seen as its code.
 * @param {string} character */
function quoted(character) {
  if (/^[\p{C}\p{Z}]$/u.test(character)) {
    const code = (character.codePointAt(0) ?? 0).toString(16);
    const [letter, length] = code.length <= 2 ? ["x", 2] : code.length <= 4 ? ["u", 4] : ["U", 8];
    return `'\\${letter}${code.padStart(length, "0")}'`;
  }
  return character === "'" ? '"\'"' : `'${character}'`;
}
