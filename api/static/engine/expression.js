// Expressions: text that people type to a tree of operations on numbers, and how it was read where a reader
// could think of something else (calcgpt/inference/expression.py).

import { ExpressionError, NAMES, endOfToken, errorAt, missingOperation, quoted, unknownWord } from "./expression_errors.js";
import { RANK, Stack, arity, literal, operation } from "./expression_stack.js";
import { expression } from "./expression_tree.js";
import { COMMA, LIST, POINT, isProper, readNumeral } from "./numerals.js";
import { withoutPhrases } from "./phrases.js";
import tables from "./tables.js";
import { Text, format, isDigit, match, search, shorten, singleSpaced, skip, strip, stripEnd } from "./text.js";

/** @import { Reading, Style } from "./expression_stack.js" */
/** @import { Expression } from "./expression_tree.js" */
/** @import { Match } from "./text.js" */

/** An expression as it was read. places: those that the text asks for.
 * @typedef {{expression: Expression, readings: Reading[], places: number | null}} Parsed */

export const { MAX_LENGTH } = tables; // characters of an expression
export const ANSWER = "ans"; // the name of the last answer
const { CURRENCIES, FACTORS, MESSAGES, OPERATIONS, PAIRS, POSTFIXES, SUPERSCRIPTS } = tables;
const TIGHT = ["/", "^", "//", "mod", "binomial", "perm"]; // signs after which 2(3) is not a product
/** @type {Style} */ const DEFAULT_STYLE = { percent: "relative", decimalComma: false, angle: "radians" };

/** Returns the expression that a text stands for. Does not check the range of numbers or division by zero. names:
 * values that the text may use.
 * @throws {ExpressionError} for any other text
 * @type {(typed: string, style?: Style, names?: Map<string, Expression>) => Parsed} */
export function parse(typed, style = DEFAULT_STYLE, names = new Map()) {
  const text = new Text(typed);
  if (text.length > MAX_LENGTH) {
    throw new ExpressionError("too-long", MESSAGES["too-long"], MAX_LENGTH, text.length);
  }
  return new Reader(text, style, names).read();
}

/** Reads an expression from left to right: operands and operations in turn. */
class Reader {
  #text;
  #style;
  #names;
  #normal;
  #places;
  #stack;
  #hasCurrency = false;

  /** @param {Text} text @param {Style} style @param {Map<string, Expression>} names */
  constructor(text, style, names) {
    this.#text = text;
    this.#style = style;
    this.#names = names;
    [this.#normal, this.#places] = withoutPhrases(text.normalize());
    this.#stack = new Stack(text, this.#normal, style);
  }

  /** Returns the whole expression.
   * @returns {Parsed}
   * @throws {ExpressionError} */
  read() {
    if (this.#match("date", 0)) {
      const reason = format(MESSAGES.date, { typed: strip(this.#text.slice(0)) });
      throw new ExpressionError("syntax", reason, 0, this.#text.length);
    }
    const [start, character] = this.#next(0);
    /** @type {number | null} */ let position = character === "=" ? start + 1 : 0; // as spreadsheets begin
    const isPrefix = this.#match("prefix", start);
    const continues = this.#names.has(ANSWER) && character === "+";
    const isOperation = this.#match("operation", start) && !this.#name(start);
    if (continues || (isOperation && !isPrefix && !this.#match("function", start))) position = this.#continue(start);
    while (position !== null) position = this.#readOperation(this.#readOperand(position));
    const whole = this.#stack.pop();
    if (this.#hasCurrency) {
      this.#stack.readings = this.#stack.readings.filter(({ alternative }) => alternative);
      this.#stack.say(this.#text.slice(0), whole.node.text);
    }
    return { expression: whole.node, readings: this.#stack.readings, places: this.#places };
  }

  /** Reads an operation on the last answer. Returns where the operation ends. @param {number} start */
  #continue(start) {
    const answer = this.#names.get(ANSWER);
    if (!answer) throw this.#error(start, true);
    this.#stack.parts.push({ node: answer, start, end: start });
    const typed = strip(this.#text.slice(0));
    this.#stack.say(typed, `${ANSWER}${shorten(typed)}`);
    return this.#readOperation(start);
  }

  /** Reads a number and all signs and parentheses before it. Returns where it ends. @param {number} position */
  #readOperand(position) {
    for (;;) {
      const [start, character] = this.#next(position);
      position = start + 1;
      /** @type {Match | null} */ let found;
      let numeral;
      let name;
      if (character === "(" || character === "|") {
        this.#stack.push({ character, rank: RANK.OPENING, start });
      } else if ((found = this.#match("factor", start))) {
        this.#readFactor(found);
        position = found.end;
      } else if ((numeral = readNumeral(this.#normal, start, this.#forms()))) {
        this.#addNumeral(start, numeral);
        return this.#skipCurrency(numeral.end);
      } else if ((found = this.#match("the", start))) position = found.end;
      else if ((found = this.#match("pair", start))) {
        this.#stack.push({ character: found[0], rank: RANK.OPENING, start });
        position = found.end;
      } else if ((name = this.#name(start))) {
        const end = start + name.word.length;
        this.#stack.parts.push({ node: name.value, start, end });
        return end;
      } else if ((found = this.#match("log", start) ?? this.#match("function", start))) {
        position = this.#readFunction(found);
      } else if ((found = this.#match("constant", start))) {
        const { end } = found;
        this.#stack.parts.push({ node: expression(tables.CONSTANTS[found[0]], [], start, end), start, end });
        return end;
      } else if ((found = this.#match("prefix", start))) {
        const sign = found[0] === "+" || found[0] === "plus" ? "+" : "-";
        this.#stack.push({ character: sign, rank: RANK.PREFIX, start });
        position = found.end;
      } else if (character && CURRENCIES.includes(character)) this.#hasCurrency = true;
      else throw this.#error(start, true);
    }
  }

  /** Reads what follows an operand, up to an operation. Returns where that ends, or null at the end of the expression.
   * @param {number} position */
  #readOperation(position) {
    for (;;) {
      const [start, character] = this.#next(position);
      position = start + 1;
      const typed = this.#typedOperation(start);
      if (typed) return this.#stack.wait(...typed);
      /** @type {Match | null} */ let found;
      let between;
      if ((found = this.#match("percent", start))) {
        position = found.end;
        this.#readPercent(start, position);
      } else if ((found = this.#match("superscript", start))) {
        position = found.end;
        const digits = Array.from(found[0], (superscript) => SUPERSCRIPTS[superscript]).join("");
        this.#raise(digits, start, position);
      } else if ((found = this.#match("postfix", start))) {
        position = found.end;
        this.#readPostfix(POSTFIXES[singleSpaced(found[0])], start, position);
      } else if (this.#beginsFactor(start, character)) return this.#stack.wait("*", start, start);
      else if ((character === ")" || character === "|") && this.#stack.closes(character)) this.#stack.close(position);
      else if ((found = this.#match("separator", start)) && this.#stack.separate(start)) return found.end;
      else if ((between = this.#pair(start))) return this.#stack.waitForSecond(...between);
      else if (!character || character === "=") {
        this.#end(start, position);
        return null;
      } else throw this.#error(start);
    }
  }

  // Operands

  /** @type {(start: number, numeral: import("./numerals.js").Numeral) => void} */
  #addNumeral(start, { end, whole, fraction, reading, alternative }) {
    const typed = this.#text.slice(start, end);
    const isDigitOf = (/** @type {number} */ index) => isDigit(this.#normal[start + index]);
    const scripts = Array.from(typed, (digit, index) =>
      isDigitOf(index) ? digit.charCodeAt(0) - this.#normal.charCodeAt(start + index) : []).flat();
    if (new Set(scripts).size > 1) {
      throw new ExpressionError("syntax", format(MESSAGES.scripts, { typed: quoted(shorten(typed)) }), start, end);
    }
    let node = whole && literal(whole, start, end);
    if (fraction) {
      const quotient = expression("/", fraction.map((number) => literal(number, start, end)), start, end);
      node = node ? expression("+", [node, quotient], start, end) : quotient;
    }
    this.#stack.parts.push({ node: /** @type {Expression} */ (node), start, end });
    if (reading !== null) this.#stack.say(typed, reading, start, end, alternative);
  }

  /** Adds the factor of words such as `half of`, and the product that waits. @param {Match} factor */
  #readFactor({ 0: words, index: start, end }) {
    const numbers = FACTORS[singleSpaced(words)].split("/").map((n) => integer(n, start, end));
    const node = numbers.length > 1 ? expression("/", numbers, start, end) : numbers[0];
    this.#stack.parts.push({ node, start, end });
    this.#stack.wait("*", start, end);
  }

  /** Returns how numbers are written here. */
  #forms() {
    if (this.#style.decimalComma) return COMMA;
    return this.#stack.last.inList ? LIST : POINT;
  }

  /** Adds a function to the signs that wait. Returns where its name ends, or the parenthesis after it.
   * @param {Match} typed */
  #readFunction({ 0: words, 1: digits, index: start, end: after }) {
    const called = this.#match("called", after);
    if (called && this.#normal[after - 1] < "\x80") throw unknownWord(this.#text, start, called.end - 1);
    const name = digits ? "log" : tables.FUNCTIONS[singleSpaced(words)];
    const first = start + words.search(/[0-9]/);
    const base = digits ? integer(digits, first, first + digits.length) : null; // log 2(8)
    const { 0: of, end } = /** @type {Match} */ (this.#match("function_of", after));
    if (this.#normal[end] !== "(" && of.trim() && arity(name).most === 0) { // average of 1, 2 and 3
      const list = { name, base: null, nBefore: 0 };
      this.#stack.push({ character: "of", rank: RANK.OPENING, start, isSaid: true, called: list });
      return end;
    }
    if (this.#normal[end] !== "(") {
      const isSaid = end === after && isDigit(this.#normal.charAt(end)) && this.#normal[end - 1] < "\x80"; // sin2
      this.#stack.push({ character: name, rank: RANK.FUNCTION, start, isSaid });
      return end;
    }
    this.#stack.push({ character: "(", rank: RANK.OPENING, start, called: { name, base, nBefore: 0 } });
    return end + 1;
  }

  /** @param {number} start */
  #name(start) {
    const word = this.#match("name", start)?.[0] ?? "";
    const value = this.#names.get(word);
    return value && { word, value };
  }

  /** @param {number} end */
  #skipCurrency(end) {
    const [after, character] = this.#next(end);
    if (!character || !CURRENCIES.includes(character)) return end;
    this.#hasCurrency = true;
    return after + 1;
  }

  // What follows an operand

  /** Returns the operation at `start` and its position, or null. `of` is one only after a percentage or a fraction, `%`
   * only before a number. The x of 0x10 is not one.
   * @type {(start: number) => [string, number, number] | null} */
  #typedOperation(start) {
    if (this.#match("remainder", start)) return ["mod", start, start + 1];
    for (const [word, sign] of [["of", "*"], ["off", "off"]]) {
      const typed = this.#match(word, start);
      if (typed && this.#mayFollow(word, start)) return [sign, start, typed.end];
    }
    const typed = this.#match("operation", start);
    if (!typed || this.#match("no_product", start - 1)) return null;
    const time = typed[0] === ":" && this.#time(start);
    if (time) {
      throw new ExpressionError("syntax", format(MESSAGES.time, { typed: time[0] }), time.index, time.end);
    }
    return [OPERATIONS[singleSpaced(typed[0])], start, typed.end];
  }

  /** @type {(word: string, start: number) => boolean} */
  #mayFollow(word, start) {
    const before = this.#before(start);
    if (search("ends_in_percent", before)) return this.#stack.last.last !== "/";
    return word === "of" && search("ends_in_fraction", before) !== null;
  }

  /** Returns the time of day whose first `:` is at `colon`, such as 17:00. @param {number} colon */
  #time(colon) {
    let first = colon;
    while (first > 0 && isDigit(this.#normal[first - 1])) first -= 1;
    return this.#match("time", first);
  }

  /** Makes a percentage of the last part. @type {(start: number, end: number) => void} */
  #readPercent(start, end) {
    if (this.#match("product_of_percent", start)) {
      throw missingOperation(this.#normal, this.#next(end)[0], MESSAGES["percent-of"]);
    }
    const part = this.#stack.pop();
    const spaced = this.#match("spaced_percent", start - 1);
    if (spaced) {
      const typed = this.#text.slice(part.start, spaced.end);
      const last = this.#text.slice(spaced.end - 2, spaced.end);
      this.#stack.say(typed, `${stripEnd(this.#text.slice(part.start, start))}%${last}`);
    }
    const node = expression("%", [part.node], part.start, end);
    this.#stack.parts.push({ node, start: part.start, end, isPercentage: true });
  }

  /** @type {(postfix: string, start: number, end: number) => void} */
  #readPostfix(postfix, start, end) {
    if (postfix[0] === "^") return this.#raise(postfix.slice(1), start, end);
    const part = this.#stack.pop();
    const isDouble = postfix === "!" && part.node.sign === "!" && part.end === part.node.end; // 3!! means another
    if (isDouble) throw this.#error(start);
    this.#stack.parts.push({ node: expression(postfix, [part.node], part.start, end), start: part.start, end });
  }

  /** Makes a power of the last part. That of sin 2² is said. @type {(exponent: string, start: number, end: number) => void} */
  #raise(exponent, start, end) {
    this.#stack.sayLast();
    const part = { node: integer(exponent, start, end), start, end };
    this.#stack.parts.push(operation("^", this.#stack.pop(), part));
  }

  /** Returns whether a factor begins at `start`: 2(3+4) is a product. 6/2(3) is refused, and 2^3(4) and sin 2(3) as
   * well, because people read them in two ways.
   * @type {(start: number, character: string) => boolean} */
  #beginsFactor(start, character) {
    const isBracket = character === "(" || (character === "|" && !this.#stack.closes("|"));
    const isFunction = this.#match("function", start) !== null;
    const isConstant = character !== "e" && this.#match("constant", start) !== null;
    const sign = this.#stack.last.last;
    if (!(isBracket || isFunction || isConstant) || TIGHT.includes(sign)) return false;
    if (NAMES.has(sign) && !isFunction) return false;
    const before = this.#before(start);
    if (!search("ends_in_factor", before)) return false;
    if (NAMES.has(sign)) this.#stack.sayLast(); // sin3cos4 is sin(3)*cos(4)
    const isMixed = isDigit(before.slice(-1)) && this.#normal[start - 1] === " "; // but for the space
    const fraction = isMixed && this.#match("in_parentheses", start);
    if (fraction && isProper(fraction[1], fraction[2])) {
      const first = this.#stack.parts[this.#stack.parts.length - 1].start;
      const read = `${stripEnd(this.#text.slice(first, start))}*${this.#text.slice(start, fraction.end)}`;
      this.#stack.say(this.#text.slice(first, fraction.end), read);
    }
    return true;
  }

  /** Returns the word between two operands of `sum of 3 and 4`, as an operation and its position, or null.
   * @type {(start: number) => [string, number, number] | null} */
  #pair(start) {
    const typed = this.#match("between", start);
    const opening = this.#stack.lastOpening();
    const words = typed && opening ? `${singleSpaced(opening.character)} ${typed[0]}` : "";
    return typed && Object.hasOwn(PAIRS, words) ? [words, start, typed.end] : null;
  }

  /** Reads the end of the text, or a = at its end. @type {(start: number, position: number) => void} */
  #end(start, position) {
    this.#stack.complete(RANK.OPENING);
    const closed = [];
    for (let opening; (opening = this.#stack.lastOpening()); this.#stack.complete(RANK.OPENING)) {
      if (opening.character !== "(" && opening.character !== "of") throw this.#error(start);
      if (opening.character === "(") closed.push(opening.start);
      this.#stack.close(start);
    }
    if (closed.length) {
      const typed = stripEnd(this.#text.slice(closed[closed.length - 1], start));
      this.#stack.say(typed, shorten(typed) + ")".repeat(Math.min(closed.length, tables.MAX_SHOWN)));
    }
    const [end, more] = this.#next(position);
    if (more) throw new ExpressionError("syntax", MESSAGES.end, end, endOfToken(this.#normal, end));
  }

  // The text

  /** @type {(pattern: string, position: number) => Match | null} */
  #match(pattern, position) {
    return match(pattern, this.#normal, position);
  }

  /** Returns the position of the next character that is not a space, and it; "" at the end.
   * @type {(position: number) => [number, string]} */
  #next(position) {
    position = skip(this.#normal, position);
    return [position, this.#normal.charAt(position)];
  }

  /** Returns the text just before a position, without spaces at its end. @param {number} position */
  #before(position) {
    return stripEnd(this.#normal.slice(Math.max(0, position - 100), position));
  }

  /** Returns the error for what is at `start`, where an operation or operand is expected. @param {number} start */
  #error(start, isOperand = false) {
    const opening = this.#stack.lastOpening() ?? { character: "", start: 0 };
    const lastSign = this.#stack.last.last;
    return errorAt({ text: this.#text, normal: this.#normal, isOperand, lastSign, opening }, start);
  }
}

/** @type {(digits: string, start: number, end: number) => Expression} */
function integer(digits, start, end) {
  return literal({ units: BigInt(digits), places: 0 }, start, end);
}
