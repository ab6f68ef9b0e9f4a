// Where a model that writes worked steps should look: the coordinates of every character, computed
// from the text so far (datagen/coordinates.py).

import { WIDTH } from "./arithmetic.js";
import { KIND, LOWEST, Layout, shapeOf } from "./layout.js";

/**
 * The kind of a character and of the next one, its row and column, and those of what the next
 * character is computed from. Where there is none, it is 0.
 * @typedef {[kind: number, nextKind: number, row: number, column: number,
 *   queryRow: number, queryColumn: number]} Coordinates
 */

/** Finds the coordinates of the characters of a text that grows. Keeps what the question decides. */
export class CoordinateReader {
  #prompt = "";
  /** @type {Layout | null} */
  #layout = null;
  /** @type {Coordinates[]} */
  #fixed = [];

  /**
   * Returns the coordinates of the characters of a line from `start` on. The line may be unfinished,
   * and any text is allowed: what is not in the notation has coordinates 0.
   * @param {string} line
   * @param {number} start
   * @returns {Coordinates[]}
   */
  read(line, start) {
    const prompt = line.slice(0, line.indexOf("=") + 1);
    const shape = prompt ? shapeOf(prompt) : null;
    if (!shape) return ofQuestion(line).slice(start);
    if (!this.#layout || prompt !== this.#prompt) {
      const layout = new Layout(shape);
      this.#prompt = prompt;
      this.#layout = layout;
      this.#fixed = ofSlots(layout.slots);
      for (const where of this.#fixed.slice(0, layout.promptLength - 1)) {
        where[1] = where[4] = where[5] = 0; // nothing before the question's end is predicted
      }
    }
    const fixed = this.#fixed;
    if (line.length < fixed.length) return fixed.slice(start, line.length);
    const slots = [...this.#layout.slots.slice(-1), ...this.#layout.answerSlots(line.slice(0, fixed.length))];
    const all = [...fixed.slice(0, -1), ...ofSlots(slots)].slice(0, line.length);
    while (all.length < line.length) all.push(nowhere());
    return all.slice(start);
  }
}

/** @returns {Coordinates} */
const nowhere = () => [0, 0, 0, 0, 0, 0];

/**
 * @param {import("./layout.js").Slot[]} slots
 * @returns {Coordinates[]}
 */
function ofSlots(slots) {
  return slots.map(([kind, row, column], index) => {
    const [nextKind, , , queryRow, queryColumn] = slots[index + 1] ?? [0, 0, 0, 0, 0];
    return [kind, nextKind, row, column, queryRow, queryColumn];
  });
}

/**
 * Returns the coordinates of the beginning of a question, or of text that has none. An operand ends
 * at the first operator after its tenth character.
 * @param {string} line
 */
function ofQuestion(line) {
  const result = Array.from(line, nowhere);
  let start = line.indexOf("(") + 1;
  if (!line.startsWith("$") || start < 2 || start > 3) return result;
  let kind = KIND.A_FIELD;
  for (let position = start; position < line.length; position += 1) {
    const character = line[position];
    if (kind === KIND.A_FIELD && position - start >= WIDTH && "+-*/".includes(character)) {
      [kind, start] = [KIND.B_FIELD, position + 1];
    } else if (!"0123456789.-".includes(character)) break;
    else [result[position][0], result[position][3]] = [kind, LOWEST + position - start];
  }
  return result;
}
