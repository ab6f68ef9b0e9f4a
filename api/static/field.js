// The expression's input: what the keypad and the keyboard do to it.

const OPERATION = /^[-+*/×÷−]$/;

export class Field {
  #input;
  #answer = null; // of what stands there; null as soon as that is changed

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

  /** Whether what stands there is answered: the next key then begins anew. */
  get isAnswered() {
    return this.#answer !== null;
  }

  /** It is answered: an operation goes on from the result, anything else begins anew. */
  answered(result) {
    this.#answer = result ?? "";
    this.#input.select();
  }

  /** A key of the keypad, at the caret. */
  press(key) {
    if (this.isAnswered) {
      this.text = OPERATION.test(key) ? this.#answer + key : key;
      return;
    }
    const { selectionStart: start, selectionEnd: end } = this.#input;
    this.#replace(key, start, end);
  }

  backspace() {
    this.#answer = null;
    const { selectionStart: start, selectionEnd: end } = this.#input;
    this.#replace("", start === end ? Math.max(0, start - 1) : start, end);
  }

  /** Select the characters from `position` to `end`, counted as code points. */
  mark(position, end = position + 1) {
    const units = (n) => [...this.text].slice(0, n).join("").length;
    this.#input.setAttribute("aria-invalid", "true");
    this.#input.focus();
    this.#input.setSelectionRange(units(position), units(end));
  }

  /** What was wrong is so no longer, or not known to be. */
  unmark() {
    this.#input.removeAttribute("aria-invalid");
  }

  edit() {
    this.#answer = null;
  }

  #replace(text, start, end) {
    this.#input.setRangeText(text, start, end, "end");
    this.#input.dispatchEvent(new Event("input", { bubbles: true }));
    if (this.#input.selectionEnd === this.text.length) {
      this.#input.scrollLeft = this.#input.scrollWidth;
    }
  }
}
