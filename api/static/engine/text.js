// Text that people type, read by the tables that `make tables` writes (calcgpt/inference/spelling.py).
// Positions are those of code points, as in Python.

import { call, each, re } from "./python.js";
import tables from "./tables.js";

const UNKNOWN = "\ufffd"; // in a normal text, for a character of two UTF-16 units
const { MAX_SHOWN, NORMAL } = tables;

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

/** Returns words with one space between them. @param {string} words */
export function singleSpaced(words) {
  return words.split(" ").filter(Boolean).join(" ");
}

/** Returns a text of at most about MAX_SHOWN characters: a longer one without its middle. @param {string} text */
export function shorten(text) {
  const [most, half] = [MAX_SHOWN, MAX_SHOWN / 2];
  const isLong = text.length > 2 * most; // then only its ends are split into code points
  const characters = isLong ? [...text.slice(0, most), ...text.slice(-most)] : [...text];
  if (!isLong && characters.length <= most) return text;
  return `${characters.slice(0, half).join("")}...${characters.slice(-half).join("")}`;
}
