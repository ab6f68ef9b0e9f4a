// What a model considered for a character, as bars.

import { SURE_CHARACTER, createElement, formatProbability } from "../format.js";

const CONSIDERED = 5; // characters

/** Returns the elements for a character with its probability as a bar.
 * @param {{text: string, probability: number}} candidate */
export function createBar({ text, probability }) {
  const bar = createElement("span", "probability");
  bar.style.setProperty("--share", probability.toFixed(4));
  return [createElement("code", "", text), bar, createElement("span", "figure", formatProbability(probability))];
}

/** Returns the most probable characters as bars. If the model was sure, returns only the second, in words.
 * @param {import("../engine/dissect.js").Dissection} dissection */
export function considered({ ranked, layers }) {
  const candidates = ranked[layers].slice(0, CONSIDERED);
  const [first, second] = candidates;
  if (first.probability >= SURE_CHARACTER) {
    const chance = ` (${formatProbability(second.probability)})`;
    return createElement("p", "next", "Next: ", createElement("code", "", second.text), chance);
  }
  const items = candidates.map((one) => createElement("li", "candidate", ...createBar(one)));
  return createElement("ol", "candidates", ...items);
}
