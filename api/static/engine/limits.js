// Which problems a model is asked about, and why it is not asked about others
// (calcgpt/inference/limits.py).

import { MAX_WIDTH, USUAL_PLACES, WIDTH, answer, answerText, numberText, renderPrompt } from "./arithmetic.js";
import { shapeOf, workLength } from "./layout.js";

const DEFAULT_PLACES = 8; // of an answer, if the model was measured for as many
const NOT_MEASURED = { digits: 7, places: 2, divisor_digits: null };

/**
 * Why a model is not asked. If the kind is `unproven`, it could be.
 * @typedef {{kind: string, reason: string}} Refusal
 */

/** @typedef {import("./arithmetic.js").Decimal} Decimal */
/** @typedef {import("./arithmetic.js").Problem} Problem */
/** @typedef {{digits: number, places: number, divisor_digits: number | null}} Measured */

/**
 * Returns the limits of a model.
 * @param {Record<string, any>} manifest
 * @returns {AtOnce | WithWork}
 */
export function limitsOf({ has_work: hasWork, domain, model }) {
  return hasWork ? new WithWork(domain, model.block_size) : new AtOnce();
}

/** Limits of a model that answers at once: two places, operands of at most WIDTH characters. */
class AtOnce {
  defaultPlaces = USUAL_PLACES;

  /** The domain as the service's list of models has it. */
  get domain() {
    return {
      decimal_places: USUAL_PLACES,
      default_places: USUAL_PLACES,
      digits: null,
      divisor_digits: null,
      max_characters: WIDTH,
      below: null,
      works_in_steps: false,
    };
  }

  /**
   * @param {number} places
   * @returns {Refusal | null}
   */
  refusePlaces(places) {
    if (places === USUAL_PLACES) return null;
    const reason = `answers of this model have ${USUAL_PLACES} places, not ${places}`;
    return { kind: "too-many-places", reason };
  }

  /**
   * @param {Decimal} number
   * @returns {Refusal | null}
   */
  refuseOperand(number) {
    if (number.places > USUAL_PLACES) {
      return { kind: "too-many-places", reason: "more than two decimal places" };
    }
    if (numberText(number).length > WIDTH) {
      return { kind: "out-of-range", reason: `a number of more than ${WIDTH} characters` };
    }
    return null;
  }

  /**
   * @param {Problem} _
   * @returns {Refusal | null}
   */
  refuseProblem(_) {
    return null;
  }
}

/** Limits of a model that writes worked steps: what it was measured for, and what its context can
 * hold. */
class WithWork {
  #measured;
  #blockSize;

  /**
   * @param {Measured | null} measured
   * @param {number} blockSize
   */
  constructor(measured, blockSize) {
    this.#measured = measured;
    this.#blockSize = blockSize;
  }

  get #most() {
    return this.#measured ?? NOT_MEASURED;
  }

  get defaultPlaces() {
    return Math.min(DEFAULT_PLACES, this.#most.places);
  }

  /** The domain as the service's list of models has it. */
  get domain() {
    return {
      decimal_places: this.#most.places,
      default_places: this.defaultPlaces,
      digits: this.#most.digits,
      divisor_digits: this.#most.divisor_digits,
      max_characters: MAX_WIDTH,
      below: null,
      works_in_steps: true,
    };
  }

  /**
   * @param {number} places
   * @returns {Refusal | null}
   */
  refusePlaces(places) {
    return places <= this.#most.places ? null : this.#unproven(`an answer to ${places} places`);
  }

  /**
   * @param {Decimal} number
   * @returns {Refusal | null}
   */
  refuseOperand(number) {
    if (numberText(number).length > MAX_WIDTH) {
      return { kind: "out-of-range", reason: `a number of more than ${MAX_WIDTH} characters` };
    }
    const digits = String(magnitude(number)).length;
    if (digits > this.#most.digits) return this.#unproven(`a number of ${digits} digits`);
    if (number.places <= this.#most.places) return null;
    return this.#unproven(`a number with ${number.places} places`);
  }

  /**
   * @param {import("./arithmetic.js").Problem} problem
   * @returns {Refusal | null}
   */
  refuseProblem(problem) {
    const digits = String(magnitude(problem.b)).length;
    if (problem.op === "/" && digits > (this.#most.divisor_digits ?? digits)) {
      return this.#unproven(`a divisor of ${digits} digits`);
    }
    const field = Math.max(WIDTH, answerText(answer(problem).value).length) + 1;
    const shape = shapeOf(renderPrompt(problem));
    if (!shape) return this.#unproven("a problem that the notation does not have");
    const length = workLength(shape) + field;
    if (length <= this.#blockSize + 1) return null; // the last character is never read
    const context = grouped(this.#blockSize);
    const reason = `its work has ${grouped(length)} characters; this model's context holds ${context}`;
    return { kind: "out-of-range", reason };
  }

  /** @param {string} what */
  #unproven(what) {
    const { digits, places, divisor_digits: divisor } = this.#most;
    const divisors = divisor ? ` (divisors ${divisor})` : "";
    const source = this.#measured ? "was measured for" : "was never measured, so it takes";
    const most = `numbers of at most ${digits} digits${divisors}, ${places} places`;
    return { kind: "unproven", reason: `${what}; this model ${source} ${most}` };
  }
}

/** @param {Decimal} number */
function magnitude({ units }) {
  return units < 0n ? -units : units;
}

/** 10000 -> `10,000`
 * @param {number} number */
function grouped(number) {
  return number.toLocaleString("en");
}
