// Reads worked steps: a cell for each character, on the line and in the column that its slot tells.

import { Layout, shapeOf } from "../engine/layout.js";
import { KIND, LOWEST, OPERATIONS } from "../engine/operations.js";
import { createCell, derivedCells, digitValue, formatDecimal, integerOf } from "./cells.js";
import { RULES } from "./rules.js";

/** @import { Slot } from "../engine/layout.js" */
/** @import { Cell } from "./cells.js" */

const NO_PART = ["not a part of the work"];

/** The characters that stand on one line of the sheet. digits: lowest first; side: what stands beside them; aside: what
 * is shown only if it is wrong; isNegative: whether the digits are shown without their ten's complement. */
export class Line {
  digits = /** @type {Cell[]} */ ([]);
  carries = /** @type {Cell[]} */ ([]);
  side = /** @type {Cell[]} */ ([]);
  aside = /** @type {Cell[]} */ ([]);
  /** @type {Cell | undefined} */ sign;
  isNegative = false;
  nSlots = 0;
  nWritten = 0;

  /** @param {string} name @param {number} row */
  constructor(name, row) {
    this.name = name;
    this.row = row;
  }

  get isComplete() {
    return this.nWritten === this.nSlots;
  }

  /** @type {(part: string, cell: Cell) => void} */
  add(part, cell) {
    this.nWritten += 1;
    if (part === "sign") this.sign = cell;
    else this[/** @type {"digits"} */ (part)].push(cell);
    if (!this.isComplete) return;
    this.digits.push(...this.carries.splice(-1)); // the last carry of a row is its top digit
    this.digits.sort((a, b) => a.column - b.column);
    if (this.name === "sum" || this.name === "remainder") this.#showMinus();
  }

  /** Shows digits in ten's complement, which begin with 9, as people write them: 9900 as −100. */
  #showMinus() {
    const top = this.digits.at(-1);
    if (top?.text !== "9") return;
    this.isNegative = true;
    let base = 10; // until the first digit that is not 0
    for (const cell of this.digits.filter(({ isBelow, text }) => !isBelow && /\d/.test(text))) {
      const digit = cell.isMark ? 0 : digitValue(cell);
      cell.shown = String((base - digit) % 10);
      if (digit) base = 9;
      const meaning = cell === top ? "the minus" : cell.shown;
      cell.why.push(`; the number is negative, so this ${cell.text} stands for ${meaning}`);
    }
    this.sign = top.shown === "0" ? this.digits.pop() : derivedCells("-", 0)[0];
    if (this.sign === top) top.shown = "-";
  }
}

/** The worked steps of a question as far as they are written. cells: by the index of the character; broken: the index
 * of the first one that does not fit the layout, or -1; rest: what follows it; lines: from top to bottom; offsets: the
 * columns of the lowest digits of the rows; units: the columns of the units; divisorPlaces: of the divisor, which has
 * at least three digits; extent: the lowest and the highest column of the whole sheet, so that nothing moves. */
export class Work {
  cells = /** @type {Cell[]} */ ([]);
  broken = -1;
  lines = /** @type {Map<string, Line>} */ (new Map());
  offsets = [0];
  units = { a: 0, b: 0, result: 0 };
  divisorPlaces = 0;
  extent = [0, 0];
  rest = /** @type {Cell[]} */ ([]);

  /** @param {string} prompt that has a shape
   * @param {string} text */
  constructor(prompt, text) {
    this.prompt = prompt;
    this.shape = /** @type {import("../engine/layout.js").Shape} */ (shapeOf(prompt));
    this.layout = new Layout(this.shape);
    this.#align();
    const places = this.#place();
    for (const { slot, line, part, column } of places.slice(0, text.length)) {
      const cell = this.#read(slot, column, text[this.cells.length]);
      this.cells.push(cell);
      line?.add(part, cell);
      if (line || cell.text === cell.expected) continue;
      this.broken = cell.at;
      break;
    }
    if (this.broken < 0 && text.length > places.length) this.#readAnswer(text, places.length);
    const start = this.broken < 0 ? text.length : this.cells.length;
    this.rest = [...text.slice(start)].map((text, index) => createCell(text, start + index, { why: NO_PART }));
  }

  /** Reads the answer, which is copied from the result. @type {(text: string, start: number) => void} */
  #readAnswer(text, start) {
    const slots = this.layout.answerSlots(this.prompt + text);
    const end = text.indexOf("$");
    const line = this.get("answer");
    this.lines.set("answer 0", line);
    line.nSlots = end < 0 ? Infinity : end + 1 - start;
    let column = this.units.result - Math.max(0, slots.findIndex(([kind]) => kind === KIND.ANSWER_POINT));
    for (const [index, character] of [...text.slice(start, start + line.nSlots)].entries()) {
      const slot = slots[index];
      const surplus = { column, expected: "", why: NO_PART };
      const cell = slot ? this.#read(slot, column, character) : createCell(character, start + index, surplus);
      const { part } = slot ? RULES[slot[0]] : { part: "digits" };
      this.cells.push(cell);
      line.add(part, cell);
      column += Number(part === "digits");
    }
  }

  /** Finds the columns of the rows and of the units. */
  #align() {
    const { layout: { slots, result, resultPlaces }, shape: { op, aPlaces, bPlaces } } = this;
    for (const [, row, column, sources] of slots) {
      // The digits of a row stand below those that they are made of.
      const above = sources.map((source) => slots[source]).find((slot) => slot && slot[1] === row - 1 && slot[2]);
      if (row && column && above) this.offsets[row] ??= this.offsets[row - 1] + above[2] - column;
    }
    const lowestOf = (/** @type {number[]} */ ...kinds) => this.#columnOf(slots.find(([kind]) => kinds.includes(kind)));
    const unit = lowestOf(KIND.A_DIGIT, KIND.A_BELOW) + aPlaces;
    this.units = { a: unit, b: lowestOf(KIND.B_DIGIT) + bPlaces, result: unit };
    if (OPERATIONS[op].divides) this.divisorPlaces = this.units.b;
    else if (result.length) this.units.result = this.#columnOf(slots[result[0]]) + resultPlaces;
    if (this.divisorPlaces) this.units.b = bPlaces;
  }

  /** Returns the place of each character of the work: its line, null for a mark, and its column. */
  #place() {
    let last = "";
    const columns = Object.values(this.units);
    // A divisor ends below the first number, and the units of a quotient are below those of the first number.
    const shifts = /** @type {Record<string, number>} */ ({
      b: this.divisorPlaces && this.shape.bPlaces - this.divisorPlaces, result: this.divisorPlaces,
    });
    const places = this.layout.slots.slice(this.prompt.length).map((slot) => {
      const { line: name, part } = RULES[slot[0]];
      const line = name === "mark" ? null : this.get(name === "last" ? last : name, slot[1]);
      const column = this.#columnOf(slot) + (shifts[line?.name ?? ""] ?? 0);
      if (!line) last = part;
      else {
        line.nSlots += 1;
        this.lines.set(`${line.name} ${line.row}`, line);
        if (slot[3].length && /digits|carries/.test(part)) columns.push(column); // others only fill a row
      }
      return { slot, line, part, column };
    });
    this.extent = [Math.min(...columns), Math.max(...columns)];
    return places;
  }

  /** Returns the column of the sheet that a slot stands in: that of what it reads, if only that is in a row.
   * @type {(slot?: Slot) => number} */
  #columnOf([, row, column, sources] = [0, 0, 0, []]) {
    const read = row ? undefined : sources.map((source) => this.layout.slots[source]).find((slot) => slot?.[1]);
    return read ? this.#columnOf(read) : this.offsets[row] + (column && column - LOWEST);
  }

  /** Makes the cell of the next character. @type {(slot: Slot, column: number, text: string) => Cell} */
  #read([kind, row, , positions], column, text) {
    const sources = positions.map((position) => this.#cellAt(position));
    const [right, words, { before, ...more } = {}] = RULES[kind].rule(sources, this, row, text);
    const marks = right === "0" && digitValue(before) > 0;
    const why = [words, marks ? "; the 0 is written as 1 because a lower digit is not 0" : []].flat();
    const isMark = (marks || more.isMark) && text === "1";
    const shown = isMark ? "0" : undefined;
    return createCell(text, this.cells.length, { column, shown, ...more, expected: marks ? "1" : right, why, isMark });
  }

  /** Returns the cell at a position of the line, also of the question; undefined if there is none.
   * @type {(position: number) => Cell | undefined} */
  #cellAt(position) {
    const at = position - this.prompt.length;
    const text = this.prompt[position];
    return text ? createCell(text, at) : this.cells[at];
  }

  /** Returns a line, which is empty if the work has none of this name. @type {(name: string, row?: number) => Line} */
  get(name, row = 0) {
    return this.lines.get(`${name} ${row}`) ?? new Line(name, row);
  }

  /** @type {(name: string, row?: number) => boolean} */
  has(name, row = 0) {
    return this.lines.has(`${name} ${row}`);
  }

  /** Returns what a digit of a quotient stands for: 3 for the tens is `30`. places: of q itself.
   * @type {(row: number, q: number | bigint, places?: number) => string} */
  quotientAt(row, q, places = 0) {
    return formatDecimal(q, this.offsets[row] - this.units.a + this.divisorPlaces - places);
  }

  /** Returns the integer that the digits of a line stand for. @type {(name: string, row?: number) => bigint} */
  valueOf(name, row = 0) {
    const { digits, isNegative } = this.get(name, row);
    const size = integerOf(digits.filter(({ isBelow }) => !isBelow));
    return isNegative ? -size : size;
  }
}
