// A small assembler for WebAssembly: functions on 32-bit integers, floats and vectors of four floats.
// Code is a list of bytes. The operations are written as expressions, named as in the specification
// (https://webassembly.github.io/spec/core/binary).

/** @type {Record<string, number>} */
const TYPES = { i32: 0x7f, v128: 0x7b };
const NO_RESULT = 0x40; // the type of a block
const PAGE = 2 ** 16; // bytes of memory are counted in pages

/** @typedef {number[]} Code */

/** @type {(local: number) => Code} */
export const get = (local) => [0x20, local];
/** @type {(local: number, value: Code) => Code} */
export const set = (local, value) => [...value, 0x21, local];

/** Repeats a block while a condition holds.
 * @type {(condition: Code, ...block: Code[]) => Code} */
export const loopWhile = (condition, ...block) =>
  [0x03, NO_RESULT, ...condition, 0x04, NO_RESULT, ...block.flat(), 0x0c, 1, 0x0b, 0x0b];

/** Returns an operation on two values, by its code.
 * @type {(...code: Code) => (a: Code, b: Code) => Code} */
const binary = (...code) => (a, b) => [...a, ...b, ...code];
/** Returns an operation on one value, by its code.
 * @type {(...code: Code) => (value: Code) => Code} */
const unary = (...code) => (value) => [...value, ...code];
/** Where a value is read or written: its alignment, as a power of two, and no offset.
 * @type {(align: number) => Code} */
const place = (align) => [align, 0];

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
  load: unary(0x2a, ...place(2)),
  store: binary(0x38, ...place(2)),
};

export const f32x4 = {
  zero: [0xfd, 0x0c, ...new Array(16).fill(0)],
  add: binary(0xfd, 0xe4, 0x01),
  mul: binary(0xfd, 0xe6, 0x01),
  lane: (/** @type {Code} */ value, /** @type {number} */ index) => [...value, 0xfd, 0x1f, index],
  load: unary(0xfd, 0x00, ...place(4)),
};

/**
 * A function without a result. Its parameters are integers.
 * @typedef {{name: string, parameters: string[], locals: Record<string, string[]>,
 *   body: (local: Record<string, number>) => Code[]}} Func
 *   locals: names by type; body: its code, from the numbers of parameters and locals by name
 */

/**
 * Returns a module that imports the memory `host.memory` and exports functions.
 * @param {Func[]} functions
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function assemble(functions) {
  const types = functions.map(({ parameters }) => [0x60, ...vector(parameters.map(() => [TYPES.i32])), 0]);
  const numbers = functions.map((_, index) => [index]);
  const exported = functions.map(({ name }, index) => [...text(name), 0, index]);
  return Uint8Array.from([
    ...[0, ...text("asm").slice(1), 1, 0, 0, 0],
    ...section(1, types),
    ...section(2, [[...text("host"), ...text("memory"), 2, 0, 1]]),
    ...section(3, numbers),
    ...section(7, exported),
    ...section(10, functions.map(code)),
  ]);
}

/** Returns a memory of at least so many bytes. @param {number} bytes */
export function memoryOf(bytes) {
  return new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE) });
}

/** @param {Func} func */
function code({ parameters, locals, body }) {
  const names = [...parameters, ...Object.values(locals).flat()];
  const numbers = Object.fromEntries(names.map((name, index) => [name, index]));
  const declared = Object.entries(locals).map(([type, of]) => [...unsigned(of.length), TYPES[type]]);
  const bytes = [...vector(declared), ...body(numbers).flat(), 0x0b];
  return [...unsigned(bytes.length), ...bytes];
}

/**
 * @param {number} id
 * @param {Code[]} items
 */
function section(id, items) {
  const bytes = vector(items);
  return [id, ...unsigned(bytes.length), ...bytes];
}

/** @param {Code[]} items */
function vector(items) {
  return [...unsigned(items.length), ...items.flat()];
}

/** @param {string} name */
function text(name) {
  return vector([...name].map((character) => [character.charCodeAt(0)]));
}

/** LEB128: seven bits a byte, the lowest first.
 * @type {(value: number) => Code} */
function unsigned(value) {
  return value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >>> 7)];
}

/** @type {(value: number) => Code} */
function signed(value) {
  return value >= -64 && value < 64 ? [value & 127] : [(value & 127) | 128, ...signed(value >> 7)];
}
