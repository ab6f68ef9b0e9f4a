// The limits of a model: which problems it is asked, and the reason for which others are refused
// (calcgpt/inference/limits.py).

import { MAX_PLACES, MAX_WIDTH, USUAL_PLACES, WIDTH, answer, answerText, numberText, renderPrompt } from "./arithmetic.js";
import { shapeOf, workLength } from "./layout.js";
import { OPERATIONS } from "./operations.js";
import { formatCount } from "./text.js";

const DEFAULT_PLACES = 8; // decimal places of an answer, if the model was measured for so many
const NOT_MEASURED = { digits: 7, places: 2, factor_digits: null };

/** The reason for which a model is not asked. If the kind is `beyond-tested`, the user may ask it anyway.
 * @typedef {{kind: string, reason: string}} Refusal */

/** @import { Decimal, Problem } from "./arithmetic.js" */
/** @import { Shape } from "./layout.js" */
/** @typedef {{digits: number, places: number, factor_digits: number | null}} Measured the measured domain */
/** @typedef {DirectLimits | ScratchpadLimits} Limits */

/** Returns the limits of a model. @type {(manifest: Record<string, any>) => Limits} */
export function limitsOf({ has_work: hasWork, domain, model, vocabulary }) {
  const known = Object.entries(OPERATIONS).filter(([sign, { usual }]) => vocabulary?.includes(sign) ?? usual);
  const operations = known.map(([sign]) => sign);
  return hasWork ? new ScratchpadLimits(domain, model.block_size, operations) : new DirectLimits(operations);
}

/** @type {(kind: string, reason: string) => Refusal} */ const refusalOf = (kind, reason) => ({ kind, reason });

/** The limits of a model that answers at once: two places, and operands of at most WIDTH characters. A method returns
 * the reason for which something is refused, or null. */
class DirectLimits {
  defaultPlaces = USUAL_PLACES;
  mostPlaces = USUAL_PLACES; // of an operation

  /** @param {string[]} operations the signs of those that the model knows */
  constructor(operations) {
    this.operations = operations;
    /** The domain, as the service's list of models has it. */
    this.domain = {
      ...{ operations, decimal_places: USUAL_PLACES, default_places: USUAL_PLACES, digits: null, factor_digits: null },
      ...{ max_characters: WIDTH, below: null, works_in_steps: false },
    };
  }

  /** @type {(places: number) => Refusal | null} */
  refusePlaces(places) {
    if (places === USUAL_PLACES) return null;
    return refusalOf("too-many-places", `answers of this model have ${USUAL_PLACES} places, not ${places}`);
  }

  /** @type {(number: Decimal) => Refusal | null} */
  refuseOperand(number) {
    if (number.places > USUAL_PLACES) return refusalOf("too-many-places", "more than two decimal places");
    if (numberText(number).length <= WIDTH) return null;
    return refusalOf("out-of-range", `a number of more than ${WIDTH} characters`);
  }

  /** @type {(problem: Problem) => Refusal | null} */
  refuseProblem({ places }) {
    return this.refusePlaces(places);
  }

  /** Returns how many characters the model writes if it solves a problem. @param {Problem} problem */
  nCharacters(problem) {
    return answerLength(problem);
  }
}

/** The limits of a model that writes worked steps: what it was measured for, and what fits in its context. The methods
 * are those of DirectLimits. */
class ScratchpadLimits {
  mostPlaces = MAX_PLACES;
  #isMeasured;
  #bounds;
  #blockSize;

  /** @param {Measured | null} measured @param {number} blockSize @param {string[]} operations */
  constructor(measured, blockSize, operations) {
    this.operations = operations;
    this.#isMeasured = measured !== null;
    this.#bounds = measured ?? NOT_MEASURED;
    this.#blockSize = blockSize;
    const { digits, places, factor_digits } = this.#bounds;
    this.defaultPlaces = Math.min(DEFAULT_PLACES, places);
    this.domain = {
      ...{ operations, decimal_places: places, default_places: this.defaultPlaces, digits, factor_digits },
      ...{ max_characters: MAX_WIDTH, below: null, works_in_steps: true },
    };
  }

  /** @type {(places: number) => Refusal | null} */
  refusePlaces(places) {
    return places <= this.#bounds.places ? null : this.#beyondTested(`an answer to ${places} places`);
  }

  /** @type {(number: Decimal) => Refusal | null} */
  refuseOperand(number) {
    if (numberText(number).length > MAX_WIDTH) {
      return refusalOf("out-of-range", `a number of more than ${MAX_WIDTH} characters`);
    }
    const digits = nDigits(number);
    const added = number.places === 1 && number.units % 10n === 0n ? ", .0 included" : "";
    if (digits > this.#bounds.digits) return this.#beyondTested(`a number of ${digits} digits${added}`);
    return number.places <= this.#bounds.places ? null : this.#beyondTested(`a number with ${number.places} places`);
  }

  /** @type {(problem: Problem) => Refusal | null} */
  refuseProblem(problem) {
    const digits = Math.max(nDigits(problem.a), nDigits(problem.b));
    const { name, rank } = OPERATIONS[problem.op];
    if (rank > OPERATIONS["+"].rank && digits > (this.#bounds.factor_digits ?? digits)) {
      return this.#beyondTested(`${name} of numbers of ${digits} digits`);
    }
    const refusal = this.refusePlaces(problem.places);
    if (refusal) return refusal;
    const length = renderPrompt(problem).length + this.nCharacters(problem);
    if (length <= this.#blockSize + 1) return null; // the last character is never read
    const context = `this model's context holds ${formatCount(this.#blockSize)}`;
    return refusalOf("out-of-range", `its work has ${formatCount(length)} characters; ${context}`);
  }

  /** @param {Problem} problem */
  nCharacters(problem) {
    const prompt = renderPrompt(problem);
    return workLength(/** @type {Shape} */ (shapeOf(prompt))) - prompt.length + answerLength(problem);
  }

  /** Returns the refusal of what the model was not measured for. @param {string} what */
  #beyondTested(what) {
    const { digits, places, factor_digits: factor } = this.#bounds;
    const factors = factor ? ` (${factor} in products and quotients)` : "";
    const source = this.#isMeasured ? "was measured for" : "was never measured, so it takes";
    const bounds = `numbers of at most ${digits} digits${factors}, ${places} places`;
    return refusalOf("beyond-tested", `${what}; this model ${source} ${bounds}`);
  }
}

/** @param {Decimal} number */
function nDigits({ units }) {
  return String(units < 0n ? -units : units).length;
}

/** Returns the length of the answer field, with the closing `$`. @param {Problem} problem */
function answerLength(problem) {
  return Math.max(WIDTH, answerText(answer(problem).value).length) + 1;
}
