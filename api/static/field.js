// The input field of the expression. The keypad and the keyboard edit it.

import { formatSigns } from "./format.js";

const OPERATION = /^[-+*/xX×÷−^%!]$|mod/;
const AWAITED = "…"; // stands for an answer that has not come
const ANS = /\bans\b/gi;
const LAST_OPERATION = /(?<=[\d)π!%])[-+*/xX×÷−^][\d.,]+%?$/;
const MAX_TEXTS = 200; // earlier texts that can be taken back to
const MAX_MEMORY = 200; // characters
const INVISIBLE = /\p{Cf}+/gu; // some programs put marks of direction around a number that is copied

/** Edits the expression. What is typed after it waits for its answer. */
export class Field {
  #input;
  #calculate;
  /** @type {string | null} what an operation continues from, null if the text was edited since it was asked */
  #operand = null;
  #question = ""; // the expression that was asked last
  #isWaiting = false; // whether the text continues from the answer to it
  #answer = ""; // the last one
  #memory = ""; // the sum of what was added to it
  #isRemembered = false; // whether the answer is added to the memory when it comes
  #texts = [""]; // that the field had, and those that were taken back
  #now = 0; // the index of the one that it has

  /** @param {HTMLInputElement} input
   * @param {() => void} calculate called with the key `=` */
  constructor(input, calculate) {
    this.#input = input;
    this.#calculate = calculate;
    for (const name of ["input", "pointerdown"]) {
      input.addEventListener(name, () => (this.#operand = null));
    }
    input.addEventListener("keydown", ({ key, ctrlKey, metaKey }) => {
      if (key.toLowerCase() === "a" && (ctrlKey || metaKey)) this.edit(); // the user selects the expression
    });
    input.addEventListener("input", () => {
      this.#removeInvisible();
      this.#compare();
    });
  }

  get text() {
    return this.#input.value;
  }

  set text(text) {
    this.#operand = null;
    this.#isWaiting = false;
    this.#input.value = text.replace(INVISIBLE, "");
    this.#input.removeAttribute("aria-invalid");
    this.#input.setSelectionRange(this.text.length, this.text.length);
    this.#input.scrollLeft = this.#input.scrollWidth; // to the caret
    this.#compare();
  }

  /** Whether the expression was asked and not edited since. A key with an operation then continues from its
   * answer, and other keys start a new expression. */
  get isAsked() {
    return this.#operand !== null;
  }

  /** Whether the text continues from an answer that has not come. */
  get isWaiting() {
    return this.#isWaiting && this.text.includes(AWAITED);
  }

  /** Marks the expression as asked. Shows its beginning. */
  submit() {
    this.#question = this.text;
    this.#operand = AWAITED;
    this.#input.setSelectionRange(0, this.text.length, "backward"); // select() would take the focus
    this.#input.scrollLeft = 0;
    this.#compare();
  }

  /** Sets what an operation continues from, and presses the keys that waited for it. Returns them if there is nothing
   * to continue from.
   * @param {string} operand */
  setAnswer(operand) {
    if (this.isAsked) this.#operand = operand;
    if (!operand) return this.cancel();
    this.#answer = operand;
    if (this.#isRemembered) this.#remember(operand);
    if (this.isWaiting) {
      this.text = this.text.replace(AWAITED, operand);
      this.replay();
    }
    return "";
  }

  /** Ends the wait for an answer that does not come. Returns what was typed after the question. */
  cancel() {
    this.#isRemembered = false;
    if (this.#operand !== AWAITED && !this.isWaiting) return "";
    const later = this.isWaiting ? this.text.replace(AWAITED, "") : "";
    this.text = this.#question;
    return later;
  }

  /** Presses the keys of the text from the first `=` on that does not begin it. Returns whether there is one. */
  replay() {
    const at = this.text.indexOf("=", 1);
    if (at < 0) return false;
    const keys = this.text.slice(at);
    this.text = this.text.slice(0, at);
    for (const key of keys) this.press(key);
    return true;
  }

  focus() {
    this.#input.focus({ preventScroll: true });
  }

  /** Inserts the character of a key at the caret, or calculates. @param {string} key */
  press(key) {
    const operand = this.#operand;
    if (key === "ans") key = this.#answer;
    if (!key) return;
    if (key === "=" && this.isWaiting) this.#replace(key, this.text.length, this.text.length);
    else if (key === "=") this.#equals();
    else if (operand === null) this.#replace(key, ...this.#selection());
    else {
      const isNegativeBase = /[\^!]/.test(key) && operand.startsWith("−"); // −3^2 would be −9
      const isContinued = OPERATION.test(key);
      this.text = isContinued ? (isNegativeBase ? `(${operand})` : operand) + key : key;
      this.#isWaiting = isContinued && operand === AWAITED;
    }
  }

  /** Calculates. If that was just asked, does the last operation once more: after 2+3, `=` asks 5+3. */
  #equals() {
    const [again] = (this.#operand && LAST_OPERATION.exec(this.#question)) || [];
    if (again) for (const key of `${again}=`) this.press(key);
    else if (this.#operand !== AWAITED) this.#calculate();
  }

  /** Writes the last answer for each `ans` of the expression. */
  expand() {
    const expanded = this.#answer && this.text.replace(ANS, this.#answer);
    if (expanded && expanded !== this.text) this.text = expanded;
  }

  /** Adds the answer to the memory when it has come. An expression that was not asked yet is asked first. */
  addToMemory() {
    if (this.#operand && this.#operand !== AWAITED) return this.#remember(this.#operand);
    this.#isRemembered = true;
    if (this.#operand === null) this.#calculate();
  }

  /** @param {string} operand */
  #remember(operand) {
    this.#isRemembered = false;
    const sum = this.#memory + (this.#memory && !operand.startsWith("−") ? "+" : "") + operand;
    if (sum.length <= MAX_MEMORY) this.#setMemory(sum);
  }

  recallMemory() {
    this.press(/^.+[+−]/.test(this.#memory) ? `(${this.#memory})` : this.#memory);
  }

  forgetMemory() {
    this.#setMemory("");
  }

  /** @param {string} memory */
  #setMemory(memory) {
    this.#memory = memory;
    this.#input.dispatchEvent(new CustomEvent("memory", { bubbles: true, detail: memory }));
  }

  /** Deletes the selection, or else the character before the caret. Of a question that was asked, which is selected as
   * a whole, deletes the last character. */
  backspace() {
    const [start, end] = this.isAsked ? [this.text.length, this.text.length] : this.#selection();
    this.#operand = null;
    const last = [...this.text.slice(0, end)].at(-1) ?? ""; // one or two units
    this.#replace("", start === end ? end - last.length : start, end);
  }

  /** Takes back the last change of the text (-1), or makes it again (1). @param {number} direction */
  undo(direction) {
    const text = this.#texts[this.#now + direction];
    if (text === undefined) return;
    this.#now += direction;
    this.text = text;
  }

  /** Marks the field as invalid and selects the characters from `position` to `end` (code points).
   * @type {(position: number, end?: number) => void} */
  markError(position, end = position + 1) {
    const toUnits = (/** @type {number} */ n) => [...this.text].slice(0, n).join("").length;
    this.#input.setAttribute("aria-invalid", "true");
    this.#input.focus();
    this.#input.setSelectionRange(toUnits(position), toUnits(end));
  }

  /** Makes keys begin another expression: the one that was asked has no value. */
  endQuestion() {
    this.#operand = "";
  }

  clearError() {
    this.#input.removeAttribute("aria-invalid");
  }

  /** Makes keys edit the expression. */
  edit() {
    this.#operand = null;
  }

  /** Removes invisible characters, which the user could neither see nor delete. */
  #removeInvisible() {
    for (const { index, 0: found } of [...this.text.matchAll(INVISIBLE)].reverse()) {
      this.#input.setRangeText("", index, index + found.length);
    }
  }

  /** Marks the answer that is shown as one to another expression, or removes the mark. Keeps a new text for `undo`. */
  #compare() {
    if (this.text !== this.#texts[this.#now]) {
      this.#texts.splice(this.#now + 1, Infinity, this.text);
      this.#texts = this.#texts.slice(-MAX_TEXTS);
      this.#now = this.#texts.length - 1;
    }
    const isOther = formatSigns(this.text) !== formatSigns(this.#question);
    this.#input.form?.classList.toggle("other", isOther);
  }

  /** Returns the start and the end of the selection, or the end of the text if there is none.
   * @returns {[number, number]} */
  #selection() {
    const { selectionStart, selectionEnd } = this.#input;
    return [selectionStart ?? this.text.length, selectionEnd ?? this.text.length];
  }

  /** @type {(text: string, start: number, end: number) => void} */
  #replace(text, start, end) {
    this.#input.setRangeText(text, start, end, "end");
    this.#input.dispatchEvent(new Event("input", { bubbles: true }));
    if (this.#input.selectionEnd === this.text.length) {
      this.#input.scrollLeft = this.#input.scrollWidth;
    }
  }
}
