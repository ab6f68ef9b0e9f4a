// What a look inside is about: the work of one operation, and the character of it that is followed.

import { formatNumbers } from "../format.js";
import { USUAL_PLACES } from "../engine/arithmetic.js";
import { Layout, PROMPT, shapeOf } from "../engine/layout.js";
import { KIND } from "../engine/operations.js";
import { headSources } from "../inside/heads.js";
import { HAS_WORK, paper } from "../paper.js";
import { explain, textOf } from "../paper/cells.js";

/** @import { Dissection } from "../engine/dissect.js" */
/** @typedef {{model: string, prompt: string, output: string}} Written */

const MAX_LENGTH = 4_000; // characters of a calculation that fits into the view
const NAMES = Object.fromEntries(
  Object.entries(KIND).map(([name, kind]) => [kind, name.toLowerCase().replaceAll("_", " ")]),
);
const INTERESTING = new Set(
  ["PRODUCT_DIGIT", "FIRST_DIGIT", "SUM_LOWEST", "SUM_DIGIT", "QUOTIENT_DIGIT"].map((name) => KIND[name]),
);
const PARTS_OF_A_STEP = /above|carr(y|ies)|borrow|÷/g;

/** Returns whether the view can show what a model wrote. @param {Written} written */
export function isShowable({ prompt, output }) {
  const isShort = prompt.length + output.length <= MAX_LENGTH;
  return Boolean(isShort && HAS_WORK.test(output) && output.endsWith("$") && shapeOf(prompt)?.byZero === false);
}

export class Subject {
  /** @type {(position: number) => void} called when another character is chosen */ onChoose = () => {};

  /** @param {Written} written that is showable */
  constructor({ model, prompt, output }) {
    this.model = model;
    this.start = prompt.length;
    this.text = prompt + output;
    this.sheet = paper(prompt, output);
    const layout = new Layout(/** @type {import("../engine/layout.js").Shape} */ (shapeOf(prompt)));
    this.slots = [...layout.slots, ...layout.answerSlots(this.text)].slice(0, this.text.length);
    const [, places, a, operation, b] = /** @type {RegExpExecArray} */ (PROMPT.exec(prompt));
    this.places = Number(places || USUAL_PLACES); // of the answer
    const [left, right] = [a, b].map((number) => number.replace(/^0+(?=\d)/, ""));
    this.problem = `${left}${operation}${right}`;
    this.name = formatNumbers(this.problem);
    this.position = this.#mostInteresting();
  }

  /** Returns the position of a digit whose step has most parts: a product, what stands above, and a carry. */
  #mostInteresting() {
    const scores = this.slots.map(([kind], position) => {
      const cell = this.sheet.cells[position - this.start];
      if (!cell || !INTERESTING.has(kind) || (cell.text === "0" && kind === KIND.QUOTIENT_DIGIT)) return 0;
      return 1 + (textOf(cell.why).match(PARTS_OF_A_STEP) ?? []).length;
    });
    return Math.max(this.start, scores.indexOf(Math.max(...scores)));
  }

  /** The character that is followed. */
  get character() {
    return this.text[this.position];
  }

  /** Follows another character that the model wrote. @param {number} position */
  choose(position) {
    if (position < this.start || position >= this.text.length || position === this.position) return;
    this.position = position;
    this.onChoose(position);
  }

  /** Returns what a character is, in words. @param {number} position */
  describe(position) {
    const cell = this.sheet.cells[position - this.start];
    return cell ? textOf(explain(cell)) : `character ${position + 1} of the question`;
  }

  /** Returns the kind of the character that is followed, in words, and the positions that its rule reads. */
  get place() {
    const [kind, , , sources] = this.slots[this.position];
    return { kind: NAMES[kind], sources: sources.filter((source) => source >= 0) };
  }

  /** Returns the sentence of the character, in pieces, each with the position of the character that it names.
   * @type {() => {text: string, source?: number}[]} */
  sentence() {
    const cell = this.sheet.cells[this.position - this.start];
    return explain(cell).map((part) => {
      return typeof part === "string" ? { text: part } : { text: part.text, source: part.at + this.start };
    });
  }
}

/** Returns the head of the first layer that looks at a character most, from 1, or 0 if none looks.
 * @type {(dissection: Dissection, position: number) => number} */
export function fetcherOf(dissection, position) {
  return headSources(dissection, 1).find(({ index }) => index === position)?.head ?? 0;
}
