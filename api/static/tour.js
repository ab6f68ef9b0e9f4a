// A tour of the page in six short steps. It is offered once.

import { LOOKED_AT } from "./example.js";
import { element } from "./format.js";

const KEY = "calcgpt.tour";
const EXAMPLE = "471×29.9";
const WRONG = "313.46×217"; // hardly any product is right without work

/**
 * The page, as the tour uses it. What takes time, returns when it is done.
 * @typedef {{ask: (expression: string) => Promise<void>, view: (name: string) => void,
 *   pointAt: (at: number) => void,
 *   askWithoutWork: (expression: string) => Promise<void>, restore: () => void}} Page
 */

/**
 * What a step says, what it points at (the first that is there), and what it does before.
 * @type {{title: string, text: string, targets: string[], prepare: (page: Page) => void | Promise<void>}[]}
 */
const STEPS = [
  {
    title: "The question",
    text: "You type an expression. The model gets it as a line of characters, and then writes on, one character at a time. Nobody told it the rules: it has learnt them from examples.",
    targets: [".display"],
    prepare: (page) => page.ask(EXAMPLE),
  },
  {
    title: "Digits backwards",
    text: "The model writes the lowest digit first, because carries go that way. The last line is the answer, backwards.",
    targets: [".rows .line:last-child", ".rows"],
    prepare: (page) => page.view("both"),
  },
  {
    title: "The steps",
    text: "Before it answers, it writes its work: a row for each digit of the second number, with the carries small above. On paper, the digits are turned round. Point at one to read how it came about.",
    targets: [".sheet", ".rows"],
    prepare: (page) => page.view("paper"),
  },
  {
    title: "Where it looks",
    text: "Each character follows from a few earlier ones, and the model has to find them. Point at one: arcs lead to those it looked at, and bars show what else it considered. “Look inside the model” shows every layer and head.",
    targets: [".sheet .pointed", ".look-inside", ".rows"],
    prepare(page) {
      page.view("paper");
      page.pointAt(LOOKED_AT);
    },
  },
  {
    title: "How sure it is",
    text: "For every character the model gives a probability. A dot says that it was sure of all of them. Where it was in doubt, characters are coloured.",
    targets: ["#answer .sure"],
    prepare: (page) => page.view("paper"),
  },
  {
    title: "When it is wrong",
    text: "A model that answers at once is often wrong. Exact arithmetic checks every answer and marks the mistakes. It never replaces an answer.",
    targets: ["#answer .disagrees", "#answer"],
    prepare: (page) => page.askWithoutWork(WRONG),
  },
];

export class Tour {
  #box;
  #offer;
  #page;
  #index = -1;
  /** @type {Element | null} */
  #target = null;

  /**
   * @param {HTMLElement} box
   * @param {HTMLElement} offer
   * @param {Page} page
   */
  constructor(box, offer, page) {
    this.#box = box;
    this.#offer = offer;
    this.#page = page;
    box.addEventListener("click", (event) => {
      const { go, end } = dataOf(event);
      if (go) this.#go(this.#index + Number(go));
      if (end !== undefined) this.end();
    });
    offer.addEventListener("click", (event) => {
      const { start, end } = dataOf(event);
      if (start !== undefined) this.start();
      else if (end !== undefined) this.end();
    });
  }

  /** Offers the tour, unless it was taken or skipped before. */
  offer() {
    this.#offer.hidden = isSeen();
  }

  get isOpen() {
    return !this.#box.hidden;
  }

  start() {
    remember();
    this.#offer.hidden = true;
    this.#go(0);
  }

  end() {
    remember();
    this.#offer.hidden = true;
    this.#box.hidden = true;
    this.#point(null);
    if (this.#index >= 0) this.#page.restore();
    this.#index = -1;
  }

  /** @param {number} index */
  async #go(index) {
    if (index < 0) return;
    if (index >= STEPS.length) {
      this.end();
      return;
    }
    this.#index = index;
    const { title, text, prepare, targets } = STEPS[index];
    this.#box.replaceChildren(...content(title, text, index));
    this.#box.hidden = false;
    this.#box.focus();
    await prepare(this.#page);
    if (this.#index === index) this.#point(find(targets)); // the reader may have gone on
  }

  /** @param {Element | null} target */
  #point(target) {
    this.#target?.classList.remove("toured");
    this.#target = target;
    target?.classList.add("toured");
    target?.scrollIntoView({ block: "start" });
  }
}

/**
 * @param {string} title
 * @param {string} text
 * @param {number} index
 */
function content(title, text, index) {
  const heading = element("h2", "", title);
  heading.id = "tour-title";
  const buttons = element("div", "buttons");
  buttons.append(button("Skip the tour", "end", "", "plain"));
  if (index) buttons.append(button("Back", "go", "-1", "plain"));
  buttons.append(button(index < STEPS.length - 1 ? "Next" : "Done", "go", "1", "next"));
  const place = element("p", "hint", `${index + 1} of ${STEPS.length}`);
  return [heading, element("p", "", text), place, buttons];
}

/**
 * @param {string} text
 * @param {string} name
 * @param {string} value
 * @param {string} className
 */
function button(text, name, value, className) {
  const made = element("button", className, text);
  made.type = "button";
  made.dataset[name] = value;
  return made;
}

/** The first element that is shown.
 * @param {string[]} selectors */
function find(selectors) {
  const found = selectors.flatMap((selector) => [...document.querySelectorAll(selector)]);
  return found.find((target) => target.checkVisibility()) ?? null;
}

/** @param {Event} event */
function dataOf({ target }) {
  return target instanceof HTMLElement ? target.dataset : {};
}

function isSeen() {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return false; // it is offered each time
  }
}

function remember() {
  try {
    localStorage.setItem(KEY, "seen");
  } catch {}
}
