// A small assembler for WebAssembly: functions on 32-bit integers, floats and vectors of four floats.
// Code is a list of bytes. Functions named after the instructions return the code of an expression. The
// specification is https://webassembly.github.io/spec/core/binary.

/** @type {Record<string, number>} */ const TYPES = { i32: 0x7f, v128: 0x7b };
const NO_RESULT = 0x40; // the type of a block without a result
const PAGE = 2 ** 16; // bytes of a page of memory

/** @typedef {number[]} Code */

/** Reads a local variable. @type {(local: number) => Code} */
export const get = (local) => [0x20, local];
/** Writes a local variable. @type {(local: number, value: Code) => Code} */
export const set = (local, value) => [...value, 0x21, local];

/** Repeats a block while a condition holds. @type {(condition: Code, ...block: Code[]) => Code} */
export const loopWhile = (condition, ...block) =>
  [0x03, NO_RESULT, ...condition, 0x04, NO_RESULT, ...block.flat(), 0x0c, 1, 0x0b, 0x0b];

/** Returns an operation on two values. @type {(...code: Code) => (a: Code, b: Code) => Code} */
const binary = (...code) => (a, b) => [...a, ...b, ...code];
/** Returns an operation on one value. @type {(...code: Code) => (value: Code) => Code} */
const unary = (...code) => (value) => [...value, ...code];
/** Returns the alignment, as a power of two, and the offset 0 of an access to memory.
 * @type {(align: number) => Code} */
const memoryArgument = (align) => [align, 0];

export const i32 = {
  const: (/** @type {number} */ value) => [0x41, ...signed(value)],
  add: binary(0x6a),
  sub: binary(0x6b),
  mul: binary(0x6c),
  lt: binary(0x48),
  ge: binary(0x4e),
};

export const f32 = {
  add: binary(0x92),
  load: unary(0x2a, ...memoryArgument(2)),
  store: binary(0x38, ...memoryArgument(2)),
};

export const f32x4 = {
  zero: [0xfd, 0x0c, ...new Array(16).fill(0)],
  add: binary(0xfd, 0xe4, 0x01),
  mul: binary(0xfd, 0xe6, 0x01),
  lane: (/** @type {Code} */ value, /** @type {number} */ index) => [...value, 0xfd, 0x1f, index],
  load: unary(0xfd, 0x00, ...memoryArgument(4)),
};

/** A function without a result. Its parameters are integers.
 * @typedef {{name: string, parameters: string[], locals: Record<string, string[]>,
 * body: (local: Record<string, number>) => Code[]}} Func
 * locals: the names of local variables, by type; body: returns the code, given the indices of the
 * parameters and local variables by name */

/** Returns a module that imports the memory `host.memory` and exports functions.
 * @type {(functions: Func[]) => Uint8Array<ArrayBuffer>} */
export function assemble(functions) {
  const types = functions.map(({ parameters }) => [0x60, ...vector(parameters.map(() => [TYPES.i32])), 0]);
  const numbers = functions.map((_, index) => [index]);
  const exports = functions.map(({ name }, index) => [...nameBytes(name), 0, index]);
  return Uint8Array.from([
    ...[0, ...nameBytes("asm").slice(1), 1, 0, 0, 0],
    ...section(1, types),
    ...section(2, [[...nameBytes("host"), ...nameBytes("memory"), 2, 0, 1]]),
    ...section(3, numbers),
    ...section(7, exports),
    ...section(10, functions.map(functionCode)),
  ]);
}

/** Returns a memory of at least `bytes` bytes. @param {number} bytes */
export function createMemory(bytes) {
  return new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE) });
}

/** Returns the entry of a function in the code section. @param {Func} func */
function functionCode({ parameters, locals, body }) {
  const names = [...parameters, ...Object.values(locals).flat()];
  const numbers = Object.fromEntries(names.map((name, index) => [name, index]));
  const declared = Object.entries(locals).map(([type, names]) => [...unsigned(names.length), TYPES[type]]);
  const bytes = [...vector(declared), ...body(numbers).flat(), 0x0b];
  return [...unsigned(bytes.length), ...bytes];
}

/** Returns a section of a module. @type {(id: number, items: Code[]) => number[]} */
function section(id, items) {
  const bytes = vector(items);
  return [id, ...unsigned(bytes.length), ...bytes];
}

/** Returns a list with its length. @param {Code[]} items */
function vector(items) {
  return [...unsigned(items.length), ...items.flat()];
}

/** Returns a name with its length. @param {string} name */
function nameBytes(name) {
  return vector([...name].map((character) => [character.charCodeAt(0)]));
}

/** Returns an unsigned integer in LEB128: seven bits in each byte, lowest first. @type {(value: number) => Code} */
function unsigned(value) {
  return value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >>> 7)];
}

/** Returns a signed integer in LEB128. @type {(value: number) => Code} */
function signed(value) {
  return value >= -64 && value < 64 ? [value & 127] : [(value & 127) | 128, ...signed(value >> 7)];
}
