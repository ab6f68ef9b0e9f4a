// Copies of a model that were kept while it was trained, and what each of them answers.

import { calculateWithSnapshot } from "../backend.js";
import { isAborted } from "../client.js";
import { createElement, createVerdict, formatCount } from "../format.js";

/** A training of a model. wrong: in how many of all cases a snapshot is wrong.
 * @typedef {{manifest: import("../client.js").Manifest, cases: number,
 * snapshots: {step: number, wrong: number, file: string}[]}} Run */

const FOLDER = "static/learning";
const PLACES = 2; // decimal places of answers

/** Returns what training is, and what the copies answer to the problem of a subject. The copies end with `signal`.
 * @type {(subject: import("./subject.js").Subject, signal: AbortSignal) => HTMLElement[]} */
export function createTraining(subject, signal) {
  const text = `Nobody wrote its numbers: they began at random. With each example, the model guesses the next character, and every number is changed a little, so that the right one gets a better score. That is a step of training. These are copies of another model of this kind, kept while it was trained. They calculate ${subject.name} to ${PLACES} places.`;
  const list = createElement("ol", "snapshots");
  show(subject.problem, list, signal).catch((error) => {
    if (!isAborted(error)) list.append(createElement("li", "", "The copies could not be loaded."));
  });
  return [createElement("p", "", text), list];
}

/** Lists the answers of all snapshots to a problem.
 * @type {(problem: string, list: HTMLElement, signal: AbortSignal) => Promise<void>} */
async function show(problem, list, signal) {
  /** @type {Run} */ const run = await (await fetch(`${FOLDER}/learning.json`, { signal })).json();
  for (const { step, wrong, file } of run.snapshots) {
    const path = `${FOLDER}/${file}`;
    const { result, isNearest } = await calculateWithSnapshot(path, run.manifest, problem, PLACES, signal);
    const name = createElement("span", "", `${formatCount(step)} steps`);
    const figure = createElement("span", "figure", `${((100 * wrong) / run.cases).toFixed(1)}% of all cases wrong`);
    list.append(createElement("li", "", name, figure, createVerdict(result, isNearest)));
  }
}
