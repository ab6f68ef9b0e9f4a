// Step 3: a head fetches characters.

import { createElement } from "../format.js";
import { headColour, weightsOf } from "../inside/heads.js";
import { createChoices, createShareBar } from "./bars.js";

/** @import { Picture } from "../story.js" */

const LISTED = 4; // characters that are listed
const MIN_WEIGHT = 0.03; // of those that are listed

/** @type {Picture} */
export const heads = {
  title: "A head fetches digits",
  hasSheet: true,
  text: ({ subject, dissection }) => [
    "The digits that it needs stand elsewhere in the text. Heads fetch them: a head compares what is wanted here with what each earlier character offers, and copies from where the two match.",
    `These are the real weights for the ${subject.character}. Layer 1 has ${dissection.heads} heads. Each has a colour, and so has what it fetched, in the sentence. Choose a head.`,
  ],
  more: ({ dissection: { layers, heads } }) => [
    `There are ${layers} layers with ${heads} heads each. In each head, the character makes a query, and every earlier one a key and a value. The better a key fits the query, the larger its weight; the weights of a head add up to 100%. What is copied is the sum of the values, times their weights.`,
    "Later layers work with what the first has collected, so that their heads are harder to read. A mean over heads would hide that each looks at something else.",
  ],
  draw({ subject, dissection, board }) {
    const all = Array.from({ length: dissection.layers * dissection.heads }, (_, index) => {
      return { layer: 1 + Math.floor(index / dissection.heads), head: 1 + (index % dissection.heads) };
    });
    const labels = all.map(({ layer, head }) => {
      const name = createElement("b", "", `head ${head}`);
      name.style.color = headColour(head);
      return [createElement("span", "", `layer ${layer} `), name];
    });
    const { sources } = subject.place(subject.position);
    const sums = all.slice(0, dissection.heads).map(({ layer, head }) => {
      const weights = weightsOf(dissection, layer, head);
      return sources.reduce((sum, source) => sum + (weights[source] ?? 0), 0);
    });
    const list = createElement("ol", "weights");
    const show = (/** @type {number} */ index) => {
      const { layer, head } = all[index];
      const weights = Array.from(weightsOf(dissection, layer, head), (weight, position) => ({ weight, position }));
      const largest = Math.max(...weights.map(({ weight }) => weight));
      const colour = headColour(head);
      board.tint(weights.map(({ weight, position }) => ({ position, strength: weight / (largest || 1), colour })));
      const most = weights.sort((a, b) => b.weight - a.weight).slice(0, LISTED);
      list.replaceChildren(...most.filter(({ weight }) => weight >= MIN_WEIGHT).map(({ weight, position }) => {
        const words = createElement("span", "words", subject.describe(position));
        const bar = createShareBar(weight, false, colour);
        const character = createElement("code", "", subject.text[position]);
        return createElement("li", "", character, bar, `${Math.round(100 * weight)}%`, words);
      }));
      if (!largest) list.append(createElement("li", "", "It is switched off and fetches nothing."));
      list.ariaLabel = `What head ${head} of layer ${layer} looked at`;
    };
    const choices = createChoices("Layer and head", labels, sums.indexOf(Math.max(...sums)), show);
    choices.style.setProperty("--rows", String(dissection.heads));
    choices.classList.add("of-heads");
    return [choices, list];
  },
};
