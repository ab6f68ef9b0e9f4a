// Errors of expressions: what is not understood at a position, in plain words
// (calcgpt/inference/expression_errors.py).

import tables from "./tables.js";
import { format, isDigit, match, shorten, singleSpaced } from "./text.js";

const { HINTS, HINTS_AFTER_NUMBER, MESSAGES, ONLY } = tables;
const OPERATIONS = Object.values(tables.OPERATIONS);
export const NAMES = new Set(Object.values(tables.FUNCTIONS).filter((name) => !OPERATIONS.includes(name)));

/** What a reader knows where it does not understand the text. isOperand: whether an operand is expected, not an
 * operation; lastSign: before the last operand, "" for none; opening: the last parenthesis, bar or pair of words that
 * is open, and where.
 * @typedef {{text: import("./text.js").Text, normal: string, isOperand: boolean, lastSign: string,
 * opening: {character: string, start: number}}} Context */

/** An error in an expression: a message of one line, and the position in code points. */
export class ExpressionError extends Error {
  /** @param {string} kind
   * @param {string} reason
   * @param {number} position
   * @param {number} [end] */
  constructor(kind, reason, position, end = position + 1) {
    super(reason);
    this.kind = kind;
    this.position = position;
    this.end = end;
  }
}

/** Returns the error for what is at `start`. @type {(context: Context, start: number) => ExpressionError} */
export function errorAt({ text, normal, isOperand, lastSign, opening }, start) {
  const end = endOfToken(normal, start);
  const character = normal.charAt(start);
  const typed = quoted(shorten(text.slice(start, end)));
  let reason;
  if (character === "," && isDigit(normal.charAt(start + 1))) {
    return new ExpressionError("decimal-comma", MESSAGES.comma, start);
  }
  const isFunction = match("function", normal, start) ?? match("constant", normal, start);
  if (isFunction && !isOperand && character !== "e") {
    return missingOperation(normal, start, factorHint(lastSign));
  }
  const unknown = isOperand && match("unknown", normal, start);
  if (unknown) return unknownWord(text, start, unknown.end);
  if (match("word", normal, start)) {
    const word = normal.slice(start, end);
    const name = word === "of" || word === "off" ? word : "unit";
    reason = format(MESSAGES[name], { typed, only: ONLY });
  } else if (isOperand) {
    const shown = start < end ? typed : MESSAGES["the-end"];
    reason = format(MESSAGES.operand, { typed: shown, hint: HINTS[character] ?? "" });
  } else if (isDigit(character) || character === "(" || character === "|") {
    return missingOperation(normal, start, isDigit(character) ? "" : factorHint(lastSign));
  } else if (character === "," || character === ";") reason = MESSAGES.one;
  else if (character === ")") reason = MESSAGES.closing;
  else if (!character || character === "=") reason = notClosed(opening);
  else reason = format(MESSAGES.sign, { typed, hint: HINTS_AFTER_NUMBER[character] ?? "" });
  return new ExpressionError("syntax", reason, start, end);
}

/** Returns the error for a word that is not known.
 * @type {(text: import("./text.js").Text, start: number, end: number) => ExpressionError} */
export function unknownWord(text, start, end) {
  const typed = quoted(shorten(text.slice(start, end)));
  return new ExpressionError("syntax", format(MESSAGES.word, { typed, only: ONLY }), start, end);
}

/** Returns why a product needs its sign after these: 6/2(3), sin 2(3). @param {string} lastSign */
function factorHint(lastSign) {
  if (lastSign === "/" || lastSign === "^") return format(MESSAGES.factor, { sign: lastSign });
  return NAMES.has(lastSign) ? format(MESSAGES.argument, { name: lastSign }) : "";
}

/** Returns the error for an operand where an operation is expected.
 * @type {(normal: string, start: number, hint: string) => ExpressionError} */
export function missingOperation(normal, start, hint) {
  const reason = format(MESSAGES["no-operation"], { hint });
  return new ExpressionError("no-operation", reason, start, endOfToken(normal, start));
}

/** @param {{character: string, start: number}} opening */
function notClosed({ character, start }) {
  if (character === "|") return format(MESSAGES.bar, { n: start });
  const words = singleSpaced(character);
  const pairs = Object.keys(tables.PAIRS).filter((pair) => pair.startsWith(words));
  const between = pairs.map((pair) => pair.slice(pair.lastIndexOf(" ") + 1));
  return format(MESSAGES.pair, { word: quoted(between.join(" or ")) });
}

/** Returns the end of the number, word or character at `start`. @type {(normal: string, start: number) => number} */
export function endOfToken(normal, start) {
  return match("token", normal, start)?.end ?? Math.min(start + 1, normal.length);
}

/** Returns a text in quotation marks, as Python's repr does: an invisible character is escaped. @param {string} text */
export function quoted(text) {
  if (text === "'") return `"'"`;
  return `'${text.replace(/\\/g, "\\\\").replace(/(?! )[\p{C}\p{Z}]/gu, escaped)}'`;
}

/** @param {string} character */
function escaped(character) {
  const code = (character.codePointAt(0) ?? 0).toString(16);
  const [letter, length] = code.length <= 2 ? ["x", 2] : code.length <= 4 ? ["u", 4] : ["U", 8];
  return `\\${letter}${code.padStart(length, "0")}`;
}
