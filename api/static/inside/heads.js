// What the heads of the first layer looked at. A mean of several heads would say nothing: each looks at something else.

import { createElement } from "../format.js";

/** The weights that each head gave to the characters that it may look at: attention (layers, heads, sources).
 * @typedef {{heads: number, sources: number[], attention: number[]}} Attention
 * A character that a head looked at. index: in the text; head: from 1.
 * @typedef {{index: number, weight: number, head: number}} Source */

const MIN_WEIGHT = 0.1; // attention weights below this are not shown

/** Returns the colour of a head. There are four, which repeat. @param {number} head from 1 */
export const headColour = (head) => `var(--head-${((head - 1) % 4) + 1})`;

/** Returns what the heads looked at, the largest weights first. @type {(attention: Attention) => Source[]} */
export function headSources({ attention, heads, sources }) {
  const ofFirstLayer = attention.slice(0, heads * sources.length);
  const all = ofFirstLayer.map((weight, index) => {
    return { index: sources[index % sources.length], weight, head: 1 + Math.floor(index / sources.length) };
  });
  return all.filter(({ weight }) => weight >= MIN_WEIGHT).sort((a, b) => b.weight - a.weight);
}

/** Returns a sentence as nodes. @param {import("../paper/cells.js").Part[]} parts */
export function createSentence(parts) {
  return parts.map((part) => {
    if (typeof part === "string") return part;
    const element = createElement("span", "", part.text);
    element.dataset.source = String(part.at);
    return element;
  });
}

/** Gives the characters that a sentence names the colours of the heads that looked at them most.
 * @type {(sentence: HTMLElement, prompt: string, attention: Attention) => void} */
export function tint(sentence, prompt, attention) {
  const sources = headSources(attention);
  for (const named of /** @type {NodeListOf<HTMLElement>} */ (sentence.querySelectorAll("[data-source]"))) {
    const source = sources.find(({ index }) => index === prompt.length + Number(named.dataset.source));
    if (source) named.style.color = headColour(source.head);
  }
}
