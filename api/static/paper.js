// The worked steps as on paper: turns the text that the model wrote into rows with digits in natural order.

import { readProduct } from "./paper/products.js";
import { readQuotient } from "./paper/quotients.js";
import { LayoutError, Reader, readAnyAnswer, derivedCells, mergeRows, parseQuestion } from "./paper/sheet.js";
import { readSum } from "./paper/sums.js";

/** @typedef {import("./paper/sheet.js").Cell} Cell */
/** @typedef {import("./paper/sheet.js").Row} Row */
/** @typedef {import("./paper/sheet.js").Question} Question */
/** @typedef {(reader: Reader, question: Question) => Generator<Row>} RowReader */

/** A row that is ready to be drawn. point: the column that the decimal point follows, null if there is none.
 * @typedef {Row & {carries: Cell[], side: Cell[], point: number | null}} ShownRow */

/** The work as on paper. rows: from top to bottom; cells: one for each character of the text, by index; broken: the
 * index of the first character that does not fit the layout, or -1.
 * @typedef {{question: Question, rows: ShownRow[], cells: Cell[], broken: number, hasWork: boolean}} Sheet */

/** Worked steps begin with a sign, an answer with a digit. */
export const HAS_WORK = /^[-+]/;
/** @type {Record<string, RowReader>} */
const WORK_READERS = { "+": readSum, "-": readSum, "*": readProduct, "/": readQuotient };
/** @type {Record<string, string>} */ const OPERATORS = { "+": "+", "-": "−", "*": "×", "/": "÷" };

/** Returns the sheet of a prompt and of the text that the model has written so far, or null if the prompt is not in the
 * notation. hasWork: whether worked steps stand before the answer, which an empty text does not tell.
 * @type {(prompt: string, text: string, hasWork?: boolean) => Sheet | null} */
export function paper(prompt, text, hasWork = HAS_WORK.test(text)) {
  const question = parseQuestion(prompt);
  if (!question) return null;
  const reader = new Reader(text);
  const rows = [];
  let broken = -1;
  try {
    for (const row of (hasWork ? WORK_READERS[question.operation] : readDirectAnswer)(reader, question)) rows.push(row);
  } catch (error) {
    if (!(error instanceof LayoutError)) throw error;
    broken = error.at;
  }
  const shown = mergeRows(rows).filter(({ cells }) => cells.some((cell) => cell.text));
  return { question, rows: shown.map(toShownRow), cells: reader.cells, broken, hasWork };
}

/** Yields the rows of a question and of an answer without work. @type {RowReader} */
function* readDirectAnswer(reader, { operation, a, b }) {
  const operands = [
    { name: "a", label: "first number", operand: a },
    { name: "b", label: "second number", operand: b },
  ];
  for (const { name, label, operand } of operands) {
    const cells = operand.digits.map((text, j) => ({ ...derivedCells(0, 0)[0], text, column: j - operand.places }));
    const sign = operand.isNegative ? { ...derivedCells(0, 0)[0], text: "-" } : null;
    yield { names: [name], label, operator: name === "b" ? OPERATORS[operation] : "", cells, sign, unit: 0 };
  }
  yield { ...readAnyAnswer(reader, null, 0), label: "the answer, written at once", hasLine: true };
}

/** Returns a row that is ready to be drawn: with the zeros before the point, with leading zeros marked as padding, and
 * with a label that explains marked digits.
 * @param {Row} row
 * @returns {ShownRow} */
function toShownRow(row) {
  const { unit } = row;
  let cells = [...row.cells].filter((cell) => cell.text).sort((x, y) => y.column - x.column);
  const lowest = cells.at(-1)?.column ?? unit;
  for (let column = (cells[0]?.column ?? unit) + 1; column <= unit && lowest < unit; column++) {
    cells = [{ ...derivedCells(0, column)[0] }, ...cells];
  }
  let isLeading = true;
  for (const cell of cells) {
    isLeading &&= cell.text === "0" && cell.column > Math.max(unit, lowest);
    cell.isPadding = isLeading;
  }
  const hasPoint = lowest < unit;
  const carries = (row.carries ?? []).filter((cell) => cell.text);
  const label = cells.some((cell) => cell.isMark) ? `${row.label}; a pale 1 stands for 0` : row.label;
  return { side: [], ...row, label, cells, carries, point: hasPoint ? unit : null };
}

/** Returns whether a cell has a wrong character. @param {Cell} cell */
export function isWrong({ text, expected, isWrong }) {
  return Boolean(isWrong || (text && expected !== null && text !== expected));
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
