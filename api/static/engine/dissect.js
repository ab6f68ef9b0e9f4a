// Takes apart how a model wrote a character: what each head fetched, what each neuron added, and what each layer would
// have written.
//
// The logits are a linear function of the residual stream once the final norm has its scale. So the lead of a character
// over the next best one is a sum: of what the kind of the slot, the attention and each neuron added to the stream
// (direct logit attribution; Elhage et al. 2021).

import { layoutOf, tokensOf } from "./write.js";

/** @import { Memory } from "./write.js" */
/** @import { Trace } from "./network.js" */

const NEURONS = 6; // so many are listed

/** A character with its logit and its probability.
 * @typedef {{text: string, logit: number, probability: number}} Ranked */

/** How a character was written. sources: the positions that its rule reads; attention (layers, heads, sources): their
 * weights; ranked: all characters, the most probable first, at first and after each layer.
 *
 * lead: the logit of the most probable character less that of the next one. feedForward: what the neurons of each layer
 * added to it. neurons: those that added or took most, with their layer and index from 0, their part of the lead, their
 * activation, and what they add to the logit of each character, in the order of `vocabulary`; nNeurons: of all layers.
 * @typedef {{layers: number, heads: number, sources: number[], attention: number[], vocabulary: string,
 * ranked: Ranked[][], lead: number, feedForward: number[], nNeurons: number,
 * neurons: {layer: number, index: number, part: number, activation: number, effects: number[]}[]}} Dissection */

/** Takes apart how a model wrote line[position], a character after the question.
 * @type {(memory: Memory, line: string, position: number) => Dissection} */
export function dissect(memory, line, position) {
  const { network, vocabulary } = memory;
  const { sources, attention, streams, hidden } = traceOf(memory, line, position);
  const ranked = streams.map((stream) => rank(network.readOut(stream), vocabulary));
  const [first, second] = ranked[network.nLayers];
  const readers = network.readers(streams[network.nLayers]);
  const [best, next] = [first, second].map(({ text }) => readers[vocabulary.indexOf(text)]);
  const direction = best.map((value, i) => value - next[i]);
  const all = hidden.flatMap((activations, layer) => {
    return Array.from(activations, (activation, index) => {
      const column = network.columnOf(layer, index);
      return { layer, index, activation, column, part: activation * dot(column, direction) };
    });
  });
  const feedForward = hidden.map((_, layer) => {
    return all.reduce((sum, neuron) => sum + (neuron.layer === layer ? neuron.part : 0), 0);
  });
  const lead = first.logit - second.logit;
  const neurons = all
    .sort((a, b) => Math.abs(b.part) - Math.abs(a.part))
    .slice(0, NEURONS)
    .map(({ column, ...neuron }) => {
      return { ...neuron, effects: readers.map((reader) => neuron.activation * dot(column, reader)) };
    });
  const { nLayers: layers, nHeads: heads } = network;
  const nNeurons = all.length;
  return { layers, heads, sources, attention, vocabulary, ranked, lead, feedForward, nNeurons, neurons };
}

/** Returns how the network came to a character of a line, and the positions that it read.
 * @type {(memory: Memory, line: string, position: number) => Trace & {sources: number[]}} */
function traceOf(memory, line, position) {
  const layout = layoutOf(line);
  const [kind, , , all] = [...layout.slots, ...layout.answerSlots(line)][position];
  /** @type {Trace} */ const trace = { attention: [], streams: [], hidden: [] };
  memory.network.logits(kind, tokensOf(all, memory.encode(line)), trace);
  const exists = all.map((source) => source >= 0);
  const attention = trace.attention.filter((_, index) => exists[index % all.length]);
  return { ...trace, attention, sources: all.filter((_, index) => exists[index]) };
}

/** Returns all characters with their logits and probabilities, the most probable first.
 * @type {(logits: Float64Array, vocabulary: string) => Ranked[]} */
function rank(logits, vocabulary) {
  const largest = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - largest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  const all = Array.from(vocabulary, (text, token) => {
    return { text, logit: logits[token], probability: powers[token] / total };
  });
  return all.sort((a, b) => b.logit - a.logit);
}

/** @type {(a: Float64Array, b: Float64Array) => number} */
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
