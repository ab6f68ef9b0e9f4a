// The layers of a decoder: linear layers, norms, activations and the softmax. They read and write numbers
// in the decoder's memory, which their parameters x and y give as offsets.
//
// Matrices are (out, in), as torch stores them.

const BLOCK_ROWS = 32; // rows of a matrix that are used for all tokens before the next rows are read
// Softmax treats exp() of less as 0. Such small terms would not change the sum, and subnormal numbers are
// slow.
const MIN_EXPONENT = -25;

/** A linear layer: y = x W^T + b. It may have no bias. */
export class Linear {
  #memory;
  #weight;
  #bias;
  /** @type {[start: number, stop: number][]} */ #ignored = [];
  #ignoresBias = false;

  /** @param {import("./memory.js").Memory} memory
   * @param {Float32Array} weight (nOut, nIn)
   * @param {Float32Array | undefined} bias
   * @param {number} nIn */
  constructor(memory, weight, bias, nIn) {
    this.#memory = memory;
    this.#weight = memory.store(weight);
    this.#bias = bias;
    this.nIn = nIn;
    this.nOut = weight.length / nIn;
  }

  /** Writes the output for n rows x into y. @type {(x: number, y: number, n: number) => void} */
  write(x, y, n) {
    this.#memory.numbers.fill(0, y, y + n * this.nOut);
    this.add(x, y, n);
  }

  /** Replaces these inputs by 0 from now on, and only these. ranges: of their indices; ignoresBias: whether the output
   * has no bias either.
   * @type {(ranges: [start: number, stop: number][], ignoresBias: boolean) => void} */
  ignore(ranges, ignoresBias) {
    this.#ignored = ranges;
    this.#ignoresBias = ignoresBias;
  }

  /** Returns whether an input is replaced by 0. @param {number} index */
  ignores(index) {
    return this.#ignored.some(([start, stop]) => start <= index && index < stop);
  }

  /** Adds the output for n rows x to y. @type {(x: number, y: number, n: number) => void} */
  add(x, y, n) {
    const { numbers } = this.#memory;
    const [nIn, nOut, bias] = [this.nIn, this.nOut, this.#bias];
    for (const [start, stop] of this.#ignored) {
      for (let row = x; row < x + n * nIn; row += nIn) numbers.fill(0, row + start, row + stop);
    }
    if (bias && !this.#ignoresBias) {
      for (let i = 0; i < n * nOut; i += 1) numbers[y + i] += bias[i % nOut];
    }
    for (let out = 0; out < nOut; out += BLOCK_ROWS) {
      const weight = this.#weight + out * nIn;
      const rows = Math.min(BLOCK_ROWS, nOut - out);
      for (let row = 0; row < n; row += 1) {
        this.#memory.addProducts(weight, nIn, rows, x + row * nIn, nIn, y + row * nOut + out);
      }
    }
  }
}

/** Root-mean-square normalisation with a gain or, if `isLayerNorm`, LayerNorm. */
export class Norm {
  #numbers;
  #gain;
  #bias;
  #isLayerNorm;

  /** @param {import("./memory.js").Memory} memory
   * @param {Float32Array} gain
   * @param {Float32Array | undefined} bias
   * @param {boolean} isLayerNorm */
  constructor(memory, gain, bias, isLayerNorm) {
    this.#numbers = memory.numbers;
    this.#gain = gain;
    this.#bias = bias;
    this.#isLayerNorm = isLayerNorm;
  }

  /** Writes n rows x, normalised, into y. Both offsets may be the same.
   * @type {(x: number, y: number, n: number) => void} */
  write(x, y, n) {
    const width = this.#gain.length;
    for (let row = 0; row < n; row += 1) this.#writeRow(x + row * width, y + row * width);
  }

  /** @type {(x: number, y: number) => void} */
  #writeRow(x, y) {
    const [numbers, gain, bias] = [this.#numbers, this.#gain, this.#bias];
    const width = gain.length;
    let mean = 0;
    if (this.#isLayerNorm) {
      for (let i = 0; i < width; i += 1) mean += numbers[x + i] / width;
    }
    let square = 0;
    for (let i = 0; i < width; i += 1) square += (numbers[x + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(square / width + (this.#isLayerNorm ? 1e-5 : 1e-6));
    for (let i = 0; i < width; i += 1) numbers[y + i] = (numbers[x + i] - mean) * scale * gain[i];
    if (bias) for (let i = 0; i < width; i += 1) numbers[y + i] += bias[i];
  }
}

/** @typedef {(x: number) => number} Activation */

/** @type {Activation} */ const sigmoid = (x) => 1 / (1 + Math.exp(-x));
/** @type {Activation} */ const silu = (x) => x * sigmoid(x);
/** @type {Activation} */ const relu = (x) => Math.max(0, x);
/** @type {Activation} */
const geluTanh = (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** The activations of feed-forward networks, by the name of the network. A gated network multiplies the
 * result by its second half.
 * @type {Record<string, Activation>} */
export const ACTIVATIONS = {
  relu,
  relu2: (x) => relu(x) ** 2,
  "gelu-tanh": geluTanh,
  silu,
  glu: sigmoid,
  swiglu: silu,
};

/** Replaces n values by their softmax. start: the index of the first value.
 * @type {(values: Float32Array, start?: number, n?: number) => void} */
export function softmax(values, start = 0, n = values.length) {
  const stop = start + n;
  let largest = values[start];
  for (let i = start + 1; i < stop; i += 1) if (values[i] > largest) largest = values[i];
  let total = 0;
  for (let i = start; i < stop; i += 1) {
    const exponent = values[i] - largest;
    values[i] = exponent < MIN_EXPONENT ? 0 : Math.exp(exponent);
    total += values[i];
  }
  const scale = 1 / total;
  for (let i = start; i < stop; i += 1) values[i] *= scale;
}
