// The challenges of the panel with the switches. Each has a goal that the page checks by asking the model.

import { formatNumbers } from "../format.js";

/** What shall become of problems: their answer is right or wrong, has no end, or is a certain wrong one.
 * @typedef {Record<string, string>} Wants by problem: "right", "wrong", "endless" or the answer */

/** parts: how many have to be off.
 * @typedef {{id: string, title: string, parts: "one" | "half of the heads", wants: Wants, hint: string}} Challenge */

/** @type {Challenge[]} */
export const CHALLENGES = [
  {
    id: "seven",
    title: "Break 7 × 8 with one switch",
    parts: "one",
    wants: { "7*8": "wrong" },
    hint: "Most of the work is done in layers 1 and 2. Their red cells break nearly all answers.",
  },
  {
    id: "carry",
    title: "Make it forget to carry: 7 + 8 is 5",
    parts: "one",
    wants: { "7+8": "5", "7*8": "right", "9-4": "right" },
    hint: "Look for a neuron of layer 2 that sums need, and products do not.",
  },
  {
    id: "point",
    title: "Make it lose the decimal point: 8 ÷ 2 is 400",
    parts: "one",
    wants: { "8/2": "400", "7*8": "right", "7+8": "right" },
    hint: "One neuron of layer 1 is for the point of the answer. Where no point is written, nothing is wrong.",
  },
  {
    id: "divide",
    title: "Break ÷ and nothing else",
    parts: "one",
    wants: { "8/2": "wrong", "7*8": "right", "9-4": "right", "58+67": "right" },
    hint: "One head helps to choose the digits of a quotient. Look in a later layer.",
  },
  {
    id: "endless",
    title: "Make it write without an end",
    parts: "one",
    wants: { "7*8": "endless" },
    hint: "It ends by writing a sign that you never see. A single neuron of layer 1 decides on that.",
  },
  {
    id: "idle",
    title: "Switch off half of its heads, and nobody notices",
    parts: "half of the heads",
    wants: { "471*29.9": "right", "2.08-136.22": "right" },
    hint: "Pale cells break nothing. Are four of them heads?",
  },
];

/** Returns whether enough and not too many parts are off for a challenge.
 * @type {(challenge: Challenge, off: string[], nHeads: number) => boolean} */
export function hasParts({ parts }, off, nHeads) {
  if (parts === "one") return off.length === 1;
  return off.filter((part) => /^\d+\.\d+$/.test(part)).length >= nHeads / 2;
}

/** Returns whether a calculation is as a challenge wants it.
 * @type {(want: string, calculation: import("../client.js").Calculation) => boolean} */
export function isAsWanted(want, { result, exact, nodes }) {
  if (want === "right") return result === exact;
  if (want === "wrong") return result !== exact;
  if (want === "endless") return nodes.some(({ output }) => Boolean(output) && !output.endsWith("$"));
  return result === want;
}

/** Returns what a challenge wants of a problem, in words: `12 × 34 wrong`.
 * @type {(problem: string, want: string) => string} */
export function wantText(problem, want) {
  const question = formatNumbers(problem).replace(/[+−×÷]/, " $& ");
  if (want === "endless") return `${question} without an end`;
  return `${question} ${/\d/.test(want) ? `= ${want}` : want}`;
}
