// What the model wrote for one operation, in rows (docs/NOTATION.md), shaded by probability.

import { SURE, SURE_CHARACTER, doubt, element, inWords, percent, plain, pretty } from "./format.js";
import { paper } from "./paper.js";
import { SheetView } from "./paper/view.js";

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

/** One operation: its heading, its work as on paper, and the rows that the model wrote. */
export class Step {
  #node = null; // what the service says of it
  #text = "";
  #probabilities = [];
  #row = null;
  #operation = "+";
  #isFolded; // once it is done, right and sure
  #frame = 0;
  #heading;
  #mark = element("span", "mark");
  #body;
  #paper = new SheetView();
  #rows = element("ol", "rows");
  #readout = element("p", "readout");
  #status = element("p", "status", "waiting for its operands");

  /** `node`: expression, position and end in `typed`, the whole as code points. `nodes`: all. */
  constructor(node, index, nodes, typed) {
    const count = nodes.length;
    this.element = element("li", "node");
    this.element.style.setProperty("--depth", depth(node, nodes));
    this.#isFolded = count > 1 && index < count - 1;
    this.#heading = element("h3", "problem", plain(node.expression));
    this.#body = element(count > 1 ? "details" : "div", "operation");
    const head = element(count > 1 ? "summary" : "div", "head");
    head.append(this.#heading, this.#mark);
    this.#body.append(head);
    if (count > 1) this.#body.append(context(node, index + 1, count, typed));
    this.#readout.hidden = true;
    this.#readout.ariaHidden = "true"; // the cell that has the focus says the same
    this.#body.append(this.#paper.element, this.#rows, this.#readout, this.#status);
    this.element.append(this.#body);
    for (const name of ["pointerover", "focusin"]) {
      this.element.addEventListener(name, ({ target }) => this.#pointAt(target));
    }
    this.element.addEventListener("click", ({ target }) => this.#pointAt(target, true));
    this.element.addEventListener("focusin", ({ target }) => this.#pointAt(target, true));
  }

  /** The model begins to write. */
  begin({ problem, prompt }) {
    this.#node = { problem, prompt };
    this.#operation = OPERATION.exec(problem)?.[1] ?? "+";
    this.#heading.textContent = `${plain(problem)} =`;
    this.#status.textContent = "";
    this.#body.open = true;
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
    this.#row.add(text, probability, this.#text.length);
    this.#text += text;
    this.#probabilities.push(probability);
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  /** The operation is done. */
  end({ problem, result, exact, agrees, confidence }) {
    this.#row?.close();
    this.element.classList.remove("writing");
    this.element.classList.toggle("wrong", !agrees);
    this.#status.textContent = "";
    if (!problem) {
      this.#setMark("✗", "not asked: an operand is missing");
      this.#status.textContent = "✗ Not asked: an operand is missing.";
      return;
    }
    this.#draw();
    this.#heading.append(" ", element("strong", "", result === null ? "no number" : plain(result)));
    const isSure = confidence.whole >= SURE;
    const sure = isSure ? "" : ` The model was ${inWords(confidence.whole)}: ${percent(confidence.whole)}.`;
    if (!agrees) this.#status.textContent = `✗ Wrong: exact is ${plain(exact)}.${sure}`;
    else if (!isSure) this.#status.textContent = `✓ Right.${sure}`;
    this.element.classList.toggle("unsure", !isSure);
    this.#setMark(agrees ? "✓" : "✗", agrees ? `right, ${inWords(confidence.whole)}` : "wrong");
    if (agrees && isSure && this.#isFolded) this.#body.open = false;
  }

  /** Ends an incomplete operation. */
  stop() {
    this.#row?.close();
    if (this.#node) this.#draw();
    this.element.classList.remove("writing");
  }

  /** Points at a character, by its index in what the model wrote. Returns whether it exists. */
  show(at) {
    const target = this.element.querySelector(`[data-at="${at}"]`);
    if (!target) return false;
    this.#body.open = true;
    this.#pointAt(target);
    this.element.querySelector(".pointed").scrollIntoView({ block: "center" });
    return true;
  }

  #setMark(sign, words) {
    const icon = element("span", "", sign);
    icon.ariaHidden = "true";
    this.#mark.replaceChildren(icon, element("span", "unseen", words));
  }

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const sheet = paper(this.#node.prompt, this.#text);
    this.element.classList.toggle("has-paper", sheet !== null);
    if (sheet) this.#paper.show(sheet, this.#probabilities, plain(this.#node.problem));
  }

  /** Marks a character, and its copies, in both views. `isChosen`: the address is to name it. */
  #pointAt(target, isChosen = false) {
    const found = target.closest("[data-at]");
    if (!found) return;
    const at = Number(found.dataset.at);
    const alike = new Set(this.#paper.alike(at).map(String));
    for (const cell of this.element.querySelectorAll("[data-at]")) {
      cell.classList.toggle("pointed", alike.has(cell.dataset.at));
    }
    this.#read(at);
    const detail = { at, isChosen };
    this.element.dispatchEvent(new CustomEvent("point", { bubbles: true, detail }));
  }

  #read(at) {
    const { words = "", isChoice } = this.#paper.describe(at) ?? {};
    const probability = this.#probabilities[at];
    const sure = probability >= SURE_CHARACTER ? "sure" : percent(probability);
    const choice = isChoice && probability < SURE_CHARACTER ? "; another digit may be right as well" : "";
    const character = element("b", "", this.#text[at]);
    const place = element("span", "where", `Character ${at + 1} of ${this.#text.length}, ${sure}${choice}. `);
    this.#readout.replaceChildren(character, place, words && `${words[0].toUpperCase()}${words.slice(1)}.`);
    this.#readout.hidden = false;
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

  add(text, probability, at) {
    const made = element("span", "", text);
    if (probability !== null) {
      made.dataset.at = at;
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
    const isSure = this.#least === null || this.#least >= SURE_CHARACTER;
    const least = isSure ? "" : percent(this.#least);
    this.visible.append(element("span", "least", least));
    const sure = least && `, lowest probability ${least}`;
    const spoken = `${this.#label.textContent}: ${this.characters.textContent}${sure}`;
    this.element.append(element("span", "unseen", spoken));
  }
}

/** How many operations this one is a part of. */
function depth({ position, end }, nodes) {
  const holds = (node) => node.position <= position && node.end >= end;
  return nodes.filter(holds).length - 1;
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
  return [0.99, 0.97, 0.9, 0.5].map((probability) => {
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
  const figures = `${Math.round(probability * 100)}%`;
  if (probability >= SURE_CHARACTER) return `${figures} or more: sure`;
  return probability < IMPROBABLE ? `${figures} (underlined below 90%)` : figures;
}
