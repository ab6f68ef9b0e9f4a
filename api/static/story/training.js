// Step 7: the numbers of a model come from small corrections.

import { calculateWithSnapshot } from "../backend.js";
import { isAborted } from "../client.js";
import { createElement, createVerdict, formatCount } from "../format.js";
import { drawCurve } from "./curve.js";

/** @import { Picture } from "../story.js" */
/** A training of a model. wrong: in how many of all cases a snapshot is wrong; curve: pairs of step and loss.
 * @typedef {{manifest: import("../client.js").Manifest, cases: number, curve: [number, number][],
 * snapshots: {step: number, loss: number, wrong: number, file: string}[]}} Run */

const FOLDER = "static/learning";
const PLACES = 2; // decimal places of answers

/** @type {Picture} */
export const training = {
  title: "Its numbers come from small corrections",
  text: ({ subject }) => [
    "Nobody wrote these numbers: they began at random. With each example, the model guesses the next character, and every number is changed a little, so that the right one gets a better score. That is a step of training.",
    `Now and then, a copy of a model was kept. Here they calculate ${subject.name} to ${PLACES} places, the youngest first. The curve shows the loss: how bad the guesses were.`,
  ],
  more: () => [
    "How much each number is changed follows from the derivative of the loss (gradient descent, with backpropagation). Nobody tells the model what a carry is. To guess the next character it has to find out, and the loss then drops.",
    "This model was trained for an eighth of the steps that the calculator had. After all of them, no case was wrong.",
  ],
  draw({ subject, signal }) {
    const list = createElement("ol", "snapshots");
    const picture = createElement("div");
    show(subject.problem, list, picture, signal).catch((error) => {
      if (!isAborted(error)) list.append(createElement("li", "", "The copies could not be loaded."));
    });
    return [createElement("h3", "", `${subject.name}, after more and more training`), list, picture];
  },
};

/** Lists the answers of all snapshots to a problem, and draws the curve.
 * @type {(problem: string, list: HTMLElement, picture: HTMLElement, signal: AbortSignal) => Promise<void>} */
async function show(problem, list, picture, signal) {
  /** @type {Run} */ const run = await (await fetch(`${FOLDER}/learning.json`, { signal })).json();
  picture.append(drawCurve(run));
  for (const { step, wrong, file } of run.snapshots) {
    const path = `${FOLDER}/${file}`;
    const { result, isNearest } = await calculateWithSnapshot(path, run.manifest, problem, PLACES, signal);
    const name = createElement("span", "", `${formatCount(step)} steps`);
    const figure = createElement("span", "figure", `${((100 * wrong) / run.cases).toFixed(1)}% of all cases wrong`);
    list.append(createElement("li", "", name, figure, createVerdict(result, isNearest)));
  }
}
