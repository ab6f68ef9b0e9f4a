// The selection of a checkpoint, and of the decimal places of its answers.

import { listModels } from "./backend.js";
import { ServiceError } from "./client.js";
import { count, share } from "./format.js";

const RETRY = 2; // seconds until the list is requested again; doubled after each failure
const MAX_RETRY = 30;
const ENOUGH = 3; // requests after which a list that has not grown is complete
const BLOG = "blog"; // the model that repeats the blog's experiment
/** Names that people understand. Other models are named after what they do.
 * @type {Record<string, string>} */
const NAMES = {
  [BLOG]: "The blog’s model",
  scratchpad: "Shows its work, shorter numbers",
  "scratchpad-small": "Shows its work, small",
  "scratchpad-tiny": "Shows its work, tiny",
};

/**
 * @typedef {import("./client.js").Model} Model
 * @typedef {import("./client.js").Domain} Domain
 */

/**
 * What the page does. onChange: a model is selected; onUnauthorized: the service requires a key; onReady:
 * models can be selected, it is called until it returns true.
 * @typedef {{onChange: (model: Model) => void, onUnauthorized: (error: ServiceError) => void,
 *   onReady: (isComplete: boolean) => boolean}} Listeners
 */

export class Models {
  #select;
  #places;
  #facts;
  #onChange;
  #onUnauthorized;
  /** @type {Model[]} */
  #known = [];
  #timer = 0;
  #wait = RETRY;
  #unchanged = 0; // requests since the list has grown
  #isReady = false;
  #onReady;

  /**
   * @param {HTMLSelectElement} select
   * @param {HTMLSelectElement} places
   * @param {HTMLElement} facts
   * @param {Listeners} listeners
   */
  constructor(select, places, facts, { onChange, onUnauthorized, onReady }) {
    this.#select = select;
    this.#places = places;
    this.#facts = facts;
    this.#onUnauthorized = onUnauthorized;
    this.#onChange = onChange;
    this.#onReady = onReady;
    select.addEventListener("change", () => this.#describe());
  }

  /** `model`: its name; `places`: of the answers. Either is empty for the default. */
  get choice() {
    return { model: this.#select.value, places: Number(this.#places.value) };
  }

  /** The same for an address: only what is not the default. */
  get unusual() {
    const { model, places } = this.choice;
    const known = this.#known.find(({ id }) => id === model);
    return { model, places: places === known?.domain.default_places ? 0 : places };
  }

  /** Calls `onReady` again: the address has changed. */
  reopen() {
    this.#isReady = this.#onReady(false);
    if (!this.#isReady) this.load();
  }

  /** Whether a model can be selected.
   * @param {string} model */
  has(model) {
    return this.#known.some(({ id }) => id === model);
  }

  /** All of them: `id`, `name` and `parameters`. */
  get all() {
    return this.#known.map((model) => ({ id: model.id, name: named(model), parameters: model.parameters }));
  }

  /** Selects a model, or else the default one, and places, if they are offered.
   * @param {{model: string, places: number}} choice */
  choose({ model, places }) {
    if (!this.#known.length) return;
    const known = this.#known.find(({ id }) => id === model);
    this.#select.value = (known ?? this.#known.find((other) => other.default) ?? this.#known[0]).id;
    this.#describe();
    if ([...this.#places.options].some(({ value }) => value === String(places))) this.#places.value = String(places);
  }

  /** The name of a model that answers at once, preferably the blog's; empty if there is none. */
  get withoutWork() {
    const models = this.#known.filter(({ domain }) => !domain.works_in_steps);
    return (models.find(({ id }) => id === BLOG) ?? models[0])?.id ?? "";
  }

  /** Requests the list until it no longer grows: a service loads one model after the other, and on a
   * busy machine slowly. */
  async load() {
    clearTimeout(this.#timer);
    let again = true;
    try {
      const models = await listModels();
      const hasGrown = models.length !== this.#known.length || !models.length;
      this.#unchanged = hasGrown ? 0 : this.#unchanged + 1;
      this.#wait = RETRY * 2 ** this.#unchanged;
      again = this.#unchanged < ENOUGH;
      if (hasGrown) this.#fill(models);
      else this.#isReady ||= this.#onReady(true);
    } catch (thrown) {
      const error = thrown instanceof ServiceError ? thrown : new ServiceError(String(thrown));
      again = error.status !== 401;
      this.#wait = Math.min(MAX_RETRY, Math.max(this.#wait * 2, error.retryAfter ?? 0));
      this.#facts.textContent = again
        ? `The models could not be loaded. Trying again in ${this.#wait} seconds.`
        : "Enter the API key to list the models.";
      if (!again) this.#onUnauthorized(error);
    }
    if (again) this.#timer = window.setTimeout(() => this.load(), this.#wait * 1000);
  }

  /** @param {Model[]} models */
  #fill(models) {
    const before = this.#select.value;
    this.#known = models.sort(byMerit);
    if (!models.length) {
      this.#facts.textContent = "The service is still loading its models.";
      return;
    }
    this.#select.replaceChildren(...models.map((model) => new Option(named(model), model.id)));
    const chosen = models.find(({ id }) => id === before) ?? models.find((model) => model.default);
    this.#select.value = (chosen ?? models[0]).id;
    this.#select.disabled = false;
    this.#describe();
    this.#isReady ||= this.#onReady(false);
  }

  #describe() {
    const model = this.#known.find(({ id }) => id === this.#select.value);
    if (!model) return;
    this.#offerPlaces(model.domain);
    this.#facts.textContent = facts(model);
    this.#onChange(model);
  }

  /** Offers the places that the model was measured for. One that answers at once has no choice.
   * @param {Domain} domain */
  #offerPlaces({ digits, decimal_places: most, default_places: usual }) {
    const before = Number(this.#places.value);
    const offered = digits === null ? [] : Array.from({ length: most }, (_, index) => index + 1);
    this.#places.replaceChildren(...offered.map((places) => new Option(String(places))));
    if (offered.length) this.#places.value = String(offered.includes(before) ? before : usual);
    for (const shown of [this.#places, ...this.#places.labels]) shown.hidden = !offered.length;
  }
}

/** The default model comes first, then those that show their work; the better before the worse.
 * @param {Model} a
 * @param {Model} b */
function byMerit(a, b) {
  const [first, second] = [b, a].map(({ default: isDefault, domain, metrics }) => [
    Number(isDefault), Number(domain.works_in_steps), metrics?.exact_match ?? 0,
  ]);
  return first[0] - second[0] || first[1] - second[1] || first[2] - second[2];
}

/** `Shows its work (scratchpad-long)`
 * @param {Model} model */
function named({ id, domain }) {
  const name = NAMES[id] ?? (domain.works_in_steps ? "Shows its work" : "Answers at once");
  return `${name} (${id})`;
}

/** `805,760 parameters, exact on 99.99% of 10,000 test problems; numbers of up to 40 digits, 8 places`
 * @param {Model} model */
function facts({ parameters, metrics, domain }) {
  const scores = metrics
    ? `, exact on ${metrics.exact_match === 1 ? "all" : `${share(metrics.exact_match)} of`} ${count(metrics.n)} test problems`
    : "";
  return `${count(parameters)} parameters${scores}; ${bound(domain)}`;
}

/** @param {Domain} domain */
function bound({ digits, divisor_digits: divisor, decimal_places: places, max_characters }) {
  const divisors = divisor && divisor !== digits ? ` (divisors ${divisor})` : "";
  if (digits) return `numbers of up to ${digits} digits${divisors}, ${places} places`;
  return `numbers of up to ${max_characters} characters`;
}
