// The challenges of the panel with the switches. Each has a goal that the page checks by asking the model.

import { formatNumbers } from "../format.js";

/** What shall become of problems: their answer is right or wrong, has no end, or is a certain wrong one.
 * @typedef {Record<string, string>} Wants by problem: "right", "wrong", "endless" or the answer */

/** parts: how many have to be off.
 * @typedef {{id: string, title: string, parts: "one" | "two heads", wants: Wants, hint: string}} Challenge */

/** @type {Challenge[]} */
export const CHALLENGES = [
  {
    id: "seven",
    title: "Break 7 × 8 with one switch",
    parts: "one",
    wants: { "7*8": "wrong" },
    hint: "The heads of layer 1 fetch all digits. Their red cells break nearly all answers.",
  },
  {
    id: "subtract",
    title: "Make it forget to subtract: 9 − 4 is 3",
    parts: "one",
    wants: { "9-4": "3", "7*8": "right", "7+8": "right", "8/2": "right" },
    hint: "Look for a neuron of layer 1 that differences need, and quotients do not.",
  },
  {
    id: "add",
    title: "Break sums: 7 + 8 is 8, but 7 × 8 is right",
    parts: "one",
    wants: { "7+8": "8", "7*8": "right", "9-4": "right" },
    hint: "One neuron of layer 1 helps with signs and with the rounding of long numbers.",
  },
  {
    id: "divide",
    title: "Break ÷ and nothing else",
    parts: "one",
    wants: { "22/7": "wrong", "7*8": "right", "9-4": "right", "58+67": "right" },
    hint: "One head looks at what a quotient's remainder is made of. Look in the last layer.",
  },
  {
    id: "endless",
    title: "Make it write without an end",
    parts: "one",
    wants: { "7*8": "endless" },
    hint: "It ends by writing a sign that you never see. A single neuron of layer 3 decides on that.",
  },
  {
    id: "idle",
    title: "Switch off two of its heads, and nobody notices",
    parts: "two heads",
    wants: { "7*8": "right", "58+67": "right", "9-4": "right" },
    hint: "Pale cells break little. Are there two among the heads of the last layer?",
  },
];

/** Returns whether enough and not too many parts are off for a challenge.
 * @type {(challenge: Challenge, off: string[]) => boolean} */
export function hasParts({ parts }, off) {
  if (parts === "one") return off.length === 1;
  return off.filter((part) => /^\d+\.\d+$/.test(part)).length >= 2;
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
