// The inspector: shows how the model wrote the character that the user points at or has selected. A box beside it has
// its explanation and what else the model considered, and arcs lead to the characters that the heads looked at.

import { dissect } from "./backend.js";
import { SURE_CHARACTER, createElement, formatPercent } from "./format.js";
import { considered } from "./inside/considered.js";
import { createSentence, tint } from "./inside/heads.js";
import { store } from "./state.js";

/** @import { Step } from "./steps.js" */

const DELAY = 120; // milliseconds before the model is run, so that a passing pointer does not run it
const GAP = 10; // pixels between the character and the box
const FINGER_GAP = 44; // pixels below a character that are covered by a finger
const MARGIN = 8; // pixels between the box and the edge of the window
const NARROW = 640; // pixels: in a narrower window a finger gets the box at the lower edge, where it covers no operand

/** A character of an operation. at: its index in the output; words: its explanation; parts: the same with the
 * characters that it names; isChoice: whether another character may be right as well.
 * @typedef {{model: string, prompt: string, output: string, at: number, probability: number,
 * words: string, parts: import("./paper/cells.js").Part[], isChoice: boolean}} Character */

export class Inspector {
  #box = createElement("div", "readout");
  #text = createElement("p");
  #considered = createElement("div", "considered");
  /** @type {Element | null} */ #anchor = null; // the character beside which the box is shown
  /** @type {Step | null} */ #step = null; // that has the character
  #at = -1; // the index of the character in what the model wrote
  isTouched = false; // whether the user last used a finger
  #requestId = 0; // of the last request: only its result is shown

  #selected;

  /** @param {() => Step | null} selected returns the step of which the store says that a character is selected */
  constructor(selected) {
    this.#selected = selected;
    this.#box.ariaHidden = "true"; // the label of the character has the same text
    this.#box.hidden = true;
    this.#box.append(this.#text, this.#considered);
    document.body.append(this.#box);
    addEventListener("pointerdown", (event) => this.#onPointerDown(event), true);
    addEventListener("keydown", () => (this.isTouched = false), true);
    for (const name of ["scroll", "resize"]) addEventListener(name, () => this.#updatePosition(), true);
  }

  get #isDocked() {
    return this.isTouched && innerWidth < NARROW;
  }

  get isShown() {
    return !this.#box.hidden;
  }

  /** Shows a character of a step. anchor: its element, beside which the box appears; without one there is no box.
   * isChosen: whether the character is selected, so that it stays shown.
   * @type {(step: Step, at: number, anchor: Element | null, isChosen: boolean) => Promise<void>} */
  async show(step, at, anchor, isChosen) {
    if (anchor && this.#anchor === anchor && this.isShown && !isChosen) return;
    const requestId = ++this.#requestId;
    if (this.#step !== step) this.#step?.highlight(-1);
    [this.#step, this.#at, this.#anchor] = [step, at, anchor];
    const character = step.describe(at);
    step.highlight(at);
    this.#text.replaceChildren(...contentOf(character));
    this.#considered.replaceChildren();
    this.#box.classList.remove("alone");
    this.#box.hidden = !anchor;
    this.#updatePosition();
    if (anchor && this.#isDocked) {
      const covered = anchor.getBoundingClientRect().bottom + GAP - this.#box.getBoundingClientRect().top;
      if (covered > 0) scrollBy(0, covered);
    }
    await new Promise((resolve) => setTimeout(resolve, DELAY));
    if (requestId !== this.#requestId) return;
    const { model, prompt, output } = character;
    try {
      const seen = await dissect(model, prompt + output, prompt.length + at);
      if (requestId !== this.#requestId) return;
      this.#considered.replaceChildren(considered(seen));
      step.showSources(at, seen);
      tint(this.#text, prompt, seen);
    } catch {
      if (requestId !== this.#requestId) return;
      this.#box.classList.add("alone"); // the model could not be loaded or run
    }
    this.#updatePosition();
  }

  /** Hides the box, and shows the selected character again, if there is one. */
  hide() {
    this.#anchor = null;
    this.#box.hidden = true;
    const step = this.#selected();
    const at = store.state.at - 1;
    if (step && at >= 0 && step.describe(at).output[at]) {
      if (step !== this.#step || at !== this.#at) this.show(step, at, null, true);
    } else this.clear();
  }

  /** Shows no character. */
  clear() {
    this.#requestId += 1;
    this.#step?.highlight(-1);
    [this.#step, this.#at, this.#anchor] = [null, -1, null];
    this.#box.hidden = true;
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
    this.#box.classList.toggle("docked", this.#isDocked);
    const { offsetWidth: width, offsetHeight: height } = this.#box;
    const space = document.documentElement.clientWidth - width - MARGIN;
    const above = top - GAP - height;
    const below = bottom + (this.isTouched ? FINGER_GAP : GAP);
    const isAbove = below + height > innerHeight - MARGIN && above >= MARGIN;
    this.#box.style.left = `${Math.max(MARGIN, Math.min(space, left + anchorWidth / 2 - width / 2))}px`;
    const edge = innerHeight - MARGIN - height;
    this.#box.style.top = `${this.#isDocked ? edge : Math.max(MARGIN, isAbove ? above : below)}px`;
  }
}

/** Returns the character, its explanation and its probability, as elements. @param {Character} character */
function contentOf({ output, at, probability, parts, isChoice }) {
  const isSure = probability >= SURE_CHARACTER;
  const choice = isChoice && !isSure ? "; another digit may be right as well" : "";
  const probabilityText = isSure ? "sure" : formatPercent(probability);
  const position = `Character ${at + 1} of ${output.length}`;
  const details = createElement("span", "where", `${position}, ${probabilityText}${choice}`);
  const sentence = createElement("span", "sentence", ...createSentence(parts), parts.length ? "." : "");
  return [createElement("b", "", output[at]), sentence, details];
}
