// The layout of worked steps: a slot for each character (datagen/layout.py, datagen/slots.py).
// The question determines all slots but those of the answer, which also depend on the result row.

import { USUAL_PLACES, WIDTH } from "./arithmetic.js";

export const MIN_DIVISOR = 3; // digits of a divisor; a quotient digit is chosen by so many leading digits
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
const COPY_OF_A = [KIND.A_DIGIT, KIND.A_ZERO];
const COPY_OF_B = [KIND.B_DIGIT, KIND.B_ZERO];

/** The properties of a question that determine its layout (datagen.slots.Shape).
 * @typedef {{op: string, aDigits: number, aPlaces: number, bDigits: number, bPlaces: number,
 * places: number, aWidth: number, bWidth: number, byZero: boolean}} Shape */

/** The slot of a character: its kind, its row and column, the row and column that its rule needs, and the positions of
 * the characters that the rule reads.
 * @typedef {[kind: number, row: number, column: number, queryRow: number, queryColumn: number, sources: number[]]
 *   } Slot */

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

  /** Adds a slot and returns its position. query: the row and column that its rule needs.
   * @type {(kind: number, row?: number, column?: number, query?: number[], sources?: number[]) => number} */
  #put(kind, row = 0, column = 0, [queryRow, queryColumn] = [0, 0], sources = []) {
    this.slots.push([kind, row, column, queryRow, queryColumn, sources]);
    return this.slots.length - 1;
  }

  /** Adds the slots of the question. Returns the positions of its parts, those of digits by power of ten.
   * @param {Shape} shape */
  #question(shape) {
    for (const _ of `$${placesText(shape)}(`) this.#put(KIND.QUESTION);
    const a = this.#operand(KIND.A_FIELD, shape.aWidth, shape.aPlaces);
    const op = this.#put(KIND.QUESTION);
    const b = this.#operand(KIND.B_FIELD, shape.bWidth, shape.bPlaces);
    for (const _ of ")=") this.#put(KIND.QUESTION);
    this.promptLength = this.slots.length;
    return { a, op, b };
  }

  /** @type {(kind: number, width: number, places: number) => {field: number[], digits: Map<number, number>}} */
  #operand(kind, width, places) {
    const field = Array.from({ length: width }, (_, index) => this.#put(kind, 0, LOWEST + index));
    const lowestFirst = field.toReversed();
    if (places) lowestFirst.splice(places, 1); // removes the point
    return { field, digits: new Map(lowestFirst.map((position, index) => [index - places, position])) };
  }

  /** Adds a row of copies of an operand's digits. They are zeros where the question writes no digit, and above its
   * padding. first: the exponent of the lowest digit; n: the number of digits; largest: the largest exponent of a
   * digit that is not padding; nBelow: the number of lowest digits that no row brings down, 0 for B.
   * @type {(digits: Map<number, number>, first: number, n: number, largest: number, kinds: number[],
   *   nBelow?: number) => number[]} */
  #copy(digits, first, n, largest, [digit, zero], nBelow = 0) {
    /** @type {number[]} */ const copies = [];
    for (let index = 0; index < n; index += 1) {
      const from = first + index <= largest ? digits.get(first + index) : undefined;
      const column = LOWEST + index;
      if (from === undefined) copies.push(this.#put(zero, 0, column));
      else {
        const [kind, before] = index < nBelow ? [KIND.A_BELOW, copies.slice(-1)] : [digit, []];
        copies.push(this.#put(kind, 0, column, [0, this.slots[from][2]], [from, ...before]));
      }
    }
    return copies;
  }

  /** @param {Shape} shape */
  #sum(shape) {
    const d = Math.max(shape.aPlaces, shape.bPlaces);
    const drop = Math.max(0, d - shape.places);
    const n = Math.max(shape.aDigits + d - shape.aPlaces, shape.bDigits + d - shape.bPlaces, drop);
    const question = this.#question(shape);
    const aSign = this.#put(KIND.A_SIGN, 0, 0, [0, 0], question.a.field);
    const a = this.#copy(question.a.digits, -d, n + 1, shape.aDigits - shape.aPlaces - 1, COPY_OF_A);
    const bSign = this.#put(KIND.B_SIGN_OF_SUM, 0, 0, [0, 0], [...question.b.field, question.op]);
    const b = this.#copy(question.b.digits, -d, n + 1, shape.bDigits - shape.bPlaces - 1, COPY_OF_B);
    const operator = this.#put(KIND.ADD_OR_SUBTRACT, 0, 0, [0, 0], [aSign, bSign]);
    /** @type {number[]} */ const total = [];
    for (let j = 0; j <= n; j += 1) {
      const before = j ? [a[j - 1], b[j - 1], total[j - 1]] : [];
      total.push(this.#digit(j ? KIND.SUM_DIGIT : KIND.SUM_LOWEST, j, [operator, a[j], b[j], ...before]));
    }
    this.#put(drop ? KIND.EXACT_MARK : KIND.RESULT_MARK);
    const kinds = drop ? [KIND.SUM_KEPT, KIND.SUM_HALF, KIND.SUM_BELOW] : [KIND.SUM_RESULT];
    /** @type {number[]} */ const magnitude = [];
    for (let j = 0; j <= n; j += 1) {
      const before = j ? [total[j - 1], magnitude[j - 1]] : [];
      magnitude.push(this.#digit(kindOf(kinds, j, drop), j, [total[n], total[j], ...before]));
    }
    this.result = drop ? this.#rounded(magnitude, drop) : magnitude;
    this.resultPlaces = Math.min(d, shape.places);
    this.sign = this.#put(KIND.SUM_SIGN, 0, 0, [0, n + LOWEST], [aSign, total[n], ...this.result]);
  }

  /** Adds digit j of a row outside of products and quotients.
   * @type {(kind: number, j: number, sources: number[]) => number} */
  #digit(kind, j, sources) {
    return this.#put(kind, 0, j + LOWEST, [0, j + LOWEST], sources);
  }

  /** Adds the rounding of an exact row and the rounded digits. Returns their positions. drop: the number of digits that
   * are rounded off; extra: the number of rounded digits above the exact row.
   * @type {(exact: number[], drop: number, extra?: number) => number[]} */
  #rounded(exact, drop, extra = 0) {
    const at = (/** @type {number} */ j) => exact[j] ?? NOWHERE;
    const rounding = this.#put(KIND.ROUNDING, 0, 0, [0, drop - 1 + LOWEST], [at(drop - 1), at(drop), at(drop - 2)]);
    this.#put(KIND.RESULT_MARK);
    /** @type {number[]} */ const result = [];
    for (let j = drop; j < exact.length + extra; j += 1) {
      const before = j > drop ? [exact[j - 1], result[j - drop - 1]] : [NOWHERE, rounding];
      result.push(this.#digit(j < exact.length ? KIND.ROUNDED_RESULT : KIND.ROUNDED_TOP, j, [at(j), ...before]));
    }
    return result;
  }

  /** @param {Shape} shape */
  #product(shape) {
    const { aDigits: nA, bDigits: nB } = shape;
    const question = this.#question(shape);
    const aSign = this.#put(KIND.A_SIGN, 0, 0, [0, 0], question.a.field);
    const a = this.#copy(question.a.digits, -shape.aPlaces, nA, nA - shape.aPlaces - 1, COPY_OF_A);
    const bSign = this.#put(KIND.B_SIGN, 0, 0, [0, 0], question.b.field);
    const b = this.#copy(question.b.digits, -shape.bPlaces, nB, nB - shape.bPlaces - 1, COPY_OF_B);
    /** @type {{position: number, query: number[]}[]} */ const digits = [];
    /** @type {number[]} */ let above = [];
    for (let k = 1; k <= nB; k += 1) {
      this.#put(KIND.ROW_MARK, k);
      const multiplier = this.#put(KIND.MULTIPLIER, k, 0, [0, k - 1 + LOWEST], [b[k - 1]]);
      const [digit, carry] = k > 1 ? [KIND.PRODUCT_DIGIT, KIND.PRODUCT_CARRY] : [KIND.FIRST_DIGIT, KIND.FIRST_CARRY];
      const row = [];
      let carried = NOWHERE; // the last one is the row's top digit
      for (let j = 0; j < nA; j += 1) {
        const sources = [multiplier, a[j], above[j + 1] ?? NOWHERE, carried];
        row.push(this.#put(digit, k, j + LOWEST, [k, j + LOWEST], sources));
        carried = this.#put(carry, k, j + 1 + LOWEST, [k, j + LOWEST], sources);
      }
      above = [...row, carried];
      digits.push({ position: above[0], query: [k, LOWEST] });
    }
    for (let j = 1; j <= nA; j += 1) digits.push({ position: above[j], query: [nB, j + LOWEST] });
    const places = shape.aPlaces + shape.bPlaces;
    const drop = Math.max(0, places - shape.places);
    this.resultPlaces = Math.min(places, shape.places);
    if (drop > digits.length) this.#put(KIND.RESULT_MARK); // less than half of the last place
    else {
      this.#put(drop ? KIND.EXACT_MARK : KIND.RESULT_MARK);
      const kinds = drop ? [KIND.PRODUCT_KEPT, KIND.PRODUCT_HALF, KIND.PRODUCT_BELOW] : [KIND.PRODUCT_RESULT];
      /** @type {number[]} */ const magnitude = [];
      for (const [m, { position, query }] of digits.entries()) {
        const before = m < drop - 1 ? magnitude.slice(-1) : []; // a mark reads the one before
        magnitude.push(this.#put(kindOf(kinds, m, drop), 0, m + LOWEST, query, [position, ...before]));
      }
      this.result = drop ? this.#rounded(magnitude, drop, 1) : magnitude;
    }
    this.sign = this.#put(KIND.SIGN, 0, 0, [0, 0], [aSign, bSign, ...this.result]);
  }

  /** @param {Shape} shape */
  #quotient(shape) {
    const { aDigits: nA, bDigits: nB } = shape;
    const width = Math.max(nB, MIN_DIVISOR);
    const nRow = quotientRows(shape);
    const nBelow = nRow ? nA - (width - 2) - nRow : 0;
    const question = this.#question(shape);
    this.resultPlaces = shape.places;
    const aSign = this.#put(KIND.A_SIGN, 0, 0, [0, 0], question.a.field);
    const a = this.#copy(question.a.digits, -shape.aPlaces, nA, nA - shape.aPlaces - 1, COPY_OF_A, nBelow);
    const bSign = this.#put(KIND.B_SIGN, 0, 0, [0, 0], question.b.field);
    const lowest = -shape.bPlaces - (width - nB);
    const b = this.#copy(question.b.digits, lowest, width + 1, nB - shape.bPlaces - 1, COPY_OF_B);
    if (shape.byZero || !nRow) {
      this.#put(KIND.RESULT_MARK);
      if (shape.byZero) this.#put(KIND.NAN);
      else this.sign = this.#put(KIND.SIGN, 0, 0, [0, 0], [aSign, bSign]);
      return;
    }
    let remainder = this.#firstRemainder(a, width);
    const quotient = []; // the positions of sign and digit
    for (let k = 1; k <= nRow; k += 1) {
      const dividend = [this.#bringDown(a, nBelow + nRow - k, k), ...remainder];
      const leading = [k, width + LOWEST];
      const sign = this.#put(KIND.DIVIDEND_SIGN, k + 1, 0, leading, dividend.slice(-1));
      const digit = this.#put(KIND.QUOTIENT_DIGIT, k + 1, 0, leading);
      quotient.push([sign, digit]);
      const below = k === nRow ? this.#bringDown(a, nBelow - 1, k + 1) : NOWHERE; // copied, but not divided
      remainder = this.#remainder(k + 1, [sign, digit], b, dividend, below);
    }
    const kept = quotient.slice(0, -1).reverse(); // from the lowest on
    const sources = [...quotient[nRow - 1], kept[0][1], remainder[width]];
    const rounding = this.#put(KIND.QUOTIENT_ROUNDING, 0, 0, [nRow + 1, width + LOWEST], sources);
    this.#put(KIND.RESULT_MARK);
    for (const [m, signedDigit] of kept.entries()) {
      const before = m ? [...kept[m - 1], this.result[m - 1]] : [NOWHERE, NOWHERE, rounding];
      const position = this.#put(KIND.QUOTIENT_RESULT, 0, m + LOWEST, [nRow - m, 0], [...signedDigit, ...before]);
      this.result.push(position);
    }
    this.sign = this.#put(KIND.SIGN, 0, 0, [0, 0], [aSign, bSign, ...this.result]);
  }

  /** @type {(a: number[], width: number) => number[]} */
  #firstRemainder(a, width) {
    this.#put(KIND.REMAINDER_MARK, 1);
    return Array.from({ length: width + 1 }, (_, j) => {
      const source = a.length - (width - 2) + j;
      if (j >= width - 2 || source < 0) return this.#put(KIND.REMAINDER_ZERO, 1, j + LOWEST);
      return this.#put(KIND.REMAINDER_COPY, 1, j + LOWEST, [0, source + LOWEST], [a[source]]);
    });
  }

  /** Adds a digit of A below the remainder of a row. index: the index of the digit, negative if A has no more digits.
   * @type {(a: number[], index: number, row: number) => number} */
  #bringDown(a, index, row) {
    if (index < 0) return this.#put(KIND.BROUGHT_ZERO, row, LOWEST - 1);
    return this.#put(KIND.BROUGHT_DOWN, row, LOWEST - 1, [0, index + LOWEST], [a[index]]);
  }

  /** Adds the digits of a remainder and the carries between them. quotient: the positions of the sign and the digit;
   * mark: that of the digit below the last remainder, whose digits are marked.
   * @type {(row: number, quotient: number[], b: number[], dividend: number[], mark: number) => number[]} */
  #remainder(row, quotient, b, dividend, mark) {
    const isLast = mark !== NOWHERE;
    /** @type {number[]} */ const digits = [];
    let carry = NOWHERE;
    for (let j = 0; j < b.length; j += 1) {
      const [column, query] = [j + LOWEST, [row, j + LOWEST]];
      const before = [...quotient, b[j - 1], dividend[j - 1], carry];
      if (j) carry = this.#put(KIND.REMAINDER_CARRY, row, column, query, before);
      const sources = [...quotient, b[j], dividend[j], carry, ...(isLast ? [digits.at(-1) ?? mark] : [])];
      digits.push(this.#put(isLast ? KIND.LAST_DIGIT : KIND.REMAINDER_DIGIT, row, column, query, sources));
    }
    return digits;
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
        slots.push([KIND.ANSWER_DIGIT, 0, column, 0, column, [this.result[index]]]);
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
  return [kind, 0, 0, 0, 0, []];
}

/** Returns the kind of digit j of an exact row: it is kept, or it determines the rounding, or it is below. Without
 * rounding, all digits have the first kind.
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
