// The worked steps as on paper: turns the text that the model wrote into rows with digits in natural order.

import { PROMPT, shapeOf } from "./engine/layout.js";
import { KIND, OPERATIONS } from "./engine/operations.js";
import { rowsOf } from "./paper/rows.js";
import { derivedCells } from "./paper/cells.js";
import { Work } from "./paper/sheet.js";

/** @import { Row } from "./paper/rows.js" */
/** @import { Cell } from "./paper/sheet.js" */

/** A row that is ready to be drawn. point: the column that the decimal point follows, null if there is none.
 * @typedef {Row & {carries: Cell[], side: Cell[], point: number | null}} ShownRow */

/** The work as on paper. rows: from top to bottom; cells: one for each character of the text, by index; broken: the
 * index of the first character that does not fit the layout, or -1.
 * @typedef {{rows: ShownRow[], cells: Cell[], broken: number}} Sheet */

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
  const { rows, cells, broken } = hasWork ? readWork(prompt, text) : readDirectAnswer(prompt, text);
  const shown = mergeRows(rows).filter((row) => row.cells.length);
  return { rows: shown.map(toShownRow), cells, broken };
}

/** @type {(prompt: string, text: string) => {rows: Row[], cells: Cell[], broken: number}} */
function readWork(prompt, text) {
  const work = new Work(prompt, text);
  const { cells, broken, layout, shape, unit } = work;
  const rows = [...rowsOf(work)];
  if (!work.isWritten) return { rows, cells, broken };
  const line = prompt + text;
  const expected = layout.answerSlots(line).map(([kind, , , , , [source]]) => ANSWER.get(kind) ?? line[source]);
  const row = readAnswer(text, cells, expected, unit);
  row.label = layout.result.length ? "the answer" : "the answer: less than half of its last place is rounded to 0";
  if (shape.byZero) row.label = "not a number: nothing can be divided by 0";
  return { rows: [...rows, { ...row, mergesIntoPrevious: true }], cells, broken };
}

/** @type {(prompt: string, text: string) => {rows: Row[], cells: Cell[], broken: number}} */
function readDirectAnswer(prompt, text) {
  const [, , a, operation, b] = /** @type {RegExpExecArray} */ (PROMPT.exec(prompt));
  /** @type {Cell[]} */ const cells = [];
  const row = { ...readAnswer(text, cells, null, 0), label: "the answer, written at once", hasLine: true };
  const operands = [operandRow("a", "first number", a), operandRow("b", "second number", b)];
  return { rows: [operands[0], { ...operands[1], operator: OPERATIONS[operation].symbol }, row], cells, broken: -1 };
}

/** Returns the row of a number of the question. @type {(name: string, label: string, field: string) => Row} */
function operandRow(name, label, field) {
  const [whole, places = ""] = field.replace("-", "0").split(".");
  const cells = derivedCells((whole + places).replace(/^0+(?=.)/, ""), -places.length);
  return { names: [name], label, cells, sign: field.includes("-") ? derivedCells("-", 0)[0] : null, unit: 0 };
}

/** Reads the characters of an answer, adds their cells and returns its row. expected: null if any are correct.
 * @type {(text: string, cells: Cell[], expected: string[] | null, unit: number) => Row} */
function readAnswer(text, cells, expected, unit) {
  const end = text.indexOf("$", cells.length);
  const characters = [...text.slice(cells.length, end < 0 ? undefined : end + 1)];
  const answer = characters.map((character, index) => ({
    at: cells.length + index,
    text: character,
    expected: expected && (expected[index] ?? ""),
    why: character === "$" ? "the end" : "",
    column: 0,
    copies: [],
  }));
  cells.push(...answer);
  const digits = answer.filter((cell) => cell.text !== "$");
  const row = toAnswerRow(digits, unit);
  for (const cell of digits) cell.why = explainAnswerCell(cell, row);
  return row;
}

/** Returns the explanation of a character of an answer. @type {(cell: Cell, row: Row) => string} */
function explainAnswerCell(cell, { cells, sign }) {
  if (cell === sign) return "the sign of the answer";
  if (cells.includes(cell)) return "a digit of the answer, copied from the result";
  return cell.text === "." ? "the decimal point" : "a zero that fills the answer up to ten characters";
}

/** Returns the row of an answer, given lowest first, and sets the columns of its cells.
 * @type {(cells: Cell[], unit: number) => Row} */
function toAnswerRow(cells, unit) {
  const row = { names: ["answer"], label: "", isComplete: true };
  const number = cells.map((cell) => cell.text).reverse().join("").replace(/^0+(?=-|\d|n)/, "");
  if (!NUMBER.test(number)) {
    cells.forEach((cell, index) => (cell.column = unit + index));
    return { ...row, cells: number === "nan" ? cells.slice(0, 3) : cells, sign: null, unit: -Infinity };
  }
  const point = cells.findIndex((cell) => cell.text === ".");
  const used = cells.slice(0, number.length);
  const sign = used.find((cell) => cell.text === "-") ?? null;
  const digits = used.filter((cell) => /\d/.test(cell.text));
  digits.forEach((cell, index) => (cell.column = unit + index - Math.max(point, 0)));
  return { ...row, cells: digits, sign, unit };
}

/** Returns the rows with each `mergesIntoPrevious` row merged into the row before it, if both show the same number.
 * @param {Row[]} rows */
function mergeRows(rows) {
  return rows.reduce((/** @type {Row[]} */ merged, row) => {
    const previous = merged.at(-1);
    const mayMerge = row.mergesIntoPrevious && previous?.acceptsMerge;
    if (!previous || !mayMerge || !showSameNumber(previous, row)) return [...merged, row];
    const copies = new Map(row.cells.map((cell) => [cell.column, cell]));
    for (const cell of previous.cells) {
      const copy = copies.get(cell.column);
      if (copy) cell.copies.push(copy.at, ...copy.copies);
    }
    previous.names.push(...row.names);
    previous.sign ??= row.sign;
    if (previous.sign && row.sign && previous.sign !== row.sign) previous.sign.copies.push(row.sign.at);
    previous.side = [...(previous.side ?? []), ...(row.side ?? [])];
    if (row.names.includes("answer")) previous.label += ", the answer";
    return merged;
  }, []);
}

/** Returns whether two complete rows show the same number. @type {(a: Row, b: Row) => boolean} */
function showSameNumber(a, b) {
  if (![a, b].every(({ cells, isComplete }) => cells.length && isComplete)) return false;
  if (a.sign && b.sign && (a.sign.text === "-") !== (b.sign.text === "-")) return false;
  const texts = (/** @type {Row} */ { cells }) => new Map(cells.map(({ column, text }) => [column, text]));
  const [left, right] = [texts(a), texts(b)];
  return [...left.keys(), ...right.keys()].every((column) => (left.get(column) ?? "0") === (right.get(column) ?? "0"));
}

/** Returns a row that is ready to be drawn: with the zeros before the point, with leading zeros marked as padding, and
 * with a label that explains marked digits.
 * @type {(row: Row) => ShownRow} */
function toShownRow(row) {
  const { unit } = row;
  let cells = [...row.cells].sort((x, y) => y.column - x.column);
  const [high, lowest] = [cells[0].column, cells[cells.length - 1].column];
  if (lowest < unit && high < unit) cells = [...derivedCells("0".repeat(unit - high), high + 1).reverse(), ...cells];
  let isLeading = true;
  for (const cell of cells) {
    isLeading &&= cell.text === "0" && cell.column > Math.max(unit, lowest);
    cell.isPadding = isLeading;
  }
  const label = cells.some((cell) => cell.isMark) ? `${row.label}; a pale 1 stands for 0` : row.label;
  return { side: [], carries: [], ...row, label, cells, point: lowest < unit ? unit : null };
}

/** Returns whether a cell has a wrong character. @param {Cell} cell */
export function isWrong({ text, expected, isWrong }) {
  return Boolean(isWrong || (expected !== null && text !== expected));
}

/** Returns the explanation of a character and, if it is wrong, the correct character. @param {Cell} cell */
export function explain(cell) {
  const { text, expected, why } = cell;
  if (!isWrong(cell) || cell.isWrong) return why;
  const correction = expected === "" ? "the text should have ended before it" : `it should be ${expected}`;
  return `${why}. The model wrote ${text}: ${correction}`;
}

/** Returns the digits of a row in natural order, with point and sign. @param {ShownRow} row */
export function written({ cells, sign, point }) {
  const digits = cells.map((cell) => cell.text + (cell.column === point ? "." : "")).join("");
  return (sign?.text === "-" ? "-" : "") + digits;
}
