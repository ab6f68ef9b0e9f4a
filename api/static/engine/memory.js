// The numbers of a decoder in one array, and the operation on them that takes most of its time: the
// product of a matrix and a vector. It is done four numbers at a time in WebAssembly or, where that is
// not allowed, in JavaScript.
//
// A place in the memory is an index, counted in numbers.

import { assemble, f32, f32x4, get, i32, loopWhile, memoryOf, set } from "./assembler.js";

/** @typedef {import("./assembler.js").Code} Code */

const LANES = 4; // numbers of a vector
const BYTES = 4; // of a number

/** Numbers of 32 bits, and products of them. */
export class Memory {
  /** @type {Float32Array} */
  numbers;
  #used = 0;
  /** @type {((...places: number[]) => void) | null} */
  #addProducts = null;

  /**
   * @param {number} size numbers, of all that is allocated
   * @param {boolean} [mayAssemble] whether WebAssembly may be used
   */
  constructor(size, mayAssemble = true) {
    const module = mayAssemble ? compiled() : null;
    const bytes = size * BYTES;
    if (!module) this.numbers = new Float32Array(size);
    else {
      const memory = memoryOf(bytes);
      this.numbers = new Float32Array(memory.buffer);
      const { exports } = new WebAssembly.Instance(module, { host: { memory } });
      this.#addProducts = /** @type {(...places: number[]) => void} */ (exports.addProducts);
    }
  }

  /** Returns where `n` new numbers are, all 0. @param {number} n */
  allocate(n) {
    const at = this.#used;
    this.#used += n;
    if (this.#used > this.numbers.length) throw new RangeError("the memory of the decoder is full");
    return at;
  }

  /** Returns where a copy of the numbers is. @param {Float32Array} numbers */
  put(numbers) {
    const at = this.allocate(numbers.length);
    this.numbers.set(numbers, at);
    return at;
  }

  /**
   * Adds the products of x (nIn) and the rows of a matrix to y (nOut).
   * @param {number} w where the first row is
   * @param {number} stride from one row to the next
   * @param {number} nOut the number of rows
   * @param {number} x
   * @param {number} nIn
   * @param {number} y
   */
  addProducts(w, stride, nOut, x, nIn, y) {
    if (this.#addProducts && nIn % LANES === 0) {
      this.#addProducts(BYTES * w, BYTES * stride, nOut, BYTES * x, BYTES * nIn, BYTES * y);
    } else addProducts(this.numbers, w, stride, nOut, x, nIn, y);
  }
}

/**
 * The same in JavaScript. Sums are taken four at a time, because each addition waits for the one before
 * it.
 * @param {Float32Array} m
 * @param {number} w
 * @param {number} stride
 * @param {number} nOut
 * @param {number} x
 * @param {number} nIn
 * @param {number} y
 */
function addProducts(m, w, stride, nOut, x, nIn, y) {
  let out = 0;
  for (; out + 4 <= nOut; out += 4) {
    const row0 = w + out * stride;
    const row1 = row0 + stride;
    const row2 = row1 + stride;
    const row3 = row2 + stride;
    let sum0 = 0;
    let sum1 = 0;
    let sum2 = 0;
    let sum3 = 0;
    for (let k = 0; k < nIn; k += 1) {
      const value = m[x + k];
      sum0 += m[row0 + k] * value;
      sum1 += m[row1 + k] * value;
      sum2 += m[row2 + k] * value;
      sum3 += m[row3 + k] * value;
    }
    m[y + out] += sum0;
    m[y + out + 1] += sum1;
    m[y + out + 2] += sum2;
    m[y + out + 3] += sum3;
  }
  for (; out < nOut; out += 1) {
    let sum = 0;
    for (let k = 0; k < nIn; k += 1) sum += m[w + out * stride + k] * m[x + k];
    m[y + out] += sum;
  }
}

/** The same in WebAssembly. Places, the stride and nIn are counted in bytes.
 * @type {import("./assembler.js").Func} */
const PRODUCTS = {
  name: "addProducts",
  parameters: ["w", "stride", "nOut", "x", "nIn", "y"],
  locals: {
    i32: ["k", "end", "row0", "row1", "row2", "row3"],
    v128: ["value", "sum0", "sum1", "sum2", "sum3"],
  },
  body(v) {
    /** @type {(name: string, by: Code) => Code} */
    const shifted = (name, by) => set(v[name], i32.add(get(v[name]), by));
    /** @type {(sum: number) => Code} */
    const lanes = (sum) => [0, 1, 2, 3].map((index) => f32x4.lane(get(sum), index)).reduce((a, b) => f32.add(a, b));
    /** All rows that are left, `n` at a time.
     * @type {(n: number) => Code} */
    const rows = (n) => {
      /** @type {(write: (row: number, sum: number, index: number) => Code) => Code} */
      const each = (write) =>
        Array.from({ length: n }, (_, index) => write(v[`row${index}`], v[`sum${index}`], index)).flat();
      return loopWhile(
        i32.ge(get(v.nOut), i32.const(n)),
        each((row, sum, index) => {
          const start = i32.add(get(v.w), i32.mul(get(v.stride), i32.const(index)));
          return [...set(row, i32.sub(start, get(v.x))), ...set(sum, f32x4.zero)];
        }),
        set(v.k, get(v.x)),
        loopWhile(
          i32.lt(get(v.k), get(v.end)),
          set(v.value, f32x4.load(get(v.k))),
          each((row, sum) => {
            const weights = f32x4.load(i32.add(get(row), get(v.k)));
            return set(sum, f32x4.add(get(sum), f32x4.mul(weights, get(v.value))));
          }),
          shifted("k", i32.const(LANES * BYTES)),
        ),
        each((_, sum, index) => {
          const at = i32.add(get(v.y), i32.const(BYTES * index));
          return f32.store(at, f32.add(f32.load(at), lanes(sum)));
        }),
        shifted("y", i32.const(BYTES * n)),
        shifted("w", i32.mul(get(v.stride), i32.const(n))),
        shifted("nOut", i32.const(-n)),
      );
    };
    return [set(v.end, i32.add(get(v.x), get(v.nIn))), rows(4), rows(1)];
  },
};

/** @type {WebAssembly.Module | null | undefined} */
let known;

/** Returns the module, or null where there is no WebAssembly, or no vectors, or a rule forbids it. */
function compiled() {
  if (known === undefined) {
    try {
      known = new WebAssembly.Module(assemble([PRODUCTS]));
    } catch {
      known = null;
    }
  }
  return known;
}
