// The outcome of a calculation: the answer with its check by exact arithmetic, or the error.

import { namesOf } from "./brain/parts.js";
import { breaksTie, isTie, parse } from "./engine/fractions.js";
import {
  SURE, byId, confidenceSentence, createButton, createElement, createFraction, createIcon, formatNumbers, formatPercent,
  formatPlaces, formatResult, formatSigns, groupDigits, shortenMiddle,
} from "./format.js";
import { repairsOf } from "./repair.js";

const ASCII_SIGN = /\/\/|(?<!['\p{L}])[-*/]|[-*/](?!['\p{L}])/gu; // except in quoted input and in hyphens
const ROUNDED_STEPS = "Each step is right, but this model rounds them to too few places.";
const TIE = "Both are equally near: of such a tie, the even digit is right.";
const LONG = 26; // characters of an expression that the field cannot show whole
const MAX_FRACTION = 24; // characters of a fraction that is worth reading
const NEARBY = 60; // characters of an expression that an error shows before the mark, in it and after it

/** @typedef {import("./client.js").Calculation} Calculation
 * @typedef {import("./client.js").Node} Node
 * @typedef {import("./client.js").ServiceError} ServiceError */

/** Returns the answer, its check and the confidence of the model, as elements. ask: called when the user asks for
 * another reading of the expression.
 * @type {(calculation: Calculation, ask: (expression: string) => void) => DocumentFragment} */
export function renderAnswer(calculation, ask) {
  const { expression, result, verified, confidence, nodes } = calculation;
  const fragment = document.createDocumentFragment();
  const value = createElement("p", "result");
  const question = createElement("span", "question", ...groupDigits(shortenMiddle(formatNumbers(expression), LONG)), " ");
  question.translate = false;
  question.classList.toggle("long", expression.length > LONG);
  const number = createElement("span", "value", ...groupDigits(formatResult(result)));
  number.translate = false;
  if (result !== null) number.dataset.plain = result;
  value.append(question, "=\u00a0", number);
  const nGaps = number.querySelectorAll(".group").length; // a gap is a third as wide as a digit
  value.style.setProperty("--length", String((number.textContent ?? "").length + 2 + nGaps / 3));
  value.classList.toggle("wrong", result !== calculation.exact);
  fragment.append(value, exactLine(calculation), readingLine(calculation, ask));
  if (calculation.off) fragment.append(createElement("p", "off-line", offSentence(calculation, calculation.off)));
  const lines = createElement("div", "checks");
  fragment.append(lines);
  say("Copy");
  if (!nodes.length) {
    lines.append(createElement("p", "sure", "The model was not needed: there is no operation."));
    return fragment;
  }
  const agreement = createElement("p", "agrees", createIcon("✓"), "Exact arithmetic agrees.");
  if (!verified) lines.before(disagreementBox(calculation));
  lines.append(verified ? agreement : "", confidenceLine(confidence));
  return fragment;
}

/** Copies the answer that is shown when the user copies and has selected nothing.
 * @param {ClipboardEvent} event */
export function copyAnswer(event) {
  const number = shownNumber();
  if (!number || getSelection()?.isCollapsed === false) return;
  event.clipboardData?.setData("text/plain", number.dataset.plain ?? "");
  event.preventDefault();
  say("Copied");
}

byId("copy-answer").addEventListener("click", async () => {
  const number = /** @type {HTMLElement} */ (shownNumber());
  try {
    await navigator.clipboard.writeText(number.dataset.plain ?? "");
    say("Copied");
  } catch {
    getSelection()?.selectAllChildren(number); // the browser forbids copying, so the user has to do it
  }
});

/** Returns the element with the answer, whose `plain` has a point and no other sign than -.
 * @returns {HTMLElement | null} */
function shownNumber() {
  return byId("answer").querySelector("[data-plain]");
}

/** Says on the button that copies the answer whether it has. @param {"Copy" | "Copied"} word */
function say(word) {
  byId("copy-answer").textContent = word;
  byId("copy-answer").ariaLabel = `${word} the answer`;
}

/** Returns the line that says how a right answer was rounded, and its exact value; it is empty if it was not.
 * @param {Calculation} calculation */
function exactLine({ rounded, verified, places, fraction: exact }) {
  if (rounded === false || !verified) return "";
  if (rounded === null) return createElement("p", "rounded", "undecided whether it is exactly this");
  const value = exact ? parse(exact) : null;
  const line = createElement("p", "rounded", `rounded to ${formatPlaces(places)}`);
  if (value && isTie(value, places)) line.append(": a tie, which goes to the even digit");
  if (exact && value && exact.length <= MAX_FRACTION) line.append(", exactly ", createFraction(value));
  return line;
}

/** Returns a sentence on the parts of the model that were off.
 * @type {(calculation: Calculation, off: string[]) => string} */
function offSentence({ nodes }, off) {
  const endless = nodes.find(({ output }) => output && !output.endsWith("$"));
  const end = endless ? " What it wrote has no end, so it is no answer." : "";
  return `Written without ${namesOf(off)}.${end}`;
}

/** Returns the line with the confidence. If the model was not sure, the line is coloured and has the probability.
 * @param {import("./client.js").Confidence} confidence */
function confidenceLine({ whole }) {
  const isSure = whole >= SURE;
  const line = createElement("p", "sure", createIcon(isSure ? "●" : "○"), confidenceSentence(whole));
  line.classList.toggle("doubtful", !isSure);
  line.title = formatPercent(whole);
  return line;
}

/** Returns the line that says how the expression was read, with a button for the other reading. It is empty if a reader
 * could not think otherwise.
 * @type {(calculation: Calculation, ask: (expression: string) => void) => "" | HTMLParagraphElement} */
function readingLine({ reading, alternative }, ask) {
  if (!reading) return "";
  const line = createElement("p", "reading", `Read ${reading.replace(ASCII_SIGN, formatSigns)}`);
  if (alternative) {
    line.append(" ", createButton("plain", `Calculate ${formatSigns(alternative)}`, () => ask(alternative)));
  }
  return line;
}

/** Returns the box with the model's result, the exact one, and the steps that are wrong.
 * @param {Calculation} calculation */
function disagreementBox({ result, exact, nodes, fraction, places }) {
  const box = createElement("div", "disagrees");
  const verdict = result === exact ? "The result is right, but a step is wrong" : "Exact arithmetic disagrees";
  const title = createElement("p", "verdict", createIcon("✗"), verdict);
  const values = createElement("dl");
  for (const { name, value } of [{ name: "Model", value: result }, { name: "Exact", value: exact }]) {
    const number = createElement("dd", "", ...groupDigits(formatResult(value)));
    number.translate = false;
    values.append(createElement("div", "", createElement("dt", "", name), number));
  }
  box.append(title, values);
  if (breaksTie(result, fraction, places)) box.append(createElement("p", "", TIE));
  if (nodes.every(({ agrees }) => agrees)) box.append(createElement("p", "", ROUNDED_STEPS));
  else if (nodes.length > 1) box.append(wrongSteps(nodes));
  return box;
}

/** @param {Node[]} nodes */
function wrongSteps(nodes) {
  const step = (/** @type {Node} */ node, /** @type {number} */ index) => {
    return node.agrees ? "" : createElement("li", "", `Step ${index + 1}: ${describeMistake(node)}`);
  };
  return createElement("ul", "", ...nodes.map(step));
}

/** Returns what is wrong with a step. @param {Node} node */
function describeMistake({ expression, problem, result, exact }) {
  if (!problem) return `${formatNumbers(expression)} was not computed: an operand is missing`;
  const actual = result === null ? "a text that is not a number" : formatNumbers(result);
  return `${formatNumbers(problem)} is ${formatNumbers(exact)}, not ${actual}`;
}

/** Returns an error as elements: its message, if its position is known, the expression with the error marked, and buttons
 * for what was probably meant. ask: called when the user asks for that.
 * @type {(error: ServiceError, typed: string, ask?: (expression: string) => void) => DocumentFragment} */
export function renderError(error, typed, ask) {
  const fragment = document.createDocumentFragment();
  const line = createElement("p", "failure");
  line.append(createIcon("!"), toSentence(messageWithPosition(error, typed)), retryText(error.retryAfter));
  fragment.append(line);
  const { position, end } = error;
  if (position !== undefined) fragment.append(markedExpression(typed, position, end));
  if (position !== undefined && ask) {
    const repairs = createElement("p", "repairs");
    fragment.append(repairs);
    repairsOf(typed).then((meant) => {
      const buttons = meant.map((text) => createButton("chip", `Calculate ${formatSigns(text)}`, () => ask(text)));
      repairs.append(...buttons);
    });
  }
  return fragment;
}

/** Returns the message of an error with the position counted from 1.
 * @type {(error: ServiceError, typed: string) => string} */
function messageWithPosition(error, typed) {
  const { position } = error;
  if (position === undefined) return error.message;
  const counted = error.message.replace(/at position (\d+)/, (_, at) => `at character ${Number(at) + 1}`);
  const message = counted.replace(ASCII_SIGN, formatSigns); // as the keys show them
  if (position < [...typed].length) return `${message} (character ${position + 1})`;
  return `the expression is not finished: ${message.replace(/, not the end$/, " at its end")}`;
}

/** Returns a text with a capital letter and a period. @param {string} text */
function toSentence(text) {
  const withPeriod = /[.!?]$/.test(text) ? text : `${text}.`;
  return withPeriod[0].toUpperCase() + withPeriod.slice(1);
}

/** @param {number | null | undefined} seconds */
function retryText(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return ` Try again ${seconds > 1 ? `in ${seconds} seconds` : "in a second"}.`;
}

/** Returns the expression with the characters from `position` to `end` marked. If there are none, the mark is empty. Of
 * a long expression, it has only what is near the mark.
 * @type {(typed: string, position: number, end?: number) => HTMLParagraphElement} */
function markedExpression(typed, position, end = position + 1) {
  const characters = [...typed];
  const line = createElement("p", "place");
  line.translate = false;
  const [before, marked, after] = [characters.slice(0, position), characters.slice(position, end), characters.slice(end)];
  const mark = createElement("mark", "", beginning(marked));
  if (!mark.textContent) mark.append(createElement("span", "unseen", "here"), "\u2002");
  const omitted = before.length > NEARBY ? "…" : "";
  line.append(omitted + before.slice(-NEARBY).join(""), mark, beginning(after));
  return line;
}

/** Returns the first characters of a text, and a sign for those that are left out. @param {string[]} characters */
function beginning(characters) {
  return characters.slice(0, NEARBY).join("") + (characters.length > NEARBY ? "…" : "");
}
