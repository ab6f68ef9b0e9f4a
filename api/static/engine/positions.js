// Where the tokens are: the positional schemes that the engine covers (calcgpt/model/positions.py,
// which has the sources).
//
// Shapes: C n_embd, D head width.

import { CoordinateReader } from "./coordinates.js";

const BASE = 10_000; // of the sinusoidal frequencies
const ROTATED = ["rope", "learned+rope", "coupled+rope"];

/** A scheme adds vectors to the embeddings and rotates queries and keys. */
export class Positions {
  #config;
  #tensors;
  #rowOfToken;
  #vocabulary;
  #reader = new CoordinateReader();
  /** @type {import("./coordinates.js").Coordinates[]} */
  #where = [];
  #start = 0;

  /**
   * @param {Record<string, any>} config the model's, as `config.json` has it
   * @param {import("./weights.js").Tensors} tensors
   * @param {string} vocabulary
   * @param {number[]} frequencies of the coordinates, per axis; empty for other schemes
   */
  constructor(config, tensors, vocabulary, frequencies) {
    this.#config = config;
    this.#tensors = tensors;
    this.#vocabulary = vocabulary;
    this.#rowOfToken = new Map(config.row_marks.map((token, index) => [token, index + 1]));
    this.half = config.head_dim / 2;
    this.cos = new Float32Array(this.half); // of the last rotation asked for
    this.sin = new Float32Array(this.half);
    this.frequencies = Float32Array.from(frequencies);
  }

  /**
   * Reads what the scheme computes from the text. Call it before the others.
   * @param {number[]} tokens all so far
   * @param {number} start the first new one
   */
  locate(tokens, start) {
    this.#start = start;
    if (this.#config.position === "coordinates") {
      const line = tokens.map((token) => this.#vocabulary[token]).join("");
      this.#where = this.#reader.read(line, start);
    }
  }

  /**
   * Adds the vectors of a token to its embedding, x[at : at + C].
   * @param {number[]} tokens
   * @param {number} position
   */
  embed(tokens, position, x, at) {
    const { position: scheme, n_place: nPlace } = this.#config;
    if (scheme === "sinusoidal") this.#addSinusoids(position, x, at);
    if (scheme.startsWith("learned")) this.#addRow("table", position, x, at);
    if (scheme.startsWith("coupled")) {
      let mark = position;
      while (mark > 0 && !this.#rowOfToken.has(tokens[mark])) mark -= 1;
      this.#addRow("places", Math.min(position - mark, nPlace - 1), x, at);
      this.#addRow("rows", this.#rowOfToken.get(tokens[mark]) ?? 0, x, at);
    }
    if (scheme === "coordinates") {
      const [kind, nextKind] = this.#where[position - this.#start];
      this.#addRow("kinds", kind, x, at);
      this.#addRow("next_kinds", nextKind, x, at);
    }
  }

  #addRow(table, row, x, at) {
    const { data } = this.#tensors[`positions.${table}.weight`];
    const width = this.#config.n_embd;
    for (let i = 0; i < width; i += 1) x[at + i] += data[row * width + i];
  }

  #addSinusoids(position, x, at) {
    const half = this.#config.n_embd / 2;
    for (let i = 0; i < half; i += 1) {
      const angle = position * BASE ** (-i / half);
      x[at + 2 * i] += Math.sin(angle);
      x[at + 2 * i + 1] += Math.cos(angle);
    }
  }

  /**
   * Sets `cos` and `sin` for the query or the key of a token.
   * @returns {boolean} whether the scheme rotates at all
   */
  angles(position, isQuery) {
    const { position: scheme, rope_base: base } = this.#config;
    if (ROTATED.includes(scheme)) {
      for (let i = 0; i < this.half; i += 1) this.#set(i, position * base ** (-i / this.half));
      return true;
    }
    if (scheme !== "coordinates") return false;
    const [, , row, column, queryRow, queryColumn] = this.#where[position - this.#start];
    const axes = isQuery ? [queryRow, queryColumn] : [row, column];
    const n = this.frequencies.length;
    for (let i = 0; i < this.half; i += 1) {
      this.#set(i, i < 2 * n ? Math.fround(axes[Math.floor(i / n)] * this.frequencies[i % n]) : 0);
    }
    return true;
  }

  #set(i, angle) {
    this.cos[i] = Math.cos(angle);
    this.sin[i] = Math.sin(angle);
  }

  /** Rotates channels i and i + D/2 of x[at : at + D] by the angles. */
  rotate(x, at) {
    const { half, cos, sin } = this;
    for (let i = 0; i < half; i += 1) {
      const a = x[at + i];
      const b = x[at + i + half];
      x[at + i] = a * cos[i] - b * sin[i];
      x[at + i + half] = b * cos[i] + a * sin[i];
    }
  }
}
