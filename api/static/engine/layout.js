// The layout of worked steps: a slot for each character (datagen/layout.py). Those of the operations are in operations.js,
// which is written from Python's.
// The question determines all slots but those of the answer, which also depend on the result row.

import { MAX_WIDTH, USUAL_PLACES, WIDTH } from "./arithmetic.js";
import { KIND, LOWEST, NOWHERE, OPERATIONS } from "./operations.js";

/** The properties of a question that determine its layout (datagen.slots.Shape).
 * @typedef {{op: string, aDigits: number, aPlaces: number, bDigits: number, bPlaces: number,
 * places: number, aWidth: number, bWidth: number, byZero: boolean}} Shape */

/** The slot of a character: its kind, its row and column, and the positions of the characters that the rule reads.
 * @typedef {[kind: number, row: number, column: number, sources: number[]]} Slot */

const SIGNS = Object.keys(OPERATIONS).map((sign) => `\\${sign}`).join("");
const A = `([-0-9.]{${WIDTH}}[0-9.]{0,${MAX_WIDTH - WIDTH}})`; // then `-` is an operation
const B = `([-0-9.]{${WIDTH},${MAX_WIDTH}})`;
export const PROMPT = new RegExp(`^\\$(|[013-9]|[1-9][0-9]{1,3})\\(${A}([${SIGNS}])${B}\\)=$`);
export const MAX_LAYOUT = 2 ** 22; // slots

/** Returns the shape of a prompt `$P(A op B)=` whose layout can be made: its work has at most MAX_LAYOUT characters.
 * Returns null for any other text.
 * @type {(prompt: string) => Shape | null} */
export function shapeOf(prompt) {
  const shape = anyShapeOf(prompt);
  return shape && workLength(shape) <= MAX_LAYOUT ? shape : null;
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

  /** Adds a slot and returns its position.
   * @type {(kind: number, row?: number, column?: number, sources?: number[]) => number} */
  put(kind, row = 0, column = 0, sources = []) {
    this.slots.push([kind, row, column, sources]);
    return this.slots.length - 1;
  }

  /** Adds a digit and a carry for each column, lowest first. Both read `shared`, what is in their column of each row of
   * `above`, and the carry of the column before. Returns the positions of the digits, and of the last carry.
   * @type {(kinds: [number, number], row: number, shared: number[], above: number[][]) => [number[], number]} */
  putColumns([digit, carry], row, shared, above) {
    let last = NOWHERE;
    const digits = above[0].map((_, index) => {
      const sources = [...shared, ...above.map((positions) => positions[index]), last];
      const position = this.put(digit, row, LOWEST + index, sources);
      last = this.put(carry, row, LOWEST + index + 1, sources); // for the next column
      return position;
    });
    return [digits, last];
  }

  /** Adds the slots of the question. Returns the positions of its parts. @param {Shape} shape */
  #question(shape) {
    for (const _ of `$${placesText(shape)}(`) this.put(KIND.QUESTION);
    const a = this.#operand(KIND.A_FIELD, shape.aWidth, shape.aPlaces, shape.aDigits);
    const op = this.put(KIND.QUESTION, 0, LOWEST);
    const b = this.#operand(KIND.B_FIELD, shape.bWidth, shape.bPlaces, shape.bDigits);
    for (const _ of ")=") this.put(KIND.QUESTION);
    this.promptLength = this.slots.length;
    return { a, op, b };
  }

  /** Adds the slots of an operand: the lowest written digit has the column LOWEST, the point has none. Returns the
   * positions of the digits without padding, lowest first, and of the character before the number: its sign or padding.
   * @type {(kind: number, width: number, places: number, nDigits: number) =>
   *   {digits: number[], places: number, sign: number}} */
  #operand(kind, width, places, nDigits) {
    const point = places ? width - 1 - places : width; // its index; without one, behind the field
    /** @type {number[]} */ const characters = []; // the last one first
    for (let index = 0; index < width; index += 1) {
      const column = LOWEST + width - 1 - index - Number(index < point && point < width);
      const position = this.put(kind, 0, index === point ? 0 : column);
      if (index !== point) characters.unshift(position);
    }
    const sign = characters[Math.max(nDigits, places + 1)] ?? NOWHERE; // a number below 1 begins with a zero
    return { digits: characters.slice(0, nDigits), places, sign };
  }

  /** Returns the slots of the answer that follows from the result row of a line. A model wrote the row, so it may have
   * any characters.
   * @type {(line: string) => Slot[]} */
  answerSlots(line) {
    const slots = this.sign === NOWHERE ? [] : this.#answerDigits(line);
    if (this.sign === NOWHERE) {
      slots.push(...[KIND.ANSWER_N, KIND.ANSWER_A, KIND.ANSWER_N].map(slotOf));
    }
    while (slots.length < WIDTH) slots.push(slotOf(KIND.ANSWER_ZERO));
    return [...slots, slotOf(KIND.END)];
  }

  /** @type {(line: string) => Slot[]} */
  #answerDigits(line) {
    const places = this.resultPlaces;
    const nonzero = this.result.flatMap((position, index) => (line[position] === "0" ? [] : [index]));
    const lastPlace = Math.min(nonzero[0] ?? places, Math.max(places - 1, 0));
    /** @type {Slot[]} */ const slots = [];
    for (let index = lastPlace; index <= Math.max(nonzero.at(-1) ?? 0, places); index += 1) {
      if (index >= this.result.length) slots.push(slotOf(KIND.ANSWER_ZERO));
      else slots.push([KIND.ANSWER_DIGIT, 0, 0, [this.result[index]]]);
    }
    if (places) slots.splice(places - lastPlace, 0, slotOf(KIND.ANSWER_POINT));
    // A zero has no sign.
    if (nonzero.length && line[this.sign] === "-") slots.push(slotOf(KIND.ANSWER_MINUS));
    return slots;
  }
}

/** Returns a slot that reads nothing. @type {(kind: number) => Slot} */
function slotOf(kind) {
  return [kind, 0, 0, []];
}

/** Returns the number of slots of a layout, question included, without making the layout: a product of two operands of
 * 10,000 digits would have some 200 million slots.
 * @param {Shape} shape */
export function workLength(shape) {
  const question = `$${placesText(shape)}(+)=`.length + shape.aWidth + shape.bWidth;
  return question + OPERATIONS[shape.op].length(shape) + 1;
}
