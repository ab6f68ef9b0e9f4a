// The goal of the day: a small problem that is to come out wrong in one given way, by switching off one part of the
// model. On one date (UTC) all readers have the same. calcgpt_lab/studies/goals.py found them by trying every part.

import { createButton, createElement, formatNumbers } from "../format.js";
import { canShare, linkToState, share } from "../link.js";
import { placeOf } from "./parts.js";

/** A wrong answer to a problem, and the parts without any of which the model gives it.
 * @typedef {{problem: string, answer: string, parts: string[]}} Goal */

const DAY = 86_400_000; // milliseconds

/** Returns the goal of the day. @type {(goals: Goal[], now: number) => Goal} */
export const goalOf = (goals, now) => goals[Math.floor(now / DAY) % goals.length];

/** Returns a problem with an answer, as people write it, `7 × 8 = 70`, in one line.
 * @type {(problem: string, answer: string) => string} */
export const equationOf = (problem, answer) => {
  const text = `${formatNumbers(problem).replace(/(?<=\d)[+−×÷]/, " $& ")} = ${formatNumbers(answer)}`;
  return text.replaceAll(" ", "\u00a0");
};

/** Shows a goal, and checks each calculation. */
export class GoalOfTheDay {
  #goal;
  #equation;
  #tries = new Set(); // the parts without which its problem was calculated
  #status = createElement("p");
  #share = createButton("plain", "Share the result", () => this.#tell());
  /** What is to be done. */ element;
  /** What came of it, which is shown beside the switches. */ verdict;

  /** @param {Goal} goal @param {(problem: string) => void} onBegin called when the reader begins */
  constructor(goal, onBegin) {
    this.#goal = goal;
    this.#equation = equationOf(goal.problem, goal.answer);
    const begin = createButton("equals", "Begin", () => onBegin(goal.problem));
    this.#status.role = "status";
    this.#share.hidden = true;
    const [solution] = goal.parts;
    const what = placeOf(solution).replace(/ \d+$/, "");
    const tip = `Look for a ${what} of layer ${solution[0]}.`;
    const hint = createElement("details", "", createElement("summary", "", "Hint"), createElement("p", "", tip));
    const title = createElement("h3", "", `The goal of the day: make ${this.#equation} with one part off`);
    this.element = createElement("div", "goal", title, begin, hint);
    this.verdict = createElement("div", "verdict-line", this.#status, this.#share);
  }

  /** Whether a calculation is of the problem of the goal. @param {string} expression */
  isOf(expression) {
    return formatNumbers(expression) === formatNumbers(this.#goal.problem);
  }

  /** Checks a calculation without some parts.
   * @type {(expression: string, result: string | null, off: string[]) => void} */
  check(expression, result, off) {
    if (!this.isOf(expression)) return;
    if (off.length === 1) this.#tries.add(off[0]);
    const isMet = off.length === 1 && result === this.#goal.answer;
    const n = this.#tries.size;
    const tries = n ? `You tried ${n === 1 ? "1 part" : `${n} parts`}.` : "";
    this.#status.textContent = isMet ? `✓ Done: it says ${this.#equation}. ${tries}` : tries;
    this.#share.hidden = !isMet;
  }

  async #tell() {
    const date = new Date().toLocaleDateString("en", { day: "numeric", month: "long", timeZone: "UTC" });
    const tries = this.#tries.size;
    const text = `CalcGPT, ${date}: I made it say ${this.#equation} by removing one part, found at try ${tries}.`;
    const data = { text, url: await linkToState() };
    const isDone = await share(data);
    if (!isDone) this.#status.textContent = `${text} ${data.url}`; // to be copied by hand
    else if (!canShare) this.#status.textContent = "Copied.";
  }
}
