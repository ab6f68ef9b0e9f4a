// What follows if another character is written: the model continues from there, on paper.

import { write } from "../backend.js";
import { isAborted, messageOf } from "../client.js";
import { readAnswer } from "../engine/arithmetic.js";
import { plainText } from "../engine/exact.js";
import { createElement, formatNumbers } from "../format.js";
import { paper } from "../paper.js";
import { SheetView } from "../paper/view.js";

/** Returns an element that shows what the model writes after a character in place of the one that is followed.
 * @type {(subject: import("./subject.js").Subject, character: string, signal: AbortSignal) => HTMLElement} */
export function instead(subject, character, signal) {
  const verdict = createElement("p", "", "The model continues …");
  const view = new SheetView();
  const element = createElement("div", "what-if", verdict, view.element);
  element.role = "status";
  const { model, start, position, text } = subject;
  const draw = (/** @type {string} */ line) => {
    view.show(paper(line.slice(0, start), line.slice(start)), [], `what follows ${character}`);
    const [before, after] = [text, line].map((whole) => resultOf(whole, subject.places));
    const comparison = before === after ? "It recovers: the answer is the same." : `Before, it was ${before}.`;
    verdict.textContent = `With ${character} instead of ${text[position]}, the answer is ${after}. ${comparison}`;
  };
  rest(model, text.slice(0, position) + character, signal).then(draw, (error) => {
    if (!isAborted(error)) verdict.textContent = messageOf(error);
  });
  return element;
}

/** Returns a line to its end. @type {(model: string, beginning: string, signal: AbortSignal) => Promise<string>} */
async function rest(model, beginning, signal) {
  let line = beginning;
  if (line.endsWith("$")) return line;
  for await (const text of write(model, beginning, signal)) line += text;
  return line;
}

/** Returns the answer of a line, in words. @type {(line: string, places: number) => string} */
function resultOf(line, places) {
  const { value } = readAnswer(line, places);
  return value ? formatNumbers(plainText(value)) : "not a number";
}
