// What the model wrote for one operation, in rows (docs/NOTATION.md), shaded by probability.

import { doubt, element, percent, pretty } from "./format.js";

const BEGIN_A_ROW = /[xy:a-l]/; // and the last `=`, which begins the answer
const ANY_WIDTH = /^[-+]/; // work of any width begins with a sign
const BEGIN_A_PART = /[;|:]/;
const OPERATION = /^-?[\d.]+([-+*/])/;
const IMPROBABLE = 0.9; // also underlined, for people who cannot see the shade

// Labels of rows by their first character; for a letter, by the operation.
const LABELS = {
  x: () => "first number",
  y: () => "second number",
  "+": () => "column by column",
  "-": () => "column by column",
  "*": ([, digit = "…"]) => `times ${digit}, running sum`,
  "/": ([, sign = "", digit = "…"]) => `quotient digit ${pretty(sign + digit)}, remainder`,
  ":": () => "result, sign, decimal places",
  "=": () => "answer, backwards",
};
const PART_LABELS = {
  ";": () => "row by row",
  "|": () => "exact result",
  ":": () => "result, sign",
  "=": LABELS["="],
};

/** One operation: its heading, what the model read, and the rows that it wrote. */
export class Step {
  #text = "";
  #row = null;
  #operation = "+";
  #heading;
  #rows = element("ol", "rows");
  #status = element("p", "status", "waiting for its operands");

  /** `node`: expression, position and end in `typed`, the whole as code points. */
  constructor(node, number, count, typed) {
    this.element = element("li", "node");
    this.#heading = element("h3", "problem", pretty(node.expression));
    if (count > 1) this.element.append(context(node, number, count, typed));
    this.element.append(this.#heading, this.#rows, this.#status);
  }

  /** The model begins to write. */
  begin({ problem, prompt }) {
    this.#operation = OPERATION.exec(problem)?.[1] ?? "+";
    this.#heading.textContent = `${pretty(problem)} =`;
    this.#status.textContent = "";
    this.element.classList.add("writing");
    const row = new Row(() => "the model reads");
    for (const character of prompt) row.add(character, null);
    row.close();
    this.#rows.append(row.element);
  }

  /** The model wrote a character. */
  write({ text, probability }) {
    if (!this.#row || this.#beginsRow(text)) {
      this.#row?.close();
      this.#row = new Row(this.#labelOf(text));
      this.#rows.append(this.#row.element);
    }
    this.#text += text;
    this.#row.add(text, probability);
  }

  /** The operation is done. */
  end({ problem, result, exact, agrees, confidence }) {
    this.#row?.close();
    this.element.classList.remove("writing");
    this.element.classList.toggle("wrong", !agrees);
    if (!problem) {
      this.#status.textContent = "✗ Not asked: an operand is missing.";
      return;
    }
    const answer = result === null ? "no number" : pretty(result);
    this.#heading.append(" ", element("strong", "", answer));
    const check = agrees ? "✓ Exact arithmetic agrees." : `✗ Wrong: exact is ${pretty(exact)}.`;
    this.#status.textContent = `${check} The model was ${percent(confidence.whole)} sure.`;
  }

  /** Ends an incomplete operation. */
  stop() {
    this.#row?.close();
    this.element.classList.remove("writing");
  }

  // Worked steps begin with x or y. An answer without steps has no rows.
  #beginsRow(character) {
    if (ANY_WIDTH.test(this.#text)) {
      return !this.#text.includes("=") && (character === "=" || BEGIN_A_PART.test(character));
    }
    if (!/^[xy]/.test(this.#text) || this.#text.includes("=")) return false;
    return character === "=" || BEGIN_A_ROW.test(character);
  }

  #labelOf(character) {
    if (ANY_WIDTH.test(this.#text + character)) return PART_LABELS[character] ?? (() => "work");
    const inSteps = /^[xy]/.test(this.#text + character);
    const kind = /[a-l]/.test(character) ? this.#operation : character;
    return inSteps ? LABELS[kind] : LABELS["="];
  }
}

/** A row: its label, its characters, its lowest probability. */
class Row {
  #labelText;
  #label;
  #least = null;
  #isClosed = false;

  constructor(labelText) {
    this.#labelText = labelText;
    this.#label = element("span", "row-label", labelText([]));
    this.element = element("li", "line");
    this.characters = element("span", "characters");
    // Screen readers read a finished row as one sentence, not one character at a time.
    this.visible = element("span", "seen");
    this.visible.ariaHidden = "true";
    this.visible.append(this.#label, this.characters);
    this.element.append(this.visible);
  }

  add(text, probability) {
    const made = element("span", "", text);
    if (probability !== null) {
      made.title = `${text}: ${percent(probability)}`;
      made.style.setProperty("--doubt", doubt(probability).toFixed(3));
      made.classList.toggle("improbable", probability < IMPROBABLE);
      this.#least = Math.min(this.#least ?? 1, probability);
    }
    this.characters.append(made);
    this.#label.textContent = this.#labelText(this.characters.textContent);
  }

  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const least = this.#least === null ? "" : percent(this.#least);
    this.visible.append(element("span", "least", least));
    const sure = least && `, lowest probability ${least}`;
    const spoken = `${this.#label.textContent}: ${this.characters.textContent}${sure}`;
    this.element.append(element("span", "unseen", spoken));
  }
}

/** Returns the whole expression with the part of this step in bold. */
function context({ position, end }, number, count, typed) {
  const shown = element("p", "context", `Step ${number} of ${count}: `);
  const [before, part, after] = [[0, position], [position, end], [end]].map((range) =>
    pretty(typed.slice(...range).join("")),
  );
  shown.append(before, element("b", "", part), after);
  return shown;
}

/** Returns the items of the legend. */
export function legend() {
  return [0.999999, 0.9999, 0.99, 0.9, 0.5].map((probability) => {
    const swatch = element("span", "swatch", "7");
    swatch.ariaHidden = "true";
    swatch.style.setProperty("--doubt", doubt(probability).toFixed(3));
    swatch.classList.toggle("improbable", probability < IMPROBABLE);
    const item = element("li");
    item.append(swatch, legendText(probability));
    return item;
  });
}

function legendText(probability) {
  const figures = `${Number((probability * 100).toFixed(4))}%`;
  return probability < IMPROBABLE ? `${figures} (underlined below 90%)` : figures;
}
