// Step 7: the numbers of a model come from small corrections.

import { calculateWithSnapshot } from "../backend.js";
import { isAborted } from "../client.js";
import { createElement, createVerdict, formatCount } from "../format.js";
import { FOLDER, PLACES, Panel, loadRun } from "../learning.js";

/** @import { Picture } from "../story.js" */

/** @type {Picture} */
export const training = {
  title: "200,000 numbers from small corrections",
  text: ({ subject }) => [
    "Nobody wrote these numbers: they began at random. With each example, the model guesses the next character, and every number is changed a little, so that the right one gets a better score. That is a step of training.",
    `Now and then, a copy of a model was kept. Here they calculate ${subject.name} to ${PLACES} places, the youngest first. The curve shows the loss: how bad the guesses were.`,
  ],
  more: () => [
    "How much each number is changed follows from the derivative of the loss (gradient descent, with backpropagation). Nobody tells the model what a carry is. To guess the next character it has to find out, and the loss then drops.",
  ],
  draw({ subject, signal }) {
    const panel = new Panel(subject.problem);
    panel.restore({});
    const list = createElement("ol", "snapshots");
    calculateWithAll(subject.problem, list, signal).catch((error) => {
      if (!isAborted(error)) list.append(createElement("li", "", "The copies could not be loaded."));
    });
    return [createElement("h3", "", `${subject.name}, after more and more training`), list, panel.element];
  },
};

/** Lists the answers of all snapshots to a problem.
 * @type {(problem: string, list: HTMLElement, signal: AbortSignal) => Promise<void>} */
async function calculateWithAll(problem, list, signal) {
  const { snapshots } = await loadRun();
  for (const { step, loss, file, sha256 } of snapshots) {
    const { result, isNearest } = await calculateWithSnapshot(
      { path: `${FOLDER}/${file}`, sha256 }, problem, PLACES, signal,
    );
    const name = createElement("span", "", `${formatCount(step)} steps`);
    const figure = createElement("span", "figure", `loss ${loss.toPrecision(2)}`);
    list.append(createElement("li", "", name, figure, createVerdict(result, isNearest)));
  }
}
