// Takes apart how a model wrote a character: what each neuron added, and what each layer would have written.
//
// The logits are a linear function of the residual stream once the final norm has its scale. So the lead of a character
// over the next best one is a sum: of what the embedding, the attention and each neuron added to the stream (direct
// logit attribution; Elhage et al. 2021).

import { encode, rank } from "./generate.js";

const NEURONS = 6; // so many are listed

/** A neuron of a feed-forward network. layer, index: from 0. @typedef {{layer: number, index: number}} Neuron */

/** A character with its logit and its probability.
 * @typedef {{text: string, logit: number, probability: number}} Ranked */

/** How a character was written. attention (layers, heads, position): the weights of each earlier character; ranked: all
 * characters, the most probable first, after the embedding and after each layer; embeddings (characters, width): the
 * table of all characters, in the order of `vocabulary`.
 *
 * lead: the logit of the most probable character less that of the next one. It is the sum of what came from the
 * embedding (`start`), from the attention of all layers and from the feed-forward network of each layer. neurons: those
 * that added or took most, with their part of the lead, their activation, and what they add to the logit of each
 * character, in the order of `vocabulary`; nNeurons: how many there are in all.
 * @typedef {{layers: number, heads: number, attention: Float32Array, vocabulary: string[], ranked: Ranked[][],
 * embeddings: Float32Array, width: number, lead: number, start: number, attended: number, feedForward: number[],
 * nNeurons: number, neurons: (Neuron & {part: number, activation: number, effects: number[]})[]}} Dissection */

/** Takes apart how a model wrote text[position]. position: at least 1.
 * @type {(decoder: import("./decoder.js").Decoder, vocabulary: string[], text: string,
 *   position: number) => Dissection} */
export function dissect(decoder, vocabulary, text, position) {
  const { attention, logits, streams, hidden } = decoder.read(encode(vocabulary, text.slice(0, position)), true);
  const { n_layer: layers, n_head: heads, n_embd: width } = decoder.config;
  const ranked = logits.map((values) => rank(values, vocabulary));
  const [first, second] = ranked[layers];
  const readers = readersOf(decoder, streams[layers], vocabulary.length);
  const [best, next] = [first, second].map(({ text }) => readers[vocabulary.indexOf(text)]);
  const direction = best.map((value, i) => value - next[i]);
  const all = hidden.flatMap((activations, layer) => {
    const down = decoder.tensors[`blocks.${layer}.ff.down.weight`].data;
    return Array.from(activations, (activation, index) => {
      const column = direction.map((_, i) => down[i * activations.length + index]);
      return { layer, index, activation, column, part: activation * dot(column, direction) };
    });
  });
  const feedForward = hidden.map((_, layer) => {
    return all.reduce((sum, neuron) => sum + (neuron.layer === layer ? neuron.part : 0), 0);
  });
  const lead = first.logit - second.logit;
  const start = dot(direction, streams[0]);
  const attended = feedForward.reduce((rest, part) => rest - part, lead - start);
  const neurons = all
    .sort((a, b) => Math.abs(b.part) - Math.abs(a.part))
    .slice(0, NEURONS)
    .map(({ column, ...neuron }) => {
      return { ...neuron, effects: readers.map((reader) => neuron.activation * dot(column, reader)) };
    });
  const embeddings = decoder.tensors["token_embedding.weight"].data.slice(0, vocabulary.length * width);
  const nNeurons = all.length;
  return {
    layers, heads, attention, vocabulary, ranked, embeddings, width,
    lead, start, attended, feedForward, nNeurons, neurons,
  };
}

/** Returns for each character a vector. Its product with a part of the last stream is that part of the logit.
 * @type {(decoder: import("./decoder.js").Decoder, stream: Float32Array, n: number) => Float32Array[]} */
function readersOf({ config, tensors }, stream, n) {
  const isCentred = config.norm === "layernorm";
  const mean = (/** @type {Float32Array} */ values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const centre = isCentred ? mean(stream) : 0;
  const square = mean(stream.map((value) => (value - centre) ** 2));
  const scale = 1 / Math.sqrt(square + (isCentred ? 1e-5 : 1e-6));
  const gain = tensors["norm.weight"].data;
  const head = tensors[config.tie_embeddings ? "token_embedding.weight" : "head.weight"].data;
  return Array.from({ length: n }, (_, token) => {
    const reader = gain.map((value, i) => value * scale * head[token * gain.length + i]);
    const shift = isCentred ? mean(reader) : 0;
    return reader.map((value) => value - shift);
  });
}

/** @type {(a: Float32Array, b: Float32Array) => number} */
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

/** Yields the activations of neurons when the model wrote text[start], text[start + 1] and so on.
 * @type {(decoder: import("./decoder.js").Decoder, vocabulary: string[], text: string, start: number,
 *   neurons: Neuron[]) => Generator<number[]>} */
export function* follow(decoder, vocabulary, text, start, neurons) {
  const tokens = encode(vocabulary, text);
  for (let position = start; position < tokens.length; position += 1) {
    const { hidden } = decoder.read(tokens.slice(0, position), true);
    yield neurons.map(({ layer, index }) => hidden[layer][index]);
  }
}
