// A row of the raw text that a model reads or writes. Its characters are shaded by probability.

import { SURE_CHARACTER, createElement, formatPercent, shade } from "./format.js";

/** Shows a row: its label, its characters, and their lowest probability. */
export class Row {
  #label;
  #start; // the index of its first character in what the model wrote
  #count = 0; // of its characters that are shown
  /** @type {number | null} */ #lowest = null;
  #least = createElement("span", "least");
  #spoken = createElement("span", "unseen");

  /** @param {string} label @param {number} start */
  constructor(label, start = 0) {
    this.#start = start;
    this.#label = createElement("span", "row-label", label);
    this.characters = createElement("span", "characters");
    this.characters.translate = false;
    // Screen readers read a finished row as one sentence, not one character at a time.
    this.visible = createElement("span", "seen", this.#label, this.characters);
    this.visible.ariaHidden = "true";
    this.element = createElement("li", "line", this.visible);
  }

  /** Adds a character. probability: null if the model only reads the character.
   * @type {(text: string, probability: number | null) => void} */
  add(text, probability) {
    const span = createElement("span", "", text);
    if (probability !== null) {
      span.dataset.at = String(this.#start + this.#count);
      span.title = `${text}: ${formatPercent(probability)}`;
      shade(span, probability);
      this.#lowest = Math.min(this.#lowest ?? 1, probability);
    }
    this.characters.append(span);
    this.#count += 1;
  }

  /** Adds the lowest probability and the sentence for screen readers, once. */
  close() {
    const isSure = this.#lowest === null || this.#lowest >= SURE_CHARACTER;
    this.#least.textContent = isSure ? "" : formatPercent(this.#lowest ?? 1);
    this.visible.append(this.#least);
    this.element.append(this.#spoken);
    this.#updateSpoken();
  }

  #updateSpoken() {
    const lowest = this.#least.textContent;
    const isWhole = this.#count === this.characters.childElementCount;
    const lowestText = lowest && isWhole ? `, lowest probability ${lowest}` : "";
    const text = (this.characters.textContent ?? "").slice(0, this.#count);
    this.#spoken.textContent = `${this.#label.textContent}: ${text}${lowestText}`;
  }

  /** Hides the characters from an index on. Each keeps its place.
   * @param {number} end an index in what the model wrote */
  showUntil(end) {
    const spans = [...this.characters.children];
    const count = Math.max(0, Math.min(spans.length, end - this.#start));
    if (count === this.#count) return;
    this.#count = count;
    spans.forEach((span, index) => span.classList.toggle("unwritten", index >= count));
    this.#least.classList.toggle("unwritten", count < spans.length);
    this.element.classList.toggle("unwritten", !count);
    this.#updateSpoken();
  }
}
