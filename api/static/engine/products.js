// The arithmetic of a decoder on typed arrays: products with matrices, norms, activations.
//
// Shapes: R rows, one for each token; matrices are (out, in), as torch stores them.

const ROWS = 32; // of a matrix, which all tokens use before the next ones are fetched
const LEAST = -25; // exponents below it count as none: slow numbers, which no sum would show

/**
 * Adds the products of x[x0 : x0 + nIn] with rows of a matrix to y[y0 : y0 + nOut]. Sums are taken
 * four at a time, because each addition waits for the one before it.
 * @param {Float32Array} w
 * @param {number} w0 where the first row begins
 * @param {number} stride from one row to the next
 * @param {number} nOut the number of rows
 * @param {Float32Array} x
 * @param {Float32Array} y
 */
export function addProducts(w, w0, stride, nOut, x, x0, nIn, y, y0) {
  let out = 0;
  for (; out + 4 <= nOut; out += 4) {
    const row0 = w0 + out * stride;
    const row1 = row0 + stride;
    const row2 = row1 + stride;
    const row3 = row2 + stride;
    let sum0 = 0;
    let sum1 = 0;
    let sum2 = 0;
    let sum3 = 0;
    for (let k = 0; k < nIn; k += 1) {
      const value = x[x0 + k];
      sum0 += w[row0 + k] * value;
      sum1 += w[row1 + k] * value;
      sum2 += w[row2 + k] * value;
      sum3 += w[row3 + k] * value;
    }
    y[y0 + out] += sum0;
    y[y0 + out + 1] += sum1;
    y[y0 + out + 2] += sum2;
    y[y0 + out + 3] += sum3;
  }
  for (; out < nOut; out += 1) y[y0 + out] += dot(w, w0 + out * stride, x, x0, nIn);
}

/** Returns the product of w[w0 : w0 + n] and x[x0 : x0 + n]. */
function dot(w, w0, x, x0, n) {
  let sum = 0;
  for (let k = 0; k < n; k += 1) sum += w[w0 + k] * x[x0 + k];
  return sum;
}

/**
 * Adds `weight` times from[i : i + n] to to[j : j + n].
 * @param {Float32Array} from
 * @param {Float32Array} to
 */
export function addScaled(weight, from, i, to, j, n) {
  for (let k = 0; k < n; k += 1) to[j + k] += weight * from[i + k];
}

/**
 * A matrix with its bias, if it has one: y = x W^T + b.
 */
export class Linear {
  #weight;
  #bias;
  #nIn;

  /**
   * @param {Float32Array} weight (nOut, nIn)
   * @param {Float32Array | undefined} bias
   * @param {number} nIn
   */
  constructor(weight, bias, nIn) {
    this.#weight = weight;
    this.#bias = bias;
    this.#nIn = nIn;
    this.nOut = weight.length / nIn;
  }

  /** Writes the product of n rows x into y. */
  write(x, y, n) {
    y.fill(0, 0, n * this.nOut);
    this.add(x, y, n);
  }

  /** Adds the product of n rows x to y. */
  add(x, y, n) {
    if (this.#bias) {
      for (let row = 0; row < n; row += 1) {
        for (let out = 0; out < this.nOut; out += 1) y[row * this.nOut + out] += this.#bias[out];
      }
    }
    const nIn = this.#nIn;
    for (let out = 0; out < this.nOut; out += ROWS) {
      const nOut = Math.min(ROWS, this.nOut - out);
      for (let row = 0; row < n; row += 1) {
        addProducts(this.#weight, out * nIn, nIn, nOut, x, row * nIn, nIn, y, row * this.nOut + out);
      }
    }
  }
}

/**
 * Root-mean-square normalisation with a gain or, if `isLayerNorm`, LayerNorm.
 */
export class Norm {
  #gain;
  #bias;
  #isLayerNorm;

  /**
   * @param {Float32Array} gain
   * @param {Float32Array | undefined} bias
   * @param {boolean} isLayerNorm
   */
  constructor(gain, bias, isLayerNorm) {
    this.#gain = gain;
    this.#bias = bias;
    this.#isLayerNorm = isLayerNorm;
  }

  /** Writes x[from : from + width], normalised, to y[to : to + width]. */
  write(x, from, y, to) {
    const width = this.#gain.length;
    let mean = 0;
    if (this.#isLayerNorm) {
      for (let i = 0; i < width; i += 1) mean += x[from + i] / width;
    }
    let square = 0;
    for (let i = 0; i < width; i += 1) square += (x[from + i] - mean) * (x[from + i] - mean);
    const scale = 1 / Math.sqrt(square / width + (this.#isLayerNorm ? 1e-5 : 1e-6));
    const gain = this.#gain;
    for (let i = 0; i < width; i += 1) y[to + i] = (x[from + i] - mean) * scale * gain[i];
    const bias = this.#bias;
    if (bias) for (let i = 0; i < width; i += 1) y[to + i] += bias[i];
  }
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const silu = (x) => x * sigmoid(x);
const relu = (x) => Math.max(0, x);
const geluTanh = (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** The activations of feed-forward networks, by the name of the network. Gated ones multiply. */
export const ACTIVATIONS = {
  relu,
  relu2: (x) => relu(x) ** 2,
  "gelu-tanh": geluTanh,
  silu,
  glu: sigmoid,
  swiglu: silu,
};

/** Replaces the first `n` values by their softmax. */
export function softmax(values, n = values.length) {
  let largest = values[0];
  for (let i = 1; i < n; i += 1) if (values[i] > largest) largest = values[i];
  let total = 0;
  for (let i = 0; i < n; i += 1) {
    const exponent = values[i] - largest;
    values[i] = exponent < LEAST ? 0 : Math.exp(exponent);
    total += values[i];
  }
  for (let i = 0; i < n; i += 1) values[i] /= total;
}
