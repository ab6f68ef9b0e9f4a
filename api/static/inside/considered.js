// What else a model considered when it wrote a character.

import { SURE_CHARACTER, createElement, formatProbability } from "../format.js";

const CONSIDERED = 5; // characters

/** Returns the most probable characters as bars. If the model was sure, returns only the second, in words.
 * @param {import("../engine/dissect.js").Dissection} dissection */
export function considered({ ranked }) {
  const candidates = (ranked.at(-1) ?? []).slice(0, CONSIDERED);
  const [first, second] = candidates;
  if (first.probability >= SURE_CHARACTER) {
    const chance = ` (${formatProbability(second.probability)})`;
    return createElement("p", "next", "Next: ", createElement("code", "", second.text), chance);
  }
  const items = candidates.map(({ text, probability }) => {
    const fill = createElement("span");
    fill.style.width = `${(100 * probability).toFixed(2)}%`;
    const bar = createElement("span", "bar-of", fill);
    return createElement("li", "", createElement("code", "", text), bar, formatProbability(probability));
  });
  return createElement("ol", "weights", ...items);
}
