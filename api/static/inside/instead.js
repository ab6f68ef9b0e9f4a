// What follows if another character is written: the model continues from there, on paper.

import { write } from "../backend.js";
import { isAborted, messageOf } from "../client.js";
import { USUAL_PLACES, readAnswer } from "../engine/arithmetic.js";
import { plainText } from "../engine/exact.js";
import { shapeOf } from "../engine/layout.js";
import { createElement, formatNumbers } from "../format.js";
import { paper } from "../paper.js";
import { SheetView } from "../paper/view.js";

/** Returns an element that shows what the model writes after a character in place of another one.
 * @type {(replaced: import("../inspector.js").Character, character: string, signal: AbortSignal) => HTMLElement} */
export function instead({ model, prompt, output, at }, character, signal) {
  const verdict = createElement("p", "", "The model continues …");
  const view = new SheetView();
  const element = createElement("div", "what-if", verdict, view.element);
  element.role = "status";
  const { places = USUAL_PLACES } = shapeOf(prompt) ?? {};
  const draw = (/** @type {string} */ line) => {
    view.show(paper(prompt, line.slice(prompt.length)), [], `what follows ${character}`);
    const [before, after] = [prompt + output, line].map((whole) => resultOf(whole, places));
    const comparison = before === after ? "It recovers: the answer is the same." : `Before, it was ${before}.`;
    verdict.textContent = `With ${character} instead of ${output[at]}, the answer is ${after}. ${comparison}`;
  };
  rest(model, prompt + output.slice(0, at) + character, signal).then(draw, (error) => {
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
