// Inside the model: where it looked when it wrote a character, what else it considered, and what
// each layer already predicted there. Another character can be written instead.

import { look, write } from "./backend.js";
import { readAnswer } from "./engine/arithmetic.js";
import { Arcs } from "./inside/arcs.js";
import { doubt, element, percent, plain } from "./format.js";
import { labelled, offerPanel } from "./panel.js";

const LEAST = 0.02; // weights below it are not shown
const MOST_NAMED = 3; // characters that the words name

/** Offers a look inside for each operation that a model has answered. */
export class Inside {
  #model = "";
  #places = 2;

  /** A calculation begins: `start` is the event of the stream. */
  begin({ model, places }) {
    this.#model = model;
    this.#places = places;
  }

  /** Adds the button that opens the panel of an operation. */
  offer(step, { prompt, output, exact }) {
    if (!prompt || !output) return;
    const operation = { model: this.#model, places: this.#places, prompt, output, exact };
    const offered = offerPanel(
      step,
      "Look inside the model",
      () => new Panel(operation),
      (panel) => panel.show(prompt.length),
    );
    step.addEventListener("point", ({ detail: { at, isChosen } }) => {
      if (isChosen) offered.panel?.show(prompt.length + at);
    });
    // A character of the model view that is clicked is looked at as well.
    step.addEventListener("click", ({ target }) => {
      if (!target.matches(".rows .characters span")) return;
      const all = [...step.querySelectorAll(".rows .characters span")];
      const position = all.indexOf(target);
      if (position >= prompt.length) offered.open().show(position);
    });
  }
}

/** What can be seen and changed of one operation. */
class Panel {
  #operation;
  #text;
  #position = 0;
  #seen = null;
  #asked = 0; // counts, so that only the last answer is shown
  #characters;
  #arcs;
  #slider = labelled("Character", document.createElement("input"));
  #layer = labelled("Layer", document.createElement("select"));
  #head = labelled("Head", document.createElement("select"));
  #words = element("p", "looked-at");
  #candidates = element("ol", "candidates");
  #lens = element("ol", "lens");
  #outcome = element("div", "what-if");
  #stop = null;

  constructor(operation) {
    this.#operation = operation;
    this.#text = operation.prompt + operation.output;
    this.element = element("div", "inside");
    const strip = element("div", "strip");
    this.#characters = Array.from(this.#text, (character) => element("span", "", character));
    const line = element("p", "written");
    line.ariaHidden = "true"; // the slider says which character it is
    line.append(...this.#characters);
    this.#arcs = new Arcs(strip, this.#characters);
    strip.append(line);
    for (const name of ["click", "pointerover"]) {
      line.addEventListener(name, ({ target, pointerType }) => {
        const position = this.#characters.indexOf(target);
        const isHeld = name === "pointerover" && pointerType !== "mouse";
        if (position >= operation.prompt.length && !isHeld) this.show(position);
      });
    }
    const slider = this.#slider.control;
    Object.assign(slider, { type: "range", min: 1, max: operation.output.length, step: 1 });
    slider.addEventListener("input", () => this.show(operation.prompt.length + Number(slider.value) - 1));
    for (const { control } of [this.#layer, this.#head]) {
      control.addEventListener("change", () => this.#showAttention());
    }
    const controls = element("div", "controls");
    controls.append(this.#slider.label, this.#layer.label, this.#head.label);
    const considered = section("What it considered", this.#candidates);
    considered.append(element("p", "hint", "Choose another character: the model goes on from there."));
    const parts = element("div", "parts");
    parts.append(considered, section("What each layer would write", this.#lens));
    this.#outcome.role = "status";
    this.element.append(controls, strip, this.#words, parts, this.#outcome);
  }

  /** Shows what happened when text[position] was written. */
  async show(position) {
    if (position === this.#position && this.#seen) return;
    this.#position = position;
    const asked = ++this.#asked;
    this.#slider.control.value = position - this.#operation.prompt.length + 1;
    this.#mark();
    if (!this.#seen) this.#words.textContent = "Loading the model …";
    try {
      const seen = await look(this.#operation.model, this.#text, position);
      if (asked !== this.#asked) return; // another character is wanted by now
      this.#seen = seen;
    } catch (error) {
      this.#words.textContent = error.message;
      return;
    }
    this.#offerHeads();
    this.#showCandidates();
    this.#showLens();
    this.#showAttention();
  }

  #mark() {
    this.#characters.forEach((character, index) => {
      character.classList.toggle("here", index === this.#position);
    });
  }

  #offerHeads() {
    const { layers, heads } = this.#seen;
    for (const [{ control }, count] of [[this.#layer, layers], [this.#head, heads]]) {
      if (control.options.length) continue;
      control.append(new Option("all", ""));
      for (let n = 1; n <= count; n += 1) control.append(new Option(n, n - 1));
    }
  }

  /** Returns the weight of each earlier character, the mean over the chosen heads. */
  #weights() {
    const { layers, heads, attention } = this.#seen;
    const [layer, head] = [this.#layer, this.#head].map(({ control }) => control.value);
    const weights = new Float32Array(this.#position);
    let n = 0;
    for (let l = 0; l < layers; l += 1) {
      for (let h = 0; h < heads; h += 1) {
        if ((layer !== "" && l !== Number(layer)) || (head !== "" && h !== Number(head))) continue;
        n += 1;
        const start = (l * heads + h) * weights.length;
        for (let s = 0; s < weights.length; s += 1) weights[s] += attention[start + s];
      }
    }
    return Array.from(weights, (weight) => weight / n);
  }

  #showAttention() {
    const weights = this.#weights();
    const largest = Math.max(...weights);
    this.#characters.forEach((character, index) => {
      const share = weights[index] >= LEAST ? weights[index] / largest : 0;
      character.style.setProperty("--weight", share.toFixed(3));
    });
    this.#arcs.draw(this.#position, weights, LEAST);
    const named = weights
      .map((weight, index) => ({ weight, index }))
      .sort((a, b) => b.weight - a.weight)
      .slice(0, MOST_NAMED)
      .filter(({ weight }) => weight >= LEAST)
      .map(({ weight, index }) => `${this.#text[index]} (${this.#placeOf(index)}) ${Math.round(weight * 100)}%`);
    const number = this.#position - this.#operation.prompt.length + 1;
    const words = `It wrote ${this.#text[this.#position]} as character ${number}. It looked most at ${named.join(", ")}.`;
    this.#words.textContent = words;
    this.#slider.control.ariaValueText = words;
  }

  #placeOf(index) {
    const { length } = this.#operation.prompt;
    return index < length ? `character ${index + 1} of the question` : `character ${index - length + 1}`;
  }

  #showCandidates() {
    const items = this.#seen.candidates.map(({ text, probability }) => {
      const isWritten = text === this.#text[this.#position];
      const item = element("li");
      const button = element("button", "candidate");
      button.type = "button";
      button.disabled = isWritten;
      const bar = element("span", "probability");
      bar.style.setProperty("--share", probability.toFixed(4));
      button.append(element("code", "", text), bar, element("span", "figure", percent(probability)));
      if (!isWritten) button.append(element("span", "unseen", " write this instead"));
      button.addEventListener("click", () => this.#writeInstead(text));
      item.append(button);
      return item;
    });
    this.#candidates.replaceChildren(...items);
  }

  #showLens() {
    const items = this.#seen.lens.map(({ text, probability }, layer) => {
      const item = element("li");
      const character = element("code", "", text);
      character.style.setProperty("--doubt", doubt(probability).toFixed(3));
      const name = layer ? `layer ${layer}` : "before";
      item.append(element("span", "name", name), character, element("span", "figure", percent(probability)));
      return item;
    });
    this.#lens.replaceChildren(...items);
  }

  /** Writes another character and lets the model go on from there. */
  async #writeInstead(character) {
    this.#stop?.abort();
    const { signal } = (this.#stop = new AbortController());
    const { model, prompt, exact, places } = this.#operation;
    const kept = this.#text.slice(prompt.length, this.#position);
    const line = element("p", "written");
    line.append(kept, element("mark", "", character));
    const verdict = element("p", "verdict-of-change", "The model goes on …");
    this.#outcome.replaceChildren(line, verdict);
    let text = prompt + kept + character;
    try {
      if (character !== "$") {
        for await (const written of write(model, text, {}, signal)) {
          text += written.text;
          line.append(written.text);
        }
      }
    } catch (error) {
      if (error.name !== "AbortError") verdict.textContent = error.message;
      return;
    }
    const { text: result } = readAnswer(text, places);
    const ends = result === null ? "It ends in no number" : `It ends in ${plain(result)}`;
    const recovers = result === exact ? "It recovers: that is exact." : `The exact answer is ${plain(exact)}.`;
    verdict.textContent = `With ${character} instead of ${this.#text[this.#position]}: ${ends}. ${recovers}`;
  }
}

function section(title, content) {
  const made = element("div", "part");
  made.append(element("h4", "", title), content);
  return made;
}
