// The steps of a calculation. A step shows what the model wrote for one operation: its work as on paper.

import {
  IMPROBABLE, SURE, SURE_CHARACTER, confidenceSentence, createElement, createIcon, describeConfidence, formatNumbers,
  formatResult, formatSigns, groupDigits, shade,
} from "./format.js";
import { Arcs } from "./inside/arcs.js";
import { headSources } from "./inside/heads.js";
import { paper } from "./paper.js";
import { SheetView } from "./paper/view.js";
import { inSlices } from "./slices.js";

/** The detail of the event `point`: the user points at a character. at: its index in what the model wrote; isChosen:
 * whether the user selected it, so that the address names it; anchor: the element beside which a box appears.
 * @typedef {{at: number, isChosen: boolean, anchor: Element}} Point
 * @typedef {import("./client.js").Span} Span */

const MAX_INDENT = 4; // levels by which a nested operation is indented
const arcs = new Arcs(); // from the one character that is pointed at

/** Shows one operation: its heading, and its work as on paper. What is folded is drawn when it is opened: a long sum has
 * a thousand operations. */
export class Step {
  #model;
  #onWritten;
  /** @type {{problem: string, prompt: string} | null} */ #question = null;
  #text = "";
  /** @type {number[]} */ #probabilities = [];
  #isWriting = false;
  #isWritten = false; // to its end
  /** @type {string | null} */ #drawn = null; // the text that is drawn, or that is being drawn
  /** @type {{pieces: Generator<void>, isDone: Promise<void>} | null} */ #drawing = null;
  #isComplete = false; // whether nothing is left to be drawn
  #foldsWhenDone; // if the answer is right and the model is sure
  #heading;
  label = createElement("span", "row-name"); // the row of a program that the operation belongs to
  #verdict = createElement("span", "mark");
  body;
  #context;
  #paper = new SheetView();
  #status = createElement("p", "status", "waiting for its operands");

  /** @param {import("./client.js").Start} start
   * @param {number} index the index of this operation
   * @param {string[]} typed the characters of the whole expression
   * @param {(step: Step) => void} onWritten called when the whole work is drawn */
  constructor({ nodes, model }, index, typed, onWritten) {
    const node = nodes[index];
    const count = nodes.length;
    this.#model = model;
    this.#onWritten = onWritten;
    this.#context = count > 1 ? () => contextOf(node, index + 1, count, typed) : null;
    this.number = count > 1 ? index + 1 : 0; // in the address
    this.element = createElement("li", "node");
    this.element.style.setProperty("--depth", String(node.path?.length ? 0 : depthOf(index, nodes)));
    this.#foldsWhenDone = count > 1 && index < count - 1;
    this.#heading = createElement("h3", "problem", ...groupDigits(formatNumbers(node.expression)));
    this.#heading.translate = false;
    this.body = createElement(count > 1 ? "details" : "div", "operation");
    const head = createElement(count > 1 ? "summary" : "div", "head");
    head.append(this.#heading, this.#verdict, this.label);
    this.body.append(head, this.#status);
    this.element.append(this.body);
    this.body.addEventListener("toggle", () => this.draw());
  }

  /** Shows that the model begins to write. @param {import("./client.js").Question} question */
  begin({ problem, prompt }) {
    this.#question = { problem, prompt };
    this.#heading.replaceChildren(...groupDigits(formatNumbers(problem)), " =");
    this.#status.textContent = "";
    this.#isWriting = true;
    this.#setOpen(true);
    this.element.classList.add("writing");
  }

  /** @param {boolean} isOpen */
  #setOpen(isOpen) {
    if (this.body instanceof HTMLDetailsElement) this.body.open = isOpen;
  }

  /** Adds a character that the model wrote. @param {import("./client.js").Token} token */
  addToken({ text, probability }) {
    this.#text += text;
    this.#probabilities.push(probability);
    this.draw();
  }

  /** Shows the result of the operation. @param {import("./client.js").Node} node */
  end({ problem, result, exact, agrees, confidence }) {
    this.#isWriting = false;
    this.element.classList.remove("writing");
    this.element.classList.toggle("wrong", !agrees);
    this.#status.textContent = "";
    if (!problem) {
      this.#setVerdict("✗", "not computed: an operand is missing");
      this.#status.textContent = "✗ Not computed: an operand is missing.";
      return;
    }
    this.#isWritten = true;
    this.#heading.append(" ", createElement("strong", "", ...groupDigits(formatResult(result))));
    const isSure = confidence.whole >= SURE;
    const confidenceWords = describeConfidence(confidence.whole);
    const confidenceText = isSure ? "" : ` ${confidenceSentence(confidence.whole)}`;
    if (!agrees) this.#status.textContent = `✗ Wrong: exact is ${formatNumbers(exact)}.${confidenceText}`;
    else if (!isSure) this.#status.textContent = `✓ Right.${confidenceText}`;
    this.element.classList.toggle("unsure", !isSure);
    this.#setVerdict(agrees ? "✓" : "✗", agrees ? `right, ${confidenceWords}` : "wrong");
    if (agrees && isSure && this.#foldsWhenDone) this.#setOpen(false);
    this.draw();
  }

  /** Shows that the operation was stopped before its end. */
  stop() {
    this.#isWriting = false;
    this.element.classList.remove("writing");
    this.draw();
  }

  /** Draws what the model wrote, unless the step is folded. Resolves when it is drawn. */
  draw() {
    return this.#isFolded ? Promise.resolve() : this.#beginDrawing(() => this.#isFolded);
  }

  /** Draws it at once, for a reader who goes to a character of it, or prints. */
  drawNow() {
    this.#beginDrawing(() => false);
    for (const _ of this.#drawing?.pieces ?? []);
  }

  get #isFolded() {
    return this.body instanceof HTMLDetailsElement && !this.body.open;
  }

  /** Begins to draw what is not drawn yet, unless it is not needed any more when its turn comes. Resolves when it is drawn.
   * @param {() => boolean} isNeedless */
  #beginDrawing(isNeedless) {
    if (this.#question && !this.#isComplete && !this.#drawing) {
      const pieces = this.#pieces(this.#question, isNeedless);
      this.#drawing = { pieces, isDone: inSlices(pieces) };
      this.#drawing.isDone.catch(() => {}); // whoever waits for it is told
    }
    return this.#drawing?.isDone ?? Promise.resolve();
  }

  /** Yields between two pieces of the drawing.
   * @type {(question: {problem: string, prompt: string}, isNeedless: () => boolean) => Generator<void>} */
  *#pieces({ problem, prompt }, isNeedless) {
    if (isNeedless()) {
      this.#drawing = null;
      return;
    }
    if (!this.#paper.element.parentNode) {
      if (this.#context) this.body.append(this.#context());
      this.body.append(this.#paper.element, this.#status);
    }
    while (this.#drawn !== this.#text) {
      this.#drawn = this.#text;
      const sheet = paper(prompt, this.#text);
      yield;
      yield* this.#paper.draw(sheet, this.#probabilities, formatNumbers(problem));
    }
    this.#drawing = null;
    if (this.#isWriting) return; // the next character draws again
    this.#isComplete = true;
    if (this.#isWritten) this.#onWritten(this);
  }

  /** Scrolls to a character and points at it, if it exists. @param {number} at its index in what the model wrote */
  pointAt(at) {
    this.open();
    this.drawNow();
    const cell = this.#paper.cellOf(at);
    cell?.scrollIntoView({ block: "center" });
    if (cell) this.pointAtElement(cell, true, at);
  }

  /** Opens the step and the groups that it is in. */
  open() {
    for (let at = this.body.closest("details"); at; at = at.parentElement?.closest("details") ?? null) at.open = true;
  }

  /** Returns what the box beside a character shows. @type {(at: number) => import("./inspector.js").Character} */
  describe(at) {
    const { words = "", parts = [], isChoice = false } = this.#paper.describe(at) ?? {};
    const prompt = this.#question?.prompt ?? "";
    const probability = this.#probabilities[at];
    return { model: this.#model, prompt, output: this.#text, at, probability, words, parts, isChoice };
  }

  /** Draws arcs from a character to those that the heads of the first layer looked at.
   * @type {(at: number, attention: import("./inside/heads.js").Attention) => void} */
  showSources(at, attention) {
    const n = this.#question?.prompt.length ?? 0;
    const cell = this.#paper.cellOf(at);
    const ends = headSources(attention).map(({ index, ...source }) => {
      return { ...source, element: this.#paper.cellOf(index - n) };
    });
    if (this.#paper.grid && cell) arcs.draw(this.#paper.grid, cell, ends);
  }

  /** @type {(sign: string, words: string) => void} */
  #setVerdict(sign, words) {
    this.#verdict.replaceChildren(createIcon(sign, ""), createElement("span", "unseen", words));
  }

  /** Highlights the cell of a character, without arcs. @param {number} at -1 to highlight none */
  highlight(at) {
    arcs.clear();
    for (const cell of this.element.querySelectorAll(".pointed")) cell.classList.remove("pointed");
    if (at >= 0) this.#paper.cellOf(at)?.classList.add("pointed");
  }

  /** Dispatches the event `point` for the character that an element shows. index: the index of the
   * character, if the element is a copy of it.
   * @type {(target: Element, isChosen?: boolean, index?: number) => void} */
  pointAtElement(target, isChosen = false, index) {
    const anchor = target.closest("[data-at]");
    if (!(anchor instanceof HTMLElement && this.#paper.element.contains(anchor))) return;
    const at = index ?? Number(anchor.dataset.at);
    /** @type {Point} */ const detail = { at, isChosen, anchor };
    this.element.dispatchEvent(new CustomEvent("point", { bubbles: true, detail }));
  }
}

/** Returns the number of levels above an operation, at most MAX_INDENT: the different spans that contain its own, of
 * operations after it. The operations of a power share one span.
 * @type {(index: number, nodes: Span[]) => number} */
function depthOf(index, nodes) {
  let { position, end } = nodes[index];
  let depth = 0;
  for (let above = index + 1; above < nodes.length && depth < MAX_INDENT; above += 1) {
    const node = nodes[above];
    const isLonger = node.end - node.position > end - position;
    if (!isLonger || node.position > position || node.end < end) continue;
    ({ position, end } = node);
    depth += 1;
  }
  return depth;
}

/** Returns the whole expression with the part of this step in bold.
 * @type {(span: Span, number: number, count: number, typed: string[]) => HTMLParagraphElement} */
function contextOf({ position, end }, number, count, typed) {
  const [before, part, after] = [[0, position], [position, end], [end]].map((range) =>
    formatSigns(typed.slice(...range).join("")),
  );
  return createElement("p", "context", `Step ${number} of ${count}: `, before, createElement("b", "", part), after);
}

export function legend() {
  return [0.99, 0.97, 0.9, 0.5].map((probability) => {
    const swatch = createIcon("7", "swatch");
    shade(swatch, probability);
    const figures = `${Math.round(probability * 100)}%`;
    const underlined = probability < IMPROBABLE ? `${figures} (underlined below 90%)` : figures;
    return createElement("li", "", swatch, probability >= SURE_CHARACTER ? `${figures} or more: sure` : underlined);
  });
}
