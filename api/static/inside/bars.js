// The predictions of a model as bars, and its mean attention weights.

import { createElement, formatProbability } from "../format.js";

/** @typedef {import("../engine/generate.js").Look} Look */

export const MIN_WEIGHT = 0.02; // attention weights below this are not shown

/** Returns the elements for a character with its probability as a bar.
 * @param {{text: string, probability: number}} candidate */
export function createBar({ text, probability }) {
  const bar = createElement("span", "probability");
  bar.style.setProperty("--share", probability.toFixed(4));
  return [createElement("code", "", text), bar, createElement("span", "figure", formatProbability(probability))];
}

/** Returns the attention weight of each earlier character, as the mean over the selected heads. layer: counted from 1,
 * or 0 for all; head: counted from 1, or 0 for all.
 * @type {(look: Look, layer?: number, head?: number) => number[]} */
export function meanWeights({ layers, heads, attention }, layer = 0, head = 0) {
  const weights = new Float32Array(attention.length / (layers * heads));
  let n = 0;
  for (let l = 0; l < layers; l += 1) {
    for (let h = 0; h < heads; h += 1) {
      if ((layer && l !== layer - 1) || (head && h !== head - 1)) continue;
      n += 1;
      const start = (l * heads + h) * weights.length;
      for (let s = 0; s < weights.length; s += 1) weights[s] += attention[start + s];
    }
  }
  return Array.from(weights, (weight) => weight / n);
}
