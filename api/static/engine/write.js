// Writes with the network on cases: the layout says which case each character is, and a memory has what the network
// wrote in it (calcgpt/inference/cases).

import { Layout, shapeOf } from "./layout.js";
import { NO_TOKEN } from "./network.js";
import { KIND } from "./operations.js";
import { WeightsError } from "./weights.js";

/** @import { Slot } from "./layout.js" */
/** @import { Network } from "./network.js" */

/** A character that was written. code: 1 more than its token; 0 stands for no character.
 * @typedef {{text: string, code: number, probability: number}} Written */

const MAX_CASES = 1_000_000; // that are remembered; there are fewer while all parts are on
const END = "$";

/** What a network writes, remembered: it is asked once about each case. */
export class Memory {
  /** By a number for each case: two cases never have the same. @type {Map<number, Written>} */ #written = new Map();
  #powers;

  /** @param {Network} network @param {string} vocabulary the character of each token */
  constructor(network, vocabulary) {
    this.network = network;
    this.vocabulary = vocabulary;
    const [base, n] = [network.nTokens + 1, network.nSources];
    this.#powers = Array.from({ length: n + 1 }, (_, source) => base ** source);
    const isExact = network.nKinds * base ** n <= Number.MAX_SAFE_INTEGER;
    if (!isExact || vocabulary.length !== network.nTokens) throw new WeightsError();
  }

  /** Returns the codes of a text.
   * @throws {RangeError} if a character is none of this model
   * @param {string} text */
  encode(text) {
    return Array.from(text, (character) => {
      const token = this.vocabulary.indexOf(character);
      if (token < 0) throw new RangeError(`${character} is not a character of this model`);
      return token + 1;
    });
  }

  /** Returns what the network writes in a slot. codes: of the characters before it.
   * @type {(slot: Slot, codes: number[]) => Written} */
  write([kind, , , sources], codes) {
    let number = kind * this.#powers[this.network.nSources];
    for (let i = 0; i < sources.length; i += 1) number += (codes[sources[i]] ?? 0) * this.#powers[i];
    let written = this.#written.get(number);
    if (!written) {
      written = this.#ask(kind, tokensOf(sources, codes));
      if (this.#written.size >= MAX_CASES) this.#written.clear();
      this.#written.set(number, written);
    }
    return written;
  }

  /** @type {(kind: number, tokens: number[]) => Written} */
  #ask(kind, tokens) {
    const logits = this.network.logits(kind, tokens);
    const [best, second] = topTwo(logits);
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit - logits[best]), 0);
    // Either of two neighbouring quotient digits may be right: both are what the model knows.
    const areBoth = kind === KIND.QUOTIENT_DIGIT && Math.abs(this.#unicode(best) - this.#unicode(second)) === 1;
    const chosen = 1 + (areBoth ? Math.exp(logits[second] - logits[best]) : 0);
    return { text: this.vocabulary[best], code: best + 1, probability: chosen / total };
  }

  /** @param {number} token */
  #unicode(token) {
    return this.vocabulary.charCodeAt(token);
  }
}

/** Returns the tokens of sources. codes: of the text. @type {(sources: number[], codes: number[]) => number[]} */
export const tokensOf = (sources, codes) => sources.map((source) => (codes[source] ?? 0) - 1);

/** Returns the indices of the two largest values. @param {Float64Array} values */
function topTwo(values) {
  let [best, second] = values[1] > values[0] ? [1, 0] : [0, 1];
  for (let i = 2; i < values.length; i += 1) {
    if (values[i] > values[best]) [best, second] = [i, best];
    else if (values[i] > values[second]) second = i;
  }
  return [best, second];
}

/** Returns the layout of a line, which begins with a prompt.
 * @throws {RangeError} if it does not
 * @param {string} line */
export function layoutOf(line) {
  const shape = shapeOf(line.slice(0, line.indexOf("=") + 1));
  if (!shape) throw new RangeError("The text does not begin with a question.");
  return new Layout(shape);
}

/** Yields the characters that the model writes after the beginning of a line. It ends after `$`, or where the layout
 * ends.
 * @type {(memory: Memory, beginning: string) => Generator<Written>} */
export function* write(memory, beginning) {
  const layout = layoutOf(beginning);
  const codes = memory.encode(beginning);
  for (const first of [0, layout.slots.length]) { // the work, and then the answer, whose layout depends on the work
    const text = () => codes.map((code) => memory.vocabulary[code - 1]).join("");
    const slots = first ? layout.answerSlots(text()) : layout.slots;
    while (codes.length < first + slots.length) {
      const written = memory.write(slots[codes.length - first], codes);
      codes.push(written.code);
      yield written;
      if (written.text === END) return;
    }
  }
}
