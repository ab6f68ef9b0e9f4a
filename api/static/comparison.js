// The panel "Compare models": what each model writes for an operation, and several samples of one model.

import { calculate, write } from "./backend.js";
import { ServiceError, isAborted, messageOf } from "./client.js";
import { readAnswer } from "./engine/arithmetic.js";
import { plainText } from "./engine/exact.js";
import { breaksTie } from "./engine/fractions.js";
import { shapeOf } from "./engine/layout.js";
import {
  createButton, createElement, createVerdict, describeConfidence, formatCount, formatPlaces,
} from "./format.js";
import { addPanelButton, labelControl, reportState } from "./panel.js";

const N_SAMPLES = 6;
const DEFAULT_TEMPERATURE = 1;
const MAX_TEMPERATURE = 5;
const TOP_K_CHOICES = [2, 3, 5];
const CONTEXT = 10; // characters that are shown before the first one that differs

/** @import { Domain } from "./client.js" */
/** @import { State } from "./panel.js" */
/** @typedef {{id: string, name: string, parameters: number, domain: Domain}} NamedModel a checkpoint */
/** @typedef {{model: string, places: number, prompt: string, output: string, exact: string}} Operation */

/** Adds the button that opens the panel to an operation that a model has answered. models: returns those to be asked.
 * @type {(step: HTMLElement, node: import("./client.js").Node, model: string, models: () => NamedModel[]) => void} */
export function addComparison(step, { problem, prompt, output, exact }, model, models) {
  const shape = prompt && shapeOf(prompt);
  if (!shape || !output) return;
  const { places } = shape; // steps before the last may have more places
  addPanelButton(step, "beside", "Compare models", () => {
    const samples = new Samples({ model, places, prompt, output, exact });
    const checkpoints = new Checkpoints({ problem, places }, models());
    const panel = createElement("div", "inside beside", checkpoints.element, samples.element);
    return {
      element: panel,
      /** @param {State} state */
      restore(state) {
        samples.restore(state);
        if (state.all) checkpoints.ask();
      },
      get state() {
        return { ...samples.state, ...checkpoints.state };
      },
    };
  });
}

/** Shows what the model writes if its characters are drawn by their probabilities. */
class Samples {
  #operation;
  #firstSeed = 1; // the seed of the first sample
  #isChosen = false; // whether the user or an address has chosen the temperature
  /** @type {AbortController | null} */ #controller = null;
  #temperature = labelControl("Temperature", createElement("input"));
  #temperatureText = createElement("output");
  #topK = labelControl("Sample from", createElement("select"));
  #summary = createElement("p");
  #cards = createElement("ol", "cards");

  /** @param {Operation} operation */
  constructor(operation) {
    this.#operation = operation;
    this.element = createElement("section", "part");
    const hint =
      "Above, the model always wrote the most probable character. Here each character is drawn by its " +
      "probability. The higher the temperature, the more often an improbable one is drawn.";
    const redraw = createButton("plain", "Draw new samples", () => {
      this.#firstSeed += N_SAMPLES;
      this.#onChange();
    });
    const controls = createElement("div", "controls");
    this.#setUpControls();
    controls.append(this.#temperature.label, this.#topK.label, redraw);
    this.#summary.role = "status";
    const heading = createElement("h4", "", "Samples of this model");
    this.element.append(heading, createElement("p", "hint", hint), controls, this.#summary, this.#cards);
  }

  #setUpControls() {
    const slider = this.#temperature.control;
    Object.assign(slider, { type: "range", min: 0, max: MAX_TEMPERATURE, step: 0.1, value: DEFAULT_TEMPERATURE });
    this.#temperature.label.append(this.#temperatureText);
    const choices = TOP_K_CHOICES.map((k) => new Option(`the ${k} most probable`, String(k)));
    this.#topK.control.append(new Option("all characters", ""), ...choices);
    slider.addEventListener("input", () => {
      this.#isChosen = true;
      this.#showTemperature();
    });
    for (const { control } of [this.#temperature, this.#topK]) {
      control.addEventListener("change", () => this.#onChange());
    }
  }

  #showTemperature() {
    this.#temperatureText.textContent = Number(this.#temperature.control.value).toFixed(1);
  }

  /** Draws the samples that an address describes. Without a temperature, begins with the first at which one differs.
   * @param {State} state */
  async restore({ temperature, k, seed }) {
    const slider = this.#temperature.control;
    this.#isChosen ||= Boolean(temperature);
    if (temperature) slider.value = temperature; // the slider limits it to its range
    if (k && TOP_K_CHOICES.includes(k)) this.#topK.control.value = String(k);
    if (seed) this.#firstSeed = seed;
    this.#showTemperature();
    while ((await this.#draw()) === 0 && !this.#isChosen && Number(slider.value) < MAX_TEMPERATURE) {
      slider.stepUp(10);
      this.#showTemperature();
    }
  }

  /** What is selected, as the address has it. */
  get state() {
    return {
      temperature: this.#isChosen ? this.#temperature.control.value : "",
      k: Number(this.#topK.control.value),
      seed: this.#firstSeed === 1 ? 0 : this.#firstSeed,
    };
  }

  /** Reports what is selected for the address, and draws new samples. */
  #onChange() {
    reportState(this.element, { panel: "beside", ...this.state });
    this.#draw();
  }

  /** Draws samples. Returns how many differ from the greedy text, or null if they were not all drawn. */
  async #draw() {
    this.#controller?.abort();
    const { signal } = (this.#controller = new AbortController());
    const { model, prompt, output, exact, places } = this.#operation;
    const temperature = Number(this.#temperature.control.value);
    const topK = Number(this.#topK.control.value) || undefined;
    this.#summary.textContent = "The model writes …";
    this.#cards.replaceChildren();
    let nRight = 0;
    let nDifferent = 0;
    try {
      for (let index = 0; index < N_SAMPLES; index += 1) {
        let text = "";
        const maxLength = 2 * (prompt.length + output.length); // a longer text would never end
        const sampling = { temperature, topK, seed: this.#firstSeed + index, maxLength };
        for await (const written of write(model, prompt, sampling, signal)) {
          if (!this.element.isConnected) this.#controller.abort(); // the panel was closed
          text += written.text;
        }
        const { value } = readAnswer(prompt + text, places);
        const result = value && plainText(value);
        nRight += Number(result === exact);
        nDifferent += Number(text !== output);
        const title = `Sample ${this.#firstSeed + index}`;
        this.#cards.append(card(title, result, result === exact, difference(output, text)));
      }
    } catch (error) {
      if (!isAborted(error)) this.#summary.textContent = messageOf(error);
      return null;
    }
    this.#summary.textContent = `${nRight} of ${N_SAMPLES} samples end in the exact answer.`;
    return nDifferent;
  }
}

/** Shows what each checkpoint writes for the same problem. */
class Checkpoints {
  #operation;
  #models;
  #cards = createElement("ol", "cards of-models");
  #isAsked = false;

  /** @param {{problem: string, places: number}} operation @param {NamedModel[]} models */
  constructor(operation, models) {
    this.#operation = operation;
    this.#models = models;
    this.element = createElement("section", "part");
    const hint = "Every model answers the same operation. Some give only two decimal places.";
    const button = createButton("plain", "Run all models", () => {
      this.ask();
      reportState(this.element, { panel: "beside", ...this.state });
    });
    this.#cards.ariaLive = "polite";
    this.element.append(createElement("h4", "", "Models"), createElement("p", "hint", hint), button, this.#cards);
  }

  /** Whether all checkpoints were asked, as the address has it. */
  get state() {
    return { all: Number(this.#isAsked) };
  }

  async ask() {
    this.#isAsked = true;
    const { problem, places } = this.#operation;
    const cards = this.#models.map(({ name }) => createElement("li", "sample", `${name} …`));
    this.#cards.replaceChildren(...cards);
    for (const [index, { id, name, parameters, domain }] of this.#models.entries()) {
      if (!this.element.isConnected) return; // the panel was closed
      const nearest = Math.min(domain.works_in_steps ? places : domain.default_places, domain.decimal_places);
      /** @type {(error: unknown) => CardContent} */ const failed = (error) => [undefined, false, [messageOf(error)]];
      const [result, isRight, content] = await ask(id, problem, nearest).catch(failed);
      const size = createElement("p", "hint", `${formatCount(parameters)} parameters`);
      cards[index].replaceWith(card(name, result, isRight, [size, ...content]));
    }
  }
}

/** The content of a card: the result, whether it is right, and what is shown below it.
 * @typedef {[result: string | null | undefined, isRight: boolean, content: (Node | string)[]]} CardContent */

/** Asks a model for the result of an operation.
 * @type {(model: string, problem: string, places: number) => Promise<CardContent>} */
async function ask(model, problem, places) {
  /** @type {import("./client.js").Calculation | undefined} */ let calculation;
  for await (const { name, data } of calculate(problem, { model, places })) {
    if (name === "result") calculation = data;
  }
  const [node] = calculation?.nodes ?? [];
  if (!calculation || !node) throw new ServiceError("There was no answer.");
  const line = createElement("p", "written", node.output);
  const length = `${formatCount(node.output.length)} characters`;
  const confidence = describeConfidence(node.confidence.whole);
  const facts = `${length}, rounded to ${formatPlaces(calculation.places)}; ${confidence}`;
  const isNearest = node.agrees || breaksTie(node.result, calculation.fraction, calculation.places);
  return [node.result, isNearest, [line, createElement("p", "hint", facts)]];
}

/** Returns a card. `result` is null if it is not a number, and undefined if there is none.
 * @type {(title: string, result: string | null | undefined, isRight: boolean,
 *   content: (Node | string)[]) => HTMLLIElement} */
function card(title, result, isRight, content) {
  const item = createElement("li", "sample", createElement("p", "title", title));
  if (result !== undefined) {
    const verdict = createVerdict(result, isRight);
    verdict.append(createElement("span", "unseen", isRight ? " right" : " wrong"));
    item.append(verdict);
  }
  item.append(...content);
  return item;
}

/** Returns elements that show where a text begins to differ from the greedy one.
 * @type {(greedy: string, text: string) => HTMLParagraphElement[]} */
function difference(greedy, text) {
  let index = 0;
  while (index < text.length && text[index] === greedy[index]) index += 1;
  if (index === text.length && index === greedy.length) return [createElement("p", "hint", "The same text as above")];
  const line = createElement("p", "written");
  line.append(index > CONTEXT ? "…" : "", text.slice(Math.max(0, index - CONTEXT), index));
  line.append(createElement("mark", "", text[index] ?? ""), text.slice(index + 1));
  const [actual, expected] = [text[index] ?? "nothing", greedy[index] ?? "nothing"];
  const description = `Differs from character ${index + 1} on: ${actual} instead of ${expected}`;
  return [line, createElement("p", "hint", description)];
}
