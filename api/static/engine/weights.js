// Reads the weights of a checkpoint: a file of safetensors, the same that the service loads (calcgpt/tensors.py).

const MAX_HEADER = 2 ** 20; // bytes
const SCALES = "scales"; // of the rows of all matrices of 8 bits, by the sorted names of the matrices

/** @type {Record<string, Int8ArrayConstructor | Int16ArrayConstructor | Float32ArrayConstructor>} */
const TYPES = { I8: Int8Array, I16: Int16Array, F32: Float32Array };

/** A file cannot be read. The message is one line for the user. */
export class WeightsError extends Error {
  message = "The weights of this model are damaged.";
}

/** @typedef {Record<string, {shape: number[], data: Float32Array}>} Tensors by name */

/** Returns the tensors of a file. A matrix of 8 bits has whole multiples of a scale for each row; a scale is the upper
 * half of a number of 32 bits.
 * @throws {WeightsError}
 * @type {(buffer: ArrayBuffer) => Tensors} */
export function readWeights(buffer) {
  const view = new DataView(buffer);
  const length = buffer.byteLength < 8 ? 0 : Number(view.getBigUint64(0, true));
  if (length < 2 || length > Math.min(MAX_HEADER, buffer.byteLength - 8)) throw new WeightsError();
  let header;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(buffer, 8, length)));
  } catch {
    throw new WeightsError();
  }
  const { __metadata__: _, [SCALES]: scales, ...entries } = header;
  const read = (/** @type {any} */ entry) => ({ shape: entry.shape, data: readNumbers(buffer, entry, 8 + length) });
  /** @type {Tensors} */ const tensors = {};
  for (const [name, entry] of Object.entries(entries)) tensors[name] = read(entry);
  if (scales) scale(tensors, Int32Array.from(read(scales).data, (half) => half << 16));
  return tensors;
}

/** Returns the numbers of a tensor. start: the offset of the data in the file.
 * @type {(buffer: ArrayBuffer, entry: {dtype: string, shape: number[], data_offsets: number[]}, start: number) =>
 *   Float32Array} */
function readNumbers(buffer, { dtype, shape, data_offsets: [begin, end] }, start) {
  const count = shape.reduce((product, size) => product * size, 1);
  const Numbers = TYPES[dtype];
  if (end - begin !== count * Numbers?.BYTES_PER_ELEMENT || start + end > buffer.byteLength) throw new WeightsError();
  return Float32Array.from(new Numbers(buffer.slice(start + begin, start + end))); // a copy: offsets are not aligned
}

/** Multiplies the rows of all matrices by their scales. bits: of the scales.
 * @type {(tensors: Tensors, bits: Int32Array) => void} */
function scale(tensors, bits) {
  const scales = new Float32Array(bits.buffer);
  const matrices = Object.keys(tensors).sort().map((name) => tensors[name]).filter(({ shape }) => shape.length === 2);
  if (matrices.reduce((sum, { shape }) => sum + shape[0], 0) !== scales.length) throw new WeightsError();
  let first = 0;
  for (const { shape: [rows, columns], data } of matrices) {
    for (let index = 0; index < data.length; index += 1) data[index] *= scales[first + Math.floor(index / columns)];
    first += rows;
  }
}
