// Generates text with a decoder, one character at a time, and inspects how a character came about.

import { softmax } from "./layers.js";

/** The options of decoding. At temperature 0, it is greedy. maxLength: the most characters of the whole text, the given
 * one included.
 * @typedef {{temperature?: number, topK?: number, seed?: number, maxLength?: number}} Sampling */

/** Returns the tokens of a text. vocabulary: a character for each token.
 * @throws {RangeError} if a character has no token
 * @type {(vocabulary: string[], text: string) => number[]} */
export function encode(vocabulary, text) {
  return Array.from(text, (character) => {
    const token = vocabulary.indexOf(character);
    if (token < 0) throw new RangeError(`${character} is not a character of this model`);
    return token;
  });
}

/** Yields the characters that a model writes after a text, with their probabilities at temperature 1. It ends after
 * `$`, and when the text has `maxLength` characters or fills the context.
 * @type {(decoder: import("./decoder.js").Decoder, vocabulary: string[], text: string,
 *   sampling?: Sampling) => Generator<{text: string, probability: number}>} */
export function* generate(decoder, vocabulary, text, { temperature = 0, topK, seed = 0, maxLength = Infinity } = {}) {
  const tokens = encode(vocabulary, text);
  const draw = random(seed);
  const length = Math.min(maxLength, decoder.config.block_size + 1); // the last character is never read
  while (tokens.length < length) {
    const [logits] = decoder.read(tokens).logits;
    const token = temperature ? sample(logits, temperature, topK, draw()) : largest(logits);
    softmax(logits);
    tokens.push(token);
    const character = vocabulary[token];
    yield { text: character, probability: logits[token] };
    if (character === "$") return;
  }
}

/** Returns the index of the largest value, or the first index if several are equal. @param {Float32Array} values */
function largest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i += 1) if (values[i] > values[best]) best = i;
  return best;
}

/** Draws a token from the `topK` most probable ones, with a random number from 0 to 1.
 * @type {(logits: Float32Array, temperature: number, topK: number | undefined, random: number) => number} */
function sample(logits, temperature, topK, random) {
  const weights = logits.map((logit) => logit / temperature);
  const threshold = topK ? [...weights].sort((a, b) => b - a)[Math.min(topK, weights.length) - 1] : -Infinity;
  for (let i = 0; i < weights.length; i += 1) if (weights[i] < threshold) weights[i] = -Infinity;
  softmax(weights);
  let remaining = random;
  for (let i = 0; i < weights.length; i += 1) {
    remaining -= weights[i];
    if (remaining < 0) return i;
  }
  return largest(weights);
}

/** Returns a generator of random numbers from 0 to 1 with a seed (mulberry32). @param {number} seed */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The attention and the predictions of a model for a character that it wrote.
 * @typedef {{layers: number, heads: number, attention: Float32Array,
 * candidates: {text: string, probability: number}[], lens: {text: string, probability: number}[]}} Look
 * attention (layers, heads, position): the weights of each earlier character;
 * candidates: the most probable characters; lens (logit lens): the most probable character after the
 * embedding and after each layer */

/** Returns the attention and the predictions of a model for text[position]. position: at least 1; n: the number of
 * candidates.
 * @type {(decoder: import("./decoder.js").Decoder, vocabulary: string[], text: string, position: number,
 *   n?: number) => Look} */
export function look(decoder, vocabulary, text, position, n = 5) {
  const { attention, logits } = decoder.read(encode(vocabulary, text.slice(0, position)), true);
  const ranked = logits.map((values) => rank(values, vocabulary).slice(0, n));
  const { n_layer: layers, n_head: heads } = decoder.config;
  return { layers, heads, attention, candidates: ranked[ranked.length - 1], lens: ranked.map(([first]) => first) };
}

/** Returns all characters with their logits and probabilities, the most probable first.
 * @type {(logits: Float32Array, vocabulary: string[]) => {text: string, logit: number, probability: number}[]} */
export function rank(logits, vocabulary) {
  const probabilities = logits.slice();
  softmax(probabilities);
  const tokens = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a] || a - b);
  return tokens.map((token) => {
    return { text: vocabulary[token], logit: logits[token], probability: probabilities[token] };
  });
}
