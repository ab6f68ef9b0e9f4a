// A decoder-only transformer with its key/value cache, for one text (calcgpt/model/gpt.py). On demand,
// it also returns the attention weights of the last token and the logits after each layer.
//
// Shapes: T new tokens, S block_size, C n_embd, L layers, H query heads, G key/value heads, D head
// width, V vocabulary.

import { ACTIVATIONS, Linear, Norm, softmax } from "./layers.js";
import { LANES, Memory, padded } from "./memory.js";
import { Positions } from "./positions.js";

const CHUNK = 32; // tokens that go through the layers together
const PART = /^([1-9]\d{0,3})\.(?:([1-9]\d{0,5})|ff|n([1-9]\d{0,5}))$/; // calcgpt/switches.py

/** The result of a forward pass for the last token.
 * @typedef {{attention: Float32Array, logits: Float32Array[], streams: Float32Array[], hidden: Float32Array[]}} ReadResult
 * attention (L, H, tokens): the weights that each head gave to each token; logits L + 1 times (V): the output layer
 * applied to the embedding and to the output of each layer, streams (C), which are there too; hidden L times: the
 * neurons of each feed-forward network. Heads and neurons that are switched off have 0. The last logits are those of the
 * next token. Without details, there are only these. */

/** A layer. keys (G, S, D) and values (G, D, S) are the offsets of its cache in the memory.
 * @typedef {{attentionNorm: Norm, qkv: Linear, qNorm: Norm | null, kNorm: Norm | null, out: Linear,
 * feedForwardNorm: Norm, up: Linear, down: Linear, keys: number, values: number}} Layer */

export class Decoder {
  #memory;
  #layers;
  #norm;
  #head;
  #embedding;
  #positions;
  /** The offsets in the memory of the inputs and outputs of layers. @type {Record<string, number>} */
  #buffers;
  /** @type {number[]} */ #cached = []; // the tokens whose keys and values are in the cache
  #off = ""; // the parts that are switched off

  /** @param {{tensors: import("./weights.js").Tensors, manifest: Record<string, any>}} weights
   * @param {boolean} [useWebAssembly] whether WebAssembly may be used */
  constructor({ tensors, manifest }, useWebAssembly = true) {
    const config = manifest.model;
    this.config = config;
    this.tensors = tensors;
    const { n_layer: L, n_kv_head: G, head_dim: D, block_size: S } = config;
    const sizes = bufferSizes(config, tensors);
    const allSizes = [...Object.values(sizes), ...Object.values(tensors).map(({ data }) => data.length)];
    const memory = new Memory(allSizes.reduce((a, b) => a + b, 2 * L * S * G * D), useWebAssembly);
    this.#memory = memory;
    const norm = (/** @type {string} */ name) =>
      new Norm(memory, tensors[`${name}.weight`].data, tensors[`${name}.bias`]?.data, config.norm === "layernorm");
    const linear = (/** @type {string} */ name, weight = name) => {
      const { shape, data } = tensors[`${weight}.weight`];
      return new Linear(memory, data, tensors[`${name}.bias`]?.data, shape[1]);
    };
    this.#embedding = tensors["token_embedding.weight"].data;
    this.#norm = norm("norm");
    this.#head = linear("head", config.tie_embeddings ? "token_embedding" : "head");
    this.#layers = Array.from({ length: L }, (_, index) => {
      const prefix = `blocks.${index}`;
      return {
        attentionNorm: norm(`${prefix}.attn_norm`),
        qkv: linear(`${prefix}.attn.qkv`),
        qNorm: config.qk_norm ? norm(`${prefix}.attn.q_norm`) : null,
        kNorm: config.qk_norm ? norm(`${prefix}.attn.k_norm`) : null,
        out: linear(`${prefix}.attn.out`),
        feedForwardNorm: norm(`${prefix}.ff_norm`),
        up: linear(config.gated ? `${prefix}.ff.gate_up` : `${prefix}.ff.up`),
        down: linear(`${prefix}.ff.down`),
        keys: memory.allocate(S * G * D),
        values: memory.allocate(S * G * D),
      };
    });
    this.#buffers = Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name, memory.allocate(size)]));
    this.#positions = new Positions(config, tensors, manifest.vocabulary, manifest.frequencies, CHUNK);
  }

  /** Switches parts off, and all others on: a head (`1.2`: the second of the first layer), the feed-forward step of a
   * layer (`1.ff`) or one of its neurons (`1.n7`). A head adds to the residual stream through some inputs of the
   * attention's output layer, the others through inputs of the feed-forward network's.
   * @param {string[]} parts
   * @throws {RangeError} if the model does not have a part */
  switchOff(parts) {
    const off = parts.join();
    if (off === this.#off) return;
    const { n_head: H, head_dim: D } = this.config;
    const width = this.#layers[0].down.nIn;
    /** @type {[start: number, stop: number][][]} */ const heads = this.#layers.map(() => []);
    /** @type {[start: number, stop: number][][]} */ const neurons = this.#layers.map(() => []);
    const isOff = this.#layers.map(() => false);
    for (const part of parts) {
      const [, layer, head, neuron] = PART.exec(part) ?? [];
      const index = Number(layer) - 1;
      if (!(index < this.#layers.length && !(Number(head) > H) && !(Number(neuron) > width))) {
        throw new RangeError(`This model has no part ${part.slice(0, 20)}.`);
      }
      if (head) heads[index].push([(Number(head) - 1) * D, Number(head) * D]);
      else neurons[index].push(neuron ? [Number(neuron) - 1, Number(neuron)] : [0, width]);
      isOff[index] ||= !head && !neuron;
    }
    for (const [index, { out, down }] of this.#layers.entries()) {
      out.ignore(heads[index], false);
      down.ignore(neurons[index], isOff[index]);
    }
    this.#cached = []; // the keys and values of other parts
    this.#off = off;
  }

  /** Reads a text. Tokens that it shares with the previous text are taken from the cache. tokens: from one to
   * `block_size`; withDetails: whether to return the attention and the logits of each layer.
   * @type {(tokens: number[], withDetails?: boolean) => ReadResult} */
  read(tokens, withDetails = false) {
    if (tokens.length > this.config.block_size) throw new RangeError("the text does not fit");
    let start = 0; // the last token is always read, because the result has its logits
    while (start < tokens.length - 1 && tokens[start] === this.#cached[start]) start += 1;
    const isCached = start === tokens.length - 1 && tokens[start] === this.#cached[start];
    if (!isCached) {
      this.#cached.length = start;
      for (let position = start; position < tokens.length; position += 1) this.#cached.push(tokens[position]);
    }
    for (; start + CHUNK < tokens.length; start += CHUNK) this.#forward(start, start + CHUNK, false);
    return this.#forward(start, tokens.length, withDetails);
  }

  /** Reads tokens[start : stop], which follow those whose keys and values are in the cache.
   * @type {(start: number, stop: number, withDetails: boolean) => ReadResult} */
  #forward(start, stop, withDetails) {
    const { n_embd: C, n_head: H } = this.config;
    const { x, hidden } = this.#buffers;
    const { numbers } = this.#memory;
    const T = stop - start;
    const tokens = this.#cached;
    this.#positions.locate(tokens, start, stop);
    const runs = Array.from({ length: T }, (_, t) => this.#positions.visibleKeys(start + t));
    for (let t = 0; t < T; t += 1) {
      const row = tokens[start + t] * C;
      for (let i = 0; i < C; i += 1) numbers[x + t * C + i] = this.#embedding[row + i];
      this.#positions.embed(tokens, start + t, numbers, x + t * C);
    }
    const attention = new Float32Array(withDetails ? this.#layers.length * H * stop : 0);
    /** @type {Omit<ReadResult, "attention">} */ const result = { logits: [], streams: [], hidden: [] };
    const addStream = () => {
      result.logits.push(this.#logits(T));
      result.streams.push(numbers.slice(x + (T - 1) * C, x + T * C));
    };
    if (withDetails) addStream();
    for (const [index, layer] of this.#layers.entries()) {
      const lastAttention = withDetails ? attention.subarray(index * H * stop, (index + 1) * H * stop) : null;
      this.#attend(layer, start, runs, lastAttention);
      const width = this.#feedForward(layer, T);
      if (!withDetails) continue;
      addStream();
      result.hidden.push(numbers.slice(hidden + (T - 1) * width, hidden + T * width));
    }
    if (!withDetails) result.logits.push(this.#logits(T));
    return { attention, ...result };
  }

  /** Adds the attention of a layer to x (T, C). runs: the keys that each new token sees; lastAttention: is filled with
   * the weights of the last token, (H, tokens).
   * @type {(layer: Layer, start: number, runs: import("./positions.js").Runs[],
   *   lastAttention: Float32Array | null) => void} */
  #attend(layer, start, runs, lastAttention) {
    const { n_embd: C, n_head: H, n_kv_head: G, head_dim: D, block_size: S } = this.config;
    const T = runs.length;
    const scale = 1 / Math.sqrt(D);
    const { x, normed, qkv, heads } = this.#buffers;
    const { numbers } = this.#memory;
    layer.attentionNorm.write(x, normed, T);
    layer.qkv.write(normed, qkv, T);
    numbers.fill(0, heads, heads + T * C);
    for (let t = 0; t < T; t += 1) {
      const query = qkv + t * (H + 2 * G) * D;
      const [key, value] = [query + H * D, query + (H + G) * D];
      if (layer.qNorm) layer.qNorm.write(query, query, H);
      if (layer.kNorm) layer.kNorm.write(key, key, G);
      this.#positions.rotate(t, true, numbers, query, H);
      this.#positions.rotate(t, false, numbers, key, G);
      for (let i = query; i < key; i += 1) numbers[i] *= scale;
      for (let i = 0; i < G * D; i += 1) {
        numbers[layer.keys + (((i / D) | 0) * S + start + t) * D + (i % D)] = numbers[key + i];
        numbers[layer.values + i * S + start + t] = numbers[value + i];
      }
    }
    for (let t = 0; t < T; t += 1) {
      for (let head = 0; head < H; head += 1) {
        const group = ((head * G) / H) | 0;
        const query = qkv + (t * (H + 2 * G) + head) * D;
        const isSeen = t === T - 1 && !layer.out.ignores(head * D);
        const weights = isSeen ? lastAttention?.subarray(head * (start + T), (head + 1) * (start + T)) : null;
        this.#weigh(layer, group, query, runs[t], heads + t * C + head * D, weights);
      }
    }
    layer.out.add(heads, x, T);
  }

  /** Adds the values that a query sees, weighted by the softmax of their scores, to y (D). group: the key/value head;
   * attention: is filled with the weights.
   * @type {(layer: Layer, group: number, query: number, runs: import("./positions.js").Runs, y: number,
   *   attention?: Float32Array | null) => void} */
  #weigh(layer, group, query, runs, y, attention) {
    const { head_dim: D, block_size: S } = this.config;
    const { scores } = this.#buffers;
    const memory = this.#memory;
    const { numbers } = memory;
    const [keys, values] = [layer.keys + group * S * D, layer.values + group * S * D];
    // The scores of a run are padded to whole vectors. What follows its values in the memory has the weight 0.
    const end = runs.reduce((sum, [first, stop]) => sum + padded(stop - first), scores);
    numbers.fill(0, scores, end);
    let score = scores;
    for (const [first, stop] of runs) {
      memory.addProducts(keys + first * D, D, stop - first, query, D, score);
      const next = score + padded(stop - first);
      for (score += stop - first; score < next; score += 1) numbers[score] = -Infinity;
    }
    softmax(numbers, scores, end - scores);
    let weight = scores;
    for (const [first, stop] of runs) {
      const width = padded(stop - first);
      memory.addProducts(values + first, S, D, weight, width, y);
      attention?.set(numbers.subarray(weight, weight + stop - first), first);
      weight += width;
    }
  }

  /** Adds the feed-forward network of a layer to x (T, C). Returns the number of its neurons.
   * @type {(layer: Layer, T: number) => number} */
  #feedForward(layer, T) {
    const { feedforward, gated } = this.config;
    const { x, normed, up, hidden } = this.#buffers;
    const { numbers } = this.#memory;
    const activate = ACTIVATIONS[feedforward];
    layer.feedForwardNorm.write(x, normed, T);
    layer.up.write(normed, up, T);
    const width = gated ? layer.up.nOut / 2 : layer.up.nOut;
    for (let t = 0; t < T; t += 1) {
      const [source, target] = [up + t * layer.up.nOut, hidden + t * width];
      for (let i = 0; i < width; i += 1) {
        numbers[target + i] = activate(numbers[source + i]) * (gated ? numbers[source + width + i] : 1);
      }
    }
    layer.down.add(hidden, x, T);
    return width;
  }

  /** Returns the output layer applied to the last row of x, (V). @param {number} T */
  #logits(T) {
    const { x, normed, logits } = this.#buffers;
    this.#norm.write(x + (T - 1) * this.config.n_embd, normed, 1);
    this.#head.write(normed, logits, 1);
    return this.#memory.numbers.slice(logits, logits + this.#head.nOut);
  }
}

/** Returns the sizes of the inputs and outputs of layers, by name.
 * @type {(config: Record<string, any>, tensors: import("./weights.js").Tensors) => Record<string, number>} */
function bufferSizes({ n_embd: C, n_head: H, n_kv_head: G, head_dim: D, block_size: S, gated }, tensors) {
  const up = CHUNK * tensors[`blocks.0.ff.${gated ? "gate_up" : "up"}.weight`].shape[0];
  return {
    x: CHUNK * C,
    normed: CHUNK * C,
    qkv: CHUNK * (H + 2 * G) * D,
    heads: CHUNK * C,
    scores: LANES * S, // room for runs of one key each
    up,
    hidden: up,
    logits: tensors["token_embedding.weight"].shape[0],
  };
}
