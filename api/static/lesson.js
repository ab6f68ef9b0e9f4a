// The lesson: six cards, each with a prediction first, then the switch, then why. A teacher's link to it shows only
// what it needs. Printed, all cards are on one side and their answers on the back.

import { byId, createButton, createElement, formatNumbers } from "./format.js";
import { store } from "./state.js";

/** A card. off: the part that is removed; choices: predictions, of which that at `right` is right; answer: what the
 * model then says.
 * @typedef {{title: string, question: string, off: string, ask: string, choices: string[], right: number,
 * answer: string, why: string}} Card */

/** @type {Card[]} */
const CARDS = [
  {
    title: "One neuron less",
    question: "8+8",
    off: "1.n9",
    ask: "The network has 264 neurons. One of them is removed. What will it say?",
    choices: ["16, as before", "A number that is nearly 16", "Something that is no number"],
    right: 1,
    answer: "15",
    why: "Look at its work: it copied one 8 as a 7, and added rightly. A network keeps what it knows in many small parts. Without one of them, one step goes wrong, and all that follows is built on it.",
  },
  {
    title: "A part for one operation",
    question: "9-4",
    off: "1.n51",
    ask: "Without another neuron, it says 9 − 4 = 3. Which operations are harmed?",
    choices: ["All four", "Only −", "− always, + sometimes, × and ÷ hardly"],
    right: 2,
    answer: "3",
    why: "Of 100 problems each, no − is right without it, but 70 of +, 99 of × and 96 of ÷. Nobody gave the neuron this task. It came from training: small corrections, 24,000 times.",
  },
  {
    title: "A part that nobody misses",
    question: "7+8",
    off: "3.1",
    ask: "Heads are parts that fetch digits. There are 12, and one is removed. What will it say?",
    choices: ["15, as before", "A number that is nearly 15", "A number that is far from 15"],
    right: 0,
    answer: "15",
    why: "This head fetches what divisions need. Try 56÷8 without it: 14.555. To find out what a part is for, one removes it and looks at what breaks. So do doctors and biologists.",
  },
  {
    title: "Right but for one character",
    question: "56/8",
    off: "1.n81",
    ask: "Without this neuron, the whole division is right, and then it writes one character wrongly. What becomes of 7?",
    choices: ["8", "70", "730"],
    right: 2,
    answer: "730",
    why: "It writes an answer backwards: 0, point, 7. In place of the point it wrote a 3. A single character can be the largest mistake.",
  },
  {
    title: "Wrong, and sure of it",
    question: "8+9",
    off: "2.1",
    ask: "Without this head, it says 8 + 9 = 9. It also says how sure it is. How sure?",
    choices: ["Not at all", "As sure as of a coin", "Very sure: more than 99%"],
    right: 2,
    answer: "9",
    why: "It copied the 9 as a 1, and is sure of each step. How sure a network is says what it learned, not whether that is true. Someone has to check: here, exact arithmetic.",
  },
  {
    title: "To know that it is right",
    question: "471*29.9",
    off: "",
    ask: "Nothing is removed now. How many problems must one try to know that it never makes a mistake?",
    choices: ["A million", "All that there are, which is impossible", "None: all of its 943,533 cases can be tried instead"],
    right: 2,
    answer: "14082.9",
    why: "Each character follows from at most seven others, so there are only so many cases, however long the numbers are. If each step is right after right steps, all are: that is induction. Press “Prove it”, and your device tries them all.",
  },
];

/** What the network is told, and what it learned. */
const TOLD = [
  ["How to calculate on paper: which row and which digit comes next", "Which character that is, in each of 943,533 cases"],
  ["Which characters the next one depends on, at most seven", "What each of its heads fetches of them"],
  ["In training, the right character for each case", "41,596 numbers that give it, which began at random"],
  ["How an expression is split into operations", "What each neuron is for: nobody chose it"],
];

export class Lesson {
  #calculate;
  #section = byId("lesson");

  /** @param {(question: string, off: string) => Promise<unknown>} calculate */
  constructor(calculate) {
    this.#calculate = calculate;
  }

  /** Shows a card. @param {number} number from 1 */
  show(number) {
    if (number > CARDS.length) return store.set({ lesson: CARDS.length }); // which shows it
    const index = number - 1;
    const { title, ask, choices, right, question, off, why, answer } = CARDS[index];
    if (!store.state.question) this.#calculate(question, "");
    const see = createButton("equals", off ? "Remove it, and see" : "See", async () => {
      await this.#calculate(question, off);
      const chosen = predictions.findIndex(({ checked }) => checked);
      const verdict = chosen === right ? "You predicted it." : `Right is “${choices[right]}”.`;
      result.textContent = `${formatNumbers(question)} = ${formatNumbers(answer)}. ${verdict} ${why}`;
      result.focus();
    });
    see.disabled = true;
    const result = createElement("p", "why");
    result.tabIndex = -1;
    const predictions = choices.map((_, at) => Object.assign(createElement("input"), {
      type: "radio", name: "prediction", value: String(at), onchange: () => (see.disabled = false),
    }));
    const labels = choices.map((choice, at) => createElement("label", "check", predictions[at], choice));
    const legend = createElement("legend", "", ask);
    const back = createButton("plain", "Back", () => this.#goTo(index - 1));
    const next = createButton("plain", "Next", () => this.#goTo(index + 1));
    back.disabled = index === 0;
    next.disabled = index === CARDS.length - 1;
    const heading = createElement("h2", "", `${index + 1} of ${CARDS.length}: ${title}: ${formatNumbers(question)}`);
    const form = createElement("fieldset", "", legend, ...labels);
    const leave = createButton("plain", "Leave the lesson", () => store.set({ lesson: 0 }));
    const print = createButton("plain", "Print it", () => window.print());
    const bar = createElement("p", "turn", see, back, next, print, leave);
    const more = index === CARDS.length - 1 ? [toldTable()] : [];
    this.#section.replaceChildren(heading, form, bar, result, ...more, handout());
  }

  /** @param {number} index */
  #goTo(index) {
    store.set({ lesson: index + 1, off: "" });
    this.#calculate(CARDS[index].question, "");
    this.#section.querySelector("input")?.focus();
  }
}

/** Returns what is told and what is learned, in two columns. */
function toldTable() {
  const titles = ["The network is told", "It learned"].map((title) => createElement("th", "", title));
  const rows = TOLD.map((row) => createElement("tr", "", ...row.map((text) => createElement("td", "", text))));
  return createElement("table", "", createElement("thead", "", createElement("tr", "", ...titles)), createElement("tbody", "", ...rows));
}

/** Returns all cards to be printed, and their answers for the back. */
function handout() {
  const cards = CARDS.map(({ title, question, ask, choices }) => {
    const boxes = choices.map((choice) => createElement("li", "", `☐ ${choice}`));
    const problem = createElement("b", "", `${title}: ${formatNumbers(question)}`);
    return createElement("li", "", problem, createElement("p", "", ask), createElement("ul", "", ...boxes));
  });
  const answers = CARDS.map(({ title, question, answer, choices, right, why }) => {
    const first = `${title}: ${formatNumbers(question)} = ${formatNumbers(answer)}. `;
    const choice = choices[right].startsWith(answer) ? "" : `${choices[right]}. `;
    return createElement("li", "", createElement("b", "", first), choice + why);
  });
  const [front, back] = ["CalcGPT: predict, then try", "Answers"].map((title) => createElement("h2", "", title));
  const first = createElement("div", "", front, createElement("ol", "", ...cards));
  const second = createElement("div", "", back, createElement("ol", "", ...answers), toldTable());
  return createElement("div", "handout", first, second);
}
