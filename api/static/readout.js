// What is said of the character that is pointed at: a box beside the pointer or the finger. It says
// in words what the character is, shows what else the model considered, and marks where it looked.

import { look } from "./backend.js";
import { bar, weightsOf } from "./inside/bars.js";
import { SURE_CHARACTER, element, percent } from "./format.js";

const DELAY = 120; // milliseconds, in which a pointer that only passes is gone
const GAP = 10; // pixels to the character
const FINGER = 44; // pixels below a character that a finger covers
const MARGIN = 8; // pixels to the edge of the window

/**
 * A character of an operation. at: its index in the output; isChoice: another one may be right as well.
 * @typedef {{model: string, prompt: string, output: string, at: number, probability: number,
 *   words: string, isChoice: boolean}} Character
 */

export class Readout {
  #box = element("div", "readout");
  #text = element("p");
  #bars = element("ol", "candidates");
  /** @type {Element | null} the character that it stands beside */
  #anchor = null;
  #isTouched = false;
  #asked = 0; // counts, so that only the last answer is shown
  /** @type {(weights: number[]) => void} */
  #onLook = () => {};

  constructor() {
    this.#box.ariaHidden = "true"; // the character's own label says the same
    this.#box.hidden = true;
    this.#box.append(this.#text, this.#bars);
    document.body.append(this.#box);
    addEventListener("pointerdown", (event) => this.#press(event), true);
    addEventListener("keydown", () => (this.#isTouched = false), true);
    for (const name of ["scroll", "resize"]) addEventListener(name, () => this.#place(), true);
  }

  /** Whether a finger was used last. */
  get isTouched() {
    return this.#isTouched;
  }

  get isShown() {
    return !this.#box.hidden;
  }

  /**
   * Shows what is to be said of a character.
   * @param {Element} anchor the character
   * @param {Character} character
   * @param {(weights: number[]) => void} onLook is called with the weight of each earlier character
   */
  async show(anchor, character, onLook) {
    if (this.#anchor === anchor && this.isShown) return;
    const asked = ++this.#asked;
    this.#anchor = anchor;
    this.#onLook([]);
    this.#onLook = onLook;
    this.#text.replaceChildren(...said(character));
    this.#bars.replaceChildren();
    this.#box.hidden = false;
    this.#place();
    await new Promise((resolve) => setTimeout(resolve, DELAY));
    if (asked !== this.#asked) return;
    const { model, prompt, output, at } = character;
    try {
      const seen = await look(model, prompt + output, prompt.length + at);
      if (asked !== this.#asked) return;
      this.#bars.replaceChildren(...seen.candidates.map(candidate));
      onLook(weightsOf(seen));
    } catch {
      if (asked !== this.#asked) return;
      this.#box.classList.add("alone"); // this browser cannot run the model
    }
    this.#place();
  }

  hide() {
    this.#asked += 1;
    this.#anchor = null;
    this.#box.hidden = true;
    this.#onLook([]);
    this.#onLook = () => {};
  }

  /** @param {PointerEvent} event */
  #press({ target, pointerType }) {
    this.#isTouched = pointerType === "touch";
    if (!(target instanceof Element && target.closest("[data-at]"))) this.hide();
  }

  /** Places the box below the character, where it hides only what was written later, or else above. */
  #place() {
    if (!this.#anchor || !this.isShown) return;
    if (!this.#anchor.isConnected) return this.hide();
    const { left, top, bottom, width: across } = this.#anchor.getBoundingClientRect();
    this.#box.style.visibility = bottom < 0 || top > innerHeight ? "hidden" : "";
    const { offsetWidth: width, offsetHeight: height } = this.#box;
    const space = document.documentElement.clientWidth - width - MARGIN;
    const above = top - GAP - height;
    const below = bottom + (this.#isTouched ? FINGER : GAP);
    const isAbove = below + height > innerHeight - MARGIN && above >= MARGIN;
    this.#box.style.left = `${Math.max(MARGIN, Math.min(space, left + across / 2 - width / 2))}px`;
    this.#box.style.top = `${Math.max(MARGIN, isAbove ? above : below)}px`;
  }
}

/**
 * Returns what is said in words.
 * @param {Character} character
 */
function said({ output, at, probability, words, isChoice }) {
  const isSure = probability >= SURE_CHARACTER;
  const choice = isChoice && !isSure ? "; another digit may be right as well" : "";
  const sure = isSure ? "sure" : percent(probability);
  const where = element("span", "where", `Character ${at + 1} of ${output.length}, ${sure}${choice}`);
  const sentence = words && `${words[0].toUpperCase()}${words.slice(1)}.`;
  return [element("b", "", output[at]), element("span", "", sentence), where];
}

/** @param {import("./client.js").Written} written */
function candidate(written) {
  const item = element("li", "candidate");
  item.append(...bar(written));
  return item;
}
