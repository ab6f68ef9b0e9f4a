// The limits of a model: which problems it is asked, and the reason for which others are refused
// (calcgpt/inference/limits.py).

import { MAX_ASKED_PLACES, MAX_PLACES, MAX_WIDTH, WIDTH } from "./arithmetic.js";
import { answer, answerText, numberText, renderPrompt } from "./arithmetic.js";
import { MAX_LAYOUT, anyShapeOf, workLength } from "./layout.js";
import { OPERATIONS } from "./operations.js";

const DEFAULT_PLACES = 8; // of an answer of a model with worked steps
export const MAX_SHOWN_WORK = 400_000; // characters that a model writes for an expression: each is drawn

/** The reason for which a model is not asked. */
export class Refusal {
  /** @param {string} kind @param {string} reason */
  constructor(kind, reason) {
    this.kind = kind;
    this.reason = reason;
  }
}

/** @import { Decimal, Problem } from "./arithmetic.js" */
/** @import { Shape } from "./layout.js" */

/** The limits of a model. A method returns the reason for which something is refused, or null. */
export class Limits {
  defaultPlaces = DEFAULT_PLACES;
  mostPlaces = MAX_PLACES;
  #room;

  /** @param {{vocabulary: string}} manifest
   * @param {number} [room] characters of a question and its work */
  constructor({ vocabulary }, room = MAX_LAYOUT) {
    const operations = (this.operations = Object.keys(OPERATIONS).filter((sign) => vocabulary.includes(sign)));
    this.#room = room;
    this.domain = {
      ...{ operations, decimal_places: MAX_ASKED_PLACES, default_places: DEFAULT_PLACES },
      ...{ max_characters: MAX_WIDTH, works_in_steps: true },
    };
  }

  /** @type {(number: Decimal) => Refusal | null} */
  refuseOperand(number) {
    if (numberText(number).length <= MAX_WIDTH) return null;
    return new Refusal("out-of-range", `a number of more than ${formatCount(MAX_WIDTH)} characters`);
  }

  /** @type {(problem: Problem, nCharacters: number) => Refusal | null} */
  refuseProblem(problem, nCharacters) {
    const length = renderPrompt(problem).length + nCharacters;
    if (length <= this.#room + 1) return null; // the last character is never read
    const context = `this model's context holds ${formatCount(this.#room)}`;
    return new Refusal("out-of-range", `its work has ${formatCount(length)} characters; ${context}`);
  }

  /** @param {Problem} problem */
  nCharacters(problem) {
    const prompt = renderPrompt(problem);
    return workLength(/** @type {Shape} */ (anyShapeOf(prompt))) - prompt.length + answerLength(problem);
  }
}

/** Returns why a model does not write so many characters for an expression, or null if it may write as many as `most`.
 * @type {(nCharacters: number, most: number) => Refusal | null} */
export function refuseWork(nCharacters, most) {
  if (nCharacters <= most) return null;
  const unit = 10 ** Math.max(0, String(nCharacters).length - 3); // three digits of the cost are told
  const about = `about ${formatCount(Math.floor((nCharacters + unit / 2) / unit) * unit)}`;
  const reason = `the model would write ${about} characters; the limit is ${formatCount(most)}`;
  return new Refusal("too-long", reason);
}

/** Returns the length of the answer field, with the closing `$`. @param {Problem} problem */
function answerLength(problem) {
  return Math.max(WIDTH, answerText(answer(problem)).length) + 1;
}

/** Returns a number with separators: 10000 -> `10,000`. @param {number} number */
export function formatCount(number) {
  return number.toLocaleString("en");
}
