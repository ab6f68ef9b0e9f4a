// Parts that several pictures have: a bar from 0 to the right or to the left, controls, signed numbers.

import { createElement } from "../format.js";

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

/** Returns a slider in its label. @type {(name: string, values: Record<string, number>) =>
 *   {label: HTMLLabelElement, slider: HTMLInputElement}} */
export function createSlider(name, values) {
  const slider = Object.assign(createElement("input"), { type: "range", step: 1, ...values });
  return { label: createElement("label", "", `${name} `, slider), slider };
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
    Object.assign(radio, { type: "radio", name: `story ${name}`, checked: index === chosen });
    radio.addEventListener("change", () => onChoose(index));
    return createElement("label", "", radio, ...parts);
  });
  group.append(...radios);
  onChoose(chosen);
  return group;
}
