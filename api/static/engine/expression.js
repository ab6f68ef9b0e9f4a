// Expressions: parses text that people type to a tree of operations on numbers, and turns trees into
// text (calcgpt/inference/expression.py). Errors say what is wrong, and where.

import { MAX_PLACES, decimal, numberText } from "./arithmetic.js";

export const MAX_LENGTH = 400; // characters of an expression
const MAX_DEPTH = 40; // of nested operations
const MAX_OPERATIONS = 200; // of an expression; a power counts as its products
const MAX_EXPONENT = 40;
const MAX_SHOWN = 30; // characters of an expression that a message repeats

const TEN_DIGITS = "0123456789";
/** Usual characters for typed ones, one for one, so that positions stay.
 * @type {Map<string, string>} */
const NORMAL = new Map([
  // East Asian keyboards type full-width characters.
  ...pairs("０１２３４５６７８９＋－＊／＾％（）．，＝？", `${TEN_DIGITS}+-*/^%().,=?`),
  // Digits of Arabic, Persian and Hindi, and the Arabic signs of numbers.
  ...pairs("٠١٢٣٤٥٦٧٨٩", TEN_DIGITS),
  ...pairs("۰۱۲۳۴۵۶۷۸۹", TEN_DIGITS),
  ...pairs("०१२३४५६७८९", TEN_DIGITS),
  ...pairs("٫٬٪", ".,%"),
  ...pairs("−–‐‑‒﹣➖➕", "-------+"),
  ...pairs("[]{}［］｛｝", "()()()()"), // as school books write them
  // Marks that nobody sees, for example around a number that was copied.
  ...pairs("\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e", " ".repeat(10)),
  ...pairs("\u2060\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff", " ".repeat(8)),
]);

/**
 * Returns usual characters for typed ones, one for one.
 * @param {string[]} typed
 */
export function normalize(typed) {
  return typed.map((character) => NORMAL.get(character) ?? character);
}
const PRODUCT_SIGNS = ["*", "×", "✕", "✖", "⨯", "∗", "·", "⋅", "∙", "•", ..."xｘＸхХ"]; // the last two are Cyrillic
/** The operations by their spellings. */
const OPERATIONS = new Map(
  Object.entries({
    "+": ["+", "plus"],
    "-": ["-", "minus"],
    "*": [...PRODUCT_SIGNS, "times", "multiplied by", "of"],
    "/": ["/", "÷", "∕", "➗", "over", "divided by"],
    "^": ["^", "**"],
  }).flatMap(([operation, spellings]) => spellings.map((typed) => [typed, operation])),
);
const SEPARATORS = ",_'’\u00a0\u202f\u2009"; // between thousands; the last three are spaces
const THOUSANDS = `[1-9][0-9]{0,2}(?<mark>[${SEPARATORS}])[0-9]{3}(?:\\k<mark>[0-9]{3})*(?![0-9])`;
const INDIAN = "[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?![0-9])"; // 12,34,567
const NUMBER = new RegExp(`(?:${THOUSANDS}|${INDIAN}|[0-9]+)(?:\\.[0-9]*)?|(?<![0-9.])\\.[0-9]+`, "uy");
const WORD = /[A-Za-z]{2,}/y;
const FRACTION = /[0-9]+[^\S\ufeff]*\//y;
const SPACE = /^[^\S\ufeff]$/u;
const OPERATION = new RegExp([...OPERATIONS.keys()].sort((a, b) => b.length - a.length).map(pattern).join("|"), "iy");
const PREFIX = /[-+]|(?:minus|plus)(?![A-Za-z])/iy;
const PERCENT = /%|per ?cent(?![A-Za-z])/iy;
const AFTER_PERCENT = /(?:%|per ?cent)$/i;
const SUPERSCRIPT = /[⁰¹²³⁴⁵⁶⁷⁸⁹]+/y;
const ONLY = "this calculator has only numbers, + - * / ^ % and parentheses";
/** Hints for characters that are not understood, wherever they stand.
 * @type {Record<string, string>} */
const COMMON_HINTS = {
  ...hint("$€£¥₹₽°", "; write numbers without units"),
  ...hint("½¼¾⅓⅔", "; write 0.5 or (1/2), for example"),
  "—": "; to subtract, write -",
};
/** The same, where a number is expected.
 * @type {Record<string, string>} */
const HINTS = { ...COMMON_HINTS, ...hint("√∛∜!πΠ∞∑∏∫|", `; ${ONLY}`) };
/** The same, where an operation is expected.
 * @type {Record<string, string>} */
const HINTS_AFTER_NUMBER = {
  ...COMMON_HINTS,
  ...hint("kKmM", "; write numbers without units"),
  ...hint("xX", "; to multiply, write *"),
  ...hint("eE", "; write a number with all its digits"),
  ":": "; to divide, write /",
  "·": "; a decimal point is written .",
  ".": "; a number has one decimal point, and a comma separates thousands",
  ...hint("_'’", "; it may only separate thousands"),
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
 * Returns the tree of an expression. The text may begin with `=`, and end with `=`, `?` or both.
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

/** Returns the pairs of two texts' characters.
 * @param {string} typed
 * @param {string} usual
 * @returns {[string, string][]} */
function pairs(typed, usual) {
  return [...typed].map((character, index) => [character, usual[index]]);
}

/** Returns a hint by each of some characters.
 * @param {string} characters
 * @param {string} text */
function hint(characters, text) {
  return Object.fromEntries([...characters].map((character) => [character, text]));
}

/** Parses by recursive descent. */
class Parser {
  #typed; // code points
  /** @type {string[]} */
  #characters; // the same, with the usual characters
  #text;
  #units; // the index of the UTF-16 unit of each code point
  #position = 0;
  #exponentEnd = -1; // the position after the last exponent
  #ambiguous = ""; // the / or ^ before a factor in parentheses, which is refused

  /** @param {string[]} typed */
  constructor(typed) {
    this.#typed = typed;
    this.#characters = normalize(typed);
    const last = this.#characters.findLastIndex((character) => !SPACE.test(character));
    if (this.#characters[last] === "?") this.#characters[last] = " ";
    this.#text = this.#characters.join("");
    this.#units = [0];
    for (const [index, character] of typed.entries()) this.#units.push(this.#units[index] + character.length);
  }

  /** Returns the tree of the whole text.
   * @returns {Expression} */
  parse() {
    if (this.#peek() === "=") this.#position += 1; // as spreadsheets begin
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
    let check = () => {}; // only if no other error is found behind the operation
    for (;;) {
      this.#peek();
      const start = this.#position;
      const sign = this.#readOperation("+-");
      if (sign || ["", ")", "="].includes(this.#peek())) check();
      if (!sign) return left;
      const [before, right] = [left, this.#product()];
      check = () => right.isPercentage && checkPercentage(before, sign, start, right);
      left = { ...operation(left, sign, right), isPercentage: left.isPercentage && right.isPercentage };
    }
  }

  /** @returns {Parsed} */
  #product() {
    let left = this.#operand();
    for (let sign = ""; (sign = this.#readOperation("*/", sign) || this.#impliedProduct(sign)); ) {
      left = operation(left, sign, this.#operand());
    }
    return left;
  }

  /** Reads an operation if it is one of `signs`. Returns its sign, or "" if nothing is read.
   * @param {string} signs
   * @param {string} before the sign before the last operand */
  #readOperation(signs, before = "") {
    this.#peek();
    const typed = this.#match(OPERATION);
    const spelling = typed.toLowerCase().replace(/\s+/g, " ");
    const sign = OPERATIONS.get(spelling) ?? "";
    if (!sign || !signs.includes(sign)) return "";
    if (spelling === "of" && !(this.#followsPercent() && before !== "/")) return "";
    // 0x10 is hexadecimal, 0·5 a British 0.5
    if (["x", "·"].includes(spelling) && /(?<![0-9.])0$/.test(this.#before())) return "";
    this.#position += typed.length;
    return sign;
  }

  /** Returns "*" if the next character is a ( that begins a factor: 2(3+4) is a product. 6/2(3) is refused,
   * and 2^3(4) as well, because people read them in two ways.
   * @param {string} sign of the operation before the last operand */
  #impliedProduct(sign) {
    if (this.#peek() !== "(") return "";
    const before = this.#before().trimEnd();
    const followsExponent = [...before].length === this.#exponentEnd;
    this.#ambiguous = followsExponent ? "^" : sign === "/" ? "/" : "";
    return /[0-9.)]$/.test(before) && !this.#ambiguous ? "*" : "";
  }

  /** @returns {Parsed} */
  #operand() {
    this.#peek();
    const start = this.#position;
    const typed = this.#match(PREFIX);
    if (!typed) return this.#power();
    this.#position += typed.length;
    const operand = this.#operand();
    return OPERATIONS.get(typed.toLowerCase()) === "-" ? negative(start, operand) : { ...operand, start };
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
      const hundred = literal({ units: 100n, places: 0 }, ...span);
      if (percent) operand = { ...operation(operand, "/", hundred), isPercentage: true };
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
    const typed = this.#match(NUMBER);
    if (!typed) {
      if (character === ",") throw this.#commaError();
      const actual = character ? quoted(this.#typed[this.#position]) : "the end";
      throw this.#syntaxError(`a number is expected, not ${actual}${HINTS[character] ?? ""}`);
    }
    this.#position += [...typed].length;
    return literal(readNumber(typed, this.#position), start, this.#position);
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
    return AFTER_PERCENT.test(this.#before().trimEnd());
  }

  /** Skips spaces and returns the next character, or "" at the end. */
  #peek() {
    while (SPACE.test(this.#characters[this.#position] ?? "")) this.#position += 1;
    return this.#characters[this.#position] ?? "";
  }

  /** Returns the error for text after an operand that is neither an operation nor the end. */
  #unexpectedError() {
    const character = this.#peek();
    if (character === ",") return this.#commaError();
    const typed = this.#match(NUMBER);
    if (typed || character === "(") return this.#missingOperationError(typed || "(");
    if (character === ")") return this.#syntaxError("a ) without its (");
    if (!character || character === "=") {
      const open = this.#lastOpenParenthesis();
      return this.#syntaxError(`a ) is missing: the ( at position ${open} is not closed`);
    }
    const hint = HINTS_AFTER_NUMBER[character] ?? "";
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
      const unknown = `'${word}' is not known: ${ONLY}`;
      const misplaced = "'of' may only follow a percentage, which divides nothing: 20% of 50";
      const message = word.toLowerCase() === "of" ? misplaced : unknown;
      return new ExpressionError("syntax", message, this.#position, this.#position + word.length);
    }
    const length = [...(this.#match(NUMBER) || "?")].length;
    const end = Math.min(this.#position + length, this.#characters.length);
    return new ExpressionError("syntax", reason, this.#position, end);
  }

  /** @param {string} typed the number or parenthesis at the current position */
  #missingOperationError(typed) {
    let hint = "";
    if (this.#followsPercent()) hint = "; % divides by 100, and there is no remainder";
    else if (/^[0-9]{3}$/.test(typed)) hint = "; a comma may separate thousands, a space may not";
    else if (this.#match(FRACTION)) hint = "; write a number and a fraction as a sum, like (3+1/2)";
    else if (typed === "(" && this.#ambiguous) {
      const sign = this.#ambiguous;
      hint = `; 6${sign}2(3) is (6${sign}2)*3 to some and 6${sign}(2*3) to others`;
    }
    const reason = `an operation is missing: one of + - * / ^${hint}`;
    return new ExpressionError("no-operation", reason, this.#position, this.#position + [...typed].length);
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
function checkPercentage(left, sign, start, right) {
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
 * @throws {ExpressionError} if the exponent is another number, or no number
 */
function power(base, exponent) {
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

/** Returns a character in quotation marks, as Python's repr does: an invisible one is escaped.
 * @param {string} character */
function quoted(character) {
  if (/^[\p{C}\p{Z}]$/u.test(character)) {
    const code = (character.codePointAt(0) ?? 0).toString(16);
    const [letter, length] = code.length <= 2 ? ["x", 2] : code.length <= 4 ? ["u", 4] : ["U", 8];
    return `'\\${letter}${code.padStart(length, "0")}'`;
  }
  return character === "'" ? '"\'"' : `'${character}'`;
}
