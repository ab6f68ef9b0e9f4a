// What the model wrote for one operation, in rows (docs/NOTATION.md), each character in its shade.

import { doubt, element, percent, pretty } from "/static/text.js";

const BEGIN_A_ROW = /[xy:a-l]/; // and the last `=`, which begins the answer
const OPERATION = /^-?[\d.]+([-+*/])/;
const IMPROBABLE = 0.9; // underlined, too: shade alone does not reach everyone

// What a row is, from what it begins with; a row of a letter, by the operation.
const GLOSSES = {
  x: () => "first number",
  y: () => "second number",
  "+": () => "column by column",
  "-": () => "column by column",
  "*": ([, digit = "…"]) => `times ${digit}, added up`,
  "/": ([, sign = "", digit = "…"]) => `quotient digit ${pretty(sign + digit)}, the rest`,
  ":": () => "result, sign, places",
  "=": () => "answer, backwards",
};

/** One operation: its heading, what the model read, and the rows that it wrote. */
export class Step {
  #text = "";
  #row = null;
  #operation = "+";
  #heading;
  #rows = element("ol", "rows");
  #said = element("p", "said", "waits for its operands");

  /** `part`: expression, position and end in `typed`, the whole as code points. */
  constructor(part, number, of, typed) {
    this.element = element("li", "node");
    this.#heading = element("h3", "problem", pretty(part.expression));
    if (of > 1) this.element.append(context(part, number, of, typed));
    this.element.append(this.#heading, this.#rows, this.#said);
  }

  /** The model begins. */
  begin({ problem, prompt }) {
    this.#operation = OPERATION.exec(problem)?.[1] ?? "+";
    this.#heading.textContent = `${pretty(problem)} =`;
    this.#said.textContent = "";
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
      this.#row = new Row(this.#gloss(text));
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
      this.#said.textContent = "✗ Not asked: an operand is lacking.";
      return;
    }
    const wrote = result === null ? "no number" : pretty(result);
    this.#heading.append(" ", element("strong", "", wrote));
    const said = agrees ? "✓ Exact arithmetic agrees." : `✗ Wrong: exact is ${pretty(exact)}.`;
    this.#said.textContent = `${said} The model was ${percent(confidence.whole)} sure.`;
  }

  /** Nothing more comes. */
  stop() {
    this.#row?.close();
    this.element.classList.remove("writing");
  }

  // A work begins with x or y; what a model writes that answers at once has no rows.
  #beginsRow(character) {
    if (!/^[xy]/.test(this.#text) || this.#text.includes("=")) return false;
    return character === "=" || BEGIN_A_ROW.test(character);
  }

  #gloss(character) {
    const inSteps = /^[xy]/.test(this.#text + character);
    const kind = /[a-l]/.test(character) ? this.#operation : character;
    return inSteps ? GLOSSES[kind] : GLOSSES["="];
  }
}

/** A row: what it is, its characters, its least probability. */
class Row {
  #gloss;
  #label;
  #least = null;
  #isClosed = false;

  constructor(gloss) {
    this.#gloss = gloss;
    this.#label = element("span", "gloss", gloss([]));
    this.element = element("li", "line");
    this.characters = element("span", "characters");
    // Screen readers get the row as a sentence when it is done, not a character at a time.
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
    this.#label.textContent = this.#gloss(this.characters.textContent);
  }

  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const least = this.#least === null ? "" : percent(this.#least);
    this.visible.append(element("span", "least", least));
    const sure = least && `, no character less probable than ${least}`;
    const spoken = `${this.#label.textContent}: ${this.characters.textContent}${sure}`;
    this.element.append(element("span", "unseen", spoken));
  }
}

/** The whole expression with the part that a step answers. */
function context({ position, end }, number, of, typed) {
  const shown = element("p", "context", `Step ${number} of ${of}: `);
  const [before, part, after] = [[0, position], [position, end], [end]].map((range) =>
    pretty(typed.slice(...range).join("")),
  );
  shown.append(before, element("b", "", part), after);
  return shown;
}

/** The legend's swatches, in the shades of these probabilities. */
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
