// The answer with its check by exact arithmetic, or the error.

import { element, inWords, percent, pretty } from "./format.js";

const UNPROVEN = "urn:calcgpt:problem:unproven";

/** Returns what is shown below the expression when a model has answered. */
export function answer(calculation) {
  const { result, rounded, places, verified, proven, confidence, model } = calculation;
  const shown = document.createDocumentFragment();
  const value = element("p", "result");
  value.append(element("span", "unseen", `${pretty(calculation.expression)} `), "= ");
  value.append(element("span", "value", result === null ? "no number" : pretty(result)));
  value.classList.toggle("long", (result ?? "").length > 9);
  value.classList.toggle("wrong", result !== calculation.exact);
  if (rounded) value.append(element("span", "rounded", ` rounded to ${inPlaces(places)}`));
  shown.append(value);
  if (!calculation.nodes.length) {
    shown.append(element("p", "sure", "There was nothing to ask the model."));
    return shown;
  }
  shown.append(verified ? agreement() : disagreement(calculation));
  const sure = `${inWords(confidence.whole)}: ${percent(confidence.whole)}`;
  shown.append(element("p", "sure", `${model} was ${sure}`));
  if (!proven) shown.append(element("p", "unproven", "It was not measured for such numbers."));
  return shown;
}

function inPlaces(places) {
  return places === 1 ? "1 place" : `${places} places`;
}

function agreement() {
  const line = element("p", "agrees");
  line.append(icon("✓"), "Exact arithmetic agrees.");
  return line;
}

function disagreement({ result, exact, nodes }) {
  const box = element("div", "disagrees");
  const words = result === exact ? "The result is right, but a step is wrong" : "Exact arithmetic disagrees";
  const title = element("p", "verdict");
  title.append(icon("✗"), words);
  const values = element("dl");
  for (const [name, value] of [["Model", result], ["Exact", exact]]) {
    const pair = element("div");
    pair.append(element("dt", "", name), element("dd", "", value === null ? "no number" : pretty(value)));
    values.append(pair);
  }
  box.append(title, values);
  if (nodes.length > 1) box.append(wrongSteps(nodes));
  return box;
}

function wrongSteps(nodes) {
  const list = element("ul");
  nodes.forEach((node, index) => {
    if (!node.agrees) list.append(element("li", "", `Step ${index + 1}: ${whatIsWrong(node)}`));
  });
  return list;
}

function whatIsWrong({ expression, problem, result, exact }) {
  if (!problem) return `${pretty(expression)} was not asked: an operand is missing`;
  const wrote = result === null ? "a text that is not a number" : pretty(result);
  return `${pretty(problem)} is ${pretty(exact)}, not ${wrote}`;
}

function icon(sign) {
  const shown = element("span", "icon", sign);
  shown.ariaHidden = "true";
  return shown;
}

/** Returns one line that says what is wrong, and the expression with the error marked. If the model
 * was only never measured for such numbers, a button calls `askUnproven`. */
export function failure(error, typed, askUnproven) {
  const shown = document.createDocumentFragment();
  const line = element("p", "failure");
  line.append(icon("!"), sentence(error.message), retryText(error.retryAfter));
  shown.append(line);
  if (error.position !== undefined) shown.append(marked(typed, error));
  if (error.type === UNPROVEN) {
    const button = element("button", "plain", "Ask it all the same");
    button.type = "button";
    button.addEventListener("click", askUnproven);
    shown.append(button);
  }
  return shown;
}

function sentence(text) {
  const ended = /[.!?]$/.test(text) ? text : `${text}.`;
  return ended[0].toUpperCase() + ended.slice(1);
}

function retryText(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return ` Try again ${seconds > 1 ? `in ${seconds} seconds` : "in a second"}.`;
}

/** Returns the expression with text[position:end] marked; that may be empty. */
function marked(typed, { position, end = position + 1 }) {
  const characters = [...typed];
  const shown = element("p", "place");
  const mark = element("mark", "", characters.slice(position, end).join(""));
  if (!mark.textContent) mark.append(element("span", "unseen", "here"), "\u2002");
  shown.append(characters.slice(0, position).join(""), mark, characters.slice(end).join(""));
  return shown;
}
