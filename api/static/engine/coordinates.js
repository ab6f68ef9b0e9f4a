// The coordinates of characters, which tell a model that writes worked steps where to look. They are
// computed from the text so far (datagen/coordinates.py).

import { WIDTH } from "./arithmetic.js";
import { Layout, shapeOf } from "./layout.js";
import { KIND, LOWEST, OPERATIONS } from "./operations.js";

/** The kind of a character and of the next one, the row and column of the character, and those of the characters from
 * which the next one is computed. A value is 0 if there is none.
 * @typedef {[kind: number, nextKind: number, row: number, column: number,
 * queryRow: number, queryColumn: number]} Coordinates */

/** Computes the coordinates of a text that grows. It keeps those that the question determines. */
export class CoordinateReader {
  #prompt = "";
  /** @type {Layout | null} */ #layout = null;
  /** @type {Coordinates[]} */ #fixed = [];

  /** Returns the coordinates of the characters of a line from `start` on. The line may be unfinished, and it may be any
   * text: the coordinates of characters outside the notation are 0.
   * @type {(line: string, start: number) => Coordinates[]} */
  read(line, start) {
    if (!this.#layout || !line.startsWith(this.#prompt)) {
      const prompt = line.slice(0, line.indexOf("=") + 1);
      const shape = prompt ? shapeOf(prompt) : null;
      if (!shape) return coordinatesOfQuestion(line).slice(start);
      const layout = new Layout(shape);
      this.#prompt = prompt;
      this.#layout = layout;
      this.#fixed = coordinatesOfSlots(layout.slots);
      for (const coordinates of this.#fixed.slice(0, layout.promptLength - 1)) {
        coordinates[1] = coordinates[4] = coordinates[5] = 0; // the model predicts nothing before the end of the question
      }
    }
    const fixed = this.#fixed;
    if (line.length < fixed.length) return fixed.slice(start, line.length);
    const slots = [...this.#layout.slots.slice(-1), ...this.#layout.answerSlots(line.slice(0, fixed.length))];
    const all = [...fixed.slice(0, -1), ...coordinatesOfSlots(slots)].slice(0, line.length);
    while (all.length < line.length) all.push(noCoordinates());
    return all.slice(start);
  }
}

/** @returns {Coordinates} */
const noCoordinates = () => [0, 0, 0, 0, 0, 0];

/** Returns the coordinates of consecutive slots. @type {(slots: import("./layout.js").Slot[]) => Coordinates[]} */
function coordinatesOfSlots(slots) {
  return slots.map(([kind, row, column], index) => {
    const [nextKind, , , queryRow, queryColumn] = slots[index + 1] ?? [0, 0, 0, 0, 0];
    return [kind, nextKind, row, column, queryRow, queryColumn];
  });
}

/** Returns the coordinates of an unfinished question or of any other text. An operand ends at the first operator after
 * its tenth character.
 * @param {string} line */
function coordinatesOfQuestion(line) {
  const result = Array.from(line, noCoordinates);
  let start = line.indexOf("(") + 1;
  if (!line.startsWith("$") || start < 2 || start > 6) return result;
  let kind = KIND.A_FIELD;
  for (let position = start; position < line.length; position += 1) {
    const character = line[position];
    if (kind === KIND.A_FIELD && position - start >= WIDTH && character in OPERATIONS) {
      [kind, start] = [KIND.B_FIELD, position + 1];
    } else if (!"0123456789.-".includes(character)) break;
    else [result[position][0], result[position][3]] = [kind, LOWEST + position - start];
  }
  return result;
}
