// The input field of the expression. The keypad and the keyboard edit it.

import { formatNumbers, formatSigns } from "./format.js";

const OPERATION = /^[-+*/×÷−^%]$/;
const INVISIBLE = /\p{Cf}+/gu; // some programs put marks of direction around a number that is copied

/** Edits the expression and keeps its answer. */
export class Field {
  #input;
  /** @type {string | null} the answer to the expression, null if there is none or the text was edited */
  #answer = null;
  #question = ""; // the expression of the answer that is shown

  /** @param {HTMLInputElement} input */
  constructor(input) {
    this.#input = input;
    for (const name of ["input", "pointerdown"]) {
      input.addEventListener(name, () => (this.#answer = null));
    }
    input.addEventListener("input", () => {
      this.#removeInvisible();
      this.#compare();
    });
  }

  /** The expression. */
  get text() {
    return this.#input.value;
  }

  set text(text) {
    this.#answer = null;
    this.#input.value = text.replace(INVISIBLE, "");
    this.#input.removeAttribute("aria-invalid");
    this.#input.setSelectionRange(this.text.length, this.text.length);
    this.#input.scrollLeft = this.#input.scrollWidth; // to the caret
    this.#compare();
  }

  /** Whether the expression has an answer. The next key then starts a new expression. */
  get isAnswered() {
    return this.#answer !== null;
  }

  /** Sets the answer to a question. If the expression is still that question, a key with an operation
   * continues from the answer, and other keys start a new expression.
   * @param {string} question
   * @param {string | null} result */
  setAnswer(question, result) {
    this.#question = question;
    this.#compare();
    if (this.text !== question) return;
    this.#answer = formatNumbers(result ?? "");
    this.#input.setSelectionRange(0, this.text.length); // select() would take the focus
  }

  /** Takes the focus. */
  focus() {
    this.#input.focus({ preventScroll: true });
  }

  /** Inserts the character of a key at the caret.
   * @param {string} key */
  insertKey(key) {
    if (this.#answer !== null) {
      const isNegativeBase = key === "^" && this.#answer.startsWith("−"); // −3^2 would be −9
      const operand = isNegativeBase ? `(${this.#answer})` : this.#answer;
      this.text = OPERATION.test(key) ? operand + key : key;
      return;
    }
    this.#replace(key, ...this.#selection());
  }

  /** Deletes the selection, or else the character before the caret. */
  backspace() {
    this.#answer = null;
    const [start, end] = this.#selection();
    const last = [...this.text.slice(0, end)].at(-1) ?? ""; // one or two units
    this.#replace("", start === end ? end - last.length : start, end);
  }

  /** Marks the field as invalid and selects the characters from `position` to `end` (code points).
   * @param {number} position
   * @param {number} end */
  markError(position, end = position + 1) {
    const toUnits = (/** @type {number} */ n) => [...this.text].slice(0, n).join("").length;
    this.#input.setAttribute("aria-invalid", "true");
    this.#input.focus();
    this.#input.setSelectionRange(toUnits(position), toUnits(end));
  }

  /** Removes the mark of an error. */
  clearError() {
    this.#input.removeAttribute("aria-invalid");
  }

  /** Forgets the answer, so that keys edit the expression. */
  clearAnswer() {
    this.#answer = null;
  }

  /** Removes invisible characters, which the user could neither see nor delete. */
  #removeInvisible() {
    for (const { index, 0: found } of [...this.text.matchAll(INVISIBLE)].reverse()) {
      this.#input.setRangeText("", index, index + found.length);
    }
  }

  /** Marks the answer that is shown as one to another expression, or removes the mark. */
  #compare() {
    const isOther = formatSigns(this.text) !== formatSigns(this.#question);
    this.#input.form?.classList.toggle("other", isOther);
  }

  /** Returns the start and the end of the selection, or the end of the text if there is none.
   * @returns {[number, number]} */
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
