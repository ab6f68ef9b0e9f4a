// Sequences, text and patterns as Python has them.

import { bitLength } from "./fractions.js";
import { Dict, FrozenSet, KeyError, NamedTuple, add, each, eq, frozenset, gt } from "./python_values.js";
import { int, isNumber, items, lt, truth } from "./python_values.js";

// Sequences

/** @param {any} x */
export const iter = (x) => each(x)[Symbol.iterator]();
/** Returns what a loop runs over as an array, perhaps the same. @param {any} x @returns {any[]} */
export const seq = (x) => (Array.isArray(x) ? x : [...each(x)]);
/** @param {any} x */
export const list = (x = []) => [...each(x)];
export const tuple = list;
/** @param {any} x */
export const reversed = (x) => list(x).reverse();
/** @param {any} x */
export const len = (x) => x.length ?? x.size ?? list(x).length;
/** @type {(start: any, end?: any, step?: any) => Generator<number>} */
export function* range(start, end, step = 1) {
  if (end === undefined) [start, end] = [0, start];
  for (let n = Number(start); step > 0 ? n < end : n > end; n += step) yield n;
}
/** @type {(x: any, start?: number) => any[][]} */
export const enumerate = (x, start = 0) => seq(x).map((item, index) => [start + index, item]);
/** @type {(...rows: any[]) => any[][]} */
export const zip = (...rows) => {
  const lists = rows.map(seq);
  return Array.from({ length: Math.min(...lists.map(len)) }, (_, index) => lists.map((row) => row[index]));
};
/** @type {(f: any, ...rows: any[]) => any[]} */
export const map = (f, ...rows) => zip(...rows).map((items) => f(...items));
/** @type {(f: any, x: any) => any[]} */
export const filter = (f, x) => list(x).filter((item) => truth(f(item)));
/** @param {any} x */
export function any(x) {
  for (const item of each(x)) if (truth(item)) return true;
  return false;
}
/** @param {any} x */
export function all(x) {
  for (const item of each(x)) if (!truth(item)) return false;
  return true;
}
/** @type {(x: any, start?: any) => any} */
export const sum = (x, start = 0) => list(x).reduce(add, start);
/** @type {(f: any, x: any, ...start: any[]) => any} */
export const reduce = (f, x, ...start) => [...start, ...each(x)].reduce((a, b) => f(a, b));
export const chain = { from_iterable: (/** @type {any} */ x) => list(x).flatMap(list) };

/** @type {(x: Iterable<any>, other?: any) => any} */
export function next(x, other) {
  const { value, done } = x[Symbol.iterator]().next();
  if (done && other === undefined) throw new KeyError("stop");
  return done ? other : value;
}

/** Returns the largest of some values. @param {...any} given */
export function max(...given) {
  if (given.length === 2 && isNumber(given[0]) && isNumber(given[1])) return given[1] > given[0] ? given[1] : given[0];
  const options = given.at(-1)?.constructor === Object ? given.pop() : {};
  const of = options.key ?? ((/** @type {any} */ x) => x);
  const values = given.length === 1 ? list(given[0]) : given;
  if (!values.length) return options.default;
  return values.reduce((a, b) => ((options.isLeast ? lt(of(b), of(a)) : gt(of(b), of(a))) ? b : a));
}
/** @param {...any} given */
export function min(...given) {
  if (given.length === 2 && isNumber(given[0]) && isNumber(given[1])) return given[1] < given[0] ? given[1] : given[0];
  const options = given.at(-1)?.constructor === Object ? given.pop() : {};
  return max(...given, { ...options, isLeast: true });
}

/** @type {(order: (a: any, b: any) => number) => (x: any) => any} */
export const cmp_to_key = (order) => (x) => ({ x, compare: (/** @type {any} */ other) => order(x, other.x) });
/** @type {(x: any, options?: any) => any[]} */
export function sorted(x, { key = (/** @type {any} */ item) => item } = {}) {
  return list(x).sort((a, b) => (lt(key(a), key(b)) ? -1 : Number(lt(key(b), key(a)))));
}

/** @type {(x: any, index: any) => any} */
export function get(x, index) {
  if (typeof x === "string" || Array.isArray(x)) return index >= 0 ? x[index] : x.at(Number(index));
  if (x instanceof NamedTuple) return list(x).at(index);
  if (x instanceof Match) return x.found[index] ?? null;
  const isTable = x instanceof Dict || x instanceof Map;
  if (!(isTable ? x.has(index) : Object.hasOwn(x, index))) throw new KeyError(index);
  return isTable ? x.get(index) : x[index];
}

/** @type {(x: any, index: any, value: any) => void} */
export function setitem(x, index, value) {
  if (x instanceof Dict) x.set(index, value);
  else x[index < 0 ? x.length + Number(index) : index] = value;
}

/** @type {(x: any, index: any) => void} */
export function remove(x, index) {
  x.delete(index);
}

/** @type {(x: any, start: any, end: any) => any} */
export function slice(x, start, end) {
  return x.slice(start === undefined ? 0 : Number(start), end === undefined ? undefined : Number(end));
}

/** @type {(x: any[], start: any, end: any, values: any) => void} */
export function setslice(x, start, end, values) {
  const first = start === undefined ? 0 : Math.max(0, start < 0 ? x.length + start : start);
  x.splice(first, (end ?? x.length) - first, ...values);
}

/** @type {(x: any, item: any) => boolean} */
export function contains(x, item) {
  if (typeof x === "string") return x.includes(item);
  if (Array.isArray(x)) return x.some((other) => eq(other, item));
  return typeof x.has === "function" ? x.has(item) : Object.hasOwn(x, item);
}

/** @type {(x: any, type: any) => boolean} */
export function isinstance(x, type) {
  if (type === str) return typeof x === "string";
  if (type === int) return typeof x === "number" || typeof x === "bigint";
  return type === frozenset ? x instanceof FrozenSet : type === list ? Array.isArray(x) : x instanceof type;
}

// Text

/** @param {any} x */
export const str = (x) => String(x);
/** @param {string} character */
export const ord = (character) => character.codePointAt(0) ?? 0;

/** Returns a text in quotation marks: an invisible character is escaped. @param {string} text */
export function repr(text) {
  if (text === "'") return `"'"`;
  return `'${text.replace(/\\/g, "\\\\").replace(/(?! )[\p{C}\p{Z}]/gu, escaped)}'`;
}

/** @param {string} character */
function escaped(character) {
  const code = ord(character).toString(16);
  const [letter, length] = code.length <= 2 ? ["x", 2] : code.length <= 4 ? ["u", 4] : ["U", 8];
  return `\\${letter}${code.padStart(length, "0")}`;
}

/** Returns a number as its format says: "," "b" or "030". @type {(x: any, form: string) => string} */
export function format(x, form) {
  if (form === ",") return x.toLocaleString("en");
  return form === "b" ? BigInt(x).toString(2) : String(x).padStart(Number(form), "0");
}

/** @type {(text: string, characters: string) => number} */
function leading(text, characters) {
  let n = 0;
  while (n < text.length && characters.includes(text[n])) n += 1;
  return n;
}

/** @type {(text: string, characters: string) => string} */
function rstrip(text, characters) {
  let end = text.length;
  while (end && characters.includes(text[end - 1])) end -= 1;
  return text.slice(0, end);
}

/** @type {Record<string, (text: string, ...args: any[]) => any>} */
const TEXT = {
  endswith: (text, part, start = 0, end = text.length) => end - start >= part.length && text.endsWith(part, end),
  rstrip,
  strip: (text, characters = " ") => rstrip(text.slice(leading(text, characters)), characters),
  replace: (text, old, by) => text.replaceAll(old, by),
  split: (text, mark, most) => {
    const parts = text.split(mark ?? /\s+/).filter((part) => mark || part);
    return most ? [...parts.slice(0, most), parts.slice(most).join(mark)] : parts;
  },
  join: (text, parts) => list(parts).join(text),
  removesuffix: (text, end) => (text.endsWith(end) ? text.slice(0, -end.length) : text),
  isascii: (text) => /^[\0-\x7f]*$/.test(text),
  format: (text, fields) => text.replace(/\{(\w+)\}/g, (_, name) => String(fields[name])),
  partition: (text, mark) => {
    const at = text.indexOf(mark);
    return at < 0 ? [text, "", ""] : [text.slice(0, at), mark, text.slice(at + mark.length)];
  },
  rpartition: (text, mark) => {
    const at = text.lastIndexOf(mark);
    return at < 0 ? ["", "", text] : [text.slice(0, at), mark, text.slice(at + mark.length)];
  },
};
/** @type {Record<string, (x: any[], ...args: any[]) => any>} */
const LIST = {
  extend: (x, items) => void x.push(...items),
};
/** @type {Record<string, (x: any, ...args: any[]) => any>} */
const OBJECT = {
  get: (x, key, other = null) => (Object.hasOwn(x, key) ? x[key] : other),
  items: (x) => items(x),
  values: Object.values,
};

/** Calls a method that Python has, or one of an object. @type {(x: any, name: string, ...args: any[]) => any} */
export function call(x, name, ...args) {
  if (typeof x === "string") return TEXT[name](x, ...args);
  if (Array.isArray(x)) return LIST[name](x, ...args);
  if (isNumber(x)) return bitLength(BigInt(x));
  return x.constructor === Object ? OBJECT[name](x, ...args) : x[name](...args);
}

/** Returns a value of an object, or a method that remembers the object. @type {(owner: any, name: string) => any} */
export function bound(owner, name) {
  return typeof owner[name] === "function" ? owner[name].bind(owner) : owner[name];
}

// Patterns

/** A match of a pattern, by its groups. */
class Match {
  /** @param {RegExpExecArray} found */
  constructor(found) {
    this.found = found;
  }
  /** @type {(group?: number) => number} */
  start(group = 0) {
    if (!group) return this.found.index;
    return this.found.index + this.found[0].indexOf(this.found[group]); // the only group that is asked for
  }
  /** @type {(group?: number) => number} */
  end(group = 0) {
    return this.start(group) + this.found[group].length;
  }
  /** @type {(group?: number) => number[]} */
  span(group = 0) {
    return [this.start(group), this.end(group)];
  }
  groups() {
    return [...this.found].slice(1);
  }
  get lastindex() {
    return Math.max(0, [...this.found].findLastIndex((group, index) => index && group !== undefined)); // 0 is None
  }
}

class Pattern {
  /** @param {string} source */
  constructor(source) {
    this.sticky = new RegExp(source, "y");
    this.free = new RegExp(source);
  }
  /** @type {(text: string, position?: number) => Match | null} */
  match(text, position = 0) {
    this.sticky.lastIndex = Math.max(0, position);
    const found = this.sticky.exec(text);
    return found && new Match(found);
  }
  /** @param {string} text */
  search(text) {
    const found = this.free.exec(text);
    return found && new Match(found);
  }
}
export const re = {
  compile: (/** @type {string} */ source) => new Pattern(source),
  sub: (/** @type {string} */ source, /** @type {string} */ by, /** @type {string} */ text) =>
    text.replace(new RegExp(source, "g"), by.replace("\\g<0>", "$&").replace("\\\\", "\\")),
};
