// The network on cases (calcgpt/inference/cases/network.py): the next character is a function of the kind of its slot
// and of the characters that the rule of the slot reads. Keys and values are projections of embeddings, so they are
// tables, made once.
//
// Shapes: C width, H heads, G key/value heads, D head width, F neurons, R sources, V tokens, X rows of tables: one for
// each source and token. Matrices are (out, in), as torch stores them.

import { WeightsError } from "./weights.js";

/** @import { Tensors } from "./weights.js" */

const EPS = 1e-6; // of RMSNorm
const PART = /^([1-9]\d{0,3})\.(?:([1-9]\d{0,5})|ff|n([1-9]\d{0,5}))$/; // calcgpt/switches.py
export const NO_TOKEN = -1; // in place of a source that does not exist

/** A layer. The gains of norms are in the matrices after them. heads (H) and neurons (F) are 0 where they are switched
 * off, else 1.
 * @typedef {{q: Float64Array, keys: Float64Array, values: Float64Array, sink: Float64Array, out: Float64Array,
 * gateUp: Float64Array, down: Float64Array, heads: Float64Array, neurons: Float64Array}} Layer */

/** How the network came to its logits. attention: for each layer and head, the weight of each source; streams: the
 * residual stream at first and after each layer.
 * @typedef {{attention: number[], streams: Float64Array[]}} Trace */

export class Network {
  #kinds;
  #head;
  #layers;
  #buffers; // what a character needs meanwhile: to make it anew for each took half of the time

  /** @param {Tensors} tensors
   * @param {string[]} [off] the parts that are switched off: a head (`1.2`: the second of the first layer), the
   * feed-forward step of a layer (`1.ff`) or one of its neurons (`1.n7`)
   * @throws {WeightsError} if the tensors are not those of such a network, and RangeError for an unknown part */
  constructor(tensors, off = []) {
    const sizeOf = (/** @type {string} */ name, axis = 0) => tensors[name]?.shape[axis] ?? NaN;
    this.width = sizeOf("kinds.weight", 1);
    this.nKinds = sizeOf("kinds.weight");
    this.nTokens = sizeOf("token_embedding.weight");
    this.nSources = sizeOf("roles.weight");
    this.nHeads = sizeOf("blocks.0.attn.sink");
    this.nNeurons = sizeOf("blocks.0.ff.down.weight", 1);
    this.nLayers = Object.keys(tensors).filter((name) => name.endsWith(".attn.sink")).length;
    this.#kinds = take(tensors, "kinds.weight", this.nKinds, this.width);
    this.#head = this.#withGain(tensors, "head", this.nTokens, "norm");
    const contents = this.#contents(tensors);
    const names = Array.from({ length: this.nLayers }, (_, index) => `blocks.${index}`);
    this.#layers = names.map((name) => this.#layer(tensors, name, contents));
    for (const part of off) this.#switchOff(part);
    const sizes = [this.width, this.width, this.width, 2 * this.nNeurons, this.nNeurons, this.nSources];
    const [normal, query, mixed, gateUp, hidden, weights] = sizes.map((size) => new Float64Array(size));
    this.#buffers = { normal, query, mixed, gateUp, hidden, weights };
  }

  /** Returns the normalised sums of the embeddings of a token and of its place among the sources, (X, C).
   * @param {Tensors} tensors */
  #contents(tensors) {
    const { width: C, nTokens: V, nSources: R } = this;
    const embeddings = take(tensors, "token_embedding.weight", V, C);
    const roles = take(tensors, "roles.weight", R, C);
    const gain = take(tensors, "source_norm.weight", C);
    const contents = new Float64Array(R * V * C);
    for (let i = 0; i < contents.length; i += 1) {
      contents[i] = embeddings[i % (V * C)] + roles[Math.floor(i / (V * C)) * C + (i % C)];
    }
    for (let row = 0; row < contents.length; row += C) normalize(contents, row, C);
    return contents.map((value, i) => value * gain[i % C]);
  }

  /** Returns a layer. The gain and the scale of its queries are in the keys.
   * @type {(tensors: Tensors, name: string, contents: Float64Array) => Layer} */
  #layer(tensors, name, contents) {
    const { width: C, nHeads: H, nNeurons: F } = this;
    const D = C / H;
    const G = (tensors[`${name}.attn.kv.weight`]?.shape[0] ?? NaN) / 2 / D;
    if (!Number.isInteger(D) || !Number.isInteger(H / G)) throw new WeightsError();
    const kv = take(tensors, `${name}.attn.kv.weight`, 2 * G * D, C);
    const [qGain, kGain] = ["q", "k"].map((kind) => take(tensors, `${name}.attn.${kind}_norm.weight`, D));
    const [keys, values] = [new Float64Array(contents.length), new Float64Array(contents.length)];
    const projected = new Float64Array(2 * G * D);
    for (let row = 0; row < contents.length; row += C) {
      multiply(kv, contents.subarray(row, row + C), projected.fill(0));
      for (let group = 0; group < G; group += 1) normalize(projected, group * D, D);
      for (let i = 0; i < C; i += 1) {
        const from = Math.floor((i * G) / C) * D + (i % D); // in the group of this head
        keys[row + i] = (projected[from] * kGain[i % D] * qGain[i % D]) / Math.sqrt(D);
        values[row + i] = projected[G * D + from];
      }
    }
    return {
      q: this.#withGain(tensors, `${name}.attn.q`, C, `${name}.attn_norm`),
      keys,
      values,
      sink: take(tensors, `${name}.attn.sink`, H),
      out: take(tensors, `${name}.attn.out.weight`, C, C),
      gateUp: this.#withGain(tensors, `${name}.ff.gate_up`, 2 * F, `${name}.ff_norm`),
      down: take(tensors, `${name}.ff.down.weight`, C, F),
      heads: new Float64Array(H).fill(1),
      neurons: new Float64Array(F).fill(1),
    };
  }

  /** Returns a matrix with the gain of the norm before it.
   * @type {(tensors: Tensors, name: string, rows: number, norm: string) => Float64Array} */
  #withGain(tensors, name, rows, norm) {
    const gain = take(tensors, `${norm}.weight`, this.width);
    return take(tensors, `${name}.weight`, rows, this.width).map((value, i) => value * gain[i % this.width]);
  }

  /** @param {string} part */
  #switchOff(part) {
    const [, number, head, neuron] = PART.exec(part) ?? [];
    const layer = this.#layers[Number(number) - 1];
    if (!layer || Number(head) > this.nHeads || Number(neuron) > this.nNeurons) {
      throw new RangeError(`This model has no part ${part.slice(0, 20)}.`);
    }
    if (head) layer.heads[Number(head) - 1] = 0;
    else if (neuron) layer.neurons[Number(neuron) - 1] = 0;
    else layer.neurons.fill(0);
  }

  /** Returns the logits of the next character, (V). kind: of its slot; tokens: of the characters that the rule reads,
   * NO_TOKEN for those that do not exist; trace: gets how the network came to them.
   * @type {(kind: number, tokens: number[], trace?: Trace) => Float64Array} */
  logits(kind, tokens, trace) {
    const x = this.#kinds.slice(kind * this.width, (kind + 1) * this.width);
    trace?.streams.push(x.slice());
    for (const layer of this.#layers) {
      this.#attend(layer, x, tokens, trace);
      this.#feedForward(layer, x);
      trace?.streams.push(x.slice());
    }
    return this.readOut(x);
  }

  /** Returns the output layer applied to a residual stream, (V). @param {Float64Array} stream */
  readOut(stream) {
    return multiply(this.#head, this.#normalized(stream), new Float64Array(this.nTokens));
  }

  /** Adds the attention of a layer to x (C).
   * @type {(layer: Layer, x: Float64Array, tokens: number[], trace?: Trace) => void} */
  #attend(layer, x, tokens, trace) {
    const { width: C, nHeads: H, nTokens: V } = this;
    const D = C / H;
    const { query, mixed, weights } = this.#buffers;
    multiply(layer.q, this.#normalized(x), query.fill(0));
    mixed.fill(0);
    for (let head = 0; head < H; head += 1) {
      const first = head * D;
      normalize(query, first, D);
      let total = Math.exp(layer.sink[head]);
      for (let source = 0; source < tokens.length; source += 1) {
        weights[source] = 0;
        if (tokens[source] === NO_TOKEN) continue;
        const key = (source * V + tokens[source]) * C + first;
        let score = 0;
        for (let i = 0; i < D; i += 1) score += query[first + i] * layer.keys[key + i];
        total += weights[source] = Math.exp(score);
      }
      for (let source = 0; source < tokens.length; source += 1) {
        const weight = (weights[source] / total) * layer.heads[head];
        trace?.attention.push(weight);
        const value = (source * V + tokens[source]) * C + first;
        for (let i = 0; i < D && weight; i += 1) mixed[first + i] += weight * layer.values[value + i];
      }
    }
    multiply(layer.out, mixed, x);
  }

  /** Adds the feed-forward network of a layer to x (C). @type {(layer: Layer, x: Float64Array) => void} */
  #feedForward(layer, x) {
    const F = this.nNeurons;
    const { gateUp, hidden } = this.#buffers;
    multiply(layer.gateUp, this.#normalized(x), gateUp.fill(0));
    for (let i = 0; i < F; i += 1) {
      hidden[i] = (layer.neurons[i] * gateUp[i] * gateUp[F + i]) / (1 + Math.exp(-gateUp[i]));
    }
    multiply(layer.down, hidden, x);
  }

  /** Returns a residual stream, normalised, until the next call. @param {Float64Array} x */
  #normalized(x) {
    this.#buffers.normal.set(x);
    normalize(this.#buffers.normal, 0, this.width);
    return this.#buffers.normal;
  }
}

/** Returns the numbers of a tensor of a certain shape.
 * @type {(tensors: Tensors, name: string, ...sizes: number[]) => Float64Array} */
function take(tensors, name, ...sizes) {
  const { shape = [], data = [] } = tensors[name] ?? {};
  const isRight = shape.length === sizes.length && shape.every((size, i) => size > 0 && size === sizes[i]);
  if (!isRight) throw new WeightsError();
  return Float64Array.from(data);
}

/** Normalises `n` numbers from `first` on, in place: by 1 over their root mean square.
 * @type {(x: Float64Array, first: number, n: number) => void} */
function normalize(x, first, n) {
  let square = 0;
  for (let i = first; i < first + n; i += 1) square += x[i] * x[i];
  const scale = 1 / Math.sqrt(square / n + EPS);
  for (let i = first; i < first + n; i += 1) x[i] *= scale;
}

/** Adds the product of a matrix and x to y, and returns y. It computes four sums at a time, because each addition to a
 * sum waits for the one before it.
 * @type {(matrix: Float64Array, x: Float64Array, y: Float64Array) => Float64Array} */
function multiply(matrix, x, y) {
  const n = x.length;
  for (let out = 0; out < y.length; out += 4) {
    const [row0, row1, row2, row3] = [out * n, out * n + n, out * n + 2 * n, out * n + 3 * n];
    let [sum0, sum1, sum2, sum3] = [0, 0, 0, 0];
    for (let i = 0; i < n; i += 1) {
      const value = x[i];
      sum0 += matrix[row0 + i] * value;
      sum1 += matrix[row1 + i] * value;
      sum2 += matrix[row2 + i] * value;
      sum3 += matrix[row3 + i] * value;
    }
    y[out] += sum0;
    y[out + 1] += sum1; // beyond the end of y, nothing is written
    y[out + 2] += sum2;
    y[out + 3] += sum3;
  }
  return y;
}
