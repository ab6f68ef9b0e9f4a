// The input of the expression, edited with the keypad and the keyboard.

import { plain } from "./format.js";

const OPERATION = /^[-+*/×÷−^%]$/;

export class Field {
  #input;
  /** @type {string | null} the result of the expression; null once it is edited */
  #answer = null;

  /** @param {HTMLInputElement} input */
  constructor(input) {
    this.#input = input;
    for (const name of ["input", "pointerdown"]) {
      input.addEventListener(name, () => (this.#answer = null));
    }
  }

  get text() {
    return this.#input.value;
  }

  set text(text) {
    this.#answer = null;
    this.#input.value = text;
    this.#input.removeAttribute("aria-invalid");
    this.#input.setSelectionRange(text.length, text.length);
    this.#input.scrollLeft = this.#input.scrollWidth; // where the caret is
  }

  /** Whether the expression is answered. The next key then starts a new one. */
  get isAnswered() {
    return this.#answer !== null;
  }

  /** Notes the answer. An operation continues from it; other keys start a new expression.
   * @param {string | null} result */
  answered(result) {
    this.#answer = plain(result ?? "");
    this.#input.setSelectionRange(0, this.text.length); // select() would take the focus
  }

  /** Inserts a key of the keypad at the caret.
   * @param {string} key */
  press(key) {
    if (this.#answer !== null) {
      this.text = OPERATION.test(key) ? this.#answer + key : key;
      return;
    }
    this.#replace(key, ...this.#selection());
  }

  backspace() {
    this.#answer = null;
    const [start, end] = this.#selection();
    this.#replace("", start === end ? Math.max(0, start - 1) : start, end);
  }

  /** Marks the characters from `position` to `end` (code points) as wrong and selects them.
   * @param {number} position
   * @param {number} end */
  mark(position, end = position + 1) {
    const units = (/** @type {number} */ n) => [...this.text].slice(0, n).join("").length;
    this.#input.setAttribute("aria-invalid", "true");
    this.#input.focus();
    this.#input.setSelectionRange(units(position), units(end));
  }

  /** Removes the mark of an error. */
  unmark() {
    this.#input.removeAttribute("aria-invalid");
  }

  edit() {
    this.#answer = null;
  }

  /** @returns {[number, number]} */
  #selection() {
    const { selectionStart, selectionEnd } = this.#input;
    return [selectionStart ?? this.text.length, selectionEnd ?? this.text.length];
  }

  /**
   * @param {string} text
   * @param {number} start
   * @param {number} end
   */
  #replace(text, start, end) {
    this.#input.setRangeText(text, start, end, "end");
    this.#input.dispatchEvent(new Event("input", { bubbles: true }));
    if (this.#input.selectionEnd === this.text.length) {
      this.#input.scrollLeft = this.#input.scrollWidth;
    }
  }
}
