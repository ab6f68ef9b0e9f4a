// The headline of the page. With parts of the model off it is a dare: what was removed, and what the model says now.

import { byId, formatResult, shortenMiddle } from "../format.js";
import { equationOf } from "./goal.js";

/** @import { Calculation, Manifest } from "../client.js" */

const line = byId("dare");
const door = byId("door");
const back = byId("put-back", HTMLButtonElement);
let claim = line.textContent; // of the model `calculator`
const MAX_LENGTH = 26; // characters of an expression, and of its result

/** Shows what is off, and what the model says without it if it was asked; or what the page is, if nothing is off.
 * manifest: of the model; null if nothing is off.
 * @type {(off: string[], manifest: Manifest | null, calculation?: Calculation) => void} */
export function showDare(off, manifest, calculation) {
  back.hidden = !manifest;
  door.hidden = Boolean(manifest);
  const said = calculation ? sayingOf(calculation) : "What does it still know?";
  line.textContent = manifest ? `I removed ${removedOf(off, manifest)}. ${said}` : claim;
}

/** Takes back what the page says of the model `calculator`: another one is the default. */
export function takeBackClaim() {
  claim = line.textContent = "A neural network calculates here.";
  line.parentElement?.replaceChildren(line);
  door.remove();
}

/** Calls a function when the reader wants to put back what was removed. @param {() => void} onBack */
export const onPutBack = (onBack) => back.addEventListener("click", onBack);

/** @param {Calculation} calculation */
function sayingOf({ expression, result, exact }) {
  const equation = equationOf(shortenMiddle(expression, MAX_LENGTH), shortenMiddle(result ?? "", MAX_LENGTH));
  const still = result === exact ? "It still says" : "Now it says";
  return result === null ? "Now its answer is no number." : `${still} ${equation}.`;
}

/** Returns what is off, in words that need no explanation. @type {(off: string[], manifest: Manifest) => string} */
function removedOf(off, { layers, heads, neurons }) {
  if (off.length > 1) return `${off.length} parts`;
  if (off[0].endsWith("ff")) return `one step of ${layers}`;
  return off[0].includes("n") ? `one neuron of ${layers * neurons}` : `one head of ${layers * heads}`;
}
