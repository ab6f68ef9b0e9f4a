// What a model considered for a character, as bars, and the characters that its heads looked at.

import { SURE_CHARACTER, createElement, formatProbability } from "../format.js";

/** @typedef {import("../engine/generate.js").Look} Look
 * A character that a head looked at. index: in the text; head: from 1.
 * @typedef {{index: number, weight: number, head: number}} Source */

const MIN_WEIGHT = 0.1; // attention weights below this are not shown

/** Returns the elements for a character with its probability as a bar.
 * @param {{text: string, probability: number}} candidate */
export function createBar({ text, probability }) {
  const bar = createElement("span", "probability");
  bar.style.setProperty("--share", probability.toFixed(4));
  return [createElement("code", "", text), bar, createElement("span", "figure", formatProbability(probability))];
}

/** Returns the most probable characters as bars. If the model was sure, returns only the second, in words.
 * @param {Look} look */
export function considered({ candidates }) {
  const [first, second] = candidates;
  if (first.probability >= SURE_CHARACTER) {
    const chance = ` (${formatProbability(second.probability)})`;
    return createElement("p", "next", "Next: ", createElement("code", "", second.text), chance);
  }
  const items = candidates.map((one) => createElement("li", "candidate", ...createBar(one)));
  return createElement("ol", "candidates", ...items);
}

/** Returns the characters that the heads of a layer looked at, those with the largest weights first. A mean of several
 * heads would say nothing: each looks at something else. layer: from 1; head: from 1, or 0 for all.
 * @type {(look: Look, layer?: number, head?: number) => Source[]} */
export function headSources({ layers, heads, attention }, layer = 1, head = 0) {
  const length = attention.length / (layers * heads);
  /** @type {Source[]} */ const sources = [];
  for (let h = 1; h <= heads; h += 1) {
    if (head && h !== head) continue;
    const start = ((layer - 1) * heads + h - 1) * length;
    attention.subarray(start, start + length).forEach((weight, index) => {
      if (weight >= MIN_WEIGHT) sources.push({ index, weight, head: h });
    });
  }
  return sources.sort((a, b) => b.weight - a.weight);
}
