// The worked steps as on paper: turns the text that the model wrote into rows with digits in natural order.

import { PROMPT, shapeOf } from "./engine/layout.js";
import { OPERATIONS } from "./engine/operations.js";
import { createCell, derivedCells, isMinus, isWrong, shownText } from "./paper/cells.js";
import { derivedRow, rowsOf } from "./paper/rows.js";
import { Work } from "./paper/work.js";

/** @import { Cell } from "./paper/cells.js" */
/** @import { Row } from "./paper/rows.js" */

/** A row that is ready to be drawn. point: the column that the decimal point follows, null if there is none.
 * @typedef {Row & {point: number | null}} ShownRow */

/** The work as on paper. rows: from top to bottom; cells: one for each character of the text, by index; extent: the
 * lowest and the highest column of the whole sheet.
 * @typedef {{rows: ShownRow[], cells: Cell[], extent: number[]}} Sheet */

export const HAS_WORK = /^[-+]/; // worked steps begin with a sign, an answer with a digit
const NUMBER = /^-?\d+(\.\d+)?$/;

/** Returns the sheet of a prompt and of the text that the model has written so far.
 * @type {(prompt: string, text: string) => Sheet} */
export function paper(prompt, text) {
  const read = !shapeOf(prompt) ? readUnknown : HAS_WORK.test(text) ? readWork : readDirectAnswer;
  const { rows, cells, extent } = read(prompt, text);
  const shown = rows.map(toShownRow).filter(({ cells, side }) => cells.length || side.length);
  return { rows: mergeRows(shown), cells, extent };
}

/** @type {(prompt: string, text: string) => {rows: Row[], cells: Cell[], extent: number[]}} */
function readWork(prompt, text) {
  const work = new Work(prompt, text);
  return { rows: [...rowsOf(work)], cells: [...work.cells, ...work.rest], extent: work.extent };
}

/** Returns the characters as they are, if the prompt has an operation of somebody's own.
 * @type {(prompt: string, text: string) => {rows: Row[], cells: Cell[], extent: number[]}} */
function readUnknown(_, text) {
  const cells = [...text].map((text, at) => createCell(text, at, { why: ["a character of the work"] }));
  const label = "The work, in a notation that this page does not know.";
  return { rows: [{ ...derivedRow("broken", [], label, 0), isDerived: false, side: cells }], cells, extent: [0, 0] };
}

/** @type {(prompt: string, text: string) => {rows: Row[], cells: Cell[], extent: number[]}} */
function readDirectAnswer(prompt, text) {
  const [, , a, operation, b] = /** @type {RegExpExecArray} */ (PROMPT.exec(prompt));
  const [first, second] = [numberRow("first number", reversed(a)), numberRow("second number", reversed(b))];
  const why = (/** @type {string} */ text) => [text === "$" ? "the end" : "a character of the answer"];
  const cells = [...text].map((text, at) => createCell(text, at, { why: why(text) }));
  const row = { ...numberRow("the answer, written at once", text, cells), hasLine: true };
  return { rows: [first, { ...second, operator: OPERATIONS[operation].symbol }, row], cells, extent: [] };
}

/** Returns the row of a number, written backwards and filled with zeros. cells: those of its characters.
 * @type {(label: string, text: string, cells?: Cell[]) => Row} */
function numberRow(label, text, cells = derivedCells(reversed(text), 0)) {
  const number = reversed(text.replace("$", "")).replace(/^0+(?=-|\d|n)/, "");
  const used = cells.slice(0, number.length);
  const isNumber = NUMBER.test(number);
  const places = isNumber ? Math.max(0, used.findIndex(({ text }) => text === ".")) : 0;
  const digits = used.filter(({ text }) => !isNumber || /\d/.test(text));
  digits.forEach((cell, index) => (cell.column = index - places));
  const sign = isNumber ? used.find(isMinus) : undefined;
  const unit = isNumber ? 0 : -Infinity;
  return { names: [label], label, cells: digits, sign, carries: [], side: [], unit, isComplete: true };
}

/** @param {string} text */
const reversed = (text) => [...text].reverse().join("");

/** Returns the rows with each row that `mayMerge` merged into the row before it, if both show the same number.
 * @param {ShownRow[]} rows */
function mergeRows(rows) {
  return rows.reduce((/** @type {ShownRow[]} */ merged, row) => {
    const previous = merged.at(-1);
    if (!row.mayMerge || !previous || !showsSameNumber(previous, row)) return [...merged, row];
    for (const { column, at, copies, hides } of row.cells) {
      const cell = previous.cells.find((cell) => cell.column === column);
      cell?.copies.push(at, ...copies);
      cell?.hides.push(...hides);
    }
    previous.names.push(...row.names);
    if (!previous.sign || previous.sign.at < 0) previous.sign = row.sign ?? previous.sign;
    else if (row.sign) previous.sign.copies.push(row.sign.at);
    previous.side = [...previous.side, ...row.side];
    previous.label += row.names.includes("answer") ? ", the answer" : "";
    return merged;
  }, []);
}

/** Returns whether a row shows the same number as a complete one, as far as it is written, and nothing wrong.
 * @type {(complete: Row, row: Row) => boolean} */
function showsSameNumber(complete, row) {
  if (![complete.isComplete, complete.cells.length, row.cells.length].every(Boolean)) return false;
  if ([...row.cells, ...row.side, ...row.carries].some(isWrong)) return false;
  if (complete.sign && row.sign && shownText(complete.sign) !== shownText(row.sign)) return false;
  const textsOf = (/** @type {Row} */ { cells }) => new Map(cells.map((cell) => [cell.column, shownText(cell)]));
  const [left, right] = [textsOf(complete), textsOf(row)];
  const columns = [...right.keys(), ...(row.isComplete ? left.keys() : [])];
  return columns.every((column) => (left.get(column) ?? "0") === (right.get(column) ?? "0"));
}

/** Returns a row that is ready to be drawn: without zeros that fill it, and with the zeros before the point. A cell
 * knows what it hides.
 * @type {(row: Row) => ShownRow} */
function toShownRow(row) {
  const { unit, sign, isComplete, showsPlus } = row;
  const isZero = (/** @type {Cell} */ cell) => shownText(cell) === "0" && !isWrong(cell);
  const fills = (/** @type {Cell} */ cell) => cell.isFill || (row.isDecimal && isComplete && cell.column < unit);
  let cells = [...row.cells].sort((x, y) => y.column - x.column);
  const above = row.isDecimal && isComplete && cells.every(isZero) ? unit - cells[0].column : 0;
  if (above > 0) cells = cells.map((cell) => ({ ...cell, column: cell.column + above })); // a 0 has no places
  const last = cells.findLastIndex((cell) => !isZero(cell) || !fills(cell));
  const low = cells.splice(last + 1);
  const lowest = cells.at(-1)?.column ?? 0;
  const top = cells.findIndex((cell) => !isZero(cell) || cell.column <= Math.max(unit, lowest));
  const hidden = cells.splice(0, isComplete ? top : Math.min(top, cells.findIndex(({ isFill }) => !isFill)));
  for (const cell of cells.slice(0, top - hidden.length)) cell.isPadding = true;
  hidden.push(...low);
  const isSignShown = sign && (shownText(sign) === "-" || isWrong(sign) || showsPlus);
  if (sign && !isSignShown) hidden.push(sign);
  cells[0]?.hides.push(...hidden.flatMap(({ at, copies, hides }) => [at, ...copies, ...hides]));
  const [carries, zeros] = [false, true].map((hides) => row.carries.filter((cell) => isZero(cell) === hides));
  for (const { column, at } of zeros) (cells.find((cell) => cell.column === column) ?? cells[0])?.hides.push(at);
  const high = cells[0]?.column;
  if (lowest < unit && high < unit) {
    cells = [...derivedCells("0".repeat(unit - high), high + 1).reverse(), ...cells];
  }
  return { ...row, cells, carries, sign: isSignShown ? sign : undefined, point: lowest < unit ? unit : null };
}
