// The worked steps as on paper: turns the text that the model wrote into rows with digits in natural order.

import { PROMPT, shapeOf } from "./engine/layout.js";
import { KIND, OPERATIONS } from "./engine/operations.js";
import { derivedCells, isMinus, isWrong, shownText } from "./paper/cells.js";
import { rowsOf } from "./paper/rows.js";
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
/** The characters of an answer by the kinds of their slots. The digits are those of the result. */
const ANSWER = new Map(
  Object.entries({ ANSWER_ZERO: "0", ANSWER_POINT: ".", ANSWER_MINUS: "-", ANSWER_N: "n", ANSWER_A: "a", END: "$" }).map(
    ([name, character]) => [KIND[name], character],
  ),
);

/** Returns the sheet of a prompt and of the text that the model has written so far, or null if the prompt is not in the
 * notation. @type {(prompt: string, text: string) => Sheet | null} */
export function paper(prompt, text) {
  if (!shapeOf(prompt)) return null;
  const { rows, cells, extent = [] } = HAS_WORK.test(text) ? readWork(prompt, text) : readDirectAnswer(prompt, text);
  const shown = rows.map(toShownRow).filter(({ cells, side }) => cells.length || side.length);
  return { rows: mergeRows(shown), cells, extent };
}

/** @type {(prompt: string, text: string) => {rows: Row[], cells: Cell[], extent: number[]}} */
function readWork(prompt, text) {
  const work = new Work(prompt, text);
  const { cells, broken, layout, shape, extent } = work;
  const rows = [...rowsOf(work)];
  if (broken >= 0) {
    const rest = [...text.slice(broken + 1)].map((text, index) => toCell(text, broken + 1 + index, null));
    const label = "From here on, the work does not follow the notation.";
    rows.push({ ...emptyRow("broken", label), side: [cells[broken], ...rest] });
    cells.push(...rest);
  }
  if (!work.isWritten) return { rows, cells, extent };
  const line = prompt + text;
  const expected = layout.answerSlots(line).map(([kind, , , , , [source]]) => ANSWER.get(kind) ?? line[source]);
  let label = layout.result.length ? "the answer" : "the answer: less than half of its last place is rounded to 0";
  if (shape.byZero) label = "not a number: nothing can be divided by 0";
  rows.push({ ...readAnswer(text, cells, expected, work.units.result), label, mayMerge: true });
  return { rows, cells, extent };
}

/** @type {(prompt: string, text: string) => {rows: Row[], cells: Cell[], extent?: number[]}} */
function readDirectAnswer(prompt, text) {
  const [, , a, operation, b] = /** @type {RegExpExecArray} */ (PROMPT.exec(prompt));
  /** @type {Cell[]} */ const cells = [];
  const row = { ...readAnswer(text, cells, null, 0), label: "the answer, written at once", hasLine: true };
  const operands = [operandRow("first number", a), operandRow("second number", b)];
  return { rows: [operands[0], { ...operands[1], operator: OPERATIONS[operation].symbol }, row], cells };
}

/** @type {(name: string, label: string) => Row} */
function emptyRow(name, label) {
  return { names: [name], label, cells: [], carries: [], side: [], unit: 0, isComplete: true };
}

/** Returns the row of a number of the question. @type {(label: string, field: string) => Row} */
function operandRow(label, field) {
  const [whole, places = ""] = field.replace("-", "0").split(".");
  const cells = derivedCells((whole + places).replace(/^0+(?=.)/, ""), -places.length);
  return { ...emptyRow(label, label), cells, sign: field.includes("-") ? derivedCells("-", 0)[0] : undefined };
}

/** Returns the cell of a character without a column. @type {(text: string, at: number, expected: string | null) => Cell} */
function toCell(text, at, expected) {
  return { at, text, expected, why: [text === "$" ? "the end" : "not a part of the work"], column: 0, copies: [] };
}

/** Reads the characters of an answer, adds their cells and returns its row. expected: null if any are correct.
 * @type {(text: string, cells: Cell[], expected: string[] | null, unit: number) => Row} */
function readAnswer(text, cells, expected, unit) {
  const end = text.indexOf("$", cells.length);
  const characters = [...text.slice(cells.length, end < 0 ? undefined : end + 1)];
  const start = cells.length;
  const answer = characters.map((text, index) => toCell(text, start + index, expected && (expected[index] ?? "")));
  cells.push(...answer);
  const digits = answer.filter(({ text }) => text !== "$");
  const number = digits.map(({ text }) => text).reverse().join("").replace(/^0+(?=-|\d|n)/, "");
  const isNumber = NUMBER.test(number);
  const used = digits.slice(0, isNumber || number === "nan" ? number.length : undefined);
  let point = digits.findIndex(({ text }) => text === ".");
  if (point < 0 && end < 0 && expected) point = expected.indexOf("."); // it is still to come
  for (const [index, cell] of digits.entries()) {
    cell.column = unit + index - (isNumber && point >= 0 ? point + Number(index > point) : 0);
    cell.why = [used.includes(cell) ? explainAnswerCell(cell) : "a zero that fills the answer up to ten characters"];
  }
  const top = Math.max(unit, ...used.map(({ column }) => column));
  const others = answer.filter((cell) => !used.includes(cell) && isWrong(cell));
  others.forEach((cell, index) => (cell.column = top + 1 + index));
  const isDigit = (/** @type {Cell} */ cell) => !isNumber || /\d/.test(cell.text) || (isWrong(cell) && !isMinus(cell));
  const sign = isNumber ? used.find(isMinus) : undefined;
  const row = { ...emptyRow("answer", ""), unit: isNumber ? unit : -Infinity, isComplete: end >= 0, sign };
  return { ...row, cells: [...used.filter(isDigit), ...others] };
}

/** @param {Cell} cell */
function explainAnswerCell(cell) {
  if (cell.text === ".") return "the decimal point";
  return isMinus(cell) ? "the sign of the answer" : "a digit of the answer, copied from the result";
}

/** Returns the rows with each row that `mayMerge` merged into the row before it, if both show the same number.
 * @param {ShownRow[]} rows */
function mergeRows(rows) {
  return rows.reduce((/** @type {ShownRow[]} */ merged, row) => {
    const previous = merged.at(-1);
    if (!row.mayMerge || !previous || !showsSameNumber(previous, row)) return [...merged, row];
    for (const { column, at, copies } of row.cells) {
      previous.cells.find((cell) => cell.column === column)?.copies.push(at, ...copies);
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
  if ([...row.cells, ...row.side].some(isWrong)) return false;
  if (complete.sign && row.sign && shownText(complete.sign) !== shownText(row.sign)) return false;
  const [left, right] = [complete, row].map(({ cells }) => new Map(cells.map((cell) => [cell.column, shownText(cell)])));
  const columns = [...right.keys(), ...(row.isComplete ? left.keys() : [])];
  return columns.every((column) => (left.get(column) ?? "0") === (right.get(column) ?? "0"));
}

/** Returns a row that is ready to be drawn: without zeros that fill it, and with the zeros before the point. A cell
 * shows the characters as well that it hides.
 * @type {(row: Row) => ShownRow} */
function toShownRow(row) {
  const { unit, sign, isComplete, showsPlus } = row;
  const isZero = (/** @type {Cell} */ cell) => shownText(cell) === "0" && !isWrong(cell);
  const fills = (/** @type {Cell} */ cell) => cell.isFill || (row.isDecimal && isComplete && cell.column < unit);
  let cells = [...row.cells].sort((x, y) => y.column - x.column);
  const above = row.isDecimal && isComplete && cells.every(isZero) ? unit - cells[0].column : 0;
  if (above > 0) cells = cells.map((cell) => ({ ...cell, column: cell.column + above })); // a 0 has no places
  const last = cells.findLastIndex((cell) => !isZero(cell) || !fills(cell));
  const hidden = cells.splice(last + 1);
  const lowest = cells.at(-1)?.column ?? 0;
  const top = cells.findIndex((cell) => !isZero(cell) || cell.column <= Math.max(unit, lowest));
  if (isComplete) hidden.push(...cells.splice(0, top));
  else for (const cell of cells.slice(0, top)) cell.isPadding = true;
  const isSignShown = sign && (shownText(sign) === "-" || isWrong(sign) || showsPlus);
  if (sign && !isSignShown) hidden.push(sign);
  cells[0]?.copies.push(...hidden.flatMap(({ at, copies }) => [at, ...copies]).filter((at) => at >= 0));
  const [carries, zeros] = [false, true].map((hides) => row.carries.filter((cell) => isZero(cell) === hides));
  for (const { column, at } of zeros) (cells.find((cell) => cell.column === column) ?? cells[0])?.copies.push(at);
  const high = cells[0]?.column;
  if (lowest < unit && high < unit) {
    cells = [...derivedCells("0".repeat(unit - high), high + 1, cells[0].at).reverse(), ...cells];
  }
  return { ...row, cells, carries, sign: isSignShown ? sign : undefined, point: lowest < unit ? unit : null };
}
