// The work as on paper: from what the model wrote to rows with digits in natural order.

import { product } from "./paper/products.js";
import { quotient } from "./paper/quotients.js";
import { Broken, Reader, anyAnswer, derived, fold, question } from "./paper/sheet.js";
import { sum } from "./paper/sums.js";

/** @typedef {import("./paper/sheet.js").Cell} Cell */
/** @typedef {import("./paper/sheet.js").Row} Row */
/** @typedef {import("./paper/sheet.js").Question} Question */
/** @typedef {(reader: Reader, question: Question) => Generator<Row>} ReadWork */

/**
 * A row as it is drawn. point: the column before which the point stands, null if there is none.
 * @typedef {Row & {carries: Cell[], side: Cell[], point: number | null}} ShownRow
 */

/**
 * The work as on paper. rows: from top to bottom; cells: one for each character of the text, by index;
 * broken: the index of the first character that has no place in the layout, or -1.
 * @typedef {{asked: Question, rows: ShownRow[], cells: Cell[], broken: number, hasWork: boolean}} Sheet
 */

/** @type {Record<string, ReadWork>} */
const WORK = { "+": sum, "-": sum, "*": product, "/": quotient };
/** @type {Record<string, string>} */
const OPERATORS = { "+": "+", "-": "−", "*": "×", "/": "÷" };

/**
 * Returns the sheet of a prompt and what the model has written so far, or null if the text has no such
 * form.
 * @param {string} prompt
 * @param {string} text
 * @returns {Sheet | null}
 */
export function paper(prompt, text) {
  const asked = question(prompt);
  if (!asked) return null;
  const reader = new Reader(text);
  const rows = [];
  let broken = -1;
  const hasWork = /^[-+]/.test(text);
  try {
    for (const row of (hasWork ? WORK[asked.operation] : atOnce)(reader, asked)) rows.push(row);
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    broken = error.at;
  }
  const shown = fold(rows).filter(({ cells }) => cells.some((cell) => cell.text));
  return { asked, rows: shown.map(completed), cells: reader.cells, broken, hasWork };
}

/** The question and an answer without work.
 * @type {ReadWork} */
function* atOnce(reader, { operation, a, b }) {
  const operands = [
    { name: "a", label: "first number", operand: a },
    { name: "b", label: "second number", operand: b },
  ];
  for (const { name, label, operand } of operands) {
    const cells = operand.digits.map((text, j) => ({ ...derived(0, 0)[0], text, column: j - operand.places }));
    const sign = operand.isNegative ? { ...derived(0, 0)[0], text: "-" } : null;
    yield { names: [name], label, operator: name === "b" ? OPERATORS[operation] : "", cells, sign, unit: 0 };
  }
  yield { ...anyAnswer(reader, null, 0), label: "the answer, written at once", hasLine: true };
}

/**
 * Adds the zeros that stand before a point, and marks those in front.
 * @param {Row} row
 * @returns {ShownRow}
 */
function completed(row) {
  const { unit } = row;
  let cells = [...row.cells].filter((cell) => cell.text).sort((x, y) => y.column - x.column);
  const lowest = cells.at(-1)?.column ?? unit;
  for (let column = (cells[0]?.column ?? unit) + 1; column <= unit && lowest < unit; column++) {
    cells = [{ ...derived(0, column)[0] }, ...cells];
  }
  let isFront = true;
  for (const cell of cells) {
    isFront &&= cell.text === "0" && cell.column > Math.max(unit, lowest);
    cell.isPadding = isFront;
  }
  const hasPoint = lowest < unit;
  return { side: [], ...row, cells, carries: (row.carries ?? []).filter((cell) => cell.text), point: hasPoint ? unit : null };
}

/** Whether a cell holds another character than it should.
 * @param {Cell} cell */
export function isWrong({ text, expected, isWrong }) {
  return Boolean(isWrong || (text && expected !== null && text !== expected));
}

/** What a character is, in words. If it is wrong, also what it should be.
 * @param {Cell} cell */
export function explain(cell) {
  const { text, expected, why } = cell;
  if (!isWrong(cell) || cell.isWrong) return why;
  const should = expected === "" ? "the text should have ended before it" : `it should be ${expected}`;
  return `${why}. The model wrote ${text}: ${should}`;
}

/** The digits of a row in natural order, with point and sign.
 * @param {ShownRow} row */
export function written({ cells, sign, point }) {
  const digits = cells.map((cell) => cell.text + (cell.column === point ? "." : "")).join("");
  return (sign?.text === "-" ? "-" : "") + digits;
}
