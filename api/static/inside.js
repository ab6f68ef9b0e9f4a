// Inside the model: where it looked when it wrote a character, what else it considered, and what
// each layer already predicted there. Another character can be written instead.

import { look, write } from "./backend.js";
import { isAborted, messageOf } from "./client.js";
import { readAnswer } from "./engine/arithmetic.js";
import { Arcs } from "./inside/arcs.js";
import { LEAST, bar, weightsOf } from "./inside/bars.js";
import { doubt, element, figure, plain } from "./format.js";
import { labelled, offerPanel, tell } from "./panel.js";

/** @typedef {import("./panel.js").State} State */
/** @typedef {import("./client.js").Node} Node */
/** @typedef {{model: string, places: number, prompt: string, output: string, exact: string}} Operation */

const MOST_NAMED = 3; // characters that the words name
const HINT =
  "The model computes in layers, one after the other. In each, several heads look back at earlier characters: the darker " +
  "a character, the more they took from it.";

/** Offers a look inside for each operation that a model has answered. */
export class Inside {
  #model = "";
  #places = 2;

  /** A calculation begins.
   * @param {import("./client.js").Start} start */
  begin({ model, places }) {
    this.#model = model;
    this.#places = places;
  }

  /**
   * Adds the button that opens the panel of an operation.
   * @param {HTMLElement} step
   * @param {Node} node
   */
  offer(step, { prompt, output, exact }) {
    if (!prompt || !output) return;
    const operation = { model: this.#model, places: this.#places, prompt, output, exact };
    const offered = offerPanel(step, "inside", "Look inside the model", () => new Panel(operation));
    step.addEventListener("point", (event) => {
      const { at, isChosen } = /** @type {CustomEvent<import("./steps.js").Point>} */ (event).detail;
      if (isChosen) offered.panel?.show(prompt.length + at);
    });
  }
}

/** What can be seen and changed of one operation. */
class Panel {
  #operation;
  #text;
  #position = 0;
  /** @type {import("./engine/generate.js").Look | null} */
  #seen = null;
  #asked = 0; // counts, so that only the last answer is shown
  #characters;
  #strip = element("div", "strip");
  #arcs = new Arcs();
  #slider = labelled("Character", element("input"));
  #layer = labelled("Layer", element("select"));
  #head = labelled("Head", element("select"));
  #words = element("p", "looked-at");
  #candidates = element("ol", "candidates");
  #lens = element("ol", "lens");
  #outcome = element("div", "what-if");
  /** @type {AbortController | null} */
  #stop = null;

  /** @param {Operation} operation */
  constructor(operation) {
    this.#operation = operation;
    this.#text = operation.prompt + operation.output;
    this.element = element("div", "inside");
    this.#characters = Array.from(this.#text, (character) => element("span", "", character));
    const line = element("p", "written");
    line.ariaHidden = "true"; // the slider says which character it is
    line.append(...this.#characters);
    this.#strip.append(line);
    line.addEventListener("click", (event) => this.#choose(event));
    line.addEventListener("pointerover", (event) => event.pointerType === "mouse" && this.#choose(event));
    const slider = this.#slider.control;
    Object.assign(slider, { type: "range", min: 1, max: operation.output.length, step: 1 });
    slider.addEventListener("input", () => this.#go(operation.prompt.length + Number(slider.value) - 1));
    for (const { control } of [this.#layer, this.#head]) {
      control.addEventListener("change", () => {
        this.#showAttention();
        tell(this.element, { panel: "inside", layer: this.#chosen(this.#layer), head: this.#chosen(this.#head) });
      });
    }
    const controls = element("div", "controls");
    controls.append(this.#slider.label, this.#layer.label, this.#head.label);
    const considered = section("What it considered", this.#candidates);
    considered.append(element("p", "hint", "Choose another character, and the model goes on from there."));
    const layers = section("What each layer would write", this.#lens);
    layers.append(element("p", "hint", "If the model stopped after that layer, it would most probably write this."));
    const parts = element("div", "parts");
    parts.append(considered, layers);
    this.#outcome.role = "status";
    this.element.append(element("p", "hint", HINT), controls, this.#strip, this.#words, parts, this.#outcome);
  }

  /** Shows what an address says.
   * @param {State} state */
  async restore({ at, layer, head, instead }) {
    const first = this.#operation.prompt.length;
    const last = this.#text.length - 1;
    await this.show(Math.min(last, at ? first + at - 1 : Math.max(this.#position, first)));
    if (!this.#seen) return;
    if (layer && layer <= this.#seen.layers) this.#layer.control.value = String(layer);
    if (head && head <= this.#seen.heads) this.#head.control.value = String(head);
    this.#showAttention();
    if (instead && this.#seen.candidates.some(({ text }) => text === instead)) this.#writeInstead(instead);
  }

  /** Goes to the character that an event is on.
   * @param {Event} event */
  #choose(event) {
    const position = this.#characters.findIndex((character) => character === event.target);
    if (position >= this.#operation.prompt.length) this.#go(position);
  }

  /** @param {number} position */
  #go(position) {
    this.show(position);
    tell(this.element, { panel: "inside", at: position - this.#operation.prompt.length + 1, instead: "" });
  }

  /**
   * Shows what happened when text[position] was written.
   * @param {number} position
   */
  async show(position) {
    if (position === this.#position && this.#seen) return;
    this.#position = position;
    const asked = ++this.#asked;
    this.#slider.control.value = String(position - this.#operation.prompt.length + 1);
    this.#characters.forEach((character, index) => character.classList.toggle("here", index === position));
    if (!this.#seen) this.#words.textContent = "Loading the model …";
    try {
      const seen = await look(this.#operation.model, this.#text, position);
      if (asked !== this.#asked) return; // another character is wanted by now
      this.#seen = seen;
    } catch (error) {
      this.#words.textContent = messageOf(error);
      return;
    }
    this.#offerHeads(this.#seen);
    this.#showCandidates(this.#seen);
    this.#showLens(this.#seen);
    this.#showAttention();
  }

  /** @param {import("./engine/generate.js").Look} seen */
  #offerHeads({ layers, heads }) {
    for (const { control, count } of [{ ...this.#layer, count: layers }, { ...this.#head, count: heads }]) {
      if (control.options.length) continue;
      control.append(new Option("all", "0"));
      for (let n = 1; n <= count; n += 1) control.append(new Option(String(n)));
    }
  }

  /** @param {{control: HTMLSelectElement}} selection */
  #chosen({ control }) {
    return Number(control.value);
  }

  #showAttention() {
    if (!this.#seen) return;
    const weights = weightsOf(this.#seen, this.#chosen(this.#layer), this.#chosen(this.#head));
    const largest = Math.max(...weights);
    this.#characters.forEach((character, index) => {
      const share = weights[index] >= LEAST ? weights[index] / largest : 0;
      character.style.setProperty("--weight", share.toFixed(3));
    });
    const sources = weights.map((weight, index) => ({ weight, element: this.#characters[index] }));
    this.#arcs.draw(this.#strip, this.#characters[this.#position], sources, LEAST);
    const named = weights
      .map((weight, index) => ({ weight, index }))
      .sort((a, b) => b.weight - a.weight)
      .slice(0, MOST_NAMED)
      .filter(({ weight }) => weight >= LEAST)
      .map(({ weight, index }) => `${this.#text[index]} (${this.#placeOf(index)}) ${Math.round(weight * 100)}%`);
    const number = this.#position - this.#operation.prompt.length + 1;
    const looked = named.length ? `It looked most at ${named.join(", ")}.` : "It looked at nothing in particular.";
    this.#words.textContent = `It wrote ${this.#text[this.#position]} as character ${number}. ${looked}`;
    this.#slider.control.ariaValueText = this.#words.textContent;
  }

  /** @param {number} index */
  #placeOf(index) {
    const { length } = this.#operation.prompt;
    return index < length ? `character ${index + 1} of the question` : `character ${index - length + 1}`;
  }

  /** @param {import("./engine/generate.js").Look} seen */
  #showCandidates({ candidates }) {
    const items = candidates.map((candidate) => {
      const isWritten = candidate.text === this.#text[this.#position];
      const item = element("li");
      const button = element("button", "candidate");
      button.type = "button";
      button.disabled = isWritten;
      button.append(...bar(candidate));
      if (!isWritten) button.append(element("span", "unseen", " write this instead"));
      button.addEventListener("click", () => {
        const at = this.#position - this.#operation.prompt.length + 1;
        tell(this.element, { panel: "inside", at, instead: candidate.text });
        this.#writeInstead(candidate.text);
      });
      item.append(button);
      return item;
    });
    this.#candidates.replaceChildren(...items);
  }

  /** @param {import("./engine/generate.js").Look} seen */
  #showLens({ lens }) {
    const items = lens.map(({ text, probability }, layer) => {
      const item = element("li");
      const character = element("code", "", text);
      character.style.setProperty("--doubt", doubt(probability).toFixed(3));
      const name = layer ? `layer ${layer}` : "before any";
      item.append(element("span", "name", name), character, element("span", "figure", figure(probability)));
      return item;
    });
    this.#lens.replaceChildren(...items);
  }

  /** Writes another character and lets the model go on from there.
   * @param {string} character */
  async #writeInstead(character) {
    this.#stop?.abort();
    const { signal } = (this.#stop = new AbortController());
    const { model, prompt, exact, places } = this.#operation;
    const kept = this.#text.slice(prompt.length, this.#position);
    const before = this.#text[this.#position];
    const line = element("p", "written");
    line.append(kept, element("mark", "", character));
    const verdict = element("p", "verdict-of-change", "The model goes on …");
    this.#outcome.replaceChildren(line, verdict);
    let text = prompt + kept + character;
    try {
      if (character !== "$") {
        // Work of a problem has one length: what is twice as long will never end.
        for await (const written of write(model, text, { most: 2 * this.#text.length }, signal)) {
          text += written.text;
          line.append(written.text);
        }
      }
    } catch (error) {
      if (!isAborted(error)) verdict.textContent = messageOf(error);
      return;
    }
    const { text: result } = readAnswer(text, places);
    const last = text.endsWith("$") ? "it ends in no number" : "it does not end";
    const ends = result === null ? last : `it ends in ${plain(result)}`;
    const recovers = result === exact ? "It recovers: that is exact." : `The exact answer is ${plain(exact)}.`;
    verdict.textContent = `With ${character} instead of ${before}, ${ends}. ${recovers}`;
  }
}

/**
 * @param {string} title
 * @param {HTMLElement} content
 */
function section(title, content) {
  const made = element("div", "part");
  made.append(element("h4", "", title), content);
  return made;
}
