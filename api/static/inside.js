// The panel “Look inside the model”: what the heads attended to when the model wrote the selected character, what else
// it considered, and what each layer predicted. The user can replace the character by another one.

import { write } from "./backend.js";
import { isAborted, messageOf } from "./client.js";
import { readAnswer } from "./engine/arithmetic.js";
import { plainText } from "./engine/exact.js";
import { shapeOf } from "./engine/layout.js";
import { createBar } from "./inside/bars.js";
import { headColour, headSources } from "./inside/heads.js";
import { createButton, createElement, doubt, formatNumbers, formatProbability } from "./format.js";
import { addPanelButton, labelControl } from "./panel.js";
import { paper } from "./paper.js";
import { SheetView } from "./paper/view.js";
import { store } from "./state.js";

/** @import { Look } from "./engine/generate.js" */
/** @import { State } from "./panel.js" */
/** @import { Step } from "./steps.js" */
/** @typedef {{model: string, places: number, prompt: string, output: string, exact: string}} Operation */

const MAX_NAMED = 2; // characters that the description names for each head
const HINT =
  "The model computes in layers, one after the other. In each, several heads look back at earlier characters. Arcs " +
  "lead to these, in a colour for each head: the thicker, the more the head took from the character.";
const LENS_HINT = "If the model stopped after that layer, it would most probably write this.";

/** Adds the button that opens the panel to an operation that a model has answered.
 * @type {(step: Step, node: import("./client.js").Node, model: string) => void} */
export function addInside(step, { prompt, output, exact }, model) {
  const shape = prompt && shapeOf(prompt);
  if (!shape || !output) return;
  const operation = { model, places: shape.places, prompt, output, exact }; // steps before the last may have more places
  const toggle = addPanelButton(step.element, "inside", "Look inside the model", () => new Panel(step, operation));
  step.inside = () => toggle.panel;
}

/** Shows one operation from the inside. */
export class Panel {
  #step;
  #operation;
  #at = -1; // the index of the character that is shown
  /** @type {Look | null} */ #look = null;
  #layer = labelControl("Layer", createElement("select"));
  #head = labelControl("Head", createElement("select"));
  #description = createElement("p", "looked-at");
  #heads = createElement("ul", "heads");
  #candidates = createElement("ol", "candidates");
  #lens = createElement("ol", "lens");
  #whatIf = createElement("div", "what-if");
  /** @type {AbortController | null} */ #controller = null;

  /** @param {Step} step @param {Operation} operation */
  constructor(step, operation) {
    this.#step = step;
    this.#operation = operation;
    for (const { control } of [this.#layer, this.#head]) {
      control.addEventListener("change", () => {
        store.set({ panel: "inside", step: step.number, ...this.state });
        this.#showAttention();
      });
    }
    const controls = createElement("div", "controls", this.#layer.label, this.#head.label);
    const instead = "Choose another character, and the model continues from there.";
    const parts = createElement(
      "div",
      "parts",
      section("What each layer would write", this.#lens, LENS_HINT),
      section("What it considered", this.#candidates, instead),
    );
    this.#whatIf.role = "status";
    const hint = createElement("p", "hint", HINT);
    this.element = createElement("div", "inside", hint, this.#description, controls, this.#heads, parts, this.#whatIf);
  }

  /** What is selected, as the address has it. */
  get state() {
    const layer = Number(this.#layer.control.value);
    return { layer: layer > 1 ? layer : 0, head: Number(this.#head.control.value) };
  }

  /** Shows the selected character, or else the first. */
  restore() {
    const isOwn = store.state.step === this.#step.number && this.#step.describe(store.state.at - 1).probability;
    this.#step.choose(isOwn ? store.state.at - 1 : Math.max(0, this.#at));
  }

  /** Says that another character is going to be shown. */
  wait() {
    this.#controller?.abort();
    this.#whatIf.replaceChildren();
    this.#candidates.inert = true; // until those of this character are there
    if (!this.#look) this.#description.textContent = "Loading the model …";
  }

  /** @param {string} message */
  fail(message) {
    this.#description.textContent = message;
  }

  /** Shows how the model wrote a character. @type {(at: number, look: Look) => void} */
  show(at, look) {
    this.#at = at;
    this.#look = look;
    this.#addOptions(look);
    this.#showCandidates(look);
    this.#showLens(look);
    this.#showAttention();
    const { instead } = store.state;
    if (look.candidates.some(({ text }) => text === instead)) this.#writeInstead(instead);
  }

  /** Fills the selections of the layer and the head, and selects what the store says. @param {Look} look */
  #addOptions({ layers, heads }) {
    const { layer, head } = store.state;
    if (!this.#head.control.options.length) {
      for (let n = 1; n <= layers; n += 1) this.#layer.control.append(new Option(String(n)));
      this.#head.control.append(new Option("all", "0"));
      for (let n = 1; n <= heads; n += 1) this.#head.control.append(new Option(String(n)));
    }
    if (layer <= layers) this.#layer.control.value = String(layer || 1);
    if (head <= heads) this.#head.control.value = String(head);
  }

  #showAttention() {
    if (!this.#look) return;
    this.#step.showSources(this.#at, this.#look);
    const { prompt, output } = this.#operation;
    const text = prompt + output;
    const nameOf = (/** @type {number} */ index) =>
      index < prompt.length ? `character ${index + 1} of the question` : `character ${index - prompt.length + 1}`;
    const { layer, head } = this.state;
    const sources = headSources(this.#look, layer || 1, head);
    const shown = head ? [head] : Array.from({ length: this.#look.heads }, (_, index) => index + 1);
    const items = shown.map((number) => {
      const names = sources
        .filter((source) => source.head === number)
        .slice(0, MAX_NAMED)
        .map(({ index, weight }) => `${text[index]} (${nameOf(index)}) ${Math.round(weight * 100)}%`);
      const name = createElement("b", "", `Head ${number}`);
      name.style.setProperty("--head", headColour(number));
      return createElement("li", "", name, names.length ? ` looked at ${names.join(", ")}` : " looked at nothing in particular");
    });
    this.#heads.replaceChildren(...items);
    this.#description.textContent = `It wrote ${output[this.#at]} as character ${this.#at + 1}.`;
  }

  /** Shows the most probable characters. @param {Look} look */
  #showCandidates({ candidates }) {
    const items = candidates.map((candidate) => {
      const isWritten = candidate.text === this.#operation.output[this.#at];
      const button = createButton("candidate", "", () => {
        store.set({ panel: "inside", step: this.#step.number, at: this.#at + 1, instead: candidate.text });
        this.#writeInstead(candidate.text);
      });
      button.disabled = isWritten;
      button.append(...createBar(candidate));
      if (!isWritten) button.append(createElement("span", "unseen", " write this instead"));
      return createElement("li", "", button);
    });
    this.#candidates.replaceChildren(...items);
    this.#candidates.inert = false;
  }

  /** Shows the prediction of each layer. @param {Look} look */
  #showLens({ lens }) {
    const items = lens.map(({ text, probability }, layer) => {
      const character = createElement("code", "", text);
      character.style.setProperty("--doubt", doubt(probability).toFixed(3));
      const name = createElement("span", "name", layer ? `layer ${layer}` : "before layer 1");
      return createElement("li", "", name, character, createElement("span", "figure", formatProbability(probability)));
    });
    this.#lens.replaceChildren(...items);
  }

  /** Replaces the character and lets the model continue from there: on paper, with its mistakes in red.
   * @param {string} character */
  async #writeInstead(character) {
    this.#controller?.abort();
    const { signal } = (this.#controller = new AbortController());
    const { model, prompt, output, exact, places } = this.#operation;
    const verdict = createElement("p", "verdict-of-change", "The model continues …");
    const view = new SheetView();
    this.#whatIf.replaceChildren(verdict, view.element);
    let text = output.slice(0, this.#at) + character;
    let frame = 0;
    const draw = () => {
      cancelAnimationFrame(frame);
      frame = 0;
      const sheet = paper(prompt, text);
      if (sheet) view.show(sheet, [], `what follows ${character}`);
    };
    try {
      if (character !== "$") {
        // All correct work of a problem has the same length. A text twice as long would never end.
        const maxLength = 2 * (prompt.length + output.length);
        for await (const written of write(model, prompt + text, { maxLength }, signal)) {
          text += written.text;
          frame ||= requestAnimationFrame(draw);
        }
      }
    } catch (error) {
      if (!isAborted(error)) verdict.textContent = messageOf(error);
      return;
    }
    draw();
    const { value } = readAnswer(prompt + text, places);
    const result = value && plainText(value);
    const withoutNumber = text.endsWith("$") ? "the result is not a number" : "it does not end";
    const ending = result === null ? withoutNumber : `it ends in ${formatNumbers(result)}`;
    const comparison = result === exact ? "It recovers: that is exact." : `The exact answer is ${formatNumbers(exact)}.`;
    verdict.textContent = `With ${character} instead of ${output[this.#at]}, ${ending}. ${comparison}`;
  }
}

/** Returns a part of the panel with a title and a hint.
 * @type {(title: string, content: HTMLElement, hint: string) => HTMLDivElement} */
function section(title, content, hint) {
  return createElement("div", "part", createElement("h4", "", title), content, createElement("p", "hint", hint));
}
