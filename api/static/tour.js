// A tour of the page in six short steps. The page offers it once.

import { HIGHLIGHTED_INDEX } from "./example.js";
import { byId, createButton, createElement } from "./format.js";

const KEY = "calcgpt.tour";
const RIGHT_EXAMPLE = "471×29.9";
const WRONG_EXAMPLE = "313.46×217"; // models that answer at once get nearly all products wrong

/** The part of the page that the tour uses. The promises resolve when the answer is shown.
 * @typedef {{ask: (expression: string) => Promise<void>, view: (name: string) => void,
 * pointAt: (at: number) => void, canAskWithoutWork: () => boolean,
 * askWithoutWork: (expression: string) => Promise<void>, restore: () => void}} Page */

/** The steps. targets: selectors of the element to highlight, which is the first one that is visible; prepare: called
 * before the element is highlighted; isPossible: whether the page can show it.
 * @type {{title: string, text: string, targets: string[], prepare: (page: Page) => void | Promise<void>,
 * isPossible?: (page: Page) => boolean}[]} */
const STEPS = [
  {
    title: "The question",
    text: "You type an expression. The model gets it as a line of characters, and then continues the line, one character at a time. It learned the rules from examples.",
    targets: [".display"],
    prepare: (page) => page.ask(RIGHT_EXAMPLE),
  },
  {
    title: "Digits backwards",
    text: "The model writes the lowest digit first, because carries move in that direction. The last line is the answer, backwards.",
    targets: [".rows .line:last-child", ".rows"],
    prepare: (page) => showExample(page, "both"),
  },
  {
    title: "The steps",
    text: "Before it answers, it writes its work: a row for each digit of the second number, with the carries small above. The paper view shows the digits in normal order. Point at one to see how it was computed.",
    targets: [".sheet", ".rows"],
    prepare: (page) => showExample(page, "paper"),
  },
  {
    title: "Where it looks",
    text: "Each character follows from a few earlier ones, and the model has to find them. Point at one: arcs lead to those it looked at, and bars show what else it considered. “Look inside the model” shows every layer and head.",
    targets: [".sheet .pointed", ".look-inside", ".rows"],
    async prepare(page) {
      await showExample(page, "paper");
      page.pointAt(HIGHLIGHTED_INDEX);
    },
  },
  {
    title: "How sure it is",
    text: "For every character the model gives a probability. A full dot means that it was sure of the whole answer, a hollow one that it was not. Characters that it was unsure of are coloured.",
    targets: ["#answer .sure"],
    prepare: (page) => showExample(page, "paper"),
  },
  {
    title: "When it is wrong",
    text: "A model that answers at once is often wrong. Exact arithmetic checks every answer and marks the mistakes. It never replaces an answer.",
    targets: ["#answer .disagrees", "#answer"],
    prepare: (page) => page.askWithoutWork(WRONG_EXAMPLE),
    isPossible: (page) => page.canAskWithoutWork(),
  },
];

/** Asks for the example again, in case the user comes back from the last step, and selects a view.
 * @type {(page: Page, view: string) => Promise<void>} */
async function showExample(page, view) {
  await page.ask(RIGHT_EXAMPLE);
  page.view(view);
}

export class Tour {
  #box = byId("tour");
  #offer = byId("tour-offer");
  #page;
  #steps = STEPS;
  #index = -1; // of the step that is shown, or -1
  /** @type {Element | null} */ #target = null;
  /** @type {Element | null} */ #origin = null; // the element that had the focus before the tour

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    this.#offer.addEventListener("click", ({ target }) => {
      if (!(target instanceof HTMLButtonElement)) return;
      if ("start" in target.dataset) this.start();
      else this.end();
    });
  }

  /** Offers the tour, unless the user has taken or skipped it before. */
  offer() {
    this.#offer.hidden = wasOffered();
  }

  get isOpen() {
    return !this.#box.hidden;
  }

  start() {
    rememberOffer();
    this.#origin = document.activeElement;
    this.#offer.hidden = true;
    this.#goTo(0);
  }

  end() {
    rememberOffer();
    this.#offer.hidden = true;
    this.#box.hidden = true;
    this.#highlight(null);
    if (this.#index >= 0) this.#page.restore();
    this.#index = -1;
    const origin = this.#origin?.checkVisibility() ? this.#origin : this.#offer.parentElement;
    if (origin instanceof HTMLElement) origin.focus({ preventScroll: true });
  }

  /** @param {number} index */
  async #goTo(index) {
    // Not when it starts: the models may not be listed yet.
    this.#steps = STEPS.filter(({ isPossible }) => !isPossible || isPossible(this.#page));
    if (index >= this.#steps.length) {
      this.end();
      return;
    }
    this.#index = index;
    const { title, text, prepare, targets } = this.#steps[index];
    this.#show(title, text, index, this.#steps.length);
    this.#box.hidden = false;
    this.#box.scrollTop = 0;
    this.#box.focus();
    await prepare(this.#page);
    if (this.#index === index) this.#highlight(findVisible(targets)); // unless another step is shown now
  }

  /** Shows a step in the box. @type {(title: string, text: string, index: number, count: number) => void} */
  #show(title, text, index, count) {
    const heading = createElement("h2", "", title);
    heading.id = "tour-title";
    const buttons = createElement("div", "buttons", createButton("plain", "Skip", () => this.end()));
    if (index) buttons.append(createButton("plain", "Back", () => this.#goTo(index - 1)));
    buttons.append(createButton("next", index < count - 1 ? "Next" : "Done", () => this.#goTo(index + 1)));
    const progress = createElement("p", "hint", `${index + 1} of ${count}`);
    this.#box.replaceChildren(heading, createElement("p", "", text), progress, buttons);
  }

  /** @param {Element | null} target */
  #highlight(target) {
    this.#target?.classList.remove("toured");
    this.#target = target;
    target?.classList.add("toured");
    const shown = target?.closest(".display") ?? target; // an answer is shown with its question
    shown?.scrollIntoView({ block: "start" });
  }
}

/** Returns the first element that is visible, or null. @param {string[]} selectors */
function findVisible(selectors) {
  const elements = selectors.flatMap((selector) => [...document.querySelectorAll(selector)]);
  return elements.find((target) => target.checkVisibility()) ?? null;
}

function wasOffered() {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return false; // storage is forbidden, so the tour is offered each time
  }
}

function rememberOffer() {
  try {
    localStorage.setItem(KEY, "seen");
  } catch {}
}
