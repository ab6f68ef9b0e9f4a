// Compare models: what each of them writes for an operation, and several samples of one.

import { calculate, write } from "./backend.js";
import { ServiceError, isAborted, messageOf } from "./client.js";
import { readAnswer } from "./engine/arithmetic.js";
import { count, element, inWords, plain } from "./format.js";
import { labelled, offerPanel, tell } from "./panel.js";

const SAMPLES = 6;
const USUAL_TEMPERATURE = 1;
const HIGHEST_TEMPERATURE = 2;
const TOP_K = [2, 3, 5];
const KEPT = 10; // characters shown before the first that differs

/** @typedef {{id: string, name: string, parameters: number}} Named a checkpoint */
/** @typedef {{model: string, places: number, prompt: string, output: string, exact: string}} Operation */
/** @typedef {import("./panel.js").State} State */

/** Offers samples and other checkpoints for each operation that a model has answered. */
export class Beside {
  #models;
  #model = "";
  #places = 2;

  /** @param {() => Named[]} models those that can be asked */
  constructor(models) {
    this.#models = models;
  }

  /** A calculation begins.
   * @param {import("./client.js").Start} start */
  begin({ model, places }) {
    this.#model = model;
    this.#places = places;
  }

  /**
   * Adds the button that opens the panel of an operation.
   * @param {HTMLElement} step
   * @param {import("./client.js").Node} node
   */
  offer(step, { problem, prompt, output, exact }) {
    if (!prompt || !output) return;
    const [model, places] = [this.#model, this.#places];
    offerPanel(step, "beside", "Compare models", () => {
      const samples = new Samples({ model, places, prompt, output, exact });
      const checkpoints = new Checkpoints({ problem, places }, this.#models());
      const panel = element("div", "inside beside");
      panel.append(checkpoints.element, samples.element);
      const restore = (/** @type {State} */ state) => {
        samples.restore(state);
        if (state.all) checkpoints.ask();
      };
      return { element: panel, restore };
    });
  }
}

/** What the model writes if its characters are drawn by their probabilities. */
class Samples {
  #operation;
  #first = 1; // seed of the first sample
  /** @type {AbortController | null} */
  #stop = null;
  #temperature = labelled("Temperature", element("input"));
  #figure = element("output");
  #topK = labelled("Drawn from", element("select"));
  #tally = element("p");
  #cards = element("ol", "cards");

  /** @param {Operation} operation */
  constructor(operation) {
    this.#operation = operation;
    this.element = element("section", "part");
    const hint =
      "The work above was written greedily: always the most probable character. Here each character is drawn by its " +
      "probability. The higher the temperature, the more often an improbable one is drawn.";
    const again = element("button", "plain", "Draw others");
    again.type = "button";
    again.addEventListener("click", () => {
      this.#first += SAMPLES;
      this.#change();
    });
    const controls = element("div", "controls");
    this.#prepare();
    controls.append(this.#temperature.label, this.#topK.label, again);
    this.#tally.role = "status";
    this.element.append(element("h4", "", "Samples of this model"), element("p", "hint", hint), controls, this.#tally, this.#cards);
  }

  #prepare() {
    const slider = this.#temperature.control;
    Object.assign(slider, { type: "range", min: 0, max: HIGHEST_TEMPERATURE, step: 0.1, value: USUAL_TEMPERATURE });
    this.#temperature.label.append(this.#figure);
    const choices = TOP_K.map((k) => new Option(`the ${k} most probable`, String(k)));
    this.#topK.control.append(new Option("all characters", ""), ...choices);
    slider.addEventListener("input", () => this.#showTemperature());
    for (const { control } of [this.#temperature, this.#topK]) {
      control.addEventListener("change", () => this.#change());
    }
  }

  #showTemperature() {
    this.#figure.textContent = Number(this.#temperature.control.value).toFixed(1);
  }

  /** Shows what an address says.
   * @param {State} state */
  restore({ temperature, k, seed }) {
    if (temperature) this.#temperature.control.value = temperature; // the slider keeps it in its range
    if (k && TOP_K.includes(k)) this.#topK.control.value = String(k);
    if (seed) this.#first = seed;
    this.#showTemperature();
    this.#draw();
  }

  /** Something else is chosen. */
  #change() {
    const temperature = this.#temperature.control.value;
    const isUsual = Number(temperature) === USUAL_TEMPERATURE;
    tell(this.element, {
      panel: "beside",
      temperature: isUsual ? "" : temperature,
      k: Number(this.#topK.control.value),
      seed: this.#first === 1 ? 0 : this.#first,
    });
    this.#draw();
  }

  /** Draws samples with what is chosen. */
  async #draw() {
    this.#stop?.abort();
    const { signal } = (this.#stop = new AbortController());
    const { model, prompt, output, exact, places } = this.#operation;
    const temperature = Number(this.#temperature.control.value);
    const topK = Number(this.#topK.control.value) || undefined;
    this.#tally.textContent = "The model writes …";
    this.#cards.replaceChildren();
    let nRight = 0;
    try {
      for (let index = 0; index < SAMPLES; index += 1) {
        let text = "";
        const most = 2 * (prompt.length + output.length); // a text that is longer will never end
        const sampling = { temperature, topK, seed: this.#first + index, most };
        for await (const written of write(model, prompt, sampling, signal)) text += written.text;
        const { text: result } = readAnswer(prompt + text, places);
        nRight += Number(result === exact);
        const title = `Sample ${this.#first + index}`;
        this.#cards.append(card(title, result, result === exact, difference(output, text)));
      }
    } catch (error) {
      if (!isAborted(error)) this.#tally.textContent = messageOf(error);
      return;
    }
    this.#tally.textContent = `${nRight} of ${SAMPLES} samples end in the exact answer.`;
  }
}

/** What each checkpoint writes for the same problem. */
class Checkpoints {
  #operation;
  #models;
  #cards = element("ol", "cards of-models");

  /**
   * @param {{problem: string, places: number}} operation
   * @param {Named[]} models
   */
  constructor(operation, models) {
    this.#operation = operation;
    this.#models = models;
    this.element = element("section", "part");
    const hint = "The same operation for every model. Some can give only two places.";
    const button = element("button", "plain", "Ask all models");
    button.type = "button";
    button.addEventListener("click", () => {
      tell(this.element, { panel: "beside", all: 1 });
      this.ask();
    });
    this.#cards.ariaLive = "polite";
    this.element.append(element("h4", "", "Models"), element("p", "hint", hint), button, this.#cards);
  }

  /** Asks all of them. */
  async ask() {
    const { problem, places } = this.#operation;
    const cards = this.#models.map(({ name }) => element("li", "sample", `${name} …`));
    this.#cards.replaceChildren(...cards);
    for (const [index, { id, name, parameters }] of this.#models.entries()) {
      const [result, isRight, content] = await this.#answer(id, problem, places);
      const size = element("p", "hint", `${count(parameters)} parameters`);
      cards[index].replaceWith(card(name, result, isRight, [size, ...content]));
    }
  }

  /**
   * Returns what a model answers.
   * @param {string} model
   * @param {string} problem
   * @param {number} places
   * @returns {Promise<Answered>}
   */
  async #answer(model, problem, places) {
    try {
      return await ask(model, problem, places);
    } catch (error) {
      const isTooMany = error instanceof ServiceError && /too-many-places/.test(error.type ?? "");
      if (!isTooMany) return [undefined, false, [messageOf(error)]];
    }
    try {
      return await ask(model, problem);
    } catch (error) {
      return [undefined, false, [messageOf(error)]];
    }
  }
}

/**
 * The result, whether it is right, and what is said of it.
 * @typedef {[result: string | null | undefined, isRight: boolean, content: (Node | string)[]]} Answered
 */

/**
 * Asks a model an operation.
 * @param {string} model
 * @param {string} problem
 * @param {number} [places]
 * @returns {Promise<Answered>}
 */
async function ask(model, problem, places) {
  /** @type {import("./client.js").Calculation | undefined} */
  let given;
  for await (const { name, data } of calculate(problem, { model, places })) {
    if (name === "result") given = data;
  }
  const [node] = given?.nodes ?? [];
  if (!given || !node) throw new ServiceError("There was no answer.");
  const line = element("p", "written", node.output);
  const facts = `${count(node.output.length)} characters, rounded to ${given.places} places; ${inWords(node.confidence.whole)}`;
  return [node.result, node.agrees, [line, element("p", "hint", facts)]];
}

/**
 * Returns a card. `result` is null if it is no number, and undefined if there is none.
 * @param {string} title
 * @param {string | null | undefined} result
 * @param {boolean} isRight
 * @param {(Node | string)[]} content
 */
function card(title, result, isRight, content) {
  const made = element("li", "sample");
  made.append(element("p", "title", title));
  if (result !== undefined) {
    const verdict = element("p", isRight ? "right" : "wrong");
    verdict.append(`${isRight ? "✓" : "✗"} `, element("strong", "", result === null ? "no number" : plain(result)));
    verdict.append(element("span", "unseen", isRight ? " right" : " wrong"));
    made.append(verdict);
  }
  made.append(...content);
  return made;
}

/**
 * Returns what shows where a text begins to differ from the greedy one.
 * @param {string} greedy
 * @param {string} text
 */
function difference(greedy, text) {
  let at = 0;
  while (at < text.length && text[at] === greedy[at]) at += 1;
  if (at === text.length && at === greedy.length) return [element("p", "hint", "The same text as above")];
  const line = element("p", "written");
  line.append(at > KEPT ? "…" : "", text.slice(Math.max(0, at - KEPT), at));
  line.append(element("mark", "", text[at] ?? ""), text.slice(at + 1));
  const words = `Differs from character ${at + 1} on: ${text[at] ?? "nothing"} instead of ${greedy[at] ?? "nothing"}`;
  return [line, element("p", "hint", words)];
}
