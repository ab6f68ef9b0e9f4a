// The choice of a checkpoint.

import { listModels } from "/static/client.js";
import { count, share } from "/static/text.js";

const AGAIN = 2; // seconds to the next look at the list; doubled each time it cannot be had
const AT_MOST = 30;

export class Models {
  #select;
  #facts;
  #onChange;
  #onUnauthorized;
  #known = [];
  #timer = 0;
  #wait = AGAIN;

  /** `onChange(model)` is told of the chosen one; `onUnauthorized(error)` that a key is needed. */
  constructor(select, facts, { onChange, onUnauthorized }) {
    this.#select = select;
    this.#facts = facts;
    this.#onUnauthorized = onUnauthorized;
    this.#onChange = onChange;
    select.addEventListener("change", () => this.#describe());
  }

  /** The name of the chosen one; empty where the service is to choose. */
  get chosen() {
    return this.#select.value;
  }

  /** Get the list, again and again until it is there and, as a service loads one model after the
   * other, no longer grows. */
  async load() {
    clearTimeout(this.#timer);
    let again = true;
    try {
      const models = await listModels();
      again = models.length !== this.#known.length || !models.length;
      this.#wait = AGAIN;
      if (again) this.#fill(models);
    } catch (error) {
      again = error.status !== 401;
      this.#wait = Math.min(AT_MOST, Math.max(this.#wait * 2, error.retryAfter ?? 0));
      this.#facts.textContent = again
        ? `The checkpoints could not be loaded. Trying again in ${this.#wait} seconds.`
        : "The checkpoints are listed when the API key is there.";
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
