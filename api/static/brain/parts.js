// The parts of a model that can be switched off, and what is measured of them (calcgpt/switches.py), in words.

import { OPERATIONS } from "../engine/operations.js";

const FINE = 0.995; // the share of right answers from which an operation counts as unharmed
const LOST = 0.5; // and below which it counts as lost
const NOTED = 0.02; // the least share of wrong characters of a kind that is told
const WEAK = "at most 1 in 10 answers of any operation"; // what a map does not list (calcgpt_lab/studies/switches.py)
const MOST = 0.5; // the share of texts without an end above which that is told

/** What is measured of a part: the share of right answers without it, by operation; that of texts without an end; that
 * of wrong characters, by what they are; and where a head looks.
 * @typedef {{right: Record<string, number>, unfinished: number, wrong: Record<string, number>,
 *   looks: {writing: string, at: string, share: number}[]}} Part */

/** The map of a model: n problems, as many of each operation, which it answers rightly if no part is off.
 * @typedef {{n: number, parts: Record<string, Part>, goals: import("./goal.js").Goal[]}} SwitchMap */

/** Returns the names of a layer's parts: the heads and the feed-forward step.
 * @type {(layer: number, heads: number) => string[]} */
export function partsOf(layer, heads) {
  return [...Array.from({ length: heads }, (_, head) => `${layer}.${head + 1}`), `${layer}.ff`];
}

/** Returns the names of all parts of a model. @param {import("../client.js").Manifest} model */
export function allParts({ layers, heads, neurons }) {
  const partsOfLayer = (/** @type {number} */ layer) => {
    return [...partsOf(layer, heads), ...neuronsOf(null, layer, neurons)];
  };
  return Array.from({ length: layers }, (_, index) => partsOfLayer(index + 1)).flat();
}

/** Returns the n neurons of a layer, the most harmful first: those that the map lists.
 * @type {(map: SwitchMap | null, layer: number, n: number) => string[]} */
export function neuronsOf(map, layer, n) {
  const all = Array.from({ length: n }, (_, index) => `${layer}.n${index + 1}`);
  const harm = (/** @type {string} */ name) => (map?.parts[name] ? harmOf(map.parts[name]) : -1);
  return all.sort((a, b) => harm(b) - harm(a));
}

/** Returns the name of a part in its layer: `head 2`. @param {string} part */
export function placeOf(part) {
  const place = part.split(".")[1] ?? "";
  if (place === "ff") return "feed-forward step";
  return place.startsWith("n") ? `neuron ${place.slice(1)}` : `head ${place}`;
}

/** Returns the name of a part in a sentence: `head 2 of layer 1`. @param {string} part */
export const nameOf = (part) => `${part.endsWith("ff") ? "the " : ""}${placeOf(part)} of layer ${part.split(".")[0]}`;

/** Returns parts in a sentence. @param {string[]} parts */
export const namesOf = (parts) => new Intl.ListFormat("en").format(parts.map(nameOf));

/** Returns how an operation fares without a part. @type {(part: Part, sign: string) => "lost" | "hurt" | "fine"} */
export function fateOf({ right }, sign) {
  const share = right[sign] ?? 1;
  if (share >= FINE) return "fine";
  return share < LOST ? "lost" : "hurt";
}

/** Returns which share of all answers is wrong without a part. @param {Part} part */
export function harmOf({ right }) {
  const shares = Object.values(right);
  return 1 - shares.reduce((sum, share) => sum + share, 0) / shares.length;
}

/** Returns in a few words what goes wrong most without a part. @param {Part} [part] */
export function harmsOf(part) {
  if (!part) return WEAK;
  return part.unfinished > MOST ? "the end" : (Object.keys(part.wrong)[0] ?? "nothing that was tried");
}

/** Returns what a part is for and what it breaks, in sentences.
 * @type {(name: string, map: SwitchMap | null) => string} */
export function describe(name, map) {
  const part = map?.parts[name];
  const title = `${nameOf(name)[0].toUpperCase()}${nameOf(name).slice(1)}.`;
  if (!map) return `${title} Nothing is measured of it.`;
  if (!part) return `${title} It breaks ${WEAK}.`;
  const looks = part.looks.slice(0, 2).map(({ writing, at, share }) => {
    return `To write ${writing}, it looks at ${at} (${percent(share)}).`;
  });
  return [title, ...looks, harmSentence(part, map.n), kindsSentence(part)].filter(Boolean).join(" ");
}

/** @type {(part: Part, n: number) => string} */
function harmSentence({ right, unfinished }, n) {
  const shares = Object.entries(right).map(([sign, share]) => `${percent(share)} of ${OPERATIONS[sign].symbol}`);
  const each = Math.round(n / shares.length);
  const list = new Intl.ListFormat("en").format(shares);
  const end = unfinished > MOST ? " It rarely stops writing." : "";
  return `Without it, ${list} are right, of ${each} problems each.${end}`;
}

/** @param {Part} part */
function kindsSentence({ wrong }) {
  const kinds = Object.entries(wrong).filter(([, share]) => share >= NOTED);
  const list = kinds.map(([kind, share]) => `${kind} (${percent(share)})`);
  return list.length ? `It breaks ${new Intl.ListFormat("en").format(list)}.` : "";
}

/** @param {number} share */
function percent(share) {
  return share > 0 && share < 0.01 ? "under 1%" : `${Math.round(100 * share)}%`;
}
