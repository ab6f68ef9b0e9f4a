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

/** A neuron of a feed-forward network. layer, index: from 0. @typedef {{layer: number, index: number}} Neuron */

/** A character with its logit and its probability.
 * @typedef {{text: string, logit: number, probability: number}} Ranked */

/** How a character was written. sources: the positions that its rule reads; attention (layers, heads, sources): their
 * weights; ranked: all characters, the most probable first, at first and after each layer.
 *
 * lead: the logit of the most probable character less that of the next one. It is the sum of what came from the kind of
 * the slot (`start`), from the attention of all layers and from the feed-forward network of each layer. neurons: those
 * that added or took most, with their part of the lead, their activation, and what they add to the logit of each
 * character, in the order of `vocabulary`; nNeurons: how many there are in all.
 * @typedef {{layers: number, heads: number, sources: number[], attention: number[], vocabulary: string,
 * ranked: Ranked[][], lead: number, start: number, attended: number,
 * feedForward: number[], nNeurons: number,
 * neurons: (Neuron & {part: number, activation: number, effects: number[]})[]}} Dissection */

/** Takes apart how a model wrote line[position], a character after the question.
 * @type {(memory: Memory, line: string, position: number) => Dissection} */
export function dissect(memory, line, position) {
  const { network, vocabulary } = memory;
  const [{ sources, attention, streams, hidden }] = traced(memory, line, position, position + 1);
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
  const start = dot(direction, streams[0]);
  const attended = feedForward.reduce((rest, part) => rest - part, lead - start);
  const neurons = all
    .sort((a, b) => Math.abs(b.part) - Math.abs(a.part))
    .slice(0, NEURONS)
    .map(({ column, ...neuron }) => {
      return { ...neuron, effects: readers.map((reader) => neuron.activation * dot(column, reader)) };
    });
  const { nLayers: layers, nHeads: heads } = network;
  const nNeurons = all.length;
  return {
    layers, heads, sources, attention, vocabulary, ranked,
    lead, start, attended, feedForward, nNeurons, neurons,
  };
}

/** Yields the activations of neurons when the model wrote line[start], line[start + 1] and so on.
 * @type {(memory: Memory, line: string, start: number, neurons: Neuron[]) => Generator<number[]>} */
export function* follow(memory, line, start, neurons) {
  for (const { hidden } of traced(memory, line, start)) yield neurons.map(({ layer, index }) => hidden[layer][index]);
}

/** Yields how the network came to line[start], line[start + 1] and so on before `stop`, and the positions that it read.
 * @type {(memory: Memory, line: string, start: number, stop?: number) => Generator<Trace & {sources: number[]}>} */
function* traced(memory, line, start, stop = line.length) {
  const layout = layoutOf(line);
  const codes = memory.encode(line);
  const slots = [...layout.slots, ...layout.answerSlots(line)];
  for (const [kind, , , all] of slots.slice(start, stop)) {
    /** @type {Trace} */ const trace = { attention: [], streams: [], hidden: [] };
    memory.network.logits(kind, tokensOf(all, codes), trace);
    const exists = all.map((source) => source >= 0);
    const attention = trace.attention.filter((_, index) => exists[index % all.length]);
    yield { ...trace, attention, sources: all.filter((_, index) => exists[index]) };
  }
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
