// The layout of worked steps: a slot for each character (datagen/layout.py, datagen/slots.py).
// The question determines all slots but those of the answer, which also depend on the result row.

import { USUAL_PLACES, WIDTH } from "./arithmetic.js";

const MIN_DIVISOR = 3; // digits of a divisor; a quotient digit is chosen by so many leading digits
export const LOWEST = 2; // the column of a row's lowest digit
const NOWHERE = -1; // the position of a character that does not exist

// Do not change the order: the embeddings in checkpoints are indexed by the numbers of kinds.
const KIND_NAMES = `QUESTION A_FIELD B_FIELD A_SIGN A_DIGIT A_ZERO B_SIGN B_SIGN_OF_SUM B_DIGIT B_ZERO
  ADD_OR_SUBTRACT SUM_LOWEST SUM_DIGIT ROW_MARK MULTIPLIER FIRST_DIGIT FIRST_CARRY PRODUCT_DIGIT
  PRODUCT_CARRY REMAINDER_MARK REMAINDER_COPY REMAINDER_ZERO BROUGHT_DOWN BROUGHT_ZERO DIVIDEND_SIGN
  QUOTIENT_DIGIT REMAINDER_DIGIT REMAINDER_CARRY QUOTIENT_ROUNDING EXACT_MARK SUM_BELOW SUM_HALF
  SUM_KEPT PRODUCT_BELOW PRODUCT_HALF PRODUCT_KEPT ROUNDING RESULT_MARK SUM_RESULT PRODUCT_RESULT
  ROUNDED_RESULT ROUNDED_TOP QUOTIENT_RESULT SUM_SIGN SIGN NAN EQUALS ANSWER_DIGIT
  ANSWER_ZERO ANSWER_POINT ANSWER_MINUS ANSWER_N ANSWER_A END LAST_DIGIT A_BELOW`.split(/\s+/);

/** The numbers of the kinds of slots, by name. */
export const KIND = Object.fromEntries(KIND_NAMES.map((name, index) => [name, index]));

// Sets of kinds, which `datagen/slots.py` describes.
export const FIELDS = new Set([KIND.A_FIELD, KIND.B_FIELD]);
export const COPIES = new Set([KIND.A_DIGIT, KIND.A_BELOW, KIND.B_DIGIT]);
export const ROW_ENDS = new Set([KIND.EXACT_MARK, KIND.RESULT_MARK]);
const ROUNDED = [KIND.ROUNDED_RESULT, KIND.ROUNDED_TOP];
export const FAR = new Map([
  [KIND.A_SIGN, new Set([KIND.A_FIELD])],
  [KIND.B_SIGN, new Set([KIND.B_FIELD])],
  [KIND.B_SIGN_OF_SUM, new Set([KIND.B_FIELD])],
  [KIND.SUM_SIGN, new Set([KIND.SUM_RESULT, ...ROUNDED])],
  [KIND.SIGN, new Set([KIND.PRODUCT_RESULT, KIND.QUOTIENT_RESULT, ...ROUNDED])],
]);
// The kinds of the digits and zeros in a copy of an operand.
const COPY_OF_A = { digit: KIND.A_DIGIT, zero: KIND.A_ZERO };
const COPY_OF_B = { digit: KIND.B_DIGIT, zero: KIND.B_ZERO };

/** The properties of a question that determine its layout (datagen.slots.Shape).
 * @typedef {{op: string, aDigits: number, aPlaces: number, bDigits: number, bPlaces: number,
 * places: number, aWidth: number, bWidth: number, byZero: boolean}} Shape */

/** The slot of a character: its kind, its row and column, and the row and column that its rule needs.
 * @typedef {[kind: number, row: number, column: number, queryRow: number, queryColumn: number]} Slot */

export const PROMPT = /^\$(|[013-9]|[12][0-9]|30)\(([-0-9.]{10,100}?)([-+*/])([-0-9.]{10,100})\)=$/;

/** Returns the shape of a prompt `$P(A op B)=`, or null for any other text.
 * @param {string} prompt
 * @returns {Shape | null} */
export function shapeOf(prompt) {
  const match = PROMPT.exec(prompt);
  if (!match) return null;
  const [, places, a, op, b] = match;
  const [left, right] = [a, b].map(digitsAndPlaces);
  return {
    op,
    aDigits: left.digits,
    aPlaces: left.places,
    bDigits: right.digits,
    bPlaces: right.places,
    places: Number(places || USUAL_PLACES),
    aWidth: a.length,
    bWidth: b.length,
    byZero: right.isZero && op === "/",
  };
}

/** Returns how a prompt writes its places: not at all if there are two. @param {Shape} shape */
function placesText({ places }) {
  return places === USUAL_PLACES ? "" : String(places);
}

/** @param {string} field */
function digitsAndPlaces(field) {
  const point = field.indexOf(".");
  const [whole, places] = point < 0 ? [field, ""] : [field.slice(0, point), field.slice(point + 1)];
  const digits = (whole + places).replaceAll("-", "0").replace(/^0+/, "");
  return { digits: Math.max(1, digits.length), places: places.length, isZero: !digits };
}

/** Lists the slots of a question and its work, in order. */
export class Layout {
  /** @type {Slot[]} */ slots = [];
  /** @type {number[]} the positions of the result's digits, lowest first */
  result = [];
  resultPlaces = 0;
  sign = NOWHERE; // the position of the result's sign
  promptLength = 0;

  /** @param {Shape} shape */
  constructor(shape) {
    if (shape.op === "*") this.#product(shape);
    else if (shape.op === "/") this.#quotient(shape);
    else this.#sum(shape);
    this.#put(KIND.EQUALS);
  }

  /** Adds a slot and returns its position.
   * @type {(kind: number, row?: number, column?: number, queryRow?: number, queryColumn?: number) => number} */
  #put(kind, row = 0, column = 0, queryRow = 0, queryColumn = 0) {
    this.slots.push([kind, row, column, queryRow, queryColumn]);
    return this.slots.length - 1;
  }

  /** Adds the slots of the question. Returns the columns of each operand's digits, by power of ten.
   * @param {Shape} shape */
  #question(shape) {
    for (const _ of `$${placesText(shape)}(`) this.#put(KIND.QUESTION);
    const a = this.#operand(KIND.A_FIELD, shape.aWidth, shape.aPlaces);
    this.#put(KIND.QUESTION);
    const b = this.#operand(KIND.B_FIELD, shape.bWidth, shape.bPlaces);
    for (const _ of ")=") this.#put(KIND.QUESTION);
    this.promptLength = this.slots.length;
    return { a, b };
  }

  /** Adds the slots of an operand. Returns the columns of its digits, by power of ten.
   * @type {(kind: number, width: number, places: number) => Map<number, number>} */
  #operand(kind, width, places) {
    const columns = Array.from({ length: width }, (_, index) => LOWEST + index);
    for (const column of columns) this.#put(kind, 0, column);
    columns.reverse(); // lowest digit first
    if (places) columns.splice(places, 1); // removes the point
    return new Map(columns.map((column, index) => [index - places, column]));
  }

  /** Adds a row of copies of an operand's digits. The slots are zeros where the question writes no digit, and above its
   * padding.
   * @param {Map<number, number>} columns
   * @param {number} first the exponent of the lowest digit
   * @param {number} n the number of digits
   * @param {number} largest the largest exponent of a digit that is not padding
   * @param {{digit: number, zero: number}} kinds
   * @param {number} nBelow the number of lowest digits that no row brings down; 0 for B */
  #copy(columns, first, n, largest, kinds, nBelow = 0) {
    for (let index = 0; index < n; index += 1) {
      const exponent = first + index;
      const from = exponent <= largest ? columns.get(exponent) : undefined;
      if (from === undefined) this.#put(kinds.zero, 0, LOWEST + index);
      else this.#put(index < nBelow ? KIND.A_BELOW : kinds.digit, 0, LOWEST + index, 0, from);
    }
  }

  /** @param {Shape} shape */
  #sum(shape) {
    const d = Math.max(shape.aPlaces, shape.bPlaces);
    const drop = Math.max(0, d - shape.places);
    const n = Math.max(shape.aDigits + d - shape.aPlaces, shape.bDigits + d - shape.bPlaces, drop);
    const { a, b } = this.#question(shape);
    this.#put(KIND.A_SIGN);
    this.#copy(a, -d, n + 1, shape.aDigits - shape.aPlaces - 1, COPY_OF_A);
    this.#put(KIND.B_SIGN_OF_SUM);
    this.#copy(b, -d, n + 1, shape.bDigits - shape.bPlaces - 1, COPY_OF_B);
    this.#put(KIND.ADD_OR_SUBTRACT);
    for (let j = 0; j <= n; j += 1) this.#digit(j ? KIND.SUM_DIGIT : KIND.SUM_LOWEST, j);
    const kinds = [KIND.SUM_KEPT, KIND.SUM_HALF, KIND.SUM_BELOW];
    this.#put(drop ? KIND.EXACT_MARK : KIND.RESULT_MARK);
    const magnitude = [];
    for (let j = 0; j <= n; j += 1) {
      magnitude.push(this.#digit(drop ? kindOf(kinds, j, drop) : KIND.SUM_RESULT, j));
    }
    this.result = drop ? this.#rounded(n + 1, drop) : magnitude;
    this.resultPlaces = Math.min(d, shape.places);
    this.sign = this.#put(KIND.SUM_SIGN, 0, 0, 0, n + LOWEST);
  }

  /** Adds digit j of a row outside of products and quotients. @type {(kind: number, j: number) => number} */
  #digit(kind, j) {
    return this.#put(kind, 0, j + LOWEST, 0, j + LOWEST);
  }

  /** Adds the rounding of an exact row and the rounded digits. Returns their positions. n: the number of digits of the
   * exact row; drop: the number of digits that are rounded off; extra: the number of rounded digits above the exact
   * row.
   * @type {(n: number, drop: number, extra?: number) => number[]} */
  #rounded(n, drop, extra = 0) {
    this.#put(KIND.ROUNDING, 0, 0, 0, drop - 1 + LOWEST);
    this.#put(KIND.RESULT_MARK);
    const result = [];
    for (let j = drop; j < n + extra; j += 1) {
      result.push(this.#digit(j < n ? KIND.ROUNDED_RESULT : KIND.ROUNDED_TOP, j));
    }
    return result;
  }

  /** @param {Shape} shape */
  #product(shape) {
    const { aDigits: nA, bDigits: nB } = shape;
    const { a, b } = this.#question(shape);
    this.#put(KIND.A_SIGN);
    this.#copy(a, -shape.aPlaces, nA, nA - shape.aPlaces - 1, COPY_OF_A);
    this.#put(KIND.B_SIGN);
    this.#copy(b, -shape.bPlaces, nB, nB - shape.bPlaces - 1, COPY_OF_B);
    /** @type {[row: number, column: number][]} */ const digits = [];
    for (let k = 1; k <= nB; k += 1) {
      this.#put(KIND.ROW_MARK, k);
      this.#put(KIND.MULTIPLIER, k, 0, 0, k - 1 + LOWEST);
      for (let j = 0; j < nA; j += 1) {
        const [digit, carry] =
          k > 1 ? [KIND.PRODUCT_DIGIT, KIND.PRODUCT_CARRY] : [KIND.FIRST_DIGIT, KIND.FIRST_CARRY];
        this.#put(digit, k, j + LOWEST, k, j + LOWEST);
        this.#put(carry, k, j + 1 + LOWEST, k, j + LOWEST);
      }
      digits.push([k, LOWEST]);
    }
    for (let j = 1; j <= nA; j += 1) digits.push([nB, j + LOWEST]);
    const places = shape.aPlaces + shape.bPlaces;
    const drop = Math.max(0, places - shape.places);
    this.resultPlaces = Math.min(places, shape.places);
    if (drop > digits.length) this.#put(KIND.RESULT_MARK); // less than half of the last place
    else {
      const kinds = [KIND.PRODUCT_KEPT, KIND.PRODUCT_HALF, KIND.PRODUCT_BELOW];
      this.#put(drop ? KIND.EXACT_MARK : KIND.RESULT_MARK);
      const magnitude = digits.map(([row, column], m) =>
        this.#put(drop ? kindOf(kinds, m, drop) : KIND.PRODUCT_RESULT, 0, m + LOWEST, row, column),
      );
      this.result = drop ? this.#rounded(digits.length, drop, 1) : magnitude;
    }
    this.sign = this.#put(KIND.SIGN);
  }

  /** @param {Shape} shape */
  #quotient(shape) {
    const { aDigits: nA, bDigits: nB } = shape;
    const width = Math.max(nB, MIN_DIVISOR);
    const nRow = quotientRows(shape);
    const nBelow = nRow ? nA - (width - 2) - nRow : 0;
    const { a, b } = this.#question(shape);
    this.resultPlaces = shape.places;
    this.#put(KIND.A_SIGN);
    this.#copy(a, -shape.aPlaces, nA, nA - shape.aPlaces - 1, COPY_OF_A, nBelow);
    this.#put(KIND.B_SIGN);
    const lowest = -shape.bPlaces - (width - nB);
    this.#copy(b, lowest, width + 1, nB - shape.bPlaces - 1, COPY_OF_B);
    if (shape.byZero) {
      this.#put(KIND.RESULT_MARK);
      this.#put(KIND.NAN);
      return;
    }
    if (!nRow) {
      this.#put(KIND.RESULT_MARK);
      this.sign = this.#put(KIND.SIGN);
      return;
    }
    this.#firstRemainder(nA, width);
    for (let k = 1; k <= nRow; k += 1) {
      this.#bringDown(nBelow + nRow - k, k);
      this.#put(KIND.DIVIDEND_SIGN, k + 1, 0, k, width + LOWEST);
      this.#put(KIND.QUOTIENT_DIGIT, k + 1, 0, k, width + LOWEST);
      if (k === nRow) this.#bringDown(nBelow - 1, k + 1); // copied, but not divided
      this.#remainder(k + 1, width, k < nRow ? KIND.REMAINDER_DIGIT : KIND.LAST_DIGIT);
    }
    this.#put(KIND.QUOTIENT_ROUNDING, 0, 0, nRow + 1, width + LOWEST);
    this.#put(KIND.RESULT_MARK);
    for (let m = 0; m < nRow - 1; m += 1) {
      this.result.push(this.#put(KIND.QUOTIENT_RESULT, 0, m + LOWEST, nRow - m, 0));
    }
    this.sign = this.#put(KIND.SIGN);
  }

  /** @type {(nA: number, width: number) => void} */
  #firstRemainder(nA, width) {
    this.#put(KIND.REMAINDER_MARK, 1);
    for (let j = 0; j <= width; j += 1) {
      const source = nA - (width - 2) + j;
      if (j < width - 2 && source >= 0) {
        this.#put(KIND.REMAINDER_COPY, 1, j + LOWEST, 0, source + LOWEST);
      } else this.#put(KIND.REMAINDER_ZERO, 1, j + LOWEST);
    }
  }

  /** Adds a digit of A below the remainder of a row. index: the index of the digit, negative if A has no more digits.
   * @type {(index: number, row: number) => void} */
  #bringDown(index, row) {
    if (index >= 0) this.#put(KIND.BROUGHT_DOWN, row, LOWEST - 1, 0, index + LOWEST);
    else this.#put(KIND.BROUGHT_ZERO, row, LOWEST - 1);
  }

  /** Adds the digits of a remainder and the carries between them. kind: the kind of a digit.
   * @type {(row: number, width: number, kind: number) => void} */
  #remainder(row, width, kind) {
    for (let j = 0; j <= width; j += 1) {
      /** @type {[number, number]} */ const position = [row, j + LOWEST];
      if (j) this.#put(KIND.REMAINDER_CARRY, ...position, ...position);
      this.#put(kind, ...position, ...position);
    }
  }

  /** Returns the slots of the answer that follows from the result row of a line. A model wrote the row, so it may have
   * any characters.
   * @param {string} line
   * @returns {Slot[]} */
  answerSlots(line) {
    const slots = this.sign === NOWHERE ? [] : this.#answerDigits(line);
    if (this.sign === NOWHERE) {
      slots.push(...[KIND.ANSWER_N, KIND.ANSWER_A, KIND.ANSWER_N].map(slotWithoutCoordinates));
    } else if (line[this.sign] === "-") slots.push(slotWithoutCoordinates(KIND.ANSWER_MINUS));
    while (slots.length < WIDTH) slots.push(slotWithoutCoordinates(KIND.ANSWER_ZERO));
    return [...slots, slotWithoutCoordinates(KIND.END)];
  }

  /** @param {string} line
   * @returns {Slot[]} */
  #answerDigits(line) {
    const places = this.resultPlaces;
    const nonzero = this.result.flatMap((position, index) => (line[position] === "0" ? [] : [index]));
    const lastPlace = Math.min(nonzero[0] ?? places, Math.max(places - 1, 0));
    /** @type {Slot[]} */ const slots = [];
    for (let index = lastPlace; index <= Math.max(nonzero.at(-1) ?? 0, places); index += 1) {
      if (index >= this.result.length) slots.push(slotWithoutCoordinates(KIND.ANSWER_ZERO));
      else {
        const column = this.slots[this.result[index]][2];
        slots.push([KIND.ANSWER_DIGIT, 0, column, 0, column]);
      }
    }
    if (places) slots.splice(places - lastPlace, 0, slotWithoutCoordinates(KIND.ANSWER_POINT));
    return slots;
  }
}

/** Returns a slot whose coordinates are 0.
 * @param {number} kind
 * @returns {Slot} */
function slotWithoutCoordinates(kind) {
  return [kind, 0, 0, 0, 0];
}

/** Returns the kind of digit j of an exact row: it is kept, or it determines the rounding, or it is below.
 * @type {(kinds: number[], j: number, drop: number) => number} */
function kindOf([kept, half, below], j, drop) {
  if (j >= drop) return kept;
  return j === drop - 1 ? half : below;
}

/** Returns the number of quotient digits, 0 if the quotient is below half of the last place. @param {Shape} shape */
function quotientRows({ aDigits, aPlaces, bDigits, bPlaces, places }) {
  const nRow = aDigits - aPlaces - (bDigits - bPlaces) + places + 3;
  return nRow > 1 ? nRow : 0;
}

/** Returns the number of slots of a layout, question included, without making the layout: a product of two operands of
 * 100 digits has about 20,000 slots.
 * @param {Shape} shape */
export function workLength(shape) {
  const { op, aDigits: nA, bDigits: nB, aPlaces, bPlaces, places } = shape;
  const question = `$${placesText(shape)}(+)=`.length + shape.aWidth + shape.bWidth;
  if (op === "*") {
    const drop = Math.max(0, aPlaces + bPlaces - places);
    const rows = 2 + nA + nB + 2 * nB * (1 + nA);
    return question + rows + (drop > nA + nB ? 1 : resultLength(nA + nB, drop, 1)) + 2;
  }
  if (op === "/") {
    const width = Math.max(nB, MIN_DIVISOR);
    const nRow = quotientRows(shape);
    const operands = 3 + nA + width;
    if (shape.byZero) return question + operands + 3;
    if (!nRow) return question + operands + 3;
    return question + operands + 3 + width + nRow * (2 * width + 5) + 3;
  }
  const d = Math.max(aPlaces, bPlaces);
  const drop = Math.max(0, d - places);
  const n = Math.max(nA + d - aPlaces, nB + d - bPlaces, drop);
  return question + 3 + 3 * (n + 1) + resultLength(n + 1, drop) + 2;
}

/** Returns the number of slots of a result, with its mark and its rounding.
 * @type {(digits: number, drop: number, extra?: number) => number} */
function resultLength(digits, drop, extra = 0) {
  return 1 + digits + (drop ? 2 + digits + extra - drop : 0);
}
