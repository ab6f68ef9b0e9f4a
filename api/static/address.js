// The state of the page in its address: `#q=471/299&model=scratchpad&step=2&at=17`.

/** @type {Record<string, string>} */
const SIGNS = { "×": "*", "÷": "/", "−": "-" };
/** @type {Record<string, string>} */
const READABLE = { "%2F": "/", "%2B": "+" };
const MAX_LENGTH = 2_000; // of an expression; the service says what is too long
const NUMBER = /^\d{1,6}(\.\d{1,3})?$/;

/**
 * What is shown. Whatever is empty or 0 is as usual.
 *
 * question, model, places; view: paper, both or model. step: the operation, and at: the character
 * that the model wrote for it, both counted from 1.
 *
 * panel: the one that is open below the operation (inside, beside or learning). Of `inside`: layer and
 * head, counted from 1; instead: the character that is written instead. Of `beside`: temperature, k and
 * seed of the samples; all: 1 if all checkpoints are asked. Of `learning`: trained, the steps.
 * @typedef {{question: string, model: string, places: number, view: string, step: number, at: number,
 *   panel: string, layer: number, head: number, instead: string, temperature: string, k: number,
 *   seed: number, all: number, trained: number}} State
 */

/** @type {State} */
export const USUAL = {
  question: "",
  model: "",
  places: 0,
  view: "",
  step: 0,
  at: 0,
  panel: "",
  layer: 0,
  head: 0,
  instead: "",
  temperature: "",
  k: 0,
  seed: 0,
  all: 0,
  trained: 0,
};

/** What belongs to panels. */
export const CLOSED = {
  panel: "",
  layer: 0,
  head: 0,
  instead: "",
  temperature: "",
  k: 0,
  seed: 0,
  all: 0,
  trained: 0,
};

/**
 * Returns the state of an address, or null if it has no question.
 * @param {string} hash
 * @returns {State | null}
 */
export function read(hash) {
  const values = new Map();
  for (const pair of hash.replace(/^#/, "").split("&")) {
    const [name, ...rest] = pair.split("=");
    values.set(name, decoded(rest.join("=")));
  }
  const question = values.get("q")?.slice(0, MAX_LENGTH);
  if (!question) return null;
  const state = Object.entries(USUAL).map(([name, usual]) => {
    const value = values.get(name) ?? "";
    if (typeof usual === "number") return [name, NUMBER.test(value) ? Math.trunc(Number(value)) : 0];
    return [name, value];
  });
  return { ...Object.fromEntries(state), question };
}

/**
 * Returns the address of a state.
 * @param {State} state
 */
export function write({ question, ...others }) {
  const plain = question.replace(/\s/g, "").replace(/[×÷−]/g, (sign) => SIGNS[sign]);
  const pairs = Object.entries({ q: plain, ...others }).filter(([, value]) => value);
  return `#${pairs.map(([name, value]) => `${name}=${encoded(String(value))}`).join("&")}`;
}

/** @param {string} text */
function encoded(text) {
  return encodeURIComponent(text).replace(/%2F|%2B/g, (code) => READABLE[code]);
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a % that encodes nothing
  }
}
