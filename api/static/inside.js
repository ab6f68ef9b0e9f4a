// The panel "Look inside the model": what the model attended to when it wrote a character, what else it
// considered, and what each layer predicted. The user can replace the character by another one.

import { look, write } from "./backend.js";
import { isAborted, messageOf } from "./client.js";
import { readAnswer } from "./engine/arithmetic.js";
import { plainText } from "./engine/exact.js";
import { shapeOf } from "./engine/layout.js";
import { Arcs } from "./inside/arcs.js";
import { MIN_WEIGHT, createBar, meanWeights } from "./inside/bars.js";
import { createButton, createElement, doubt, formatNumbers, formatProbability } from "./format.js";
import { addPanelButton, labelControl, reportState } from "./panel.js";

/** @import { Node } from "./client.js" */
/** @import { State } from "./panel.js" */
/** @typedef {{model: string, places: number, prompt: string, output: string, exact: string}} Operation */

const MAX_NAMED = 3; // characters that the description names
const HINT =
  "The model computes in layers, one after the other. In each, several heads look back at earlier characters. Arcs " +
  "lead to these: the thicker, the more the heads took from the character.";

const LENS_HINT = "If the model stopped after that layer, it would most probably write this.";

/** Adds the button that opens the panel to an operation that a model has answered.
 * @type {(step: HTMLElement, node: Node, model: string) => void} */
export function addInside(step, { prompt, output, exact }, model) {
  const shape = prompt && shapeOf(prompt);
  if (!shape || !output) return;
  const operation = { model, places: shape.places, prompt, output, exact }; // steps before the last may have more places
  const toggle = addPanelButton(step, "inside", "Look inside the model", () => new Panel(operation));
  step.addEventListener("point", (event) => {
    const { at, isChosen } = /** @type {CustomEvent<import("./steps.js").Point>} */ (event).detail;
    if (isChosen) toggle.panel?.show(prompt.length + at);
  });
}

/** Shows one operation from the inside. */
class Panel {
  #operation;
  #text;
  #position = 0;
  /** @type {import("./engine/generate.js").Look | null} */ #look = null;
  #requestId = 0; // of the last request: only its result is shown
  #characters;
  #strip = createElement("div", "strip");
  #arcs = new Arcs();
  #slider = labelControl("Character", createElement("input"));
  #layer = labelControl("Layer", createElement("select"));
  #head = labelControl("Head", createElement("select"));
  #description = createElement("p", "looked-at");
  #candidates = createElement("ol", "candidates");
  #lens = createElement("ol", "lens");
  #whatIf = createElement("div", "what-if");
  #instead = ""; // the character that replaces the one at #position
  /** @type {AbortController | null} */ #controller = null;

  /** @param {Operation} operation */
  constructor(operation) {
    this.#operation = operation;
    this.#text = operation.prompt + operation.output;
    this.#characters = Array.from(this.#text, (character) => createElement("span", "", character));
    const line = createElement("p", "written", ...this.#characters);
    line.ariaHidden = "true"; // the slider has the character as its text
    this.#strip.append(line);
    line.addEventListener("click", (event) => this.#goToTarget(event));
    line.addEventListener("pointerover", (event) => event.pointerType === "mouse" && this.#goToTarget(event));
    const slider = this.#slider.control;
    Object.assign(slider, { type: "range", min: 1, max: operation.output.length, step: 1 });
    slider.addEventListener("input", () => this.#goTo(operation.prompt.length + Number(slider.value) - 1));
    for (const { control } of [this.#layer, this.#head]) {
      control.addEventListener("change", () => {
        this.#showAttention();
        this.#reportState();
      });
    }
    const controls = createElement("div", "controls", this.#slider.label, this.#layer.label, this.#head.label);
    const parts = createElement(
      "div",
      "parts",
      section("What it considered", this.#candidates, "Choose another character, and the model continues from there."),
      section("What each layer would write", this.#lens, LENS_HINT),
    );
    this.#whatIf.role = "status";
    const hint = createElement("p", "hint", HINT);
    this.element = createElement("div", "inside", hint, controls, this.#strip, this.#description, parts, this.#whatIf);
  }

  /** What is selected, as the address has it. */
  get state() {
    const at = this.#position - this.#operation.prompt.length + 1;
    return { at, layer: this.#valueOf(this.#layer), head: this.#valueOf(this.#head), instead: this.#instead };
  }

  #reportState() {
    reportState(this.element, { panel: "inside", ...this.state });
  }

  /** Shows the character and the selections that an address describes. @param {State} state */
  async restore({ at, layer, head, instead }) {
    const first = this.#operation.prompt.length;
    const last = this.#text.length - 1;
    await this.show(Math.min(last, at ? first + at - 1 : Math.max(this.#position, first)));
    if (!this.#look) return;
    if (layer && layer <= this.#look.layers) this.#layer.control.value = String(layer);
    if (head && head <= this.#look.heads) this.#head.control.value = String(head);
    this.#showAttention();
    if (instead && this.#look.candidates.some(({ text }) => text === instead)) this.#writeInstead(instead);
  }

  /** Goes to the character that is the target of an event. @param {Event} event */
  #goToTarget(event) {
    const position = this.#characters.findIndex((character) => character === event.target);
    if (position >= this.#operation.prompt.length) this.#goTo(position);
  }

  /** Shows a character and reports it for the address. @param {number} position */
  #goTo(position) {
    this.show(position);
    this.#reportState();
  }

  /** Shows the attention and the predictions for text[position]. @param {number} position */
  async show(position) {
    if (position === this.#position && this.#look) return;
    this.#position = position;
    this.#instead = "";
    this.#controller?.abort();
    this.#whatIf.replaceChildren();
    const requestId = ++this.#requestId;
    this.#slider.control.value = String(position - this.#operation.prompt.length + 1);
    this.#characters.forEach((character, index) => character.classList.toggle("here", index === position));
    this.#candidates.inert = true; // until those of this character are there
    if (!this.#look) this.#description.textContent = "Loading the model …";
    try {
      const result = await look(this.#operation.model, this.#text, position);
      if (requestId !== this.#requestId) return; // another character is selected now
      this.#look = result;
    } catch (error) {
      if (requestId === this.#requestId) this.#description.textContent = messageOf(error);
      return;
    }
    this.#addOptions(this.#look);
    this.#showCandidates(this.#look);
    this.#showLens(this.#look);
    this.#showAttention();
  }

  /** Fills the selections of the layer and the head. @param {import("./engine/generate.js").Look} look */
  #addOptions({ layers, heads }) {
    for (const { control, count } of [{ ...this.#layer, count: layers }, { ...this.#head, count: heads }]) {
      if (control.options.length) continue;
      control.append(new Option("all", "0"));
      for (let n = 1; n <= count; n += 1) control.append(new Option(String(n)));
    }
  }

  /** @param {{control: HTMLSelectElement}} selection */
  #valueOf({ control }) {
    return Number(control.value);
  }

  #showAttention() {
    if (!this.#look) return;
    const weights = meanWeights(this.#look, this.#valueOf(this.#layer), this.#valueOf(this.#head));
    const largest = Math.max(...weights);
    this.#characters.forEach((character, index) => {
      const share = weights[index] >= MIN_WEIGHT ? weights[index] / largest : 0;
      character.style.setProperty("--weight", share.toFixed(3));
    });
    const sources = weights.map((weight, index) => ({ weight, element: this.#characters[index] }));
    this.#arcs.draw(this.#strip, this.#characters[this.#position], sources, MIN_WEIGHT);
    const { length } = this.#operation.prompt;
    const nameOf = (/** @type {number} */ index) =>
      index < length ? `character ${index + 1} of the question` : `character ${index - length + 1}`;
    const names = weights
      .map((weight, index) => ({ weight, index }))
      .sort((a, b) => b.weight - a.weight)
      .slice(0, MAX_NAMED)
      .filter(({ weight }) => weight >= MIN_WEIGHT)
      .map(({ weight, index }) => `${this.#text[index]} (${nameOf(index)}) ${Math.round(weight * 100)}%`);
    const number = this.#position - length + 1;
    const sentence = names.length ? `It looked most at ${names.join(", ")}.` : "No character got much attention.";
    this.#description.textContent = `It wrote ${this.#text[this.#position]} as character ${number}. ${sentence}`;
    this.#slider.control.ariaValueText = this.#description.textContent;
  }

  /** Shows the most probable characters. @param {import("./engine/generate.js").Look} look */
  #showCandidates({ candidates }) {
    const items = candidates.map((candidate) => {
      const isWritten = candidate.text === this.#text[this.#position];
      const item = createElement("li");
      const button = createButton("candidate", "", () => {
        this.#writeInstead(candidate.text);
        this.#reportState();
      });
      button.disabled = isWritten;
      button.append(...createBar(candidate));
      if (!isWritten) button.append(createElement("span", "unseen", " write this instead"));
      item.append(button);
      return item;
    });
    this.#candidates.replaceChildren(...items);
    this.#candidates.inert = false;
  }

  /** Shows the prediction of each layer. @param {import("./engine/generate.js").Look} look */
  #showLens({ lens }) {
    const items = lens.map(({ text, probability }, layer) => {
      const item = createElement("li");
      const character = createElement("code", "", text);
      character.style.setProperty("--doubt", doubt(probability).toFixed(3));
      const name = createElement("span", "name", layer ? `layer ${layer}` : "before layer 1");
      item.append(name, character, createElement("span", "figure", formatProbability(probability)));
      return item;
    });
    this.#lens.replaceChildren(...items);
  }

  /** Replaces the character and lets the model continue from there. @param {string} character */
  async #writeInstead(character) {
    this.#instead = character;
    this.#controller?.abort();
    const { signal } = (this.#controller = new AbortController());
    const { model, prompt, exact, places } = this.#operation;
    const unchanged = this.#text.slice(prompt.length, this.#position);
    const original = this.#text[this.#position];
    const line = createElement("p", "written", unchanged, createElement("mark", "", character));
    const verdict = createElement("p", "verdict-of-change", "The model continues …");
    line.ariaHidden = "true"; // a screen reader would repeat it at each character; the verdict says how it ends
    this.#whatIf.replaceChildren(line, verdict);
    let text = prompt + unchanged + character;
    try {
      if (character !== "$") {
        // All correct work of a problem has the same length. A text twice as long would never end.
        for await (const written of write(model, text, { maxLength: 2 * this.#text.length }, signal)) {
          text += written.text;
          line.append(written.text);
        }
      }
    } catch (error) {
      if (!isAborted(error)) verdict.textContent = messageOf(error);
      return;
    }
    const { value } = readAnswer(text, places);
    const result = value && plainText(value);
    const withoutNumber = text.endsWith("$") ? "the result is not a number" : "it does not end";
    const ending = result === null ? withoutNumber : `it ends in ${formatNumbers(result)}`;
    const comparison = result === exact ? "It recovers: that is exact." : `The exact answer is ${formatNumbers(exact)}.`;
    verdict.textContent = `With ${character} instead of ${original}, ${ending}. ${comparison}`;
  }
}

/** Returns a part of the panel with a title and a hint.
 * @type {(title: string, content: HTMLElement, hint: string) => HTMLDivElement} */
function section(title, content, hint) {
  return createElement("div", "part", createElement("h4", "", title), content, createElement("p", "hint", hint));
}
