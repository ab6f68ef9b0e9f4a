// The selection of a checkpoint.

import { listModels } from "/static/client.js";
import { count, share } from "/static/format.js";

const RETRY = 2; // seconds until the list is requested again; doubled after each failure
const MAX_RETRY = 30;

export class Models {
  #select;
  #facts;
  #onChange;
  #onUnauthorized;
  #known = [];
  #timer = 0;
  #wait = RETRY;

  /** `onChange(model)` is called with the selected model; `onUnauthorized(error)` if the service
   * requires a key. */
  constructor(select, facts, { onChange, onUnauthorized }) {
    this.#select = select;
    this.#facts = facts;
    this.#onUnauthorized = onUnauthorized;
    this.#onChange = onChange;
    select.addEventListener("change", () => this.#describe());
  }

  /** The name of the selected model; empty for the default. */
  get chosen() {
    return this.#select.value;
  }

  /** Requests the list until it no longer grows: a service loads one model after the other. */
  async load() {
    clearTimeout(this.#timer);
    let again = true;
    try {
      const models = await listModels();
      again = models.length !== this.#known.length || !models.length;
      this.#wait = RETRY;
      if (again) this.#fill(models);
    } catch (error) {
      again = error.status !== 401;
      this.#wait = Math.min(MAX_RETRY, Math.max(this.#wait * 2, error.retryAfter ?? 0));
      this.#facts.textContent = again
        ? `The checkpoints could not be loaded. Trying again in ${this.#wait} seconds.`
        : "Enter the API key to list the checkpoints.";
      if (!again) this.#onUnauthorized(error);
    }
    if (again) this.#timer = setTimeout(() => this.load(), this.#wait * 1000);
  }

  #fill(models) {
    const before = this.chosen;
    this.#known = models;
    if (!models.length) {
      this.#facts.textContent = "The service is still loading its checkpoints.";
      return;
    }
    this.#select.replaceChildren(...models.map(({ id }) => new Option(id, id)));
    const chosen = models.find(({ id }) => id === before) ?? models.find((model) => model.default);
    this.#select.value = (chosen ?? models[0]).id;
    this.#select.disabled = false;
    this.#describe();
  }

  #describe() {
    const model = this.#known.find(({ id }) => id === this.chosen);
    this.#facts.textContent = facts(model);
    this.#onChange(model);
  }
}

/** `801,280 parameters, exact on 100.00% of 10,000 test problems; numbers below 100,000` */
function facts({ parameters, metrics, domain }) {
  const scores = metrics
    ? `, exact on ${share(metrics.exact_match)} of ${count(metrics.n)} test problems`
    : "";
  const bound = domain.below
    ? `numbers below ${count(domain.below)}`
    : `numbers of up to ${domain.max_characters} characters`;
  return `${count(parameters)} parameters${scores}; ${bound}`;
}
