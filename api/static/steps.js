// What the model wrote for one operation, in rows (docs/SCRATCHPAD.md), shaded by probability.

import { SURE, SURE_CHARACTER, doubt, element, inWords, percent, plain, pretty, targetOf } from "./format.js";
import { Arcs } from "./inside/arcs.js";
import { LEAST } from "./inside/bars.js";
import { paper } from "./paper.js";
import { SheetView } from "./paper/view.js";

/**
 * Somebody points at a character, at its index in what the model wrote. `isChosen`: the address is to
 * name it.
 * @typedef {{at: number, isChosen: boolean, anchor: Element}} Point
 * @typedef {import("./client.js").Span} Span
 */

const HAS_WORK = /^[-+]/; // worked steps begin with a sign, an answer with a digit
const BEGINS_A_ROW = /[;|:=]/;
const IMPROBABLE = 0.9; // also underlined, for people who cannot see the shade

const ANSWER = "answer, backwards";
/** Labels of rows by their first character.
 * @type {Record<string, string>} */
const LABELS = { ";": "row by row", "|": "exact result", ":": "result, sign", "=": ANSWER };

/** One operation: its heading, its work as on paper, and the rows that the model wrote. */
export class Step {
  #model;
  /** @type {{problem: string, prompt: string} | null} */
  #node = null;
  #text = "";
  /** @type {number[]} */
  #probabilities = [];
  /** @type {Row | null} */
  #row = null;
  #isFolded; // once it is done, right and sure
  #frame = 0;
  #heading;
  #mark = element("span", "mark");
  #body;
  #paper = new SheetView();
  #rows = element("ol", "rows");
  #arcs = [new Arcs(), new Arcs()]; // in the paper view, and in the rows
  #status = element("p", "status", "waiting for its operands");

  /**
   * @param {import("./client.js").Start} start
   * @param {number} index of this operation
   * @param {string[]} typed the whole expression
   */
  constructor({ nodes, model }, index, typed) {
    const node = nodes[index];
    const count = nodes.length;
    this.#model = model;
    this.element = element("li", "node");
    this.element.style.setProperty("--depth", String(depth(node, nodes)));
    this.#isFolded = count > 1 && index < count - 1;
    this.#heading = element("h3", "problem", plain(node.expression));
    this.#body = element(count > 1 ? "details" : "div", "operation");
    const head = element(count > 1 ? "summary" : "div", "head");
    head.append(this.#heading, this.#mark);
    this.#body.append(head);
    if (count > 1) this.#body.append(context(node, index + 1, count, typed));
    this.#body.append(this.#paper.element, this.#rows, this.#status);
    this.element.append(this.#body);
    this.element.addEventListener("pointerover", (event) => {
      if (event.pointerType === "mouse") this.#pointAt(targetOf(event)); // a finger may only scroll
    });
    for (const name of ["click", "focusin"]) {
      this.element.addEventListener(name, (event) => this.#pointAt(targetOf(event), true));
    }
  }

  /** The model begins to write.
   * @param {import("./client.js").Question} question */
  begin({ problem, prompt }) {
    this.#node = { problem, prompt };
    this.#heading.textContent = `${plain(problem)} =`;
    this.#status.textContent = "";
    this.#open(true);
    this.element.classList.add("writing");
    const row = new Row("the model reads");
    for (const character of prompt) row.add(character, null);
    row.close();
    this.#rows.append(row.element);
  }

  /** @param {boolean} isOpen */
  #open(isOpen) {
    if (this.#body instanceof HTMLDetailsElement) this.#body.open = isOpen;
  }

  /** The model wrote a character.
   * @param {import("./client.js").Written} written */
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

  /** The operation is done.
   * @param {import("./client.js").Node} node */
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
    if (agrees && isSure && this.#isFolded) this.#open(false);
  }

  /** Ends an incomplete operation. */
  stop() {
    this.#row?.close();
    if (this.#node) this.#draw();
    this.element.classList.remove("writing");
  }

  /** Points at a character, by its index in what the model wrote. Returns whether it exists.
   * @param {number} at */
  show(at) {
    const cells = [...this.element.querySelectorAll(`[data-at="${at}"]`)];
    this.#open(true);
    const shown = cells.find((cell) => cell.checkVisibility()) ?? this.#paper.cellOf(at);
    if (!shown) return false;
    shown.scrollIntoView({ block: "center" });
    this.#pointAt(shown, true, at);
    return true;
  }

  /** What is to be said of a character.
   * @param {number} at
   * @returns {import("./readout.js").Character} */
  describe(at) {
    const { words = "", isChoice = false } = this.#paper.describe(at) ?? {};
    const prompt = this.#node?.prompt ?? "";
    const probability = this.#probabilities[at];
    return { model: this.#model, prompt, output: this.#text, at, probability, words, isChoice };
  }

  /** Draws arcs from a character to those that the model looked at.
   * @param {number} at
   * @param {number[]} weights of each earlier character; none removes the arcs */
  showSources(at, weights) {
    const [onPaper, inRows] = this.#arcs;
    if (!weights.length) {
      for (const arcs of this.#arcs) arcs.clear();
      return;
    }
    const n = this.#node?.prompt.length ?? 0;
    const grid = this.#paper.grid;
    const cell = this.#paper.cellOf(at);
    if (grid && cell) {
      const sources = weights.map((weight, index) => ({ weight, element: this.#paper.cellOf(index - n) }));
      onPaper.draw(grid, cell, sources, LEAST);
    }
    const characters = [...this.#rows.querySelectorAll(".characters span")];
    const sources = weights.map((weight, index) => ({ weight, element: characters[index] }));
    if (characters[n + at]) inRows.draw(this.#rows, characters[n + at], sources, LEAST);
  }

  /**
   * @param {string} sign
   * @param {string} words
   */
  #setMark(sign, words) {
    const icon = element("span", "", sign);
    icon.ariaHidden = "true";
    this.#mark.replaceChildren(icon, element("span", "unseen", words));
  }

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (!this.#node) return;
    const sheet = paper(this.#node.prompt, this.#text);
    this.element.classList.toggle("has-paper", sheet !== null);
    if (sheet) this.#paper.show(sheet, this.#probabilities, plain(this.#node.problem));
  }

  /** Marks a character, and its copies, in both views, or none.
   * @param {number} at
   * @param {number[]} [weights] of each earlier character, if arcs are to be drawn; none removes the arcs */
  mark(at, weights) {
    const alike = new Set(this.#paper.alike(at).map(String));
    for (const cell of this.element.querySelectorAll("[data-at]")) {
      cell.classList.toggle("pointed", alike.has(/** @type {HTMLElement} */ (cell).dataset.at ?? ""));
    }
    if (weights) this.showSources(at, weights);
  }

  /** Marks the character that an element shows, and tells the page.
   * @param {Element} target
   * @param {boolean} isChosen
   * @param {number} [index] of the character, if the element is a copy of it */
  #pointAt(target, isChosen = false, index) {
    const anchor = target.closest("[data-at]");
    if (!(anchor instanceof HTMLElement)) return;
    const at = index ?? Number(anchor.dataset.at);
    this.mark(at);
    /** @type {Point} */
    const detail = { at, isChosen, anchor };
    this.element.dispatchEvent(new CustomEvent("point", { bubbles: true, detail }));
  }

  /** @param {string} character */
  #beginsRow(character) {
    return HAS_WORK.test(this.#text) && !this.#text.includes("=") && BEGINS_A_ROW.test(character);
  }

  /** @param {string} character */
  #labelOf(character) {
    return HAS_WORK.test(this.#text + character) ? (LABELS[character] ?? "work") : ANSWER;
  }
}

/** A row: its label, its characters, its lowest probability. */
class Row {
  #label;
  /** @type {number | null} */
  #least = null;
  #isClosed = false;

  /** @param {string} label */
  constructor(label) {
    this.#label = element("span", "row-label", label);
    this.element = element("li", "line");
    this.characters = element("span", "characters");
    // Screen readers read a finished row as one sentence, not one character at a time.
    this.visible = element("span", "seen");
    this.visible.ariaHidden = "true";
    this.visible.append(this.#label, this.characters);
    this.element.append(this.visible);
  }

  /**
   * @param {string} text
   * @param {number | null} probability null for what the model only reads
   * @param {number} at index in what the model wrote
   */
  add(text, probability, at = -1) {
    const made = element("span", "", text);
    if (probability !== null) {
      made.dataset.at = String(at);
      made.title = `${text}: ${percent(probability)}`;
      made.style.setProperty("--doubt", doubt(probability).toFixed(3));
      made.classList.toggle("improbable", probability < IMPROBABLE);
      this.#least = Math.min(this.#least ?? 1, probability);
    }
    this.characters.append(made);
  }

  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const isSure = this.#least === null || this.#least >= SURE_CHARACTER;
    const least = isSure ? "" : percent(this.#least ?? 1);
    this.visible.append(element("span", "least", least));
    const sure = least && `, lowest probability ${least}`;
    const spoken = `${this.#label.textContent}: ${this.characters.textContent}${sure}`;
    this.element.append(element("span", "unseen", spoken));
  }
}

/**
 * How many operations this one is a part of.
 * @param {Span} span
 * @param {Span[]} nodes
 */
function depth({ position, end }, nodes) {
  const holds = (/** @type {Span} */ node) => node.position <= position && node.end >= end;
  return nodes.filter(holds).length - 1;
}

/**
 * Returns the whole expression with the part of this step in bold.
 * @param {Span} span
 * @param {number} number
 * @param {number} count
 * @param {string[]} typed
 */
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

/** @param {number} probability */
function legendText(probability) {
  const figures = `${Math.round(probability * 100)}%`;
  if (probability >= SURE_CHARACTER) return `${figures} or more: sure`;
  return probability < IMPROBABLE ? `${figures} (underlined below 90%)` : figures;
}
