// Numbers made of the cells of a sheet.

/** @import { Cell } from "./sheet.js" */

/** Returns the value of a digit, and 0 for any other cell or none. @param {Cell | undefined} cell */
export function digitValue(cell) {
  return cell && /^\d$/.test(cell.text) ? Number(cell.text) : 0;
}

/** Returns the value of a digit of a quotient. @type {(sign: Cell | undefined, digit: Cell | undefined) => number} */
export function signedValue(sign, digit) {
  return sign?.text === "-" ? -digitValue(digit) : digitValue(digit);
}

/** Returns the text of digits, given lowest first, as people write it. A mark counts as 0. @param {Cell[]} cells */
export function inNaturalOrder(cells) {
  return cells.map(({ text, isMark }) => (isMark ? "0" : text)).reverse().join("");
}

/** Returns the integer that digits stand for, given lowest first. A mark counts as 0. @param {Cell[]} cells */
export function integerOf(cells) {
  return cells.reduceRight((sum, cell) => 10n * sum + BigInt(cell.isMark ? 0 : digitValue(cell)), 0n);
}

/** Returns the integer that digits in ten's complement stand for, given lowest first. @param {Cell[]} cells */
export function signedIntegerOf(cells) {
  return integerOf(cells) - (cells.at(-1)?.text === "9" ? 10n ** BigInt(cells.length) : 0n);
}

/** Returns `number / 10 ** places` in decimal notation: `-1250` and 2 give `−12.5`.
 * @type {(number: bigint | number, places?: number) => string} */
export function formatDecimal(number, places = 0) {
  const digits = String(number < 0 ? -number : number).padStart(places + 1, "0");
  const end = digits.length - places;
  const fraction = digits.slice(end).replace(/0+$/, "");
  return `${number < 0 ? "−" : ""}${digits.slice(0, end)}${fraction && `.${fraction}`}`;
}

/** Returns cells for the digits of a number that the model did not write. lowest: the column of the lowest digit.
 * @type {(number: bigint | number | string, lowest: number) => Cell[]} */
export function derivedCells(number, lowest) {
  return [...String(number)].reverse().map((text, j) => {
    return { at: -1, text, expected: null, why: "", column: lowest + j, copies: [] };
  });
}
