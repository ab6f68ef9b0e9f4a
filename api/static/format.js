// Formats numbers, probabilities and expressions for display.

import { decimal } from "./engine/fractions.js";
import { OPERATIONS } from "./engine/operations.js";

/** The decimal sign of the browser's language, as far as expressions can have it: a point or a comma. */
export const POINT = (0.5).toLocaleString().includes(",") ? "," : ".";
export const SYMBOLS = Object.fromEntries(Object.entries(OPERATIONS).map(([sign, { symbol }]) => [sign, symbol]));
export const SURE = 0.97; // the least probability at which the model counts as sure of a whole answer
export const SURE_CHARACTER = 0.99; // the least probability at which the model counts as sure of a character
export const IMPROBABLE = 0.9; // less probable characters are also underlined, for people who cannot see the shade

/** Returns an expression or an answer with typographic signs: `(1-2)*3` -> `(1−2)×3`. Screen readers read the minus
 * sign, but skip a hyphen. `//` rounds down, unlike ÷.
 * @param {string} expression */
export function formatSigns(expression) {
  return expression.replaceAll("**", "^").replace(/\/\/|[*/-]/g, (sign) => SYMBOLS[sign] ?? sign);
}

/** Returns a long text with a sign for what is left out of its middle. @type {(text: string, most: number) => string} */
export function shortenMiddle(text, most) {
  const half = Math.floor((most - 1) / 2);
  return text.length > most ? `${text.slice(0, half)}…${text.slice(-half)}` : text;
}

/** Returns an expression or a number that was not typed, with typographic signs and the decimal sign of the language.
 * Where this is a comma, semicolons separate numbers.
 * @param {string} expression */
export function formatNumbers(expression) {
  const text = formatSigns(expression).replace(/\bpi\b/g, "π");
  return POINT === "," ? text.replaceAll(", ", "; ").replaceAll(".", POINT) : text;
}

/** Returns the result of a calculation, which is null if it is not a number. @param {string | null} result */
export function formatResult(result) {
  return result === null ? "not a number" : formatNumbers(result);
}

/** Returns a number with separators: 1234567 -> `1,234,567`. @param {number} number */
export function formatCount(number) {
  return number.toLocaleString("en");
}

/** Returns a probability in percent, rounded down, with enough digits to differ from 100%: 0.99987 -> `99.98%`.
 * @param {number} probability */
export function formatPercent(probability) {
  if (probability >= 1 - 1e-6) return "99.9999%";
  if (probability < 1e-4) return "<\u00a00.01%";
  const places = Math.max(2, Math.ceil(-Math.log10(1 - probability)) - 2);
  const digits = (Math.floor(probability * 10 ** (places + 2)) / 10 ** places).toFixed(places);
  return `${probability > 0.99 ? digits : Number(digits)}%`;
}

/** Returns the probability of a character: `sure`, in percent, or as a small chance: `1 in 40,000`.
 * @param {number} probability */
export function formatProbability(probability) {
  if (probability >= SURE_CHARACTER) return "sure";
  if (probability >= 0.01) return `${Math.round(100 * probability)}%`;
  if (probability < 1e-9) return "less than 1 in a billion";
  return `1 in ${formatCount(Number((1 / probability).toPrecision(1)))}`;
}

/** Returns a share in percent, rounded down: 0.99996 -> `99.99%`. Only 1 gives `100.00%`. @param {number} share */
export function formatShare(share) {
  return `${(Math.floor(share * 10000 + 1e-9) / 100).toFixed(2)}%`;
}

/** Returns a confidence in words. @param {number} probability */
export function describeConfidence(probability) {
  if (probability >= 0.999) return "very sure";
  if (probability >= SURE) return "sure";
  if (probability >= 0.8) return "fairly sure";
  return probability >= 0.5 ? "unsure" : "guessing";
}

/** Returns a sentence on the confidence in a whole answer, with the probability unless the model was sure.
 * @param {number} probability */
export function confidenceSentence(probability) {
  const words = `The model was ${describeConfidence(probability)}`;
  if (probability >= SURE) return `${words}.`;
  const percent = formatPercent(probability);
  if (probability >= 0.5) return `${words}: ${percent}.`;
  return `The model gave this a chance of ${percent.replace("<", "less than")}.`;
}

/** Returns how strongly a probability is shaded, from 0 (not at all) to 1. @param {number} probability */
export function doubt(probability) {
  if (probability >= SURE_CHARACTER) return 0;
  return Math.sqrt(1 + Math.log10(1 - probability) / 2);
}

/** Returns a new element with a class and children.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {string} className @param {(Node | string)[]} children */
export function createElement(tag, className = "", ...children) {
  const created = document.createElement(tag);
  if (className) created.className = className;
  created.append(...children.filter((child) => child !== ""));
  return created;
}

/** Returns a sign that screen readers skip. @type {(sign: string, className?: string) => HTMLSpanElement} */
export function createIcon(sign, className = "icon") {
  const icon = createElement("span", className, sign);
  icon.ariaHidden = "true";
  return icon;
}

/** Shades an element by the probability of its character. @type {(element: HTMLElement, probability: number) => void} */
export function shade(element, probability) {
  element.style.setProperty("--doubt", doubt(probability).toFixed(3));
  element.classList.toggle("improbable", probability < IMPROBABLE);
}

/** Returns a new SVG element. @type {(tag: string, attributes: Record<string, string>, text?: string) => SVGElement} */
export function createSvg(tag, attributes, text = "") {
  const created = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) created.setAttribute(name, value);
  created.textContent = text;
  return created;
}

/** Returns a new button that submits no form.
 * @type {(className: string, text: string, onClick: () => void) => HTMLButtonElement} */
export function createButton(className, text, onClick) {
  const button = createElement("button", className, text);
  button.type = "button";
  button.addEventListener("click", onClick);
  return button;
}

/** Returns an element of the page by its id.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @param {new () => T} type its class
 * @returns {T} */
export function byId(id, type = /** @type {any} */ (HTMLElement)) {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new TypeError(`the page has no ${id}`);
  return element;
}

/** Returns the element that is the target of an event. @param {Event} event */
export function targetOf({ target }) {
  return target instanceof Element ? target : document.body;
}

/** @param {number} places */
export function formatPlaces(places) {
  if (places === 0) return "a whole number";
  return places === 1 ? "1 place" : `${places} places`;
}

// Numbers with their digits in groups of three

const MANY = /\d{5}/; // so many digits are hard to read without groups
const MAX_DIGITS = 40; // of a fraction in decimal notation
const NUMBER = /(\d+(?:[.,]\d+)?)/;
const THOUSANDS = /(?<=\d)(?=(?:\d{3})+$)/;

/** Returns a text as nodes, with the digits of long numbers in groups. The gaps between them are margins: a copy of the
 * text has no spaces, and screen readers read one number.
 * @param {string} text */
export function groupDigits(text) {
  return text.split(NUMBER).flatMap((part) => {
    if (!MANY.test(part)) return [part];
    const [whole, places = ""] = part.split(POINT);
    const [first, ...rest] = MANY.test(whole) ? whole.split(THOUSANDS) : [whole];
    const [firstPlaces = "", ...restPlaces] = MANY.test(places) ? (places.match(/.{1,3}/g) ?? []) : [places];
    return [first, ...rest.flatMap(group), firstPlaces && `${POINT}${firstPlaces}`, ...restPlaces.flatMap(group)];
  });
}

/** Returns a fraction and, unless that is long, its decimal notation, as elements. A line is over the period: 1/12 = 0.083
 * with a line over the 3. @param {import("./engine/fractions.js").Fraction} value */
export function createFraction(value) {
  const written = createElement("span", "fraction", formatSigns(`${value.n}`) + (value.d > 1n ? `/${value.d}` : ""));
  written.translate = false;
  const expansion = value.d > 1n && decimal(value, MAX_DIGITS);
  if (!expansion) return written;
  const { whole, digits, period } = expansion;
  written.append(` = ${value.n < 0n ? "−" : ""}`, ...groupDigits(`${whole}${POINT}${digits}`));
  if (period) written.append(createElement("span", "period", period), createElement("span", "unseen", " repeating"));
  return written;
}

/** Returns a group after a place where a line may break. @param {string} digits */
function group(digits) {
  return [createElement("wbr"), createElement("span", "group", digits)];
}
