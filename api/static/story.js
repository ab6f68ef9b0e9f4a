// The story: how a transformer wrote one character of the calculation that is shown, in seven steps.

import { dissect, write } from "./backend.js";
import { namesOf } from "./brain/parts.js";
import { messageOf } from "./client.js";
import { byId, createButton, createElement } from "./format.js";
import { headColour } from "./inside/heads.js";
import { store } from "./state.js";
import { Board } from "./story/board.js";
import { choice } from "./story/choice.js";
import { heads } from "./story/heads.js";
import { layers } from "./story/layers.js";
import { neurons } from "./story/neurons.js";
import { places } from "./story/places.js";
import { Subject, fetcherOf, isTellable } from "./story/subject.js";
import { training } from "./story/training.js";
import { vectors } from "./story/vectors.js";

/** @import { Dissection } from "./engine/dissect.js" */
/** @import { Written } from "./story/subject.js" */

/** How a character was written, and the parts of the model that were switched off.
 * @typedef {Dissection & {off: string[]}} Told */

/** What a picture is drawn from. signal: aborted when the picture is removed.
 * @typedef {{subject: Subject, dissection: Told, board: Board, signal: AbortSignal}} Scene */

/** A step. text: the sentences that are always there; hasSheet: whether the work is shown as on paper.
 * @typedef {{title: string, hasSheet?: boolean, text: (scene: Scene) => string[], more: (scene: Scene) => string[],
 * draw: (scene: Scene) => HTMLElement[]}} Picture */

/** @type {Picture[]} */ const PICTURES = [vectors, places, heads, neurons, layers, choice, training];
const EXAMPLE = "$(0000000471*00000029.9)="; // where nothing that fits into the story is shown

export class Story {
  #index = 0;
  /** @type {Subject | null} */ #subject = null;
  /** @type {Board | null} */ #board = null;
  #request = 0; // the number of the last picture that was begun: only that is shown
  #controller = new AbortController();
  /** @type {Map<number, Promise<Told>>} */ #dissections = new Map(); // by position
  #dialog = createElement("dialog", "story");
  #steps = createElement("ol", "progress");
  #title = createElement("h2");
  #text = createElement("div", "told");
  #sentence = createElement("p", "sentence");
  #showing = createElement("div", "showing");
  #picture = createElement("div", "picture");
  #more = createElement("details", "more");
  #body;
  #onWhole;
  #back = createButton("plain", "Back", () => this.#goTo(this.#index - 1));
  #next = createButton("next", "Next", () => this.#goTo(this.#index + 1));

  /** @param {() => void} onWhole called when the reader wants the story of the whole model */
  constructor(onWhole) {
    this.#onWhole = onWhole;
    PICTURES.forEach(({ title }, index) => {
      const button = createButton("", "", () => this.#goTo(index));
      button.append(createElement("span", "unseen", `${index + 1}: ${title}`));
      this.#steps.append(createElement("li", "", button));
    });
    const close = createButton("close", "✕", () => this.#dialog.close());
    close.ariaLabel = "Close the story";
    this.#title.id = "story-title";
    this.#title.tabIndex = -1;
    this.#showing.tabIndex = 0; // on a small screen it scrolls
    this.#dialog.setAttribute("aria-labelledby", this.#title.id);
    const told = createElement("div", "telling", this.#title, this.#text, this.#more);
    told.ariaLive = "polite";
    this.#body = createElement("div", "body", told, this.#showing);
    this.#dialog.append(
      createElement("div", "edge", this.#steps, close),
      this.#body,
      createElement("div", "edge", this.#back, this.#next),
    );
    this.#dialog.addEventListener("keydown", (event) => event.stopPropagation()); // keys are not for the calculator
    this.#dialog.addEventListener("close", () => {
      this.#controller.abort();
      store.set({ story: 0 });
      const { activeElement } = document;
      const isLost = activeElement === document.body || this.#dialog.contains(activeElement);
      if (isLost) byId("work").focus({ preventScroll: true }); // the offer that opened it is gone
    });
    store.on(["story"], ({ story }) => story || this.#dialog.close()); // another address was opened
    document.body.append(this.#dialog);
  }

  /** Opens the story. step: from 1; written: the calculations that are shown, the one to tell first; model: that of the
   * example, if none of them fits.
   * @type {(step: number, written: Written[], model: string) => Promise<void>} */
  async open(step, written, model) {
    if (!this.#dialog.open) this.#dialog.showModal();
    this.#title.focus();
    this.#dissections.clear();
    this.#subject = null;
    delete this.#dialog.dataset.drawn;
    this.#index = Math.min(step, PICTURES.length) - 1;
    this.#showFrame();
    try {
      const told = written.find(isTellable) ?? (await calculateExample(model));
      const subject = new Subject(told);
      const { at } = store.state;
      if (at && told === written[0]) subject.choose(subject.start + at - 1);
      subject.onChoose = () => {
        if (told === written[0]) store.set({ at: subject.position - subject.start + 1 });
        this.#draw();
      };
      this.#subject = subject;
      this.#board = new Board(subject);
      await this.#goTo(this.#index);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {number} index */
  async #goTo(index) {
    if (index >= PICTURES.length) {
      this.#dialog.close();
      return;
    }
    this.#index = index;
    delete this.#dialog.dataset.drawn;
    store.set({ story: index + 1 });
    this.#showFrame();
    for (const part of [this.#body, ...this.#body.children]) part.scrollTop = 0;
    this.#more.open = false;
    await this.#draw();
  }

  /** Shows which step it is. */
  #showFrame() {
    this.#title.textContent = PICTURES[this.#index].title;
    [...this.#steps.children].forEach((item, index) => {
      item.classList.toggle("past", index <= this.#index);
      item.firstElementChild?.setAttribute("aria-current", index === this.#index ? "step" : "false");
    });
    this.#back.disabled = this.#index === 0;
    this.#next.textContent = this.#index < PICTURES.length - 1 ? "Next" : "Done";
  }

  /** Draws the picture of the step for the character that is followed. */
  async #draw() {
    const [subject, board] = [this.#subject, this.#board];
    if (!subject || !board) return;
    const request = ++this.#request;
    this.#controller.abort();
    const { signal } = (this.#controller = new AbortController());
    const picture = PICTURES[this.#index];
    if (this.#dissections.size === 0) this.#text.replaceChildren(createElement("p", "", "Loading the model …"));
    try {
      const dissection = await this.#dissectionAt(subject);
      if (request !== this.#request) return; // another picture is drawn now
      const scene = { subject, dissection, board, signal };
      const [line, sheet] = board.elements;
      const hasLine = picture !== vectors && picture !== training;
      const parts = [...(hasLine ? [this.#sentence, line] : []), ...(picture.hasSheet ? [sheet] : []), this.#picture];
      const isOther = parts.length !== this.#showing.childElementCount || !parts.every((part) => part.isConnected);
      if (isOther) this.#showing.replaceChildren(...parts); // else the focus would be lost
      board.show();
      const { off } = dissection;
      const isWhole = !off.length || picture === training;
      const without = isWhole ? [] : toParagraphs([`This is the model without ${namesOf(off)}.`]);
      without[0]?.append(" ", createButton("plain", "Tell it with all parts on", this.#onWhole));
      const within = picture === vectors && subject.within ? [`It is one operation of ${subject.within}.`] : [];
      this.#text.replaceChildren(...without, ...toParagraphs([...picture.text(scene), ...within]));
      this.#sentence.replaceChildren(...colouredSentence(subject, dissection));
      this.#more.replaceChildren(createElement("summary", "", "More"), ...toParagraphs(picture.more(scene)));
      this.#picture.replaceChildren(...picture.draw(scene));
      this.#dialog.dataset.drawn = String(this.#index + 1);
    } catch (error) {
      if (request === this.#request) this.#fail(error);
    }
  }

  /** @type {(subject: Subject) => Promise<Told>} */
  #dissectionAt({ model, text, position }) {
    const known = this.#dissections.get(position) ?? dissect(model, text, position);
    this.#dissections.set(position, known);
    known.catch(() => this.#dissections.delete(position)); // the next picture tries again
    return known;
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#text.replaceChildren(createElement("p", "", messageOf(error)));
    this.#picture.replaceChildren();
  }
}

/** Returns what a model writes for the example. @param {string} model @returns {Promise<Written>} */
async function calculateExample(model) {
  let output = "";
  for await (const text of write(model, EXAMPLE)) output += text;
  const written = { model, prompt: EXAMPLE, output };
  if (!isTellable(written)) throw new Error("As it is now, the model writes no end, so there is nothing to tell.");
  return written;
}

/** @param {string[]} texts */
const toParagraphs = (texts) => texts.map((text) => createElement("p", "", text));

/** Returns the sentence of the character that is followed, its operands in the colours of the heads that fetched them.
 * @type {(subject: Subject, dissection: Dissection) => (Node | string)[]} */
function colouredSentence(subject, dissection) {
  const words = subject.sentence().map(({ text, source }) => {
    const head = source === undefined ? 0 : fetcherOf(dissection, source);
    if (!head) return text;
    const operand = createElement("b", "operand", text);
    operand.style.setProperty("--tint", headColour(head));
    return operand;
  });
  return [createElement("code", "", subject.character), " ", ...words];
}
