// Parts that several views have: what a model considered, bars, lists of choices, signed numbers.

import { SURE_CHARACTER, createElement, formatProbability } from "../format.js";

const CONSIDERED = 5; // characters

/** Returns the most probable characters as bars. If the model was sure, returns only the second, in words.
 * @param {import("../engine/dissect.js").Dissection} dissection */
export function considered({ ranked, layers }) {
  const candidates = ranked[layers].slice(0, CONSIDERED);
  const [first, second] = candidates;
  if (first.probability >= SURE_CHARACTER) {
    const chance = ` (${formatProbability(second.probability)})`;
    return createElement("p", "next", "Next: ", createElement("code", "", second.text), chance);
  }
  return createElement("ol", "weights", ...candidates.map(createGuess));
}

/** Returns an item of a list: a character, its probability as a bar, and the figure.
 * @param {{text: string, probability: number}} guess */
export function createGuess({ text, probability }) {
  const code = createElement("code", "", text);
  return createElement("li", "", code, createShareBar(probability), formatProbability(probability));
}

/** Returns a number with one place and its sign: `+5.9` or `−0.4`. @param {number} value */
export function formatSigned(value) {
  const text = Math.abs(value).toFixed(1);
  return `${value < 0 && Number(text) ? "−" : "+"}${text}`;
}

/** Returns a bar. share: its length, from -1 to 1; a negative one is to the left of the middle, and `isSigned` puts 0
 * there. colour: a value of CSS.
 * @type {(share: number, isSigned?: boolean, colour?: string) => HTMLSpanElement} */
export function createShareBar(share, isSigned = false, colour = "var(--accent)") {
  const fill = createElement("span");
  const width = (isSigned ? 50 : 100) * Math.min(1, Math.abs(share));
  fill.style.width = `${width.toFixed(2)}%`;
  fill.style.marginLeft = isSigned ? `${(share < 0 ? 50 - width : 50).toFixed(2)}%` : "0";
  fill.style.background = colour;
  return createElement("span", isSigned ? "bar-of signed" : "bar-of", fill);
}

/** Returns radio buttons, one of which is chosen. labels: the elements beside them; onChoose: called at once for the
 * chosen one.
 * @type {(name: string, labels: (Node | string)[][], chosen: number,
 *   onChoose: (index: number) => void) => HTMLElement} */
export function createChoices(name, labels, chosen, onChoose) {
  const group = createElement("div", "choices");
  group.role = "radiogroup";
  group.ariaLabel = name;
  const radios = labels.map((parts, index) => {
    const radio = createElement("input");
    Object.assign(radio, { type: "radio", name: `inside ${name}`, checked: index === chosen });
    radio.addEventListener("change", () => onChoose(index));
    return createElement("label", "", radio, ...parts);
  });
  group.append(...radios);
  onChoose(chosen);
  return group;
}
