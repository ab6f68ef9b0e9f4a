// What a character may depend on, and what each head copied of it.

import { createElement } from "../format.js";
import { createChoices, createShareBar } from "./bars.js";
import { headColour, lookedAt } from "./heads.js";

/** @type {import("../inside.js").View} */
export const sources = {
  title: "Told where to look",
  text: ({ subject, dissection: { layers, heads } }) => {
    const { kind, sources } = subject.place;
    const seen = sources.map((source) => subject.text[source]).join(", ") || "none";
    return [
      `The model is told the kind of the character (here: ${kind}) and which others it depends on, at most seven (here, framed: ${seen}). A program finds these places from the lengths of the numbers alone. What to make of them, the model has learned.`,
      `Heads fetch them: each weighs the characters that it may see, and copies most of what fits best. Each of the ${layers} layers has ${heads} heads. Choose one.`,
    ];
  },
  draw({ subject, dissection, board }) {
    board.frame(subject.place.sources);
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
