// The keypad, and groups of buttons that are one stop of the Tab key.

import { POINT, byId } from "./format.js";

const COLUMNS = 5;

/** Prepares the keypad. input: the field, which tells what is in the memory.
 * @type {(keypad: HTMLElement, input: HTMLElement) => void} */
export function setUpKeypad(keypad, input) {
  const point = byId("point");
  point.dataset.key = point.textContent = POINT;
  point.ariaLabel = POINT === "," ? "comma" : "point";
  makeOneStop(keypad, COLUMNS);
  // Pressing a key with the pointer does not move the focus, so that Enter still calculates.
  keypad.addEventListener("mousedown", (event) => event.preventDefault());
  input.addEventListener("memory", (event) => {
    const { detail: memory } = /** @type {CustomEvent<string>} */ (event);
    byId("recall").title = memory;
    byId("recall").classList.toggle("filled", memory !== "");
  });
}

/** Makes the buttons of an element one stop of the Tab key, in which the arrow keys move the focus. Buttons may come and
 * go.
 * @type {(group: HTMLElement, columns?: number) => void} */
export function makeOneStop(group, columns = 1) {
  /** @type {Record<string, number>} */
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const stopAt = (/** @type {Element | null} */ stop) => {
    const buttons = [...group.querySelectorAll("button")];
    for (const button of buttons) button.tabIndex = button === (stop ?? buttons[0]) ? 0 : -1;
  };
  const update = () => stopAt(group.querySelector("button[tabindex='0']"));
  update();
  new MutationObserver(update).observe(group, { childList: true, subtree: true });
  group.addEventListener("keydown", (event) => {
    const buttons = [...group.querySelectorAll("button")];
    const next = buttons[buttons.findIndex((button) => button === event.target) + moves[event.key]];
    if (!next) return;
    event.preventDefault();
    stopAt(next);
    next.focus();
  });
}
