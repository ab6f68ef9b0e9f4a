// The box beside the character that the user points at. It explains the character and shows what else
// the model considered. The page then also marks the characters that the model looked at.

import { look } from "./backend.js";
import { createBar, meanWeights } from "./inside/bars.js";
import { SURE_CHARACTER, createElement, formatPercent } from "./format.js";

const DELAY = 120; // milliseconds before the model is run, so that a passing pointer does not run it
const GAP = 10; // pixels between the character and the box
const FINGER_GAP = 44; // pixels below a character that are covered by a finger
const MARGIN = 8; // pixels between the box and the edge of the window

/** A character of an operation. at: its index in the output; words: its explanation; isChoice: whether another
 * character may be right as well.
 * @typedef {{model: string, prompt: string, output: string, at: number, probability: number,
 * words: string, isChoice: boolean}} Character */

export class Readout {
  #box = createElement("div", "readout");
  #text = createElement("p");
  #bars = createElement("ol", "candidates");
  /** @type {Element | null} */ #anchor = null; // the character beside which the box is shown
  isTouched = false; // whether the user last used a finger
  #requestId = 0; // of the last request: only its result is shown
  /** @type {(weights: number[]) => void} */ #onWeights = () => {};

  constructor() {
    this.#box.ariaHidden = "true"; // the label of the character has the same text
    this.#box.hidden = true;
    this.#box.append(this.#text, this.#bars);
    document.body.append(this.#box);
    addEventListener("pointerdown", (event) => this.#onPointerDown(event), true);
    addEventListener("keydown", () => (this.isTouched = false), true);
    for (const name of ["scroll", "resize", "redrawn"]) addEventListener(name, () => this.#updatePosition(), true);
  }

  get isShown() {
    return !this.#box.hidden;
  }

  /** Shows the box for a character. anchor: the element of the character; onWeights: called with the attention weight
   * of each earlier character, and with an empty list when the box is hidden.
   * @type {(anchor: Element, character: Character, onWeights: (weights: number[]) => void) => Promise<void>} */
  async show(anchor, character, onWeights) {
    if (this.#anchor === anchor && this.isShown) return;
    const requestId = ++this.#requestId;
    this.#anchor = anchor;
    this.#onWeights([]);
    this.#onWeights = onWeights;
    this.#text.replaceChildren(...contentOf(character));
    this.#bars.replaceChildren();
    this.#box.classList.remove("alone");
    this.#box.hidden = false;
    this.#updatePosition();
    await new Promise((resolve) => setTimeout(resolve, DELAY));
    if (requestId !== this.#requestId) return;
    const { model, prompt, output, at } = character;
    try {
      const result = await look(model, prompt + output, prompt.length + at);
      if (requestId !== this.#requestId) return;
      const items = result.candidates.map((token) => createElement("li", "candidate", ...createBar(token)));
      this.#bars.replaceChildren(...items);
      onWeights(meanWeights(result));
    } catch {
      if (requestId !== this.#requestId) return;
      this.#box.classList.add("alone"); // the model could not be loaded or run
    }
    this.#updatePosition();
  }

  hide() {
    this.#requestId += 1;
    this.#anchor = null;
    this.#box.hidden = true;
    this.#onWeights([]);
    this.#onWeights = () => {};
  }

  /** @param {PointerEvent} event */
  #onPointerDown({ target, pointerType }) {
    this.isTouched = pointerType === "touch";
    if (!(target instanceof Element && target.closest("[data-at]"))) this.hide();
  }

  /** Moves the box below the character, where it hides only later characters, or else above it. */
  #updatePosition() {
    if (!this.#anchor || !this.isShown) return;
    if (!this.#anchor.isConnected) return this.hide();
    const { left, top, bottom, width: anchorWidth } = this.#anchor.getBoundingClientRect();
    this.#box.style.visibility = bottom < 0 || top > innerHeight ? "hidden" : "";
    const { offsetWidth: width, offsetHeight: height } = this.#box;
    const space = document.documentElement.clientWidth - width - MARGIN;
    const above = top - GAP - height;
    const below = bottom + (this.isTouched ? FINGER_GAP : GAP);
    const isAbove = below + height > innerHeight - MARGIN && above >= MARGIN;
    this.#box.style.left = `${Math.max(MARGIN, Math.min(space, left + anchorWidth / 2 - width / 2))}px`;
    this.#box.style.top = `${Math.max(MARGIN, isAbove ? above : below)}px`;
  }
}

/** Returns the character, its explanation and its probability, as elements. @param {Character} character */
function contentOf({ output, at, probability, words, isChoice }) {
  const isSure = probability >= SURE_CHARACTER;
  const choice = isChoice && !isSure ? "; another digit may be right as well" : "";
  const probabilityText = isSure ? "sure" : formatPercent(probability);
  const details = createElement("span", "where", `Character ${at + 1} of ${output.length}, ${probabilityText}${choice}`);
  const sentence = words && `${words[0].toUpperCase()}${words.slice(1)}.`;
  return [createElement("b", "", output[at]), createElement("span", "", sentence), details];
}
