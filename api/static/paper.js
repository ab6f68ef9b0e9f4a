// The worked steps as on paper: turns the text that the model wrote into rows with digits in natural order.

import { PROMPT, shapeOf } from "./engine/layout.js";
import { KIND, OPERATIONS } from "./engine/operations.js";
import { derivedCells, isWrong, say, shownText } from "./paper/cells.js";
import { rowsOf } from "./paper/rows.js";
import { Work } from "./paper/work.js";

/** @import { Cell, Part } from "./paper/cells.js" */
/** @import { Row } from "./paper/rows.js" */

/** A row that is ready to be drawn. point: the column that the decimal point follows, null if there is none.
 * @typedef {Row & {point: number | null}} ShownRow */

/** The work as on paper. rows: from top to bottom; cells: one for each character of the text, by index; extent: the
 * lowest and the highest column of the whole sheet, so that nothing moves while it is written.
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
 * notation. hasWork: whether worked steps stand before the answer, which an empty text does not tell.
 * @type {(prompt: string, text: string, hasWork?: boolean) => Sheet | null} */
export function paper(prompt, text, hasWork = HAS_WORK.test(text)) {
  if (!shapeOf(prompt)) return null;
  const { rows, cells, extent = [] } = hasWork ? readWork(prompt, text) : readDirectAnswer(prompt, text);
  const shown = rows.map(toShownRow).filter(({ cells, side }) => cells.length || side.length);
  return { rows: mergeRows(shown), cells, extent };
}

/** @type {(prompt: string, text: string) => {rows: Row[], cells: Cell[], extent: number[]}} */
function readWork(prompt, text) {
  const work = new Work(prompt, text);
  const { cells, broken, layout, shape, extent } = work;
  const rows = [...rowsOf(work)];
  if (broken >= 0) {
    const label = "From here on, the work does not follow the notation.";
    const rest = [...text.slice(broken + 1)].map((text, index) => toCell(text, broken + 1 + index, null));
    rows.push({ ...emptyRow("broken"), label, side: [cells[broken], ...rest] });
    cells.push(...rest);
  }
  if (!work.isWritten) return { rows, cells, extent };
  const line = prompt + text;
  const expected = layout.answerSlots(line).map(([kind, , , , , [source]]) => ANSWER.get(kind) ?? line[source]);
  const row = readAnswer(text, cells, expected, work.units.result);
  row.label = layout.result.length ? "the answer" : "the answer: less than half of its last place is rounded to 0";
  if (shape.byZero) row.label = "not a number: nothing can be divided by 0";
  return { rows: [...rows, { ...row, mergesIntoPrevious: true }], cells, extent };
}

/** @type {(prompt: string, text: string) => {rows: Row[], cells: Cell[], extent?: number[]}} */
function readDirectAnswer(prompt, text) {
  const [, , a, operation, b] = /** @type {RegExpExecArray} */ (PROMPT.exec(prompt));
  /** @type {Cell[]} */ const cells = [];
  const row = { ...readAnswer(text, cells, null, 0), label: "the answer, written at once", hasLine: true };
  const operands = [operandRow("a", "first number", a), operandRow("b", "second number", b)];
  return { rows: [operands[0], { ...operands[1], operator: OPERATIONS[operation].symbol }, row], cells };
}

/** @type {(name: string) => Row} */
const emptyRow = (name) => ({ names: [name], label: "", cells: [], carries: [], side: [], unit: 0, isComplete: true });

/** Returns the row of a number of the question. @type {(name: string, label: string, field: string) => Row} */
function operandRow(name, label, field) {
  const [whole, places = ""] = field.replace("-", "0").split(".");
  const cells = derivedCells((whole + places).replace(/^0+(?=.)/, ""), -places.length);
  return { ...emptyRow(name), label, cells, sign: field.includes("-") ? derivedCells("-", 0)[0] : undefined };
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
  const answer = characters.map((character, index) => {
    return toCell(character, cells.length + index, expected && (expected[index] ?? ""));
  });
  cells.push(...answer);
  const row = { ...emptyRow("answer"), unit, isComplete: end >= 0 };
  const digits = answer.filter(({ text }) => text !== "$");
  const number = digits.map(({ text }) => text).reverse().join("").replace(/^0+(?=-|\d|n)/, "");
  const isNumber = NUMBER.test(number);
  const used = digits.slice(0, isNumber || number === "nan" ? number.length : undefined);
  let point = digits.findIndex(({ text }) => text === ".");
  if (point < 0 && end < 0) point = expected?.indexOf(".") ?? point; // it is still to come
  for (const [index, cell] of used.entries()) {
    cell.column = unit + index - (isNumber ? Math.max(point, 0) + Number(index > point && point >= 0) : 0);
    cell.why = [explainAnswerCell(cell.text)];
  }
  for (const cell of digits.slice(used.length)) cell.why = ["a zero that fills the answer up to ten characters"];
  const wrong = answer.filter((cell) => !used.includes(cell) && isWrong(cell));
  row.cells = used.filter((cell) => !isNumber || /\d/.test(cell.text) || (isWrong(cell) && cell.text !== "-"));
  const top = Math.max(unit, ...used.map(({ column }) => column));
  for (const [index, cell] of wrong.entries()) row.cells.push(Object.assign(cell, { column: top + 1 + index }));
  row.sign = isNumber ? used.find(({ text }) => text === "-") : undefined;
  return isNumber ? row : { ...row, unit: -Infinity };
}

/** @param {string} text */
function explainAnswerCell(text) {
  if (text === ".") return "the decimal point";
  return text === "-" ? "the sign of the answer" : "a digit of the answer, copied from the result";
}

/** Returns the rows with each `mergesIntoPrevious` row merged into the row before it, if both show the same number.
 * @param {ShownRow[]} rows */
function mergeRows(rows) {
  return rows.reduce((/** @type {ShownRow[]} */ merged, row) => {
    const previous = merged.at(-1);
    const mayMerge = row.mergesIntoPrevious && previous?.acceptsMerge && previous.isComplete;
    if (!previous || !mayMerge || !showsSameNumber(previous, row)) return [...merged, row];
    const copies = new Map(row.cells.map((cell) => [cell.column, cell]));
    for (const cell of previous.cells) {
      const copy = copies.get(cell.column);
      if (copy) cell.copies.push(copy.at, ...copy.copies);
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
  if (!row.cells.length || [...row.cells, ...row.side].some(isWrong)) return false;
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
  const hidden = cells.splice(last + 1).map(({ at }) => at);
  const lowest = cells.at(-1)?.column ?? 0;
  const top = cells.findIndex((cell) => !isZero(cell) || cell.column <= Math.max(unit, lowest));
  if (isComplete) hidden.push(...cells.splice(0, top).map(({ at }) => at));
  else for (const cell of cells.slice(0, top)) cell.isPadding = true;
  const isSignShown = sign && (shownText(sign) === "-" || isWrong(sign) || showsPlus);
  if (sign && !isSignShown) hidden.push(sign.at, ...sign.copies);
  cells[0]?.copies.push(...hidden.filter((at) => at >= 0));
  const carries = row.carries.filter((cell) => cell.text !== "0" || isWrong(cell));
  for (const carry of row.carries.filter((cell) => !carries.includes(cell))) {
    cells.find(({ column }) => column === carry.column)?.copies.push(carry.at);
  }
  const high = cells[0]?.column;
  if (lowest < unit && high < unit) cells = [...derivedCells("0".repeat(unit - high), high + 1).reverse(), ...cells];
  return { ...row, cells, carries, sign: isSignShown ? sign : undefined, point: lowest < unit ? unit : null };
}

/** Returns the explanation of a character and, if it is wrong, the correct character, in parts.
 * @type {(cell: Cell) => Part[]} */
export function explain(cell) {
  const { text, expected, why } = cell;
  if (!isWrong(cell) || cell.isWrong) return why;
  const correction = expected === "" ? "the text should have ended before it" : `it should be ${expected}`;
  return say`${why}. The model wrote ${text}: ${correction}`;
}

/** Returns the digits of a row in natural order, with point and sign. @param {ShownRow} row */
export function written({ cells, sign, point }) {
  const digits = cells.map((cell) => shownText(cell) + (cell.column === point ? "." : "")).join("");
  return (sign && shownText(sign) === "-" ? "-" : "") + digits;
}
