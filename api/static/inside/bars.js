// What the model considered at a place, and where it looked, from what the engine tells.

import { element, figure } from "../format.js";

/** @typedef {import("../engine/generate.js").Look} Look */

/** Weights of attention below it are not shown. */
export const LEAST = 0.02;

/**
 * Returns a character with its probability as a bar.
 * @param {{text: string, probability: number}} candidate
 */
export function bar({ text, probability }) {
  const shown = element("span", "probability");
  shown.style.setProperty("--share", probability.toFixed(4));
  return [element("code", "", text), shown, element("span", "figure", figure(probability))];
}

/**
 * Returns the weight of each earlier character, the mean over the heads that are chosen.
 * @param {Look} look
 * @param {number} layer counted from 1; 0 for all
 * @param {number} head the same
 * @returns {number[]}
 */
export function weightsOf({ layers, heads, attention }, layer = 0, head = 0) {
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
