// The scores of all characters after each layer, and what follows if another one is written.

import { createButton, createElement, formatProbability } from "../format.js";
import { createChoices, createGuess, createShareBar, formatSigned } from "./bars.js";
import { instead } from "./instead.js";

/** @import { View } from "../inside.js" */

const LISTED = 5; // characters that are listed

/** @type {View} */
export const layers = {
  title: "Layer by layer",
  text: ({ dissection: { ranked, layers } }) => {
    const guesses = ranked.map(([best]) => best.text);
    const settled = guesses.findIndex((_, layer) => guesses.slice(layer).every((guess) => guess === guesses.at(-1)));
    const since = settled ? `from layer ${settled} on` : "from the beginning";
    return [
      `What if it had to write earlier? The numbers after each layer are read here as if they were the last ones. At first they say no more than the kind; ${since}, the first guess is what it writes after layer ${layers}. Choose a layer.`,
    ];
  },
  draw({ dissection: { ranked } }) {
    const labels = ranked.map(([best], layer) => [
      createElement("span", "name", layer ? `layer ${layer}` : "at first"),
      createElement("code", best.text === ranked.at(-1)?.[0].text ? "settled" : "", best.text),
      createElement("span", "figure", formatProbability(best.probability)),
    ]);
    const list = createElement("ol", "weights");
    const show = (/** @type {number} */ layer) => {
      list.replaceChildren(...ranked[layer].slice(0, LISTED).map(createGuess));
      list.ariaLabel = layer ? `Guesses after layer ${layer}` : "Guesses at first";
    };
    const choices = createChoices("Layer", labels, 1, show);
    choices.classList.add("of-layers");
    return [choices, list];
  },
};

/** @type {View} */
export const choice = {
  title: "Change what it writes",
  text: ({ dissection: { ranked, layers } }) => [
    `It writes the character with the highest score: ${ranked[layers][0].text}. A point more makes a character 2.7 times as probable. Write another one, and see whether the model recovers.`,
  ],
  draw({ subject, dissection: { ranked, layers }, signal }) {
    const listed = ranked[layers].slice(0, LISTED);
    const largest = Math.max(...listed.map(({ logit }) => Math.abs(logit)));
    const what = createElement("div");
    const items = listed.map(({ text, logit, probability }) => {
      const choose = createButton("plain", text, () => what.replaceChildren(instead(subject, text, signal)));
      choose.ariaLabel = `Write ${text} instead`;
      choose.disabled = text === subject.character;
      const figures = `${formatSigned(logit)} points, ${formatProbability(probability)}`;
      return createElement("li", "", choose, createShareBar(logit / largest, true), figures);
    });
    return [createElement("ol", "weights of-scores", ...items), what];
  },
};
