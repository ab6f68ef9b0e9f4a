// Reads the weights of a checkpoint from a file in the format of safetensors, with numbers of 8, 16 or 32 bits
// (calcgpt/inference/browser.py). The metadata of the file have a manifest in JSON, with what else the engine needs.

const MAX_HEADER = 2 ** 20; // bytes

/** @type {Record<string, number>} */ const BYTES_PER_NUMBER = { I8: 1, F16: 2, F32: 4 };
const SCALE = ".scale"; // the end of the name of a tensor with a factor for each row of another one

/** A file cannot be read. The message is one line for the user. */
export class WeightsError extends Error {}

/** @typedef {Record<string, {shape: number[], data: Float32Array}>} Tensors by name */

/** Returns the tensors and the manifest of a file.
 * @throws {WeightsError}
 * @type {(buffer: ArrayBuffer) => {tensors: Tensors, manifest: Record<string, any>}} */
export function readWeights(buffer) {
  const view = new DataView(buffer);
  const length = buffer.byteLength < 8 ? 0 : Number(view.getBigUint64(0, true));
  if (length < 2 || length > Math.min(MAX_HEADER, buffer.byteLength - 8)) throw damagedError();
  let header;
  let manifest;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(buffer, 8, length)));
    manifest = JSON.parse(header.__metadata__.manifest);
  } catch {
    throw damagedError();
  }
  delete header.__metadata__;
  /** @type {Tensors} */ const tensors = {};
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    tensors[name] = { shape, data: readNumbers(buffer, dtype, shape, offsets, 8 + length) };
  }
  for (const name of Object.keys(tensors).filter((name) => name.endsWith(SCALE))) {
    const [{ data: scales }, matrix] = [tensors[name], tensors[name.slice(0, -SCALE.length)]];
    delete tensors[name];
    if (matrix?.shape[0] !== scales.length) throw damagedError();
    const { data, shape } = matrix;
    for (let index = 0; index < data.length; index += 1) data[index] *= scales[Math.floor(index / shape[1])];
  }
  manifest.vocabulary = [...manifest.vocabulary]; // a character may have two units
  return { tensors, manifest };
}

/** Returns the numbers of a tensor. start: the offset of the data in the file.
 * @type {(buffer: ArrayBuffer, dtype: string, shape: number[], offsets: [begin: number, end: number],
 *   start: number) => Float32Array<ArrayBuffer>} */
function readNumbers(buffer, dtype, shape, [begin, end], start) {
  const count = shape.reduce((product, size) => product * size, 1);
  const width = BYTES_PER_NUMBER[dtype];
  if (!width || end - begin !== count * width || start + end > buffer.byteLength) throw damagedError();
  const bytes = buffer.slice(start + begin, start + end); // a copy, because offsets need not be aligned
  if (dtype === "I8") return Float32Array.from(new Int8Array(bytes));
  return dtype === "F32" ? new Float32Array(bytes) : fromHalf(new Uint16Array(bytes));
}

/** Returns numbers of 16 bits (IEEE 754 binary16) as numbers of 32 bits. These have the same fields, but an exponent of
 * eight bits instead of five, whose bias is larger by 112.
 * @param {Uint16Array} halves */
export function fromHalf(halves) {
  const bits = new Uint32Array(halves.length);
  const result = new Float32Array(bits.buffer);
  for (let index = 0; index < halves.length; index += 1) {
    const half = halves[index];
    if ((half & 0x7c00) === 0x7c00) throw damagedError(); // the number is not finite
    bits[index] = ((half & 0x8000) << 16) | ((half & 0x7fff) << 13);
    result[index] *= 2 ** 112;
  }
  return result;
}

function damagedError() {
  return new WeightsError("The weights of this model are damaged.");
}
