// Reads worked steps: a cell for each character, on the line and in the column that its slot tells.

import { Layout, shapeOf } from "../engine/layout.js";
import { KIND, LOWEST, OPERATIONS } from "../engine/operations.js";
import { derivedCells, digitValue, integerOf, isWrong } from "./cells.js";
import { RULES } from "./rules.js";

/** @import { Slot } from "../engine/layout.js" */
/** @import { Cell } from "./cells.js" */

/** The characters that stand on one line of the sheet. */
export class Line {
  /** @type {Cell[]} */ digits = []; // lowest first
  /** @type {Cell[]} */ carries = [];
  /** @type {Cell[]} */ side = []; // what stands beside the digits
  /** @type {Cell[]} */ aside = []; // what is shown only if it is wrong
  /** @type {Cell | undefined} */ sign;
  isNegative = false; // whether the digits are shown without their ten's complement
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
    if (this.carries.length) this.digits.push(...this.carries.splice(-1)); // the last carry of a row is its top digit
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
      cell.why.push(`; the number is negative, so this ${cell.text} stands for ${cell === top ? "the minus" : cell.shown}`);
    }
    this.sign = top.shown === "0" ? this.digits.pop() : derivedCells("-", 0)[0];
    top.shown = this.sign === top ? "-" : top.shown;
  }
}

/** The worked steps of a question as far as they are written. */
export class Work {
  /** @type {Cell[]} */ cells = []; // by the index of the character
  broken = -1; // the index of the first character that does not fit the layout
  /** @type {Map<string, Line>} */ lines = new Map(); // from top to bottom
  /** The columns that the lowest digits of each row stand in. @type {number[]} */ offsets = [0];
  /** The columns of the units: of the operands and the result. */
  units = { a: 0, b: 0, result: 0 };
  /** The lowest and the highest column of the whole sheet. @type {[number, number]} */ extent = [0, 0];
  divisorPlaces = 0; // as the work writes it, at least three digits long

  /** @param {string} prompt that has a shape
   * @param {string} text */
  constructor(prompt, text) {
    this.prompt = prompt;
    this.shape = /** @type {import("../engine/layout.js").Shape} */ (shapeOf(prompt));
    this.layout = new Layout(this.shape);
    const places = this.#place();
    for (const [index, { slot, line, part, column }] of places.entries()) {
      if (index === text.length) break;
      const cell = this.#read(slot, column, text[index]);
      this.cells.push(cell);
      line?.add(part, cell);
      if (line || cell.text === cell.expected) continue;
      this.broken = index;
      break;
    }
    this.isWritten = this.broken < 0 && this.cells.length === places.length;
  }

  /** Returns the place of each character of the work: its line, null for a mark, and its column. */
  #place() {
    const { slots, result, resultPlaces } = this.layout;
    for (const [, row, column, , , sources] of slots) {
      // A row stands below the one before so that its digits are in the columns of those that they are made of.
      const above = sources.map((source) => slots[source]).find((slot) => slot && slot[1] === row - 1 && slot[2]);
      if (row && column && above) this.offsets[row] ??= this.offsets[row - 1] + above[2] - column;
    }
    const lowest = { a: 0, b: 0 }; // the columns of the lowest digits that the question writes
    for (const slot of slots.toReversed()) {
      if (slot[0] === KIND.A_DIGIT || slot[0] === KIND.A_BELOW) lowest.a = this.#columnOf(slot);
      if (slot[0] === KIND.B_DIGIT) lowest.b = this.#columnOf(slot);
    }
    const { aPlaces, bPlaces, op } = this.shape;
    const shift = OPERATIONS[op].divides ? lowest.b : 0; // a divisor stands in no column of its own
    this.divisorPlaces = shift + bPlaces;
    this.units = { a: lowest.a + aPlaces, b: lowest.b - shift + bPlaces, result: lowest.a + aPlaces };
    if (result.length) this.units.result = this.#columnOf(slots[result[0]]) + resultPlaces;
    let last = "";
    const columns = Object.values(this.units);
    const places = slots.slice(this.prompt.length).map((slot) => {
      const [kind, row, , , , sources] = slot;
      const { line: name, part } = RULES[kind];
      const column = this.#columnOf(slot) - (name === "b" ? shift : 0);
      if (name === "mark") {
        last = part;
        return { slot, line: null, part, column };
      }
      if (sources.length && /digits|carries/.test(part)) columns.push(column);
      const line = this.get(name === "last" ? last : name, row);
      line.nSlots += 1;
      this.lines.set(`${line.name} ${row}`, line);
      return { slot, line, part, column };
    });
    this.extent = [Math.min(...columns), Math.max(...columns)];
    return places;
  }

  /** Returns the column of the sheet that a slot stands in: that of what it reads, if it is in no row itself.
   * @param {Slot} slot */
  #columnOf([, row, column, queryRow, queryColumn]) {
    const isOfRow = !row && queryRow;
    const own = isOfRow ? queryColumn : column || (row ? 0 : queryColumn);
    return this.offsets[isOfRow ? queryRow : row] + (own && own - LOWEST);
  }

  /** Makes the cell of the next character. @type {(slot: Slot, column: number, text: string) => Cell} */
  #read([kind, row, , , , positions], column, text) {
    const sources = positions.map((position) => this.cellAt(position));
    const { before, isMark = false, ...step } = RULES[kind].rule(sources, this, row, text);
    const marks = step.expected === "0" && digitValue(before) > 0;
    if (marks) {
      step.expected = "1";
      step.why.push("; the 0 is written as 1 because a lower digit is not 0");
    }
    /** @type {Cell} */ const cell = { at: this.cells.length, column, text, copies: [], ...step };
    return (marks || isMark) && text === "1" ? { ...cell, isMark: true, shown: "0" } : cell;
  }

  /** Returns the cell at a position of the line, also of the question; undefined if there is none.
   * @type {(position: number) => Cell | undefined} */
  cellAt(position) {
    const at = position - this.prompt.length;
    const text = this.prompt[position];
    return text ? { ...derivedCells(text, 0)[0], at } : this.cells[at];
  }

  /** Returns a line, which is empty if the work has none of this name. @type {(name: string, row?: number) => Line} */
  get(name, row = 0) {
    return this.lines.get(`${name} ${row}`) ?? new Line(name, row);
  }

  /** @type {(name: string, row?: number) => boolean} */
  has(name, row = 0) {
    return this.lines.has(`${name} ${row}`);
  }

  /** Returns the integer that the digits of a line stand for. @type {(name: string, row?: number) => bigint} */
  valueOf(name, row = 0) {
    const { digits, isNegative } = this.get(name, row);
    const size = integerOf(digits.filter(({ isBelow }) => !isBelow));
    return isNegative ? -size : size;
  }
}
