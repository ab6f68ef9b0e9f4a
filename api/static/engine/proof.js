// Tries a network in all cases (calcgpt/evaluation/proof.py), and finds a problem that it gets wrong.

import { MAX_SOURCES, allCases } from "./cases.js";
import { Computation } from "./computation.js";
import { KIND } from "./operations.js";
import { layoutOf, write } from "./write.js";

/** @import { Cases } from "./cases.js" */
/** @import { Memory } from "./write.js" */

/** A case in which a network is wrong. read: the characters that the rule reads, "" for those that do not exist.
 * @typedef {{kind: number, read: string[], wrote: string, right: string[]}} Mistake */

/** A wrong case, and a problem in which it is the first, if one is known.
 * @typedef {{mistake: Mistake, expression?: string}} Refutation */

/** What came of some cases. tried: how many were right; of: how many there are in all; kind: of the last one; margin:
 * the least lead of a right character over the best wrong one, in logits.
 * @typedef {{tried: number, of: number, kind: number, margin: number, mistake: Mistake | null}} Tried */

const MAX_PROBLEMS = 300;
const MAX_DIGITS = 4;
/** The operations that write characters of some kinds. @type {[RegExp, string][]} */
const SIGNS = [
  [/SUM|ADD|MAGNITUDE/, "+-"],
  [/PRODUCT|FIRST|ROW|MULTIPLIER/, "*"],
  [/QUOTIENT|REMAINDER|BROUGHT|DIVIDEND|LAST|A_BELOW/, "/"],
];

/** @type {Cases | undefined} */ let found;
const cases = () => (found ??= allCases());

/** Returns the text of ASCII codes. @param {Uint8Array} codes */
const toTexts = (codes) => Array.from(codes, (code) => (code ? String.fromCharCode(code) : ""));

/** Tries n cases, up to the first that is wrong. start: the number of the first one.
 * @type {(memory: Memory, start: number, n: number) => Tried} */
export function tryCases({ network, vocabulary }, start, n) {
  const { kinds, sources, right } = cases();
  const tokenOf = Int16Array.from({ length: 256 }, (_, code) => vocabulary.indexOf(String.fromCharCode(code)));
  const tokens = new Array(MAX_SOURCES);
  const stop = Math.min(start + n, kinds.length);
  const result = { tried: 0, of: kinds.length, kind: kinds[stop - 1], margin: Infinity };
  for (let at = start; at < stop; at += 1) {
    for (let i = 0; i < MAX_SOURCES; i += 1) tokens[i] = tokenOf[sources[at * MAX_SOURCES + i]];
    const logits = network.logits(kinds[at], tokens);
    let [best, next] = [-Infinity, -Infinity];
    for (let token = 0; token < logits.length; token += 1) {
      const isRight = token === tokenOf[right[2 * at]] || token === tokenOf[right[2 * at + 1]];
      if (isRight) best = Math.max(best, logits[token]);
      else next = Math.max(next, logits[token]);
    }
    result.margin = Math.min(result.margin, best - next);
    if (!(best > next)) return { ...result, mistake: mistakeAt(at, vocabulary[logits.indexOf(next)] ?? "") }; // or NaN
    result.tried += 1;
  }
  return { ...result, mistake: null };
}

/** @type {(at: number, wrote: string) => Mistake} */
function mistakeAt(at, wrote) {
  const { kinds, sources, right } = cases();
  const read = toTexts(sources.subarray(at * MAX_SOURCES, (at + 1) * MAX_SOURCES));
  return { kind: kinds[at], read, wrote, right: [...new Set(toTexts(right.subarray(2 * at, 2 * at + 2)))] };
}

/** Returns a small problem that a network answers wrong, and the case in which it is wrong first, or null if it is
 * right in MAX_PROBLEMS random ones. They are of the operations that write characters of a kind.
 * @type {(memory: Memory, limits: import("./limits.js").ScratchpadLimits, kind: number) => Refutation | null} */
export function findProblem(memory, limits, kind) {
  const name = Object.keys(KIND).find((key) => KIND[key] === kind) ?? "";
  const signs = SIGNS.find(([kinds]) => kinds.test(name))?.[1] ?? "+-*/";
  for (let n = 0; n < MAX_PROBLEMS; n += 1) {
    const expression = draw(signs, 1 + Math.floor((MAX_DIGITS * n) / MAX_PROBLEMS));
    const computation = new Computation(expression, { model: "", limits });
    for (const question of computation.questions()) {
      const written = [...write(memory, question.prompt)];
      const output = written.map(({ text }) => text).join("");
      const { agrees } = computation.answer(question, output, written.map(({ probability }) => probability));
      const mistake = agrees ? null : firstMistake(question.prompt, output);
      if (mistake) return { expression, mistake };
    }
  }
  return null;
}

/** @param {number} n */
const below = (n) => Math.floor(Math.random() * n);

/** Returns a problem of two numbers of up to n digits, some with a point or a minus sign, some rounded.
 * @type {(signs: string, n: number) => string} */
function draw(signs, n) {
  const number = () => {
    const digits = `${1 + below(10 ** n - 1)}${below(3) ? "" : `.${1 + below(99)}`}`;
    return below(6) ? digits : `(-${digits})`;
  };
  return number() + signs[below(signs.length)] + number() + ["", "", "", " to 0 places", " to 1 place"][below(5)];
}

/** Returns the first case of a line in which it is not right, or null.
 * @type {(prompt: string, output: string) => Mistake | null} */
function firstMistake(prompt, output) {
  const { kinds, sources, right } = cases();
  const layout = layoutOf(prompt);
  const line = prompt + output;
  const slots = [...layout.slots, ...layout.answerSlots(line)];
  for (let position = prompt.length; position < line.length; position += 1) {
    const [kind, , , all] = slots[position];
    const read = Array.from({ length: MAX_SOURCES }, (_, i) => line.charCodeAt(all[i] ?? -1) || 0);
    for (let at = kinds.indexOf(kind); kinds[at] === kind; at += 1) {
      if (read.some((code, i) => code !== sources[at * MAX_SOURCES + i])) continue;
      if (!right.subarray(2 * at, 2 * at + 2).includes(line.charCodeAt(position))) return mistakeAt(at, line[position]);
      break;
    }
  }
  return null;
}
