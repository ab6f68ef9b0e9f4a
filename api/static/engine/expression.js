// Parses expressions that people type to trees (calcgpt/inference/expression.py).

import { MAX_PLACES, decimal } from "./arithmetic.js";
import { ExpressionError, checkPercentage, literal, negative, operation, power } from "./expression_tree.js";
import {
  AFTER_PERCENT,
  FRACTION,
  HINTS,
  HINTS_AFTER_NUMBER,
  NUMBER,
  ONLY,
  OPERATION,
  OPERATIONS,
  PERCENT,
  PREFIX,
  SEPARATORS,
  SPACE,
  SUPERSCRIPT,
  WORD,
  normalize,
} from "./spelling.js";

/** @typedef {import("./expression_tree.js").Expression} Expression */
/** @template {Expression} [T=Expression] @typedef {import("./expression_tree.js").Parsed<T>} Parsed */

export const MAX_LENGTH = 400; // characters of an expression
const MAX_OPERATIONS = 200; // of an expression; a power counts as its products

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
    const reason = "write decimals with a point, like 12.5; a comma may only separate thousands";
    return new ExpressionError("decimal-comma", reason, this.#position);
  }

  /** Returns a syntax error at the current position.
   * @param {string} reason replaced by another one if there is a word at the position */
  #syntaxError(reason) {
    const word = this.#match(WORD);
    if (word) {
      const unknown = `'${word}' is not known: ${ONLY}`;
      const misplaced = "'of' may only follow a percentage that is not a divisor: 20% of 50";
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
