// The layout of worked steps: a slot for each character (datagen/layout.py). Those of the operations are in operations.js,
// which is written from Python's.
// The question determines all slots but those of the answer, which also depend on the result row.

import { MAX_WIDTH, USUAL_PLACES, WIDTH } from "./arithmetic.js";
import { KIND, LOWEST, NOWHERE, OPERATIONS } from "./operations.js";

/** The properties of a question that determine its layout (datagen.slots.Shape).
 * @typedef {{op: string, aDigits: number, aPlaces: number, bDigits: number, bPlaces: number,
 * places: number, aWidth: number, bWidth: number, byZero: boolean}} Shape */

/** The slot of a character: its kind, its row and column, the row and column that its rule needs, and the positions of
 * the characters that the rule reads.
 * @typedef {[kind: number, row: number, column: number, queryRow: number, queryColumn: number, sources: number[]]
 *   } Slot */

const SIGNS = Object.keys(OPERATIONS).map((sign) => `\\${sign}`).join("");
const A = `([-0-9.]{${WIDTH}}[0-9.]{0,${MAX_WIDTH - WIDTH}})`; // then `-` is an operation
const B = `([-0-9.]{${WIDTH},${MAX_WIDTH}})`;
export const PROMPT = new RegExp(`^\\$(|[013-9]|[1-9][0-9]{1,3})\\(${A}([${SIGNS}])${B}\\)=$`);
export const MAX_SLOTS = 150_000; // of a layout

/** Returns the shape of a prompt `$P(A op B)=` whose layout can be made: its work has at most MAX_SLOTS characters.
 * Returns null for any other text.
 * @type {(prompt: string) => Shape | null} */
export function shapeOf(prompt) {
  const shape = anyShapeOf(prompt);
  return shape && workLength(shape) <= MAX_SLOTS ? shape : null;
}

/** Returns the shape of a prompt, even if its work is too long for a layout, or null.
 * @type {(prompt: string) => Shape | null} */
export function anyShapeOf(prompt) {
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
    byZero: right.isZero && OPERATIONS[op].divides,
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
  /** @type {number[]} */ result = []; // the positions of the result's digits, lowest first
  resultPlaces = 0;
  sign = NOWHERE; // the position of the result's sign
  promptLength = 0;

  /** @param {Shape} shape */
  constructor(shape) {
    OPERATIONS[shape.op].layout(this, shape, this.#question(shape));
    this.put(KIND.EQUALS);
  }

  /** Adds a slot and returns its position. query: the row and column that its rule needs.
   * @type {(kind: number, row?: number, column?: number, query?: number[], sources?: number[]) => number} */
  put(kind, row = 0, column = 0, [queryRow, queryColumn] = [0, 0], sources = []) {
    this.slots.push([kind, row, column, queryRow, queryColumn, sources]);
    return this.slots.length - 1;
  }

  /** Adds the slots of the question. Returns the positions of its parts. @param {Shape} shape */
  #question(shape) {
    for (const _ of `$${placesText(shape)}(`) this.put(KIND.QUESTION);
    const a = this.#operand(KIND.A_FIELD, shape.aWidth, shape.aPlaces, shape.aDigits);
    const op = this.put(KIND.QUESTION);
    const b = this.#operand(KIND.B_FIELD, shape.bWidth, shape.bPlaces, shape.bDigits);
    for (const _ of ")=") this.put(KIND.QUESTION);
    this.promptLength = this.slots.length;
    return { a, op, b };
  }

  /** Adds the slots of an operand. Returns the positions of the first character, of the digits without padding, lowest
   * first, and of the character before the number: its sign or padding.
   * @type {(kind: number, width: number, places: number, nDigits: number) =>
   *   {start: number, digits: number[], places: number, sign: number}} */
  #operand(kind, width, places, nDigits) {
    const field = Array.from({ length: width }, (_, index) => this.put(kind, 0, LOWEST + index));
    const characters = field.toReversed();
    if (places) characters.splice(places, 1); // removes the point
    const sign = characters[Math.max(nDigits, places + 1)] ?? NOWHERE; // a number below 1 begins with a zero
    return { start: field[0], digits: characters.slice(0, nDigits), places, sign };
  }

  /** Returns the slots of the answer that follows from the result row of a line. A model wrote the row, so it may have
   * any characters.
   * @type {(line: string) => Slot[]} */
  answerSlots(line) {
    const slots = this.sign === NOWHERE ? [] : this.#answerDigits(line);
    if (this.sign === NOWHERE) {
      slots.push(...[KIND.ANSWER_N, KIND.ANSWER_A, KIND.ANSWER_N].map(slotWithoutCoordinates));
    }
    while (slots.length < WIDTH) slots.push(slotWithoutCoordinates(KIND.ANSWER_ZERO));
    return [...slots, slotWithoutCoordinates(KIND.END)];
  }

  /** @type {(line: string) => Slot[]} */
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
    // A zero has no sign.
    if (nonzero.length && line[this.sign] === "-") slots.push(slotWithoutCoordinates(KIND.ANSWER_MINUS));
    return slots;
  }
}

/** Returns a slot whose coordinates are 0. @type {(kind: number) => Slot} */
function slotWithoutCoordinates(kind) {
  return [kind, 0, 0, 0, 0, []];
}

/** Returns the number of slots of a layout, question included, without making the layout: a product of two operands of
 * 10,000 digits would have some 200 million slots.
 * @param {Shape} shape */
export function workLength(shape) {
  const question = `$${placesText(shape)}(+)=`.length + shape.aWidth + shape.bWidth;
  return question + OPERATIONS[shape.op].length(shape) + 1;
}
