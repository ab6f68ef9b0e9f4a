// Step 5: the layers change the guess.

import { createElement, formatProbability } from "../format.js";
import { createChoices, createShareBar } from "./bars.js";

/** @import { Picture } from "../story.js" */

const LISTED = 5; // guesses that are listed

/** @type {Picture} */
export const layers = {
  title: "Layer by layer, the guess gets better",
  text: ({ subject, dissection: { ranked } }) => {
    const guesses = ranked.map(([best]) => best.text);
    const settled = guesses.findIndex((_, layer) => guesses.slice(layer).every((guess) => guess === guesses.at(-1)));
    return [
      `Heads fetch, neurons calculate, and the result goes to the next layer, which does the same again. What if the model had to answer earlier? Then it would write ${guesses.join(", ")}.`,
      `${settled ? `From layer ${settled} on` : "From the beginning"}, the guess stays ${guesses.at(-1)}${subject.character === guesses.at(-1) ? "" : `, but the text has ${subject.character}`}. Choose a layer to see its other guesses.`,
    ];
  },
  more: () => [
    "This is called the logit lens: the numbers after each layer are read as if they were the last ones. The early layers were not trained to be read like this, so their guess often makes no sense: they collect digits, which do not look like an answer yet. At first the model knows only the kind of the character.",
  ],
  draw({ dissection: { ranked } }) {
    const labels = ranked.map(([best], layer) => [
      createElement("span", "name", layer ? `layer ${layer}` : "at first"),
      createElement("code", best.text === ranked.at(-1)?.[0].text ? "settled" : "", best.text),
      createElement("span", "figure", formatProbability(best.probability)),
    ]);
    const list = createElement("ol", "weights");
    const show = (/** @type {number} */ layer) => {
      list.replaceChildren(...ranked[layer].slice(0, LISTED).map(({ text, probability }) => {
        const chance = formatProbability(probability);
        return createElement("li", "", createElement("code", "", text), createShareBar(probability), chance);
      }));
      list.ariaLabel = layer ? `Guesses after layer ${layer}` : "Guesses at first";
    };
    const choices = createChoices("Layer", labels, 1, show);
    choices.classList.add("of-layers");
    return [choices, list];
  },
};
