// The cells of a sheet, the sentences that explain them, and numbers made of them.

/** A part of a sentence: text, or a character that a rule reads, with its index in the model's text. Those of the
 * question have negative indices.
 * @typedef {string | {text: string, at: number}} Part */

/** A character of a sheet. at: its index in the model's text, -1 if the model did not write it; shown: what stands on
 * the sheet in its place; column: counted from the right; expected: the correct character, null if several are correct;
 * why: the step in words; copies: the indices of its copies; hides: those of characters that are not on the sheet
 * because of it; isFill: whether it only fills the row; isMark: whether it is a 1 that stands for 0; isBelow: whether it
 * is a digit below a remainder that is not brought down; isPadding: whether it is a leading zero.
 * @typedef {{at: number, text: string, shown?: string, column: number, expected: string | null, why: Part[],
 *   copies: number[], hides: number[], isWrong?: boolean, isChoice?: boolean, isFill?: boolean,
 *   isMark?: boolean, isBelow?: boolean, isBroughtDown?: boolean, isPadding?: boolean}} Cell */

/** @type {(text: string, at: number, more?: Partial<Cell>) => Cell} */
export function createCell(text, at, more) {
  return { at, text, column: 0, expected: null, why: [], copies: [], hides: [], ...more };
}

/** Returns a sentence in parts. A cell stands for its character.
 * @type {(strings: TemplateStringsArray, ...values: (Cell | Part | Part[] | number | undefined)[]) => Part[]} */
export function say(strings, ...values) {
  /** @type {Part[]} */ const parts = [];
  for (const [index, text] of strings.entries()) {
    const value = values[index] ?? "";
    for (const part of [text, ...(Array.isArray(value) ? value : [value])]) {
      if (part !== "") parts.push(typeof part === "object" ? { text: part.text, at: part.at } : String(part));
    }
  }
  return parts;
}

/** Returns a sentence as text. @param {Part[]} parts */
export const textOf = (parts) => parts.map((part) => (typeof part === "string" ? part : part.text)).join("");

/** Returns whether a cell has a wrong character. @param {Cell} cell */
export function isWrong({ text, expected, isWrong }) {
  return Boolean(isWrong || (expected !== null && text !== expected));
}

/** Returns the explanation of a character and, if it is wrong, the correct character. @type {(cell: Cell) => Part[]} */
export function explain(cell) {
  const { text, expected, why } = cell;
  if (!isWrong(cell) || cell.isWrong) return why;
  const correction = expected === "" ? "the text should have ended before it" : `it should be ${expected}`;
  return say`${why}. The model wrote ${text}: ${correction}`;
}

/** Returns what stands on the sheet in the place of a character. @param {Cell} cell */
export const shownText = ({ text, shown = text }) => shown;
/** @param {Cell | undefined} cell */
export const isMinus = (cell) => cell?.text === "-";
/** Returns the value of a digit, and 0 for any other cell or none. @param {Cell | undefined} cell */
export const digitValue = (cell) => (cell && /^\d$/.test(cell.text) ? Number(cell.text) : 0);
/** Returns the value of a digit of a quotient. @type {(sign: Cell | undefined, digit: Cell | undefined) => number} */
export const signedValue = (sign, digit) => (isMinus(sign) ? -digitValue(digit) : digitValue(digit));
/** Returns digits as people write them. @param {Cell[]} cells lowest first */
export const inNaturalOrder = (cells) => cells.map(shownText).reverse().join("");
/** Returns the integer that the digits on the sheet stand for. @param {Cell[]} cells lowest first */
export const integerOf = (cells) => BigInt(inNaturalOrder(cells).replace(/\D/g, "0") || 0);

/** Returns `number * 10 ** exponent` in decimal notation: `-1250` and -2 give `−12.5`.
 * @type {(number: bigint | number, exponent?: number) => string} */
export function formatDecimal(number, exponent = 0) {
  const zeros = number ? "0".repeat(Math.max(exponent, 0)) : "";
  const places = Math.max(-exponent, 0);
  const digits = String(number < 0 ? -number : number).padStart(places + 1, "0") + zeros;
  const end = digits.length - places;
  const fraction = digits.slice(end).replace(/0+$/, "");
  return `${number < 0 ? "−" : ""}${digits.slice(0, end)}${fraction && `.${fraction}`}`;
}

/** Returns cells for the characters of a number that the model did not write. lowest: the column of the last one.
 * @type {(number: bigint | number | string, lowest: number) => Cell[]} */
export function derivedCells(number, lowest) {
  return [...String(number)].reverse().map((text, j) => createCell(text, -1, { column: lowest + j }));
}
