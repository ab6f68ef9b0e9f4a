// The keypad: one stop of the Tab key, in which the arrow keys move the focus.

import { POINT, byId } from "./format.js";

const COLUMNS = 5;
/** @type {Record<string, number>} */
const MOVES = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -COLUMNS, ArrowDown: COLUMNS };

/** Prepares the keypad. input: the field, which tells what is in the memory.
 * @type {(keypad: HTMLElement, input: HTMLElement) => void} */
export function setUpKeypad(keypad, input) {
  const point = byId("point");
  point.dataset.key = point.textContent = POINT;
  point.ariaLabel = POINT === "," ? "comma" : "point";
  const keys = [...keypad.querySelectorAll("button")];
  const makeStop = (/** @type {Element} */ stop) => keys.forEach((key) => (key.tabIndex = key === stop ? 0 : -1));
  makeStop(keys[0]);
  keypad.addEventListener("keydown", (event) => {
    const next = keys[keys.findIndex((key) => key === event.target) + MOVES[event.key]];
    if (!next) return;
    event.preventDefault();
    makeStop(next);
    next.focus();
  });
  // Pressing a key with the pointer does not move the focus, so that Enter still calculates.
  keypad.addEventListener("mousedown", (event) => event.preventDefault());
  input.addEventListener("memory", (event) => {
    const { detail: memory } = /** @type {CustomEvent<string>} */ (event);
    byId("recall").title = memory;
    byId("recall").classList.toggle("filled", memory !== "");
  });
}
