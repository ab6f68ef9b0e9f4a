// Takes apart how a model wrote a character: what each head fetched, and what each layer would have written.

import { layoutOf, tokensOf } from "./write.js";

/** @import { Memory } from "./write.js" */
/** @import { Trace } from "./network.js" */

/** A character with its probability. @typedef {{text: string, probability: number}} Ranked */

/** How a character was written. kind: of its slot; sources: the positions that its rule reads; attention (layers, heads,
 * sources): their weights; ranked: all characters, the most probable first, at first and after each layer.
 * @typedef {{kind: number, heads: number, sources: number[], attention: number[], ranked: Ranked[][]}} Dissection */

/** Takes apart how a model wrote line[position], a character after the question.
 * @type {(memory: Memory, line: string, position: number) => Dissection} */
export function dissect(memory, line, position) {
  const { network, vocabulary } = memory;
  const layout = layoutOf(line);
  const [kind, , , all] = [...layout.slots, ...layout.answerSlots(line)][position];
  /** @type {Trace} */ const trace = { attention: [], streams: [] };
  network.logits(kind, tokensOf(all, memory.encode(line)), trace);
  const exists = all.map((source) => source >= 0);
  const attention = trace.attention.filter((_, index) => exists[index % all.length]);
  const ranked = trace.streams.map((stream) => rank(network.readOut(stream), vocabulary));
  return { kind, heads: network.nHeads, sources: all.filter((_, index) => exists[index]), attention, ranked };
}

/** Returns all characters with their probabilities, the most probable first.
 * @type {(logits: Float64Array, vocabulary: string) => Ranked[]} */
function rank(logits, vocabulary) {
  const largest = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - largest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  const all = Array.from(vocabulary, (text, token) => ({ text, probability: powers[token] / total }));
  return all.sort((a, b) => b.probability - a.probability);
}
