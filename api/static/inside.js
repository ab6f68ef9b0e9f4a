// A look inside: how the model wrote one character of the calculation that is shown. The reader chooses the character.

import { dissect } from "./backend.js";
import { namesOf } from "./brain/parts.js";
import { messageOf } from "./client.js";
import { byId, createButton, createElement } from "./format.js";
import { Board } from "./inside/board.js";
import { choice, layers } from "./inside/guesses.js";
import { headColour } from "./inside/heads.js";
import { neurons } from "./inside/neurons.js";
import { sources } from "./inside/sources.js";
import { Subject, fetcherOf, isShowable } from "./inside/subject.js";
import { store } from "./state.js";

/** @import { Dissection } from "./engine/dissect.js" */
/** @import { Written } from "./inside/subject.js" */

/** How a character was written, and the parts of the model that were switched off.
 * @typedef {Dissection & {off: string[]}} Told */

/** What a view is drawn from. signal: aborted when the view is removed.
 * @typedef {{subject: Subject, dissection: Told, board: Board, signal: AbortSignal}} Scene */

/** A part of the look inside.
 * @typedef {{title: string, text: (scene: Scene) => string[], draw: (scene: Scene) => HTMLElement[]}} View */

/** @type {View[]} */ const VIEWS = [sources, neurons, layers, choice];
const NOTHING = "There is nothing to look into yet: calculate something first, such as 471×29.9.";

export class Inside {
  /** @type {Subject | null} */ #subject = null;
  /** @type {Board | null} */ #board = null;
  #request = 0; // the number of the last character that was asked about: only that is shown
  #controller = new AbortController();
  #dialog = createElement("dialog", "inside");
  #title = createElement("h2", "", "How the model wrote this character");
  #about = createElement("div");
  #sentence = createElement("p", "sentence");
  #work = createElement("div", "work-of");
  #views = createElement("div", "views-of");
  #onWhole;

  /** @param {() => void} onWhole called when the reader wants to look into the whole model */
  constructor(onWhole) {
    this.#onWhole = onWhole;
    const close = createButton("plain", "✕", () => this.#dialog.close());
    close.ariaLabel = "Close";
    this.#title.id = "inside-title";
    this.#title.tabIndex = -1;
    this.#dialog.setAttribute("aria-labelledby", this.#title.id);
    this.#sentence.role = "status";
    const left = createElement("div", "telling", this.#about, this.#sentence, this.#work);
    const body = createElement("div", "body", left, this.#views);
    body.tabIndex = 0; // it scrolls
    this.#dialog.append(createElement("div", "bar", this.#title, close), body);
    this.#dialog.addEventListener("keydown", (event) => event.stopPropagation()); // keys are not for the calculator
    this.#dialog.addEventListener("close", () => {
      this.#controller.abort();
      store.set({ inside: 0 });
      const { activeElement } = document;
      const isLost = activeElement === document.body || this.#dialog.contains(activeElement);
      if (isLost) byId("work").focus({ preventScroll: true }); // the button that opened it is gone
    });
    store.on(["inside"], ({ inside }) => inside || this.#dialog.close()); // another address was opened
    document.body.append(this.#dialog);
  }

  /** Opens the view. @param {Written[]} written the calculations that are shown, the one to look into first */
  async open(written) {
    if (!this.#dialog.open) this.#dialog.showModal();
    this.#title.focus();
    delete this.#dialog.dataset.drawn;
    store.set({ inside: 1 });
    for (const part of [this.#sentence, this.#work, this.#views]) part.replaceChildren();
    const told = written.find(isShowable);
    this.#about.replaceChildren(createElement("p", "", told ? "Loading the model …" : NOTHING));
    if (!told) return;
    const subject = (this.#subject = new Subject(told));
    const { at } = store.state;
    if (at && told === written[0]) subject.choose(subject.start + at - 1);
    subject.onChoose = () => {
      if (told === written[0]) store.set({ at: subject.position - subject.start + 1 });
      this.#draw();
    };
    this.#board = new Board(subject);
    await this.#draw();
  }

  /** Draws the views for the character that is followed. */
  async #draw() {
    const [subject, board] = [this.#subject, this.#board];
    if (!subject || !board) return;
    const request = ++this.#request;
    this.#controller.abort();
    const { signal } = (this.#controller = new AbortController());
    try {
      const dissection = await dissect(subject.model, subject.text, subject.position);
      if (request !== this.#request) return; // another character is drawn now
      const scene = { subject, dissection, board, signal };
      if (!this.#work.childElementCount) this.#work.append(board.element);
      board.show();
      this.#about.replaceChildren(this.#aboutOf(scene));
      this.#sentence.replaceChildren(...colouredSentence(subject, dissection));
      this.#views.replaceChildren(...VIEWS.map((view) => createSection(view, scene)));
      this.#dialog.dataset.drawn = subject.character;
    } catch (error) {
      if (request === this.#request) this.#fail(error);
    }
  }

  /** Returns what was calculated, and without which parts. @param {Scene} scene */
  #aboutOf({ subject, dissection: { off } }) {
    if (!off.length) return createElement("p", "", `In ${subject.name}. Choose another one:`);
    const text = `In ${subject.name}, without ${namesOf(off)}. `;
    return createElement("p", "", text, createButton("plain", "Look with all parts on", this.#onWhole));
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#about.replaceChildren(createElement("p", "", messageOf(error)));
    this.#views.replaceChildren();
  }
}

/** @type {(view: View, scene: Scene) => HTMLElement} */
function createSection(view, scene) {
  const paragraphs = view.text(scene).map((text) => createElement("p", "", text));
  return createElement("section", "", createElement("h3", "", view.title), ...paragraphs, ...view.draw(scene));
}

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
