// What the heads of a model looked at. A mean of several heads would say nothing: each looks at something else.

/** The weights that each head gave to the characters that it may look at: attention (layers, heads, sources).
 * @typedef {{layers: number, heads: number, sources: number[], attention: number[]}} Attention
 * A character that a head looked at. index: in the text; head: from 1.
 * @typedef {{index: number, weight: number, head: number}} Source */

const MIN_WEIGHT = 0.1; // attention weights below this are not shown

/** Returns the colour of a head. There are four, which repeat. @param {number} head from 1 */
export const headColour = (head) => `var(--head-${((head - 1) % 4) + 1})`;

/** Returns what a head looked at, in the order of the sources. layer, head: from 1.
 * @type {(attention: Attention, layer: number, head: number) => Source[]} */
export function lookedAt({ attention, heads, sources }, layer, head) {
  const start = ((layer - 1) * heads + head - 1) * sources.length;
  return sources.map((index, source) => ({ index, weight: attention[start + source], head }));
}

/** Returns what all heads of a layer looked at, the largest weights first. layer: from 1.
 * @type {(attention: Attention, layer: number) => Source[]} */
export function headSources(attention, layer) {
  const heads = Array.from({ length: attention.heads }, (_, index) => index + 1);
  const sources = heads.flatMap((head) => lookedAt(attention, layer, head));
  return sources.filter(({ weight }) => weight >= MIN_WEIGHT).sort((a, b) => b.weight - a.weight);
}
