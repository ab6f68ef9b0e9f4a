// The selections of a model and of the decimal places of its answers.

import { listModels } from "./backend.js";
import { ServiceError } from "./client.js";
import { byId, formatCount, formatShare } from "./format.js";

const RETRY_SECONDS = 2; // seconds until the list is requested again; doubled after each failure
const MAX_RETRY_SECONDS = 30;
const MAX_UNCHANGED = 3; // after so many requests without a new model, the list is complete
const MAX_NAME = 40; // characters of a name in a link that are shown
const BLOG_MODEL = "blog"; // the model that repeats the blog's experiment

/** @typedef {import("./client.js").Model} Model
 * @typedef {import("./client.js").Domain} Domain */

/** The callbacks of the page. onChange: called when a model is selected; onChoose: called when the user has selected a
 * model or places; onUnauthorized: called when the service requires a key; onReady: called when models can be selected,
 * until it returns true, with whether the list is complete.
 * @typedef {{onChange: (model: Model) => void, onChoose: () => void, onReady: (isComplete: boolean) => boolean,
 * onUnauthorized: (error: ServiceError) => void}} Listeners */

/** Fills the selections with the models that the backend lists. */
export class Models {
  #select = byId("model", HTMLSelectElement);
  #places = byId("places", HTMLSelectElement);
  #facts = byId("model-facts");
  #listeners;
  /** @type {Model[]} */ #models = [];
  #timer = 0;
  #requestId = 0; // of the last request: only its result is used
  #retrySeconds = RETRY_SECONDS;
  #nUnchanged = 0; // requests since the list last grew
  #isReady = false;
  #missing = ""; // the model of a link that is not listed

  /** @param {Listeners} listeners */
  constructor(listeners) {
    this.#listeners = listeners;
    this.#select.addEventListener("change", () => {
      this.#missing = "";
      this.#showSelected();
      listeners.onChoose();
    });
    this.#places.addEventListener("change", listeners.onChoose);
  }

  /** The selected model and decimal places. "" stands for the default. */
  get choice() {
    const [model, places] = [this.#select.value, this.#places.value];
    const selected = this.#models.find(({ id }) => id === model);
    return { model, places: places === String(selected?.domain.default_places) ? "" : places };
  }

  /** Calls `onReady` again, after the address has changed. */
  reopen() {
    this.#isReady = this.#listeners.onReady(false);
    if (!this.#isReady) this.load();
  }

  /** Returns whether a model can be selected. @param {string} model */
  has(model) {
    return this.#models.some(({ id }) => id === model);
  }

  /** Returns a model if it shows its work, or else the first one that does, or "" if there is none.
   * @param {string} preferred */
  modelInSteps(preferred) {
    const models = this.#models.filter(({ domain }) => domain.works_in_steps);
    return (models.find(({ id }) => id === preferred) ?? models[0])?.id ?? "";
  }

  /** Returns what a model is, such as `41,596 numbers, shows its work`, with its id if another one is the same.
   * @param {Model} model */
  #nameOf(model) {
    const describe = (/** @type {Model} */ { id, parameters, domain }) => {
      const kind = id === BLOG_MODEL ? "the blog’s model" : "answers at once";
      const how = domain.works_in_steps ? "shows its work" : kind;
      return `${formatCount(parameters)} numbers, ${how}`;
    };
    const name = describe(model);
    const isUnique = this.#models.filter((other) => describe(other) === name).length === 1;
    return isUnique ? name : `${name} (${model.id})`;
  }

  /** Selects a model and decimal places. If the model is not listed, selects the default model and says so.
   * If the model does not offer the places, selects its default places.
   * @param {{model: string, places: string | number}} choice */
  choose({ model, places }) {
    if (!this.#models.length) return;
    const listed = this.#models.find(({ id }) => id === model);
    const selected = listed ?? this.#models.find((other) => other.default) ?? this.#models[0];
    this.#select.value = selected.id;
    this.#missing = listed ? "" : model.slice(0, MAX_NAME);
    this.#showSelected();
    const isOffered = [...this.#places.options].some(({ value }) => value === String(places));
    this.#places.value = String(isOffered ? places : selected.domain.default_places);
  }

  /** Requests the list until it no longer grows. A service loads one model after the other, which takes
   * long on a busy machine. */
  async load() {
    clearTimeout(this.#timer);
    const requestId = ++this.#requestId;
    let shouldRetry = true;
    try {
      const models = await listModels();
      if (requestId !== this.#requestId) return;
      const hasGrown = models.length !== this.#models.length;
      this.#nUnchanged = hasGrown ? 0 : this.#nUnchanged + 1;
      this.#retrySeconds = RETRY_SECONDS * 2 ** this.#nUnchanged;
      shouldRetry = this.#nUnchanged < MAX_UNCHANGED;
      if (!models.length) {
        this.#facts.textContent = "No model that calculates is loaded yet.";
      } else if (hasGrown) this.#fill(models);
      else {
        this.#showSelected(); // in place of the message of an earlier failure
        this.#isReady ||= this.#listeners.onReady(true);
      }
    } catch (reason) {
      if (requestId !== this.#requestId) return; // for example without the key that was entered since
      const error = reason instanceof ServiceError ? reason : new ServiceError(String(reason));
      shouldRetry = error.status !== 401;
      this.#retrySeconds = Math.max(Math.min(MAX_RETRY_SECONDS, this.#retrySeconds * 2), error.retryAfter ?? 0);
      this.#facts.textContent = shouldRetry
        ? `The models could not be loaded. Trying again in ${this.#retrySeconds} seconds.`
        : "Enter the API key to list the models.";
      if (!shouldRetry) this.#listeners.onUnauthorized(error);
    }
    if (shouldRetry) this.#timer = window.setTimeout(() => this.load(), this.#retrySeconds * 1000);
  }

  /** @param {Model[]} models */
  #fill(models) {
    const previous = this.#select.value;
    this.#models = models.sort((a, b) => rankOf(b) - rankOf(a));
    this.#select.replaceChildren(...models.map((model) => new Option(this.#nameOf(model), model.id)));
    const selected = models.find(({ id }) => id === previous) ?? models.find((model) => model.default);
    this.#select.value = (selected ?? models[0]).id;
    this.#select.disabled = false;
    this.#showSelected();
    this.#isReady ||= this.#listeners.onReady(false);
  }

  #showSelected() {
    const model = this.#models.find(({ id }) => id === this.#select.value);
    if (!model) return;
    this.#fillPlaces(model.domain);
    const missing = this.#missing && `There is no model “${this.#missing}” here. This one answers: `;
    this.#facts.textContent = missing + describeModel(model);
    this.#listeners.onChange(model);
  }

  /** Offers the decimal places of an answer. Only a model with worked steps has a choice.
   * @param {Domain} domain */
  #fillPlaces(domain) {
    const previous = this.#places.value;
    const n = domain.works_in_steps ? domain.decimal_places + 1 : 0;
    const choices = Array.from({ length: n }, (_, index) => String(index));
    this.#places.replaceChildren(...choices.map((places) => new Option(places)));
    if (n) this.#places.value = choices.includes(previous) ? previous : String(domain.default_places);
    for (const element of [this.#places, ...this.#places.labels]) element.hidden = !choices.length;
  }
}

/** Returns by what models are sorted: the default model first, then those that show their work, the better ones first.
 * @param {Model} model */
function rankOf({ default: isDefault, domain, metrics }) {
  return Number(isDefault) * 4 + Number(domain.works_in_steps) * 2 + (metrics?.exact_match ?? 0);
}

/** Returns a line on a model, such as `direct, exact on 64.12% of 10,000 test problems; numbers of up to 10 characters`.
 * @param {Model} model */
function describeModel({ id, metrics, domain }) {
  const isMeasured = metrics && metrics.exact_match < 1; // of others, larger tests tell more: the footer has them
  const share = isMeasured ? formatShare(metrics.exact_match) : "";
  const scores = isMeasured ? `, exact on ${share} of ${formatCount(metrics.n)} test problems` : "";
  return `${id}${scores}; ${describeDomain(domain)}`;
}

/** Returns which numbers a model takes. @param {Domain} domain */
function describeDomain({ max_characters }) {
  return `numbers of up to ${formatCount(max_characters)} characters`;
}
