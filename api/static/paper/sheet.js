// The parts of a sheet: cells, rows, and the reader that makes cells of the text that a model writes.

import { USUAL_PLACES, WIDTH } from "../engine/arithmetic.js";
import { PROMPT } from "../engine/layout.js";
import { formatPlaces } from "../format.js";

/** A character of a sheet. at: its index in the model's text, -1 if the model did not write it; text: the character, ""
 * if it is not yet written; column: its column, counted from the right; expected: the correct character, null if
 * several are correct; why: the step in words; copies: the indices of characters that are copies of it; isMark: whether
 * it is a 1 that stands for 0; isBelow: whether it is a digit below a remainder that is not brought down.
 * @typedef {{at: number, text: string, column: number, expected: string | null, why: string,
 * copies: number[], isWrong?: boolean, isChoice?: boolean, isNegative?: boolean,
 * isBroughtDown?: boolean, isBelow?: boolean, isMark?: boolean, isPadding?: boolean}} Cell */

/** A row of a sheet, which shows worked steps as on paper. names: the rows of the text that it shows; label: a
 * description; carries: small cells above the row; operator and sign: shown before the digits; side: cells beside the
 * row; unit: the column of the units; isDerived: whether the page computed the row; hasLine: whether there is a line
 * above it; showsPlus: whether the sign is shown if it is +; mergesIntoPrevious: whether the row is merged into the row
 * before it if that row has acceptsMerge and both show the same number; extent: the lowest and the highest column that
 * the whole sheet will have, which the first row tells, so that nothing moves while the others are written.
 * @typedef {{names: string[], label: string, cells: Cell[], unit: number, carries?: Cell[],
 * operator?: string, sign?: Cell | null, side?: Cell[], isDerived?: boolean, hasLine?: boolean,
 * showsPlus?: boolean, mergesIntoPrevious?: boolean, acceptsMerge?: boolean, extent?: [number, number]}} Row */

/** A number of a question. digits: without point and padding, lowest digit first.
 * @typedef {{digits: string[], places: number, isNegative: boolean, isZero: boolean}} Operand
 * @typedef {{operation: string, a: Operand, b: Operand, places: number}} Question */

const NUMBER = /^-?\d+(\.\d+)?$/;

/** Returns the question of a prompt `$P(A op B)=`, or null for any other text.
 * @param {string} prompt
 * @returns {Question | null} */
export function parseQuestion(prompt) {
  const match = PROMPT.exec(prompt);
  if (!match) return null;
  const [, places, a, operation, b] = match;
  return { operation, a: parseOperand(a), b: parseOperand(b), places: Number(places || USUAL_PLACES) };
}

/** @param {string} field
 * @returns {Operand} */
function parseOperand(field) {
  const [whole, fraction = ""] = field.replace("-", "0").split(".");
  const digits = [...((whole + fraction).replace(/^0+/, "") || "0")].reverse();
  return { digits, places: fraction.length, isNegative: field.includes("-"), isZero: digits.join("") === "0" };
}

/** The text does not follow its layout. `at` is the index of the first character that does not fit. */
export class LayoutError extends Error {
  /** @param {number} at */
  constructor(at) {
    super("the text does not follow its layout");
    this.at = at;
  }
}

/** Reads a text character by character, and makes a cell of each. */
export class Reader {
  /** @type {Cell[]} */ cells = [];
  #text;

  /** @param {string} text */
  constructor(text) {
    this.#text = text;
  }

  /** The text that is not yet read. */
  get remaining() {
    return this.#text.slice(this.cells.length);
  }

  /** Reads the next character. After the end of the text, the cell is empty.
   * @type {(expected: string | null, why: string, column?: number) => Cell} */
  take(expected, why, column = 0) {
    const at = this.cells.length;
    /** @type {Cell} */ const cell = { at, text: this.#text[at] ?? "", expected, why, column, copies: [] };
    this.cells.push(cell);
    return cell;
  }

  /** Reads a digit of a row that is marked: a 0 that follows a digit other than 0 is written as 1, so that the highest
   * digit tells whether all are 0. previous: the digit before, undefined if this one is never marked.
   * @type {(digit: string, why: string, column: number, previous: Cell | undefined) => Cell} */
  takeMarked(digit, why, column, previous) {
    const isMark = digit === "0" && digitValue(previous) > 0;
    const marked = `${why}; the 0 is written as 1 because a lower digit is not 0`;
    const cell = this.take(isMark ? "1" : digit, isMark ? marked : why, column);
    cell.isMark = isMark && cell.text === "1";
    return cell;
  }

  /** Reads a character that the layout requires.
   * @throws {LayoutError} if the text has another character
   * @type {(character: string, why: string) => Cell} */
  expect(character, why) {
    const cell = this.take(character, why);
    if (cell.text && cell.text !== character) throw new LayoutError(cell.at);
    return cell;
  }
}

/** Reads a row of `count` digits, lowest digit first: `zeros` zeros, the digits of an operand, and zeros that fill the
 * row.
 * @param {Reader} reader
 * @param {Operand} operand
 * @param {number} count
 * @param {number} zeros
 * @param {string} name
 * @param {{lowest?: number, nMarked?: number}} [options] the column of the lowest digit, and the number of
 * lowest digits that are marked */
export function readCopies(reader, { digits }, count, zeros, name, { lowest = 0, nMarked = 0 } = {}) {
  /** @type {Cell[]} */ const cells = [];
  for (let j = 0; j < count; j++) {
    const digit = digits[j - zeros];
    const why = digit === undefined ? "a zero that fills the row" : `${digit}, a digit of the ${name}`;
    cells.push(reader.takeMarked(digit ?? "0", why, lowest + j, j < nMarked ? cells.at(-1) : undefined));
  }
  return cells;
}

/** Reads the rounding of an exact row, which drops its `drop` lowest digits, and the rounded digits. The digits below
 * the highest dropped one are marked, so the rounding reads only the highest of them. Returns the rounded row. extra:
 * the number of rounded digits above the exact row; places: of the rounded number.
 * @type {(reader: Reader, exactRow: Row, drop: number, extra: number, places: number) => Row} */
export function readRounding(reader, { cells: exact, unit }, drop, extra, places) {
  const [half, lowestKept] = [digitValue(exact[drop - 1]), digitValue(exact[drop])];
  const isTie = half === 5 && !digitValue(exact[drop - 2]);
  const roundsUp = half > 5 || (half === 5 && (!isTie || lowestKept % 2 === 1));
  const dropped = inNaturalOrder(exact.slice(0, drop));
  const tie = isTie ? ", a tie, which goes to the even digit" : "";
  const rounding = reader.take(
    roundsUp ? "+" : "0",
    `${dropped} is dropped${tie}: ${roundsUp ? "rounds up" : "adds nothing"}`,
  );
  reader.expect(":", "the rounded result begins");
  /** @type {Cell[]} */ const digits = [];
  for (let j = drop; j < exact.length + extra; j++) {
    const before = digits.at(-1);
    /** @type {boolean} */ const carry = before
      ? exact[j - 1].text === "9" && before.text === "0"
      : rounding.text === "+";
    const digit = digitValue(exact[j]);
    const why = carry ? `${digit} + 1 from the rounding = ${digit + 1}` : `${digit}, kept`;
    digits.push(reader.take(String((digit + Number(carry)) % 10), why, j));
  }
  const label = `rounded to ${formatPlaces(places)}`;
  return { names: ["result"], label, cells: digits, side: [rounding], unit, acceptsMerge: true };
}

/** Reads the answer that follows from the result. result: lowest digit first.
 * @type {(reader: Reader, result: {digits: Cell[], places: number, sign: Cell | null, unit: number}) => Row} */
export function readAnswerRow(reader, { digits, places, sign, unit }) {
  reader.expect("=", "the answer begins, lowest digit first");
  const characters = digits.map((cell) => cell.text);
  const nonzero = characters.flatMap((character, index) => (character === "0" ? [] : [index]));
  const lowest = Math.min(nonzero[0] ?? places, Math.max(places - 1, 0));
  const field = [];
  for (let i = lowest; i <= Math.max(nonzero.at(-1) ?? places, places); i++) field.push(characters[i] ?? "0");
  if (places) field.splice(places - lowest, 0, ".");
  if (sign?.text === "-") field.push("-");
  while (field.length < WIDTH) field.push("0");
  const label = digits.length ? "the answer" : "the answer: less than half of its last place is rounded to 0";
  return { ...readAnyAnswer(reader, [...field, "$"], unit), label, mergesIntoPrevious: true };
}

/** Reads the characters of an answer and returns its row. expected: null if any characters are correct.
 * @type {(reader: Reader, expected: string[] | null, unit: number) => Row} */
export function readAnyAnswer(reader, expected, unit) {
  /** @type {Cell[]} */ const cells = [];
  while (reader.remaining || (expected && cells.length < expected.length)) {
    /** @type {string | null} */ const character = expected ? (expected[cells.length] ?? "") : null;
    const cell = reader.take(character, "");
    if (cell.text === "$") {
      cell.why = "the end";
      break;
    }
    cells.push(cell);
  }
  const row = toAnswerRow(cells, unit);
  for (const cell of cells) cell.why ||= explainAnswerCell(cell, row);
  return row;
}

/** Returns the explanation of a character of an answer.
 * @param {Cell} cell
 * @param {Row} row */
function explainAnswerCell(cell, { cells, sign }) {
  if (cell === sign) return "the sign of the answer";
  if (cells.includes(cell)) return "a digit of the answer, copied from the result";
  return cell.text === "." ? "the decimal point" : "a zero that fills the answer up to ten characters";
}

/** Returns the row of an answer, and sets the columns of its cells. characters: lowest first.
 * @type {(characters: Cell[], unit: number) => Row} */
function toAnswerRow(characters, unit) {
  const cells = [...characters].filter((cell) => cell.text);
  const text = cells.map((cell) => cell.text).reverse().join("");
  const number = text.replace(/^0+(?=-|\d|n)/, "");
  if (!NUMBER.test(number)) {
    cells.forEach((cell, index) => (cell.column = unit + index));
    const shown = number === "nan" ? cells.slice(0, 3) : cells;
    return { names: ["answer"], label: "", cells: shown, sign: null, unit: -Infinity };
  }
  const point = cells.findIndex((cell) => cell.text === ".");
  const used = cells.slice(0, number.length);
  const sign = used.find((cell) => cell.text === "-") ?? null;
  const digits = used.filter((cell) => digitValue(cell) || cell.text === "0");
  digits.forEach((cell, index) => (cell.column = unit + index - Math.max(point, 0)));
  return { names: ["answer"], label: "", cells: digits, sign, unit };
}

/** Returns the rows with each `mergesIntoPrevious` row merged into the row before it, if both show the same number.
 * @param {Row[]} rows */
export function mergeRows(rows) {
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
  if (![a, b].every(({ cells }) => cells.length && cells.every((cell) => cell.text))) return false;
  const texts = (/** @type {Row} */ row) => new Map(row.cells.map((cell) => [cell.column, cell.text]));
  const [left, right] = [texts(a), texts(b)];
  const columns = new Set([...left.keys(), ...right.keys()]);
  const isNegative = (/** @type {Row} */ row) => row.sign?.text === "-";
  if (a.sign && b.sign && isNegative(a) !== isNegative(b)) return false;
  return [...columns].every((column) => (left.get(column) ?? "0") === (right.get(column) ?? "0"));
}

/** Returns the value of a digit, and 0 for any other cell or none. @param {Cell | null | undefined} cell */
export function digitValue(cell) {
  return cell && /^\d$/.test(cell.text) ? Number(cell.text) : 0;
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

/** Returns `= 312`, with a remark if the model wrote another number.
 * @type {(exact: bigint, actual: bigint, places?: number) => string} */
export function equation(exact, actual, places = 0) {
  const difference = exact === actual ? "" : `, but the model wrote ${formatDecimal(actual, places)}`;
  return `= ${formatDecimal(exact, places)}${difference}`;
}

/** Returns whether the model has written all of the cells. @param {Cell[]} cells */
export function isComplete(cells) {
  return cells.every((cell) => cell.text);
}

/** Returns `number / 10 ** places` in decimal notation: `-1250n` and 2 give `−12.5`.
 * @type {(number: bigint, places: number) => string} */
export function formatDecimal(number, places) {
  const digits = String(number < 0n ? -number : number).padStart(places + 1, "0");
  const end = digits.length - places;
  const fraction = digits.slice(end).replace(/0+$/, "");
  return `${number < 0n ? "−" : ""}${digits.slice(0, end)}${fraction && `.${fraction}`}`;
}

/** Returns cells for the digits of a number that the model did not write. lowest: the column of the lowest digit.
 * @type {(number: bigint | number, lowest: number) => Cell[]} */
export function derivedCells(number, lowest) {
  return [...String(number)].reverse().map((text, j) => {
    return { at: -1, text, expected: null, why: "", column: lowest + j, copies: [] };
  });
}
