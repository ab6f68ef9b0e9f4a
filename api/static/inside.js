// A look inside: how the model wrote one character of an operation, and what follows if it writes another one. The
// reader chooses the character in the work above.

import { dissect } from "./backend.js";
import { messageOf } from "./client.js";
import { createButton, createElement, formatProbability } from "./format.js";
import { createSentence, tint } from "./inside/heads.js";
import { instead } from "./inside/instead.js";
import { wordsOf } from "./prove.js";

/** @import { Dissection } from "./engine/dissect.js" */
/** @import { Character } from "./inspector.js" */
/** @import { Step } from "./steps.js" */

const LISTED = 5; // characters that it may write instead

const PARTS = /above|carr(y|ies)|borrow|writes|[×÷]/g; // of a sentence

/** Returns the index of the character of a step whose sentence has most parts, such as a product and two carries.
 * @param {Step} step */
export function mostTelling(step) {
  const numbers = Array.from(step.describe(0).output, (_, at) => step.describe(at).words.match(PARTS)?.length ?? 0);
  return numbers.indexOf(Math.max(...numbers));
}

export class Inside {
  element = createElement("div");
  #request = 0; // the number of the last character that was asked about: only that is shown
  #controller = new AbortController();

  /** Shows how a character was written. @param {Character} character */
  async show(character) {
    const request = ++this.#request;
    this.#controller.abort();
    const { signal } = (this.#controller = new AbortController());
    const { model, prompt, output, at } = character;
    delete this.element.dataset.drawn;
    try {
      const dissection = await dissect(model, prompt + output, prompt.length + at);
      if (request !== this.#request) return; // another character is shown now
      const parts = [told(character, dissection), layers(dissection), choice(character, dissection, signal)];
      this.element.replaceChildren(...parts.flat());
      this.element.dataset.drawn = output[at];
    } catch (error) {
      if (request === this.#request) this.element.replaceChildren(createElement("p", "failure", messageOf(error)));
    }
  }
}

/** Returns what the character is, and what the model was told.
 * @type {(character: Character, dissection: Dissection) => HTMLElement[]} */
function told({ prompt, output, at, parts }, dissection) {
  const sentence = createElement("p", "sentence", createElement("code", "", output[at]), " ", ...createSentence(parts));
  tint(sentence, prompt, dissection);
  sentence.role = "status";
  const seen = new Intl.ListFormat("en").format(dissection.sources.map((source) => (prompt + output)[source]));
  const text = `The model is told what comes here (${wordsOf(dissection.kind)}), and which characters that depends on, at most seven: ${seen || "none"}. A program finds their places from the lengths of the numbers alone. What to write, the model has learned.`;
  return [sentence, createElement("p", "", text)];
}

/** Returns what the model would have written after each layer. @type {(dissection: Dissection) => HTMLElement[]} */
function layers({ ranked }) {
  const guesses = ranked.map(([best]) => best.text);
  const items = ranked.map(([{ text, probability }], layer) => {
    const name = createElement("span", "name", layer ? `layer ${layer}` : "at first");
    const guess = createElement("code", text === guesses.at(-1) ? "settled" : "", text);
    return createElement("li", "", name, guess, createElement("span", "figure", formatProbability(probability)));
  });
  const text = "What would it write at first, when it knows only the kind, and after each layer?";
  return [createElement("p", "", text), createElement("ol", "of-layers", ...items)];
}

/** Returns buttons for other characters, and what follows from the one that is pressed.
 * @type {(character: Character, dissection: Dissection, signal: AbortSignal) => HTMLElement[]} */
function choice(character, { ranked }, signal) {
  const what = createElement("div");
  const others = (ranked.at(-1) ?? []).filter(({ text }) => text !== character.output[character.at]).slice(0, LISTED);
  const buttons = others.map(({ text }) => {
    const choose = createButton("chip", text, () => what.replaceChildren(instead(character, text, signal)));
    choose.ariaLabel = `Write ${text} instead`;
    return choose;
  });
  const text = "Make it write another character, and see whether it recovers:";
  return [createElement("p", "", text), createElement("p", "others", ...buttons), what];
}
