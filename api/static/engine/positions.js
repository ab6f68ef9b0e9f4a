// The positional schemes that the engine covers (calcgpt/model/positions.py, which cites the papers).
//
// Shapes: C n_embd, D head width.

import { CoordinateReader } from "./coordinates.js";
import { COPIES, FIELDS } from "./operations.js";

const SINUSOIDAL_BASE = 10_000; // the base of the frequencies of sinusoidal embeddings
const ROTARY_SCHEMES = ["rope", "learned+rope", "coupled+rope"];

/** The keys that a query sees, as runs: the position of the first key of a run, and the position after its last.
 * @typedef {[first: number, stop: number][]} Runs */

/** Applies a positional scheme. It adds vectors to the embeddings, and rotates queries and keys by angles
 * that are the same in all layers. */
export class Positions {
  #config;
  #tensors;
  #rowOfToken;
  #vocabulary;
  #reader = new CoordinateReader();
  #line = "";
  /** @type {import("./coordinates.js").Coordinates[]} */ #coordinates = []; // of all tokens
  /** @type {number[][]} */ #rows = []; // the positions of the tokens of each row
  #half;
  /** @type {number[]} */ #rope; // the angles of a rotary scheme at position 1
  /** The rotations of queries and of keys, cosines before sines: (T, 2, 2, D/2). */
  #rotations;

  /** @param {Record<string, any>} config the config of the model, as `config.json` has it
   * @param {import("./weights.js").Tensors} tensors
   * @param {string[]} vocabulary
   * @param {number[]} frequencies the frequencies of coordinates, per axis; empty for other schemes
   * @param {number} maxTokens the most new tokens at a time */
  constructor(config, tensors, vocabulary, frequencies, maxTokens) {
    this.#config = config;
    this.#tensors = tensors;
    this.#vocabulary = vocabulary;
    /** @type {number[]} */ const rowMarks = config.row_marks;
    this.#rowOfToken = new Map(rowMarks.map((token, index) => [token, index + 1]));
    this.#half = config.head_dim / 2;
    this.#rope = Array.from({ length: this.#half }, (_, i) => config.rope_base ** (-i / this.#half));
    this.#rotations = new Float32Array(maxTokens * 4 * this.#half);
    this.frequencies = Float32Array.from(frequencies);
  }

  /** Computes the coordinates and rotations of new tokens. Call it before the other methods. tokens: all tokens so far;
   * start: the index of the first new token; stop: the index after the last new token.
   * @type {(tokens: number[], start: number, stop: number) => void} */
  locate(tokens, start, stop) {
    const { position: scheme } = this.#config;
    if (scheme === "coordinates") {
      this.#line = this.#line.slice(0, start);
      for (let index = this.#line.length; index < stop; index += 1) this.#line += this.#vocabulary[tokens[index]];
      this.#readCoordinates(start);
    } else if (!ROTARY_SCHEMES.includes(scheme)) return;
    for (let t = 0; t < stop - start; t += 1) {
      for (const [side, isQuery] of [true, false].entries()) {
        const offset = (2 * t + side) * 2 * this.#half;
        for (let i = 0; i < this.#half; i += 1) {
          const angle = this.#angle(start + t, isQuery, i);
          this.#rotations[offset + i] = Math.cos(angle);
          this.#rotations[offset + this.#half + i] = Math.sin(angle);
        }
      }
    }
  }

  /** Computes the coordinates of the line. start: the index of the first new token. @param {number} start */
  #readCoordinates(start) {
    const nReused = Math.min(this.#coordinates.length, start); // fewer after a shorter text
    if (this.#coordinates.length > nReused) {
      this.#coordinates.length = nReused;
      this.#rows = this.#rows.map((positions) => positions.filter((position) => position < nReused));
    }
    for (const coordinates of this.#reader.read(this.#line, nReused)) {
      const [, , row] = coordinates;
      (this.#rows[row] ??= []).push(this.#coordinates.push(coordinates) - 1);
    }
  }

  /** Returns the angle by which channel i of a query or a key is rotated.
   * @type {(position: number, isQuery: boolean, i: number) => number} */
  #angle(position, isQuery, i) {
    if (this.#config.position !== "coordinates") return position * this.#rope[i];
    const n = this.frequencies.length;
    if (i >= 2 * n) return 0;
    const [, , row, column, queryRow, queryColumn] = this.#coordinates[position];
    const axes = isQuery ? [queryRow, queryColumn] : [row, column];
    return Math.fround(axes[Math.floor(i / n)] * this.frequencies[i % n]);
  }

  /** Adds the vectors of a token to its embedding, x[offset : offset + C].
   * @type {(tokens: number[], position: number, x: Float32Array, offset: number) => void} */
  embed(tokens, position, x, offset) {
    const { position: scheme, n_place: nPlace } = this.#config;
    if (scheme === "sinusoidal") this.#addSinusoids(position, x, offset);
    if (scheme.startsWith("learned")) this.#addRow("table", position, x, offset);
    if (scheme.startsWith("coupled")) {
      let mark = position;
      while (mark > 0 && !this.#rowOfToken.has(tokens[mark])) mark -= 1;
      this.#addRow("places", Math.min(position - mark, nPlace - 1), x, offset);
      this.#addRow("rows", this.#rowOfToken.get(tokens[mark]) ?? 0, x, offset);
    }
    if (scheme === "coordinates") {
      const [kind, nextKind] = this.#coordinates[position];
      this.#addRow("kinds", kind, x, offset);
      this.#addRow("next_kinds", nextKind, x, offset);
    }
  }

  /** Returns the keys that the query of a new token sees: all so far, or those within its windows, as
   * `CoordinatePositions` in `calcgpt/model/positions.py` has them.
   * @type {(position: number) => Runs} */
  visibleKeys(position) {
    const { row_window: rowWindow = null, column_window: columnWindow = null } = this.#config;
    if (rowWindow === null && columnWindow === null) return [[0, position + 1]];
    /** @type {Runs} */ const runs = [];
    const query = this.#coordinates[position];
    for (const [row, positions] of this.#rows.entries()) {
      if (!positions || !isInRowWindow(query, row, rowWindow)) continue;
      for (const key of positions) {
        if (key > position) break;
        if (!isInColumnWindow(query, this.#coordinates[key], columnWindow)) continue;
        const last = runs.at(-1);
        if (last?.[1] === key) last[1] = key + 1;
        else runs.push([key, key + 1]);
      }
    }
    return runs;
  }

  /** Adds a row of a table of embeddings.
   * @type {(table: string, row: number, x: Float32Array, offset: number) => void} */
  #addRow(table, row, x, offset) {
    const { data } = this.#tensors[`positions.${table}.weight`];
    const width = this.#config.n_embd;
    for (let i = 0; i < width; i += 1) x[offset + i] += data[row * width + i];
  }

  /** @type {(position: number, x: Float32Array, offset: number) => void} */
  #addSinusoids(position, x, offset) {
    const half = this.#config.n_embd / 2;
    for (let i = 0; i < half; i += 1) {
      const angle = position * SINUSOIDAL_BASE ** (-i / half);
      x[offset + 2 * i] += Math.sin(angle);
      x[offset + 2 * i + 1] += Math.cos(angle);
    }
  }

  /** Rotates the queries or the keys of a new token: channels i and i + D/2 of each, by the angle of i. t: the index of
   * the token among the new ones; offset: the offset of the first query or key; heads: the number of queries or keys.
   * @type {(t: number, isQuery: boolean, x: Float32Array, offset: number, heads: number) => void} */
  rotate(t, isQuery, x, offset, heads) {
    const { position: scheme } = this.#config;
    if (scheme !== "coordinates" && !ROTARY_SCHEMES.includes(scheme)) return;
    const [half, rotations] = [this.#half, this.#rotations];
    const cosOffset = (2 * t + (isQuery ? 0 : 1)) * 2 * half;
    const sinOffset = cosOffset + half;
    for (let first = offset; first < offset + heads * 2 * half; first += 2 * half) {
      for (let i = 0; i < half; i += 1) {
        const [a, b] = [x[first + i], x[first + half + i]];
        x[first + i] = a * rotations[cosOffset + i] - b * rotations[sinOffset + i];
        x[first + half + i] = b * rotations[cosOffset + i] + a * rotations[sinOffset + i];
      }
    }
  }
}

/** Returns whether a row is in the window of a query. window: null if there is none.
 * @type {(query: import("./coordinates.js").Coordinates, row: number, window: number | null) => boolean} */
function isInRowWindow([, , ownRow, , queryRow], row, window) {
  const center = queryRow || ownRow;
  return window === null || !row || (center > 0 && Math.abs(row - center) <= window);
}

/** Returns whether the column of a key is in the window of a query. window: null if there is none.
 * @type {(query: import("./coordinates.js").Coordinates, key: import("./coordinates.js").Coordinates,
 *   window: number | null) => boolean} */
function isInColumnWindow([, nextKind, , ownColumn, , queryColumn], [keyKind, , , keyColumn], window) {
  if (window === null || !keyColumn) return true;
  const center = queryColumn || ownColumn;
  const isNear = center > 0 && Math.abs(keyColumn - center) <= window;
  return isNear && FIELDS.has(keyKind) === COPIES.has(nextKind);
}
