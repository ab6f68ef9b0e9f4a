// Where the tokens are: the positional schemes that the engine covers (calcgpt/model/positions.py,
// which has the sources).
//
// Shapes: C n_embd, D head width.

import { CoordinateReader } from "./coordinates.js";
import { COPIES, FAR, FIELDS, ROW_ENDS } from "./layout.js";

const BASE = 10_000; // of the sinusoidal frequencies
const ROTATED = ["rope", "learned+rope", "coupled+rope"];

/** A scheme adds vectors to the embeddings and rotates queries and keys, by angles that are the same
 * in all layers. */
export class Positions {
  #config;
  #tensors;
  #rowOfToken;
  #vocabulary;
  #reader = new CoordinateReader();
  #line = "";
  /** @type {import("./coordinates.js").Coordinates[]} */
  #where = [];
  /** @type {import("./coordinates.js").Coordinates[]} those of all tokens */
  #keys = [];
  #start = 0;
  #half;
  /** @type {number[]} angles of a rotary scheme at position 1 */
  #rope;
  /** The rotations of queries and of keys, cosines before sines: (T, 2, 2, D/2). */
  #rotations;

  /**
   * @param {Record<string, any>} config the model's, as `config.json` has it
   * @param {import("./weights.js").Tensors} tensors
   * @param {string} vocabulary
   * @param {number[]} frequencies of the coordinates, per axis; empty for other schemes
   * @param {number} most new tokens at a time
   */
  constructor(config, tensors, vocabulary, frequencies, most) {
    this.#config = config;
    this.#tensors = tensors;
    this.#vocabulary = vocabulary;
    this.#rowOfToken = new Map(config.row_marks.map((/** @type {number} */ token, /** @type {number} */ index) => [token, index + 1]));
    this.#half = config.head_dim / 2;
    this.#rope = Array.from({ length: this.#half }, (_, i) => config.rope_base ** (-i / this.#half));
    this.#rotations = new Float32Array(most * 4 * this.#half);
    this.frequencies = Float32Array.from(frequencies);
  }

  /**
   * Reads what the scheme computes from the text. Call it before the others.
   * @param {number[]} tokens all so far
   * @param {number} start the first new one
   * @param {number} stop after the last new one
   */
  locate(tokens, start, stop) {
    this.#start = start;
    const { position: scheme } = this.#config;
    if (scheme === "coordinates") {
      this.#line = this.#line.slice(0, start);
      for (let at = this.#line.length; at < stop; at += 1) this.#line += this.#vocabulary[tokens[at]];
      const known = Math.min(this.#keys.length, start); // fewer if a shorter text was read in between
      this.#keys.length = known;
      this.#keys.push(...this.#reader.read(this.#line, known));
      this.#where = this.#keys.slice(start);
    } else if (!ROTATED.includes(scheme)) return;
    for (let t = 0; t < stop - start; t += 1) {
      for (const [side, isQuery] of [true, false].entries()) {
        const at = (2 * t + side) * 2 * this.#half;
        for (let i = 0; i < this.#half; i += 1) {
          const angle = this.#angle(start + t, isQuery, i);
          this.#rotations[at + i] = Math.cos(angle);
          this.#rotations[at + this.#half + i] = Math.sin(angle);
        }
      }
    }
  }

  /**
   * Returns the angle by which channel i of a query or a key is rotated.
   * @param {number} position
   * @param {boolean} isQuery
   * @param {number} i
   */
  #angle(position, isQuery, i) {
    if (this.#config.position !== "coordinates") return position * this.#rope[i];
    const n = this.frequencies.length;
    if (i >= 2 * n) return 0;
    const [, , row, column, queryRow, queryColumn] = this.#where[position - this.#start];
    const axes = isQuery ? [queryRow, queryColumn] : [row, column];
    return Math.fround(axes[Math.floor(i / n)] * this.frequencies[i % n]);
  }

  /**
   * Adds the vectors of a token to its embedding, x[at : at + C].
   * @param {number[]} tokens
   * @param {number} position
   * @param {Float32Array} x
   * @param {number} at
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

  /**
   * Takes from the scores of a query those of the rows and columns that are not within its windows,
   * as `CoordinatePositions` in `calcgpt/model/positions.py` does.
   * @param {number} position
   * @param {Float32Array} scores
   * @param {number} at where the first of position + 1 scores is
   */
  hide(position, scores, at) {
    const { row_window: rows = null, column_window: columns = null } = this.#config;
    if (rows === null && columns === null) return;
    const query = this.#where[position - this.#start];
    for (let index = 0; index <= position; index += 1) {
      const key = this.#keys[index];
      if (!seesRow(query, key, rows) || !seesColumn(query, key, columns)) scores[at + index] = -Infinity;
    }
  }

  /**
   * @param {string} table
   * @param {number} row
   * @param {Float32Array} x
   * @param {number} at
   */
  #addRow(table, row, x, at) {
    const { data } = this.#tensors[`positions.${table}.weight`];
    const width = this.#config.n_embd;
    for (let i = 0; i < width; i += 1) x[at + i] += data[row * width + i];
  }

  /**
   * @param {number} position
   * @param {Float32Array} x
   * @param {number} at
   */
  #addSinusoids(position, x, at) {
    const half = this.#config.n_embd / 2;
    for (let i = 0; i < half; i += 1) {
      const angle = position * BASE ** (-i / half);
      x[at + 2 * i] += Math.sin(angle);
      x[at + 2 * i + 1] += Math.cos(angle);
    }
  }

  /**
   * Rotates the queries or the keys of a new token: channels i and i + D/2 of each, by the angles.
   * @param {number} t its index among the new ones
   * @param {boolean} isQuery
   * @param {Float32Array} x
   * @param {number} at where the first one is
   * @param {number} heads how many there are
   */
  rotate(t, isQuery, x, at, heads) {
    const { position: scheme } = this.#config;
    if (scheme !== "coordinates" && !ROTATED.includes(scheme)) return;
    const [half, rotations] = [this.#half, this.#rotations];
    const cos = (2 * t + (isQuery ? 0 : 1)) * 2 * half;
    const sin = cos + half;
    for (let first = at; first < at + heads * 2 * half; first += 2 * half) {
      for (let i = 0; i < half; i += 1) {
        const [a, b] = [x[first + i], x[first + half + i]];
        x[first + i] = a * rotations[cos + i] - b * rotations[sin + i];
        x[first + half + i] = b * rotations[cos + i] + a * rotations[sin + i];
      }
    }
  }
}

/**
 * @param {import("./coordinates.js").Coordinates} query
 * @param {import("./coordinates.js").Coordinates} key
 * @param {number | null} window
 */
function seesRow([, , ownRow, , queryRow], [, , row], window) {
  const center = queryRow || ownRow;
  return window === null || !row || (center > 0 && Math.abs(row - center) <= window);
}

/**
 * @param {import("./coordinates.js").Coordinates} query
 * @param {import("./coordinates.js").Coordinates} key
 * @param {number | null} window
 */
function seesColumn([, nextKind, , own, , sought], [kind, after, , column], window) {
  if (window === null || !column || ROW_ENDS.has(after)) return true;
  if (FAR.get(nextKind)?.has(kind)) return true;
  const center = sought || own;
  const isNear = center > 0 && Math.abs(column - center) <= window;
  return isNear && FIELDS.has(kind) === COPIES.has(nextKind);
}
