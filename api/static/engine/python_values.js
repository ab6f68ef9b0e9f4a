// Numbers, order, equality, truth, dictionaries and sets as Python has them. An integer is a number while that is safe,
// and a BigInt beyond; both may meet. A tuple or list is an array, None is null.

import { OverflowError, ZeroDivisionError } from "./errors.js";

export class KeyError extends Error {}

// Numbers

/** @param {any} x */
export const isNumber = (x) => typeof x === "number" || typeof x === "bigint" || typeof x === "boolean";
/** Returns an integer as a number if that is safe. @param {bigint} n */
const normal = (n) => (n >= -9007199254740991n && n <= 9007199254740991n ? Number(n) : n);

/** Returns an operator, given it for numbers and for integers of any size.
 * @type {(name: string, native: (a: number, b: number) => number, big: (a: bigint, b: bigint) => bigint) =>
 *   (a: any, b: any) => any} */
function operator(name, native, big) {
  return (a, b) => {
    if (typeof a === "number" && typeof b === "number") {
      const result = native(a, b);
      if (Math.abs(result) < 2 ** 53 || !Number.isInteger(a) || !Number.isInteger(b)) return result;
    } else if (!isNumber(a) || !isNumber(b)) {
      if (isNumber(a)) return b.constructor.from(a)[name](b);
      return a[name](b);
    } else if (!isInteger(a) || !isInteger(b)) return native(float(a), float(b));
    return normal(big(BigInt(a), BigInt(b)));
  };
}

/** @param {any} x */
function float(x) {
  if (typeof x === "bigint" && !Number.isFinite(Number(x))) throw new OverflowError();
  return Number(x);
}

/** @param {any} x */
const isInteger = (x) => typeof x !== "number" || Number.isInteger(x);
const addNumbers = operator("__add__", (a, b) => a + b, (a, b) => a + b);
const multiplyNumbers = operator("__mul__", (a, b) => a * b, (a, b) => a * b);
const subtractNumbers = operator("__sub__", (a, b) => a - b, (a, b) => a - b);
/** @param {any} n */
const isSmall = (n) => typeof n === "number" && n < 2 ** 52 && n > -(2 ** 52);

/** @type {(a: any, b: any) => any} */
export function sub(a, b) {
  return isSmall(a) && isSmall(b) ? a - b : subtractNumbers(a, b);
}

const divideIntegers = operator("__floordiv__", (a, b) => Number(floorDivide(BigInt(a), BigInt(b))), floorDivide);
/** @type {(a: any, b: any) => any} */
export function floordiv(a, b) {
  return isSmall(a) && isSmall(b) ? floorDivide(a, b) : divideIntegers(a, b);
}

export const mod = operator("__mod__", (a, b) => modulo(a, b), modulo);

/** @type {(a: any, b: any) => any} */
function modulo(a, b) {
  if (!b) throw new ZeroDivisionError();
  const rest = a % b;
  return rest && rest < 0 !== b < 0 ? rest + b : rest;
}

/** @type {(a: any, b: any) => any} */
function floorDivide(a, b) {
  return (a - modulo(a, b)) / b;
}

/** @type {(a: any, b: any) => any} */
export function add(a, b) {
  if (isSmall(a) && isSmall(b)) return a + b;
  if (typeof a === "string") return a + b;
  return Array.isArray(a) ? [...a, ...b] : addNumbers(a, b);
}

/** Adds to a list in place. @type {(a: any, b: any) => any} */
export function iadd(a, b) {
  if (!Array.isArray(a)) return add(a, b);
  a.push(...b);
  return a;
}

/** @type {(a: any, b: any) => any} */
export function mul(a, b) {
  if (isSmall(a) && isSmall(b) && isSmall(a * b)) return a * b;
  if (typeof a === "string") return a.repeat(Math.max(0, Number(b)));
  if (Array.isArray(a)) return Array.from({ length: Math.max(0, Number(b)) }, () => a).flat();
  return multiplyNumbers(a, b);
}

const divideNumbers = operator("__truediv__", (a, b) => a / b, (a, b) => a / b);
/** @type {(a: any, b: any) => any} */
export function truediv(a, b) {
  return isNumber(a) && isNumber(b) ? Number(a) / Number(b) : divideNumbers(a, b);
}

/** @type {(a: any, b: any, modulus?: any) => any} */
export function pow(a, b, modulus) {
  if (modulus !== undefined) return powerModulo(BigInt(a), BigInt(b), BigInt(modulus));
  if (!isNumber(a)) return a.__pow__(b);
  if (!isInteger(a) || !isInteger(b) || b < 0) return Number(a) ** Number(b);
  return normal(BigInt(a) ** BigInt(b));
}

/** @type {(base: bigint, exponent: bigint, modulus: bigint) => any} */
function powerModulo(base, exponent, modulus) {
  let result = 1n;
  for (const digit of exponent.toString(2)) {
    result = (result * result) % modulus;
    if (digit === "1") result = (result * base) % modulus;
  }
  return normal(modulo(result, modulus));
}

/** @param {any} a */
export function neg(a) {
  return isNumber(a) ? -a : a.__neg__();
}

/** @param {any} a */
export function abs(a) {
  return lt(a, 0) ? neg(a) : a;
}

/** Returns a | b of two truths, or two dictionaries. @type {(a: any, b: any) => any} */
export function or(a, b) {
  return a instanceof Dict ? dict([...items(a), ...items(b)]) : truth(a) || truth(b);
}

/** @param {any} x */
export function int(x) {
  if (typeof x === "string") return normal(BigInt(x.replace("+", "")));
  if (typeof x === "number" && !Number.isFinite(x)) throw new OverflowError();
  return typeof x === "object" ? x.__int__() : normal(BigInt(typeof x === "number" ? Math.trunc(x) : x));
}

/** @param {any} x */
export const round = (x) => x.__round__();
/** @param {any} x */
export const id = (x) => x;
/** @type {(a: any, b: any) => any[]} */
export const divmod = (a, b) => [floordiv(a, b), mod(a, b)];

// Order, equality and truth

/** @type {(a: any, b: any) => boolean} */
export function lt(a, b) {
  return typeof a === "object" || typeof b === "object" ? compare(a, b) < 0 : a < b;
}
/** @type {(a: any, b: any) => boolean} */
export function le(a, b) {
  return typeof a === "object" || typeof b === "object" ? compare(a, b) <= 0 : a <= b;
}
/** @type {(a: any, b: any) => boolean} */
export const gt = (a, b) => lt(b, a);
/** @type {(a: any, b: any) => boolean} */
export const ge = (a, b) => le(b, a);

/** Returns a number with the sign of a - b. @type {(a: any, b: any) => number} */
function compare(a, b) {
  if (Array.isArray(a)) {
    const index = a.findIndex((item, n) => !eq(item, b[n]));
    return index < 0 ? 0 : compare(a[index], b[index]);
  }
  if (typeof a === "object") return a.compare(b);
  return typeof b === "object" ? -b.compare(a) : Number(a > b) - Number(a < b);
}

/** @type {(a: any, b: any) => boolean} */
export function eq(a, b) {
  if (a === b) return true;
  if (typeof a !== "object") {
    if (typeof b === "object" && b !== null) return eq(b, a);
    return isNumber(a) && isNumber(b) && a == b;
  }
  if (a === null || b === null) return false;
  if (a.equals) return a.equals(b);
  if (typeof b !== "object") return false;
  if (a instanceof Dict) {
    return b instanceof Dict && a.size === b.size && [...a].every((key) => b.has(key) && eq(a.get(key), b.get(key)));
  }
  if (a instanceof FrozenSet || b instanceof FrozenSet) return a.hash === b.hash;
  if (!(Symbol.iterator in a && Symbol.iterator in b)) return false;
  const [left, right] = [[...a], [...b]];
  return left.length === right.length && left.every((item, index) => eq(item, right[index]));
}

/** @param {any} x */
export function truth(x) {
  if (!x || typeof x !== "object") return Boolean(x);
  return x.length !== 0 && x.size !== 0 && x.n !== 0n;
}

/** @type {(x: any, other: () => any) => any} */
export const orElse = (x, other) => (truth(x) ? x : other());
/** @type {(x: any, other: () => any) => any} */
export const andElse = (x, other) => (truth(x) ? other() : x);
/** @param {any} x */
export const bool = (x) => truth(x);

// Hashes: what is equal has one key

let epoch = 0;
/** @type {Map<string, number>} */ let numbers = new Map(); // of sets, by the keys of what is in them
/** @type {WeakMap<object, number>} */ const identities = new WeakMap();
let nNumbers = 0;

/** Forgets the sets that have been compared, if there are many. A dictionary of sets does not outlast this. */
export function forget() {
  if (numbers.size > 100_000) [numbers, epoch] = [new Map(), epoch + 1];
}

/** Returns what a dictionary has a value by: itself, or a text for a number or what is made of others, which begins as
 * no other text does. @param {any} x @returns {any} */
function keyOf(x) {
  if (typeof x === "string") return x.startsWith("\0") ? `\0${JSON.stringify(x)}` : x;
  if (typeof x === "bigint") return normal(x);
  if (typeof x === "boolean") return Number(x);
  if (typeof x !== "object" || x === null) return x;
  if (Array.isArray(x)) return `\0(${x.map(partOf).join()})`;
  const { hash = x } = x;
  return typeof hash === "bigint" ? normal(hash) : hash;
}

/** Returns the key as a part of others. @param {any} x @returns {string} */
function partOf(x) {
  const key = keyOf(x);
  if (typeof key === "string") return key.startsWith("\0") ? key.slice(1) : JSON.stringify(key);
  if (typeof key === "bigint") return `n${key.toString(32)}`;
  if (typeof key === "number" || !key) return String(key);
  if (!identities.has(key)) identities.set(key, (nNumbers += 1));
  return `@${identities.get(key)}`;
}

/** A class whose fields are its parameters. */
export class DataClass {}

/** One that is also a tuple. */
export class NamedTuple extends DataClass {
  [Symbol.iterator]() {
    return Object.values(this)[Symbol.iterator]();
  }
  get hash() {
    return keyOf(Object.values(this));
  }
}

/** Returns a record in which some fields are others. @type {(record: any, changes: any) => any} */
export function replace(record, changes) {
  const { fields } = record.constructor;
  const values = { ...record, ...changes };
  return new record.constructor(...fields.map((/** @type {string} */ name) => values[name]));
}

export class Dict {
  /** @type {Map<any, [any, any]>} */ #entries = new Map();
  /** @param {Iterable<[any, any]>} entries */
  constructor(entries) {
    for (const [key, value] of entries) this.set(key, value);
  }
  get size() {
    return this.#entries.size;
  }
  /** @type {(key: any, value: any) => void} */
  set(key, value) {
    const [name, entry] = [keyOf(key), this.#entries.get(keyOf(key))];
    if (entry) entry[1] = value;
    else this.#entries.set(name, [key, value]);
  }
  /** @type {(key: any, other?: any) => any} */
  get(key, other = null) {
    const entry = this.#entries.get(keyOf(key));
    return entry ? entry[1] : other;
  }
  /** @param {any} key */
  has(key) {
    return this.#entries.has(keyOf(key));
  }
  /** @param {any} key */
  delete(key) {
    if (!this.#entries.delete(keyOf(key))) throw new KeyError(key);
  }
  items() {
    return this.#entries.values();
  }
  *values() {
    for (const [, value] of this.#entries.values()) yield value;
  }
  *[Symbol.iterator]() {
    for (const [key] of this.#entries.values()) yield key;
  }
}

/** Returns the pairs of a dictionary or an object. @param {any} x @returns {Iterable<[any, any]>} */
export const items = (x) => (x instanceof Dict ? x.items() : Object.entries(x));
/** @param {any} entries */
export function dict(entries = []) {
  const arePairs = Symbol.iterator in entries && !(entries instanceof Dict);
  return new Dict(arePairs ? entries : items(entries));
}
/** @type {(keys: Iterable<any>, value: any) => Dict} */
dict.fromkeys = (keys, value = null) => new Dict([...each(keys)].map((key) => [key, value]));

export class FrozenSet {
  /** @type {Map<any, any>} */ #items = new Map();
  #epoch = -1;
  #hash = "";
  /** @param {Iterable<any>} items */
  constructor(items) {
    for (const item of items) this.add(item);
  }
  get size() {
    return this.#items.size;
  }
  /** @param {any} item */
  add(item) {
    if (!this.has(item)) this.#items.set(keyOf(item), item);
    this.#epoch = -1;
  }
  /** @param {any} item */
  has(item) {
    return this.#items.has(keyOf(item));
  }
  [Symbol.iterator]() {
    return this.#items.values();
  }
  /** @param {any} other */
  __sub__(other) {
    return new FrozenSet([...this].filter((item) => !other.has(item)));
  }
  get hash() {
    if (this.#epoch !== epoch) {
      const text = [...this].map(partOf).sort().join();
      if (!numbers.has(text)) numbers.set(text, (nNumbers += 1));
      [this.#epoch, this.#hash] = [epoch, `\0#${numbers.get(text)}`];
    }
    return this.#hash;
  }
}
/** @param {any} items */
export const frozenset = (items = []) => new FrozenSet(each(items));
export const set = frozenset;

/** Returns a function that remembers its last results. @type {(most: number, f: (...args: any[]) => any) => any} */
export function cached(most, f) {
  const known = new Map();
  let before = epoch;
  return (/** @type {any[]} */ ...args) => {
    const key = keyOf(args);
    if (known.size >= most || before !== epoch) known.clear();
    before = epoch;
    if (!known.has(key)) known.set(key, f(...args));
    return known.get(key);
  };
}

/** Returns a property that is worked out once. @type {(owner: object, name: string, make: () => any) => any} */
export function kept(owner, name, make) {
  const value = make();
  Object.defineProperty(owner, name, { value });
  return value;
}

/** Returns what a loop runs over. @param {any} x */
export const each = (x) => (typeof x === "string" || Symbol.iterator in x ? x : Object.keys(x));
