// The state of the page in its address: `#q=471/299&model=calculator&step=2&at=17`.

import { OPERATIONS } from "./engine/operations.js";

const SIGNS = Object.fromEntries(Object.entries(OPERATIONS).map(([sign, { symbol }]) => [symbol, sign]));
// `2× ×3` is not `2**3`, `7÷ ÷2` not `7//2`, and in `1 1/2÷3` a second / would be in the way.
const PLAIN = /−|(?<![*×]\s*)×(?!\s*[*×])|(?<![/÷]\s*|\/\s*\d+\s*)÷(?!\s*[/÷])/g;
/** @type {Record<string, string>} */ const READABLE = { "%2F": "/", "%2B": "+" };
const MAX_LENGTH = 11_000; // characters of an expression; the service has a lower limit and reports it
const MAX_OFF = 100; // parts of a model
const NUMBER = /^\d{1,6}(\.\d{1,3})?$/;

/** The state of the page. A value that is "" or 0 stands for the default.
 *
 * question: the expression; comma: 1 if `12,500` in it is 12.5; angle: `degrees` if sin(30) in it is of 30 degrees; model
 * and places: the selected ones; off: the parts of the model that are switched off, such as `1.4,2.ff`; lesson: the
 * number of its card that is open; inside: 1 if the look inside is open; step: the number of an operation (0: the last),
 * and at: the number of a character that the model wrote for it, both from 1.
 * @typedef {{question: string, comma: number, angle: string, model: string, places: string, off: string,
 * lesson: number, inside: number, step: number, at: number}} State */

/** The state of a page that shows nothing. @type {Readonly<State>} */
export const DEFAULT_STATE = {
  question: "", comma: 0, angle: "", model: "", places: "", off: "", lesson: 0, inside: 0, step: 0, at: 0,
};

/** Returns the state that the hash of an address describes, or null if it has no question, lesson or part off.
 * @type {(hash: string) => State | null} */
export function parseHash(hash) {
  const values = new Map();
  for (const pair of hash.replace(/^#/, "").split("&")) {
    const [name, ...rest] = pair.split("=");
    values.set(name, decode(rest.join("=")));
  }
  const question = [...(values.get("q") ?? "")].slice(0, MAX_LENGTH).join("");
  if (!question && !values.get("lesson") && !values.get("off")) return null;
  const state = Object.entries(DEFAULT_STATE).map(([name, defaultValue]) => {
    const value = values.get(name) ?? "";
    if (typeof defaultValue === "number") return [name, NUMBER.test(value) ? Math.trunc(Number(value)) : 0];
    return [name, value];
  });
  return { ...Object.fromEntries(state), question };
}

/** Returns the hash of an address that describes a state. @param {State} state */
export function formatHash({ question, ...others }) {
  const plain = question.trim().replace(PLAIN, (sign) => SIGNS[sign]);
  const pairs = Object.entries({ q: plain, ...others }).filter(([, value]) => value);
  const encoded = pairs.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
  return `#${encoded.replace(/%2F|%2B/g, (code) => READABLE[code])}`;
}

/** Returns the parts that the state `off` names. The engine refuses those that a model does not have.
 * @param {string} off */
export function listOff(off) {
  return off.split(",", MAX_OFF).filter(Boolean);
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // it has a % that is not part of an escape sequence
  }
}
