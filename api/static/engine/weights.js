// Reads the weights of a checkpoint: a file in the format of safetensors, with numbers of 16 or 32
// bits. What else the engine needs to know of the model is JSON in the file's metadata.

const MAX_HEADER = 2 ** 20; // bytes

/** @type {Record<string, number>} */
const WIDTHS = { F16: 2, F32: 4 }; // bytes

/** A file that cannot be read; the message is one line for the user. */
export class WeightsError extends Error {}

/** @typedef {Record<string, {shape: number[], data: Float32Array}>} Tensors by name */

/**
 * Returns the tensors of a file, and what it says of the model.
 * @param {ArrayBuffer} buffer
 * @returns {{tensors: Tensors, manifest: Record<string, any>}}
 * @throws {WeightsError}
 */
export function readWeights(buffer) {
  const view = new DataView(buffer);
  const length = buffer.byteLength < 8 ? 0 : Number(view.getBigUint64(0, true));
  if (length < 2 || length > Math.min(MAX_HEADER, buffer.byteLength - 8)) throw damaged();
  let header;
  let manifest;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(buffer, 8, length)));
    manifest = JSON.parse(header.__metadata__.manifest);
  } catch {
    throw damaged();
  }
  delete header.__metadata__;
  /** @type {Tensors} */
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    tensors[name] = { shape, data: numbers(buffer, dtype, shape, offsets, 8 + length) };
  }
  return { tensors, manifest };
}

/**
 * @param {ArrayBuffer} buffer
 * @param {string} dtype
 * @param {number[]} shape
 * @param {[begin: number, end: number]} offsets
 * @param {number} start of the data
 */
function numbers(buffer, dtype, shape, [begin, end], start) {
  const count = shape.reduce((product, size) => product * size, 1);
  const width = WIDTHS[dtype];
  if (!width || end - begin !== count * width || start + end > buffer.byteLength) throw damaged();
  const bytes = buffer.slice(start + begin, start + end); // a copy, because offsets need not be aligned
  return dtype === "F32" ? new Float32Array(bytes) : fromHalf(new Uint16Array(bytes));
}

/**
 * Returns numbers of 16 bits (IEEE 754 binary16) as numbers of 32 bits, which have the same fields but
 * eight bits of exponent instead of five: its bias is larger by 112.
 * @param {Uint16Array} halves
 */
export function fromHalf(halves) {
  const bits = new Uint32Array(halves.length);
  const result = new Float32Array(bits.buffer);
  for (let index = 0; index < halves.length; index += 1) {
    const half = halves[index];
    if ((half & 0x7c00) === 0x7c00) throw damaged(); // no finite number
    bits[index] = ((half & 0x8000) << 16) | ((half & 0x7fff) << 13);
    result[index] *= 2 ** 112;
  }
  return result;
}

function damaged() {
  return new WeightsError("The weights of this model are damaged.");
}
