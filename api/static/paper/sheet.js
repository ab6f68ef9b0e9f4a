// The parts of a sheet: the cells of the characters that a model writes, and numbers made of them.

import { Layout, shapeOf } from "../engine/layout.js";
import { KIND, LOWEST, MIN_DIVISOR } from "../engine/operations.js";
import { digitValue, derivedCells } from "./cells.js";
import { RULES } from "./rules.js";

/** A character of a sheet. at: its index in the model's text, -1 if the model did not write it; column: its column,
 * counted from the right; expected: the correct character, null if several are correct; why: the step in words;
 * copies: the indices of characters that are copies of it; isMark: whether it is a 1 that stands for 0; isBelow:
 * whether it is a digit below a remainder that is not brought down.
 * @typedef {{at: number, text: string, column: number, expected: string | null, why: string, copies: number[],
 *   isWrong?: boolean, isChoice?: boolean, isNegative?: boolean, isBroughtDown?: boolean, isBelow?: boolean,
 *   isMark?: boolean, isPadding?: boolean}} Cell */

/** The names of groups of kinds. The characters of a group that are in the same row of the layout belong together.
 * @type {Record<string, string>} */
const GROUPS = {
  a: "A_DIGIT A_ZERO A_BELOW",
  b: "B_DIGIT B_ZERO",
  aSign: "A_SIGN",
  bSign: "B_SIGN B_SIGN_OF_SUM",
  operator: "ADD_OR_SUBTRACT",
  sum: "SUM_LOWEST SUM_DIGIT SUM_TOP",
  multiplier: "MULTIPLIER",
  row: "FIRST_DIGIT PRODUCT_DIGIT",
  carries: "FIRST_CARRY PRODUCT_CARRY REMAINDER_CARRY",
  remainder: "REMAINDER_COPY REMAINDER_ZERO REMAINDER_DIGIT LAST_DIGIT",
  brought: "BROUGHT_DOWN BROUGHT_ZERO",
  quotientSign: "DIVIDEND_SIGN",
  quotientDigit: "QUOTIENT_DIGIT",
  exact: "SUM_BELOW SUM_HALF SUM_KEPT PRODUCT_BELOW PRODUCT_HALF PRODUCT_KEPT",
  rounding: "ROUNDING QUOTIENT_ROUNDING",
  result: "MAGNITUDE_LOWEST SUM_RESULT MAGNITUDE_TOP PRODUCT_RESULT ROUNDED_RESULT ROUNDED_TOP QUOTIENT_RESULT",
  sign: "SUM_SIGN SIGN",
};
const GROUP_OF = new Map(
  Object.entries(GROUPS).flatMap(([group, kinds]) => kinds.split(" ").map((kind) => [KIND[kind], group])),
);
const MARKS = new Set([KIND.ROW_MARK, KIND.REMAINDER_MARK, KIND.EXACT_MARK, KIND.RESULT_MARK, KIND.NAN, KIND.EQUALS]);

/** The worked steps of a question as far as they are written: a cell for each character. */
export class Work {
  /** @type {Cell[]} */ cells = []; // by the index of the character
  broken = -1; // the index of the first character that does not fit the layout
  /** @type {Map<string, number[]>} */ #groups = new Map(); // the positions of each group in each row

  /** @param {string} prompt that has a shape
   * @param {string} text */
  constructor(prompt, text) {
    this.prompt = prompt;
    this.shape = /** @type {import("../engine/layout.js").Shape} */ (shapeOf(prompt));
    this.layout = new Layout(this.shape);
    const { aDigits, aPlaces, bDigits, bPlaces, op } = this.shape;
    this.width = Math.max(bDigits, MIN_DIVISOR); // of a divisor, whose lowest digits may be zeros
    this.lead = aDigits - this.width + 1; // the column of the first digit that a division brings down
    /** The column of a quotient's units, or of those of the exact result. */
    this.unit = op === "*" ? aPlaces + bPlaces : Math.max(aPlaces, bPlaces);
    if (op === "/") this.unit = aPlaces - bPlaces - (this.width - bDigits);
    const steps = this.layout.slots.slice(prompt.length);
    const isRounded = steps.some(([kind]) => kind === KIND.EXACT_MARK);
    for (const [index, [kind, row]] of steps.entries()) {
      // The exact row of a sum ends in the kind that else ends the result.
      const group = isRounded && kind === KIND.MAGNITUDE_TOP ? "exact" : GROUP_OF.get(kind);
      const key = `${group} ${row}`;
      const positions = this.#groups.get(key);
      if (positions) positions.push(index);
      else this.#groups.set(key, [index]);
    }
    for (const slot of steps.slice(0, text.length)) {
      const cell = this.#read(slot, text[this.cells.length]);
      this.cells.push(cell);
      if (!MARKS.has(slot[0]) || cell.text === cell.expected) continue;
      this.broken = cell.at;
      break;
    }
    this.isWritten = this.broken < 0 && this.cells.length === steps.length;
  }

  get nRow() {
    return this.count("quotientDigit", 2) && this.layout.result.length + 1;
  }

  /** Makes the cell of the next character. @type {(slot: import("../engine/layout.js").Slot, text: string) => Cell} */
  #read([kind, row, ownColumn, , queryColumn, positions], text) {
    const sources = positions.map((position) => this.cellAt(position));
    const { before, isMark = false, ...step } = RULES[kind](sources, this, row, text);
    const marks = step.expected === "0" && digitValue(before) > 0;
    if (marks) step.expected = "1";
    if (marks) step.why += "; the 0 is written as 1 because a lower digit is not 0";
    const column = kind === KIND.SUM_TOP ? queryColumn : ownColumn; // it has none, since all columns read it
    const place = { at: this.cells.length, column: this.#columnOf(kind, row, column) };
    return { ...place, text, copies: [], ...step, isMark: (marks || isMark) && text === "1" };
  }

  /** Returns the cell at a position of the line, also of the question; undefined if there is none.
   * @type {(position: number) => Cell | undefined} */
  cellAt(position) {
    const text = this.prompt[position];
    return text ? derivedCells(text, 0)[0] : this.cells[position - this.prompt.length];
  }

  /** Returns where a character stands on the sheet. @type {(kind: number, row: number, column: number) => number} */
  #columnOf(kind, row, column) {
    const index = Math.max(column - LOWEST, row ? -1 : 0);
    if (kind === KIND.QUOTIENT_RESULT) return this.lead + 2 - this.nRow + index;
    if (this.shape.op !== "/") return row ? row - 1 + index : index;
    if (row) return this.lead + 2 - row + (column ? index : 0);
    return kind === KIND.B_DIGIT || kind === KIND.B_ZERO ? this.lead + index : index;
  }

  /** Returns the cells of a group that are written. @type {(group: string, row?: number) => Cell[]} */
  all(group, row = 0) {
    const positions = this.#groups.get(`${group} ${row}`) ?? [];
    return positions.flatMap((position) => this.cells[position] ?? []);
  }

  /** Returns the first cell of a group, or undefined. @type {(group: string, row?: number) => Cell | undefined} */
  one(group, row = 0) {
    return this.all(group, row)[0];
  }

  /** Returns the number of characters of a group. @type {(group: string, row?: number) => number} */
  count(group, row = 0) {
    return this.#groups.get(`${group} ${row}`)?.length ?? 0;
  }

  /** Returns whether all characters of a group are written. @type {(group: string, row?: number) => boolean} */
  has(group, row = 0) {
    return this.all(group, row).length === this.count(group, row);
  }

  /** Returns the digits of a product's row: the last carry is the highest. @param {number} k */
  productRow(k) {
    const [digits, carries, isComplete] = [this.all("row", k), this.all("carries", k), this.has("carries", k)];
    if (isComplete) digits.push(...carries.splice(-1));
    return { digits, carries, isComplete };
  }
}
