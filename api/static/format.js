// Formats numbers, probabilities and expressions for display.

/** @type {Record<string, string>} */
const SIGNS = { "*": "×", "/": "÷", "-": "−" };
/** From here on the model is sure of a whole answer, and of a character. */
export const SURE = 0.97;
export const SURE_CHARACTER = 0.99;

/**
 * `(1-2)*3` -> `(1−2)×3`; also an answer: `-5` -> `−5`, which screen readers do not pass over.
 * @param {string} expression
 */
export function pretty(expression) {
  return expression.replace(/[*/-]/g, (sign) => SIGNS[sign]);
}

/**
 * Numbers as people write them: `4.0*31.0` -> `4×31`
 * @param {string} expression
 */
export function plain(expression) {
  return pretty(expression.replace(/\.0+(?!\d)/g, ""));
}

/**
 * 1234567 -> `1,234,567`
 * @param {number} number
 */
export function count(number) {
  return number.toLocaleString("en");
}

/**
 * A probability with enough digits to differ from 100%, rounded down: 0.99987 -> `99.98%`.
 * @param {number} probability
 */
export function percent(probability) {
  if (probability >= 1 - 1e-6) return "99.9999%";
  if (probability < 1e-4) return "< 0.01%";
  const places = Math.max(2, Math.ceil(-Math.log10(1 - probability)) - 2);
  const digits = (Math.floor(probability * 10 ** (places + 2)) / 10 ** places).toFixed(places);
  return `${probability > 0.99 ? digits : Number(digits)}%`;
}

/**
 * The probability of a character, one calm word if it is sure.
 * @param {number} probability
 */
export function figure(probability) {
  return probability >= SURE_CHARACTER ? "sure" : percent(probability);
}

/**
 * A share of tests, rounded down: 0.99996 -> `99.99%`; `100.00%` only for all.
 * @param {number} part
 */
export function share(part) {
  return `${(Math.floor(part * 10000 + 1e-9) / 100).toFixed(2)}%`;
}

/**
 * A confidence in words.
 * @param {number} probability
 */
export function inWords(probability) {
  if (probability >= 0.999) return "very sure";
  if (probability >= SURE) return "sure";
  if (probability >= 0.8) return "fairly sure";
  return probability >= 0.5 ? "unsure" : "guessing";
}

/**
 * The shade of a probability, from 0, which is none, to 1. It grows with the nines that are missing.
 * @param {number} probability
 */
export function doubt(probability) {
  if (probability >= SURE_CHARACTER) return 0;
  return Math.sqrt(1 + Math.log10(1 - probability) / 2);
}

/**
 * Returns a new element with a class and text.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} className
 * @param {string} text
 */
export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

/**
 * Returns an element of the page by its id.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @param {new () => T} type its class
 * @returns {T}
 */
export function byId(id, type = /** @type {any} */ (HTMLElement)) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new TypeError(`the page has no ${id}`);
  return found;
}

/**
 * Returns the element that an event happened to.
 * @param {Event} event
 */
export function targetOf({ target }) {
  return target instanceof Element ? target : document.body;
}
