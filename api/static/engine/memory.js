// The memory of a decoder: all its numbers in one array, and the operation that takes most of its time,
// the product of a matrix and a vector. WebAssembly computes it four numbers at a time. Where that is not
// allowed, JavaScript does.
//
// Offsets into the memory count numbers, not bytes.

import { assemble, f32, f32x4, get, i32, loopWhile, createMemory, set } from "./assembler.js";

/** @typedef {import("./assembler.js").Code} Code */

export const LANES = 4; // the numbers that a vector operation of WebAssembly handles together
const BYTES = 4; // bytes of a number

/** Returns a count of numbers, rounded up to whole vectors. @param {number} n */
export const padded = (n) => Math.ceil(n / LANES) * LANES;

export class Memory {
  /** @type {Float32Array} */ numbers;
  #nAllocated = 0;
  /** @type {((...args: number[]) => void) | null} */ #addProducts = null;

  /** @param {number} size the most numbers that can be allocated
   * @param {boolean} [useWebAssembly] whether WebAssembly may be used */
  constructor(size, useWebAssembly = true) {
    const module = useWebAssembly ? compileModule() : null;
    const bytes = size * BYTES;
    if (!module) this.numbers = new Float32Array(size);
    else {
      const memory = createMemory(bytes);
      this.numbers = new Float32Array(memory.buffer);
      const { exports } = new WebAssembly.Instance(module, { host: { memory } });
      this.#addProducts = /** @type {(...args: number[]) => void} */ (exports.addProducts);
    }
  }

  /** Allocates `n` numbers, all 0, and returns their offset. @param {number} n */
  allocate(n) {
    const offset = this.#nAllocated;
    this.#nAllocated += n;
    if (this.#nAllocated > this.numbers.length) throw new RangeError("the memory of the decoder is full");
    return offset;
  }

  /** Copies numbers into the memory and returns their offset. @param {Float32Array} numbers */
  store(numbers) {
    const offset = this.allocate(numbers.length);
    this.numbers.set(numbers, offset);
    return offset;
  }

  /** Adds the products of the rows of a matrix and a vector x (nIn) to a vector y (nOut). w: the offset of the first
   * row; stride: the distance from one row to the next; nOut: the number of rows; x: the offset of x; y: the offset of
   * y.
   * @type {(w: number, stride: number, nOut: number, x: number, nIn: number, y: number) => void} */
  addProducts(w, stride, nOut, x, nIn, y) {
    if (this.#addProducts && nIn % LANES === 0) {
      this.#addProducts(BYTES * w, BYTES * stride, nOut, BYTES * x, BYTES * nIn, BYTES * y);
    } else addProducts(this.numbers, w, stride, nOut, x, nIn, y);
  }
}

/** Does the same as `Memory.addProducts` in JavaScript. It computes four sums at a time, because each addition to a sum
 * waits for the one before it.
 * @type {(m: Float32Array, w: number, stride: number, nOut: number, x: number, nIn: number, y: number) => void} */
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

/** The same in WebAssembly. Offsets, the stride and nIn count bytes. @type {import("./assembler.js").Func} */
const ADD_PRODUCTS = {
  name: "addProducts",
  parameters: ["w", "stride", "nOut", "x", "nIn", "y"],
  locals: {
    i32: ["k", "end", "row0", "row1", "row2", "row3"],
    v128: ["value", "sum0", "sum1", "sum2", "sum3"],
  },
  body(v) {
    /** Adds an amount to a variable. @type {(name: string, by: Code) => Code} */
    const advance = (name, by) => set(v[name], i32.add(get(v[name]), by));
    /** Adds the four numbers of a vector. @type {(sum: number) => Code} */
    const sumOfLanes = (sum) => [0, 1, 2, 3].map((index) => f32x4.lane(get(sum), index)).reduce((a, b) => f32.add(a, b));
    /** Handles `n` rows at a time, as long as so many are left. @type {(n: number) => Code} */
    const addRows = (n) => {
      /** Repeats code for each of the `n` rows.
       * @type {(write: (row: number, sum: number, index: number) => Code) => Code} */
      const forEachRow = (write) =>
        Array.from({ length: n }, (_, index) => write(v[`row${index}`], v[`sum${index}`], index)).flat();
      return loopWhile(
        i32.ge(get(v.nOut), i32.const(n)),
        forEachRow((row, sum, index) => {
          const start = i32.add(get(v.w), i32.mul(get(v.stride), i32.const(index)));
          return [...set(row, i32.sub(start, get(v.x))), ...set(sum, f32x4.zero)];
        }),
        set(v.k, get(v.x)),
        loopWhile(
          i32.lt(get(v.k), get(v.end)),
          set(v.value, f32x4.load(get(v.k))),
          forEachRow((row, sum) => {
            const weights = f32x4.load(i32.add(get(row), get(v.k)));
            return set(sum, f32x4.add(get(sum), f32x4.mul(weights, get(v.value))));
          }),
          advance("k", i32.const(LANES * BYTES)),
        ),
        forEachRow((_, sum, index) => {
          const address = i32.add(get(v.y), i32.const(BYTES * index));
          return f32.store(address, f32.add(f32.load(address), sumOfLanes(sum)));
        }),
        advance("y", i32.const(BYTES * n)),
        advance("w", i32.mul(get(v.stride), i32.const(n))),
        advance("nOut", i32.const(-n)),
      );
    };
    return [set(v.end, i32.add(get(v.x), get(v.nIn))), addRows(4), addRows(1)];
  },
};

/** @type {WebAssembly.Module | null | undefined} */ let cachedModule;

/** Returns the compiled module. Returns null if the browser has no WebAssembly or no vectors, or if a
 * Content-Security-Policy forbids it. */
function compileModule() {
  if (cachedModule === undefined) {
    try {
      cachedModule = new WebAssembly.Module(assemble([ADD_PRODUCTS]));
    } catch {
      cachedModule = null;
    }
  }
  return cachedModule;
}
