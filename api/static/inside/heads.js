// What the heads of a model looked at. A mean of several heads would say nothing: each looks at something else.

/** The weights that each head gave to each earlier character: attention (layers, heads, position).
 * @typedef {{layers: number, heads: number, attention: Float32Array}} Attention
 * A character that a head looked at. index: in the text; head: from 1.
 * @typedef {{index: number, weight: number, head: number}} Source */

const MIN_WEIGHT = 0.1; // attention weights below this are not shown

/** Returns the colour of a head. There are four, which repeat. @param {number} head from 1 */
export const headColour = (head) => `var(--head-${((head - 1) % 4) + 1})`;

/** Returns the weights that a head gave to the earlier characters. layer, head: from 1.
 * @type {(attention: Attention, layer: number, head: number) => Float32Array} */
export function weightsOf({ attention, layers, heads }, layer, head) {
  const length = attention.length / (layers * heads);
  const start = ((layer - 1) * heads + head - 1) * length;
  return attention.subarray(start, start + length);
}

/** Returns the characters that the heads of a layer looked at, those with the largest weights first. layer: from 1; head:
 * from 1, or 0 for all.
 * @type {(attention: Attention, layer: number, head: number) => Source[]} */
export function headSources(attention, layer, head) {
  const heads = head ? [head] : Array.from({ length: attention.heads }, (_, index) => index + 1);
  const sources = heads.flatMap((number) => {
    return Array.from(weightsOf(attention, layer, number), (weight, index) => ({ index, weight, head: number }));
  });
  return sources.filter(({ weight }) => weight >= MIN_WEIGHT).sort((a, b) => b.weight - a.weight);
}
