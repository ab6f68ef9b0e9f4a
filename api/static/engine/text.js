// Text that people type, read by the tables that `make tables` writes (calcgpt/inference/spelling.py).
// Positions are those of code points, as in Python.

import { call, each, re } from "./python.js";
import tables from "./tables.js";

/** @typedef {RegExpExecArray & {end: number}} Match a match of a pattern, and where it ends */

const UNKNOWN = "\ufffd"; // in a normal text, for a character of two UTF-16 units
const { MAX_SHOWN, NORMAL, SPACES } = tables;
/** @type {(flags: string) => Record<string, RegExp>} */
const compile = (flags) =>
  Object.fromEntries(Object.entries(tables.PATTERNS).map(([name, source]) => [name, new RegExp(source, flags)]));
const [PATTERNS, SEARCHED] = [compile("y"), compile("")];

/** A text as it was typed, by code points. */
export class Text {
  #text;
  #characters;
  /** @type {number[]} */ #offsets = [0]; // of code points, in UTF-16 units

  /** @param {string} text */
  constructor(text) {
    this.#text = text;
    this.#characters = [...text];
    for (const [index, { length }] of this.#characters.entries()) this.#offsets.push(this.#offsets[index] + length);
  }

  get length() {
    return this.#characters.length;
  }

  /** @type {(start: number, end?: number) => string} */
  slice(start, end = this.length) {
    return this.#text.slice(this.#offsets[start], this.#offsets[end]);
  }

  /** @param {string} characters */
  strip(characters) {
    return call(this.#text, "strip", characters);
  }

  /** Returns a text of the same length with usual characters in lower case, all of one UTF-16 unit. */
  normalize() {
    return this.#characters.map((typed) => NORMAL[typed] ?? (typed.length > 1 ? UNKNOWN : typed)).join("");
  }
}

/** Returns the pattern of any of these spellings, the longest first: `**` before `*`.
 * @param {Iterable<string> | Record<string, any>} spellings */
export function longestFirst(spellings) {
  const ordered = [...new Set(each(spellings))].sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
  return re.compile(ordered.map(patternOf).join("|"));
}

/** @param {string} spelling */
function patternOf(spelling) {
  const escaped = spelling.replace(/[*+^?|]/g, "\\$&").replaceAll(" ", " +");
  if (/[0-9]$/.test(spelling)) return `${escaped}(?![a-z0-9])`; // log100 is log(100), not log10(0)
  return /\p{L}$/u.test(spelling) ? `${escaped}(?![a-z])` : escaped;
}

/** Returns a text of the same length with usual characters in lower case. @param {Text} text */
export const normalize = (text) => text.normalize();

/** @param {string} source */
export function sticky(source) {
  return new RegExp(source, "y");
}

/** Returns the match of a pattern at a position of a normal text, or null. pattern: its name, or a sticky one.
 * @type {(pattern: string | RegExp, normal: string, position: number) => Match | null} */
export function match(pattern, normal, position) {
  const expression = typeof pattern === "string" ? PATTERNS[pattern] : pattern;
  expression.lastIndex = position;
  const found = expression.exec(normal);
  return found && Object.assign(found, { end: expression.lastIndex });
}

/** Returns the first match of a pattern in a normal text, or null. pattern: its name.
 * @type {(pattern: string, normal: string) => RegExpExecArray | null} */
export function search(pattern, normal) {
  return SEARCHED[pattern].exec(normal);
}

/** Returns the position of the next character that is not a space.
 * @type {(normal: string, position: number) => number} */
export function skip(normal, position) {
  while (normal[position] === " ") position += 1;
  return position;
}

/** @param {string} character "" at the end */
export function isDigit(character) {
  return /^[0-9]$/.test(character);
}

/** Returns words with one space between them. @param {string} words */
export function singleSpaced(words) {
  return words.split(" ").filter(Boolean).join(" ");
}

/** Returns a text without some characters at its end. @type {(text: string, characters?: string) => string} */
export function stripEnd(text, characters = SPACES) {
  let end = text.length;
  while (end && characters.includes(text[end - 1])) end -= 1;
  return text.slice(0, end);
}

/** Returns a text without spaces at both ends. @param {string} text */
export function strip(text) {
  let start = 0;
  while (start < text.length && SPACES.includes(text[start])) start += 1;
  return stripEnd(text.slice(start));
}

/** Returns a text of at most about MAX_SHOWN characters: a longer one without its middle. @param {string} text */
export function shorten(text) {
  const [most, half] = [MAX_SHOWN, MAX_SHOWN / 2];
  const isLong = text.length > 2 * most; // then only its ends are split into code points
  const characters = isLong ? [...text.slice(0, most), ...text.slice(-most)] : [...text];
  if (!isLong && characters.length <= most) return text;
  return `${characters.slice(0, half).join("")}...${characters.slice(-half).join("")}`;
}

/** Returns a message with its fields filled in.
 * @type {(message: string, fields: Record<string, string | number>) => string} */
export function format(message, fields) {
  return message.replace(/\{(\w+)\}/g, (_, name) => String(fields[name]));
}

/** Returns a number with separators: 10000 -> `10,000`. @param {number} number */
export function formatCount(number) {
  return number.toLocaleString("en");
}
