// Step 3: a head fetches characters.

import { createElement } from "../format.js";
import { headColour, lookedAt } from "../inside/heads.js";
import { createChoices, createShareBar } from "./bars.js";

/** @import { Picture } from "../story.js" */

/** @type {Picture} */
export const heads = {
  title: "A head fetches digits",
  hasSheet: true,
  text: ({ subject, dissection }) => [
    "The characters that it may see stand elsewhere in the text. Heads fetch them: a head compares what is wanted here with what each of these characters offers, and copies from where the two match.",
    `These are the real weights for the ${subject.character}. Layer 1 has ${dissection.heads} heads. Each has a colour, and so has what it fetched, in the sentence. Choose a head.`,
  ],
  more: ({ dissection: { layers, heads } }) => [
    `There are ${layers} layers with ${heads} heads each. In each head, what is wanted makes a query, and every character that may be seen a key and a value. The better a key fits the query, the larger its weight; with the weight for nothing, those of a head add up to 100%. What is copied is the sum of the values, times their weights.`,
    "Later layers ask with what the first has collected, so that their heads are harder to read. A mean over heads would hide that each looks at something else.",
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
    const sums = all.slice(0, dissection.heads).map(({ layer, head }) => sumOf(lookedAt(dissection, layer, head)));
    const list = createElement("ol", "weights");
    const show = (/** @type {number} */ index) => {
      const { layer, head } = all[index];
      const seen = lookedAt(dissection, layer, head);
      const colour = headColour(head);
      board.tint(seen.map(({ weight, index }) => ({ position: index, strength: weight, colour })));
      const items = seen.sort((a, b) => b.weight - a.weight).map(({ weight, index }) => {
        return row(subject.text[index], weight, subject.describe(index), colour);
      });
      if (dissection.off.includes(`${layer}.${head}`)) {
        list.replaceChildren(createElement("li", "", "It is switched off and fetches nothing."));
      } else list.replaceChildren(...items, row("", 1 - sumOf(seen), "nothing", colour));
      list.ariaLabel = `What head ${head} of layer ${layer} looked at`;
    };
    const choices = createChoices("Layer and head", labels, sums.indexOf(Math.max(...sums)), show);
    choices.style.setProperty("--rows", String(dissection.heads));
    choices.classList.add("of-heads");
    return [choices, list];
  },
};

/** @param {{weight: number}[]} seen */
const sumOf = (seen) => seen.reduce((sum, { weight }) => sum + weight, 0);

/** Returns a line of the list.
 * @type {(character: string, weight: number, words: string, colour: string) => HTMLElement} */
function row(character, weight, words, colour) {
  const figures = [createElement("code", "", character), createShareBar(weight, false, colour)];
  return createElement("li", "", ...figures, `${Math.round(100 * weight)}%`, createElement("span", "words", words));
}
