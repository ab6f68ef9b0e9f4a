// The answer with its check by exact arithmetic, or the error.

import { check } from "./exact.js";
import { SURE, element, inWords, percent, plain, pretty } from "./format.js";

const UNPROVEN = "urn:calcgpt:problem:unproven";

/**
 * @typedef {import("./client.js").Calculation} Calculation
 * @typedef {import("./client.js").Node} Node
 * @typedef {import("./client.js").ServiceError} ServiceError
 */

/**
 * Returns what is shown below the expression when a model has answered.
 * @param {Calculation} calculation
 */
export function answer(calculation) {
  const { expression, result, rounded, places, verified, proven, confidence } = calculation;
  const whole = verified && result !== null ? check(expression, result, places) : null;
  const shown = document.createDocumentFragment();
  const value = element("p", "result");
  const text = result === null ? "no number" : plain(result);
  value.append(element("span", "unseen", `${pretty(expression)} `), "= ", element("span", "value", text));
  value.style.setProperty("--length", String(text.length + 2));
  value.classList.toggle("wrong", result !== calculation.exact);
  const isRounded = whole ? whole.isRounded && !whole.isExact : rounded;
  if (isRounded) value.append(element("span", "rounded", ` rounded to ${inPlaces(places)}`));
  shown.append(value);
  if (!calculation.nodes.length) {
    shown.append(element("p", "sure", "There was nothing to ask the model."));
    return shown;
  }
  shown.append(whole ? agreement(whole, places) : disagreement(calculation), sureness(confidence));
  if (!proven) shown.append(element("p", "unproven", "It was not measured for such numbers."));
  return shown;
}

/**
 * A calm mark if the model was sure; otherwise how sure, in the colour of doubt.
 * @param {import("./client.js").Confidence} confidence
 */
function sureness({ whole }) {
  const isSure = whole >= SURE;
  const line = element("p", "sure");
  line.classList.toggle("doubtful", !isSure);
  line.title = percent(whole);
  const words = isSure ? "." : `: ${percent(whole)}.`;
  line.append(icon(isSure ? "●" : "○"), `The model was ${inWords(whole)}${words}`);
  return line;
}

/** @param {number} places */
function inPlaces(places) {
  return places === 1 ? "1 place" : `${places} places`;
}

/**
 * The steps agree. Rounding between them can have changed the value of the whole.
 * @param {{isRounded: boolean, value: string}} whole
 * @param {number} places
 */
function agreement({ isRounded, value }, places) {
  const line = element("p", "agrees");
  const steps = `Each step is right, rounded to ${inPlaces(places)}. Without rounding it is ${plain(value)}.`;
  line.append(icon("✓"), isRounded ? "Exact arithmetic agrees." : steps);
  return line;
}

/** @param {Calculation} calculation */
function disagreement({ result, exact, nodes }) {
  const box = element("div", "disagrees");
  const words = result === exact ? "The result is right, but a step is wrong" : "Exact arithmetic disagrees";
  const title = element("p", "verdict");
  title.append(icon("✗"), words);
  const values = element("dl");
  for (const { name, value } of [{ name: "Model", value: result }, { name: "Exact", value: exact }]) {
    const pair = element("div");
    pair.append(element("dt", "", name), element("dd", "", value === null ? "no number" : plain(value)));
    values.append(pair);
  }
  box.append(title, values);
  if (nodes.length > 1) box.append(wrongSteps(nodes));
  return box;
}

/** @param {Node[]} nodes */
function wrongSteps(nodes) {
  const list = element("ul");
  nodes.forEach((node, index) => {
    if (!node.agrees) list.append(element("li", "", `Step ${index + 1}: ${whatIsWrong(node)}`));
  });
  return list;
}

/** @param {Node} node */
function whatIsWrong({ expression, problem, result, exact }) {
  if (!problem) return `${pretty(expression)} was not asked: an operand is missing`;
  const wrote = result === null ? "a text that is not a number" : plain(result);
  return `${plain(problem)} is ${plain(exact)}, not ${wrote}`;
}

/** @param {string} sign */
function icon(sign) {
  const shown = element("span", "icon", sign);
  shown.ariaHidden = "true";
  return shown;
}

/**
 * Returns one line that says what is wrong, and the expression with the error marked.
 * @param {ServiceError} error
 * @param {string} typed
 * @param {() => void} [askUnproven] is called by a button, if the model was only never measured for
 *   such numbers
 */
export function failure(error, typed, askUnproven) {
  const shown = document.createDocumentFragment();
  const line = element("p", "failure");
  line.append(icon("!"), sentence(placed(error, typed)), retryText(error.retryAfter));
  shown.append(line);
  const { position, end } = error;
  if (position !== undefined) shown.append(marked(typed, position, end));
  if (error.type === UNPROVEN && askUnproven) {
    const button = element("button", "plain", "Ask it all the same");
    button.type = "button";
    button.addEventListener("click", askUnproven);
    shown.append(button);
  }
  return shown;
}

/**
 * The message, with its place as people count.
 * @param {ServiceError} error
 * @param {string} typed
 */
function placed(error, typed) {
  const { position } = error;
  const message = error.message.replace(/at position (\d+)/, (_, at) => `at character ${Number(at) + 1}`);
  if (position === undefined) return message;
  if (position < [...typed].length) return `${message} (character ${position + 1})`;
  return `the expression is not finished: ${message.replace(/, not the end$/, " at its end")}`;
}

/** @param {string} text */
function sentence(text) {
  const ended = /[.!?]$/.test(text) ? text : `${text}.`;
  return ended[0].toUpperCase() + ended.slice(1);
}

/** @param {number | null | undefined} seconds */
function retryText(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return ` Try again ${seconds > 1 ? `in ${seconds} seconds` : "in a second"}.`;
}

/**
 * Returns the expression with text[position:end] marked; that may be empty.
 * @param {string} typed
 * @param {number} position
 * @param {number} end
 */
function marked(typed, position, end = position + 1) {
  const characters = [...typed];
  const shown = element("p", "place");
  const mark = element("mark", "", characters.slice(position, end).join(""));
  if (!mark.textContent) mark.append(element("span", "unseen", "here"), "\u2002");
  shown.append(characters.slice(0, position).join(""), mark, characters.slice(end).join(""));
  return shown;
}
