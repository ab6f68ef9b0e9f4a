// A decoder-only transformer with its key/value cache, for one text (calcgpt/model/gpt.py). On
// demand it also tells what a token attends to and what each layer makes of it.
//
// Shapes: T new tokens, S all tokens, C n_embd, L layers, H query heads, G key/value heads, D head
// width, V vocabulary.

import { Positions } from "./positions.js";
import { ACTIVATIONS, Linear, Norm, addProducts, addScaled, softmax } from "./products.js";

const CHUNK = 32; // tokens that go through the layers together

/**
 * What happened at the last token of a forward pass.
 * @typedef {{attention: Float32Array, logits: Float32Array[]}} Seen
 *   attention (L, H, S): the weights that its heads gave to each token;
 *   logits L + 1 times (V): what the output layer makes of the embedding and of each layer's output.
 *   The last are the logits of the next token.
 */

export class Decoder {
  #layers;
  #norm;
  #head;
  #embedding;
  #positions;
  #keys;
  #values;
  /** @type {number[]} the tokens whose keys and values are known */
  #cached = [];

  /**
   * @param {{tensors: import("./weights.js").Tensors, manifest: Record<string, any>}} weights
   */
  constructor({ tensors, manifest }) {
    const config = manifest.model;
    this.config = config;
    const norm = (name) =>
      new Norm(tensors[`${name}.weight`].data, tensors[`${name}.bias`]?.data, config.norm === "layernorm");
    const linear = (name) => {
      const { shape, data } = tensors[`${name}.weight`];
      return new Linear(data, tensors[`${name}.bias`]?.data, shape[1]);
    };
    this.#embedding = tensors["token_embedding.weight"].data;
    this.#norm = norm("norm");
    this.#head = config.tie_embeddings
      ? new Linear(this.#embedding, tensors["head.bias"]?.data, config.n_embd)
      : linear("head");
    this.#layers = Array.from({ length: config.n_layer }, (_, index) => {
      const prefix = `blocks.${index}`;
      return {
        attentionNorm: norm(`${prefix}.attn_norm`),
        qkv: linear(`${prefix}.attn.qkv`),
        qNorm: config.qk_norm && norm(`${prefix}.attn.q_norm`),
        kNorm: config.qk_norm && norm(`${prefix}.attn.k_norm`),
        out: linear(`${prefix}.attn.out`),
        feedForwardNorm: norm(`${prefix}.ff_norm`),
        up: linear(config.gated ? `${prefix}.ff.gate_up` : `${prefix}.ff.up`),
        down: linear(`${prefix}.ff.down`),
      };
    });
    this.#positions = new Positions(config, tensors, manifest.vocabulary, manifest.frequencies);
    const width = config.n_kv_head * config.head_dim * config.block_size;
    this.#keys = this.#layers.map(() => new Float32Array(width));
    this.#values = this.#layers.map(() => new Float32Array(width));
  }

  /**
   * Reads a text; what it shares with the last one is not read again.
   * @param {number[]} tokens one or more, at most `block_size`
   * @param {boolean} look whether to tell what happened at the last token
   * @returns {Seen} without `look`, only the last logits
   */
  read(tokens, look = false) {
    if (tokens.length > this.config.block_size) throw new RangeError("the text does not fit");
    let start = 0; // the last token is always read, because its logits are wanted
    while (start < tokens.length - 1 && tokens[start] === this.#cached[start]) start += 1;
    const isKnown = start === tokens.length - 1 && tokens[start] === this.#cached[start];
    if (!isKnown) this.#cached = [...tokens];
    let logits;
    while (start < tokens.length) {
      const stop = Math.min(start + CHUNK, tokens.length);
      logits = this.#forward(start, stop, look && stop === tokens.length);
      start = stop;
    }
    return logits;
  }

  /** Reads tokens[start : stop], which follow those in the cache. */
  #forward(start, stop, look) {
    const { n_embd: C, n_head: H } = this.config;
    const T = stop - start;
    const tokens = this.#cached.slice(0, stop);
    this.#positions.locate(tokens, start);
    const x = new Float32Array(T * C);
    for (let t = 0; t < T; t += 1) {
      x.set(this.#embedding.subarray(tokens[start + t] * C, (tokens[start + t] + 1) * C), t * C);
      this.#positions.embed(tokens, start + t, x, t * C);
    }
    const attention = look ? new Float32Array(this.#layers.length * H * stop) : null;
    const logits = look ? [this.#logits(x, T)] : [];
    for (const [index, layer] of this.#layers.entries()) {
      const kept = attention?.subarray(index * H * stop, (index + 1) * H * stop);
      this.#attend(layer, index, x, start, T, kept);
      this.#feedForward(layer, x, T);
      if (look) logits.push(this.#logits(x, T));
    }
    if (!look) logits.push(this.#logits(x, T));
    return { attention, logits };
  }

  /** Adds attention to x (T, C). Keeps the weights of the last token, (H, S), if asked to. */
  #attend(layer, index, x, start, T, kept) {
    const { n_embd: C, n_head: H, n_kv_head: G, head_dim: D } = this.config;
    const normed = normalised(layer.attentionNorm, x, T, C);
    const qkv = new Float32Array(T * layer.qkv.nOut);
    layer.qkv.write(normed, qkv, T);
    const [keys, values] = [this.#keys[index], this.#values[index]];
    const positions = this.#positions;
    const scale = 1 / Math.sqrt(D);
    let isRotated = false;
    for (let t = 0; t < T; t += 1) {
      const [from, to] = [t * layer.qkv.nOut, (start + t) * G * D];
      for (let head = 0; head < H + G; head += 1) {
        const [norm, at] = [head < H ? layer.qNorm : layer.kNorm, from + head * D];
        if (norm) norm.write(qkv, at, qkv, at);
        // All queries of a token have the same angles, and so have its keys.
        if (head === 0 || head === H) isRotated = positions.angles(start + t, head < H);
        if (isRotated) positions.rotate(qkv, at);
      }
      keys.set(qkv.subarray(from + H * D, from + (H + G) * D), to);
      values.set(qkv.subarray(from + (H + G) * D, from + (H + 2 * G) * D), to);
    }
    const heads = normed.fill(0); // (T, C), of all heads
    const scores = new Float32Array(start + T);
    for (let t = 0; t < T; t += 1) {
      const n = start + t + 1;
      for (let head = 0; head < H; head += 1) {
        const group = (((head * G) / H) | 0) * D;
        const query = t * layer.qkv.nOut + head * D;
        scores.fill(0, 0, n);
        addProducts(keys, group, G * D, n, qkv, query, D, scores, 0);
        for (let s = 0; s < n; s += 1) scores[s] *= scale;
        softmax(scores, n);
        for (let s = 0; s < n; s += 1) {
          if (scores[s]) addScaled(scores[s], values, s * G * D + group, heads, t * C + head * D, D);
        }
        if (kept && t === T - 1) kept.set(scores, head * n);
      }
    }
    layer.out.add(heads, x, T);
  }

  /** Adds the feed-forward network to x (T, C). */
  #feedForward(layer, x, T) {
    const { n_embd: C, feedforward, gated } = this.config;
    const activate = ACTIVATIONS[feedforward];
    const up = new Float32Array(T * layer.up.nOut);
    layer.up.write(normalised(layer.feedForwardNorm, x, T, C), up, T);
    const width = gated ? layer.up.nOut / 2 : layer.up.nOut;
    const hidden = gated ? new Float32Array(T * width) : up;
    for (let t = 0; t < T; t += 1) {
      const from = up.subarray(t * layer.up.nOut, (t + 1) * layer.up.nOut);
      const to = hidden.subarray(t * width, (t + 1) * width);
      for (let i = 0; i < width; i += 1) {
        to[i] = gated ? activate(from[i]) * from[width + i] : activate(from[i]);
      }
    }
    layer.down.add(hidden, x, T);
  }

  /** Returns what the output layer makes of the last row of x, (V). */
  #logits(x, T) {
    const { n_embd: C } = this.config;
    const row = new Float32Array(C);
    this.#norm.write(x, (T - 1) * C, row, 0);
    const logits = new Float32Array(this.#head.nOut);
    this.#head.write(row, logits, 1);
    return logits;
  }
}

/** Returns the rows of x (T, C), each normalised. */
function normalised(norm, x, T, C) {
  const result = new Float32Array(T * C);
  for (let t = 0; t < T; t += 1) norm.write(x, t * C, result, t * C);
  return result;
}
