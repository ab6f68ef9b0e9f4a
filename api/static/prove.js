// *Prove it*: tries the network in all cases on this device, and shows what follows, or a case in which it is wrong.

import { DEFAULT_STATE, formatHash } from "./address.js";
import { prove } from "./backend.js";
import { namesOf } from "./brain/parts.js";
import { isAborted, messageOf } from "./client.js";
import { Layout, shapeOf } from "./engine/layout.js";
import { KIND } from "./engine/operations.js";
import { byId, createElement, createSvg, formatCount, formatSigns } from "./format.js";
import { store } from "./state.js";

/** @import { Refutation, Tried } from "./engine/proof.js" */

/** Kinds of characters in words. Others are `a character of the result`. @type {[string, string][]} */
const WORDS = [
  ["a sign", "A_SIGN B_SIGN B_SIGN_OF_SUM SIGN SUM_SIGN ADD_OR_SUBTRACT DIVIDEND_SIGN ANSWER_MINUS"],
  ["a digit of a number", "A_DIGIT A_ZERO A_BELOW B_DIGIT B_ZERO MULTIPLIER REMAINDER_COPY BROUGHT_DOWN BROUGHT_ZERO"],
  ["a digit of a sum", "SUM_LOWEST SUM_DIGIT SUM_TOP"],
  ["a digit of a product", "FIRST_DIGIT PRODUCT_DIGIT"],
  ["the carry of a product", "FIRST_CARRY PRODUCT_CARRY"],
  ["a digit of a quotient", "QUOTIENT_DIGIT"],
  ["a digit of a remainder", "REMAINDER_DIGIT REMAINDER_ZERO LAST_DIGIT"],
  ["the carry of a remainder", "REMAINDER_CARRY"],
  ["the rounding", "ROUNDING QUOTIENT_ROUNDING"],
  ["a mark between rows", "ROW_MARK REMAINDER_MARK EXACT_MARK RESULT_MARK EQUALS"],
  ["the end", "END"],
];
const WORDS_OF = new Map(WORDS.flatMap(([words, kinds]) => kinds.split(" ").map((kind) => [KIND[kind], words])));
/** Returns a kind of characters in words. @param {number} kind */
export const wordsOf = (kind) => WORDS_OF.get(kind) ?? "a character of the result";
const [PROMPT, WORK] = ["$(0000000058+0000000067)=", "+850+760+52"]; // of the picture
const [STEP, HEIGHT] = [28, 92]; // pixels

export class Proof {
  #section = byId("proof");
  #status = byId("proof-status");
  #count = byId("proof-count");
  #bar = byId("proof-bar", HTMLProgressElement);
  #pause = byId("pause-proof");
  #result = byId("proof-result");
  #model = "";
  #off;
  /** @type {AbortController | null} of the proof that runs */ #run = null;
  /** Resolves when the proof may go on. @type {Promise<void>} */ #turn = Promise.resolve();
  /** @type {(() => void) | null} ends the pause */ #resume = null;

  /** @param {() => string[]} off returns the parts that are switched off */
  constructor(off) {
    this.#off = off;
    byId("prove").addEventListener("click", () => this.#prove());
    this.#pause.addEventListener("click", () => this.#setPaused(!this.#resume));
    byId("close-proof").addEventListener("click", () => {
      byId("prove").focus();
      this.#close();
    });
    store.on(["off"], () => this.#onOther());
  }

  /** Offers the proof of a model, if that writes worked steps. @param {import("./client.js").Model} model */
  show({ id, domain }) {
    byId("prove").hidden = !domain.works_in_steps;
    if (id === this.#model) return;
    this.#model = id;
    this.#onOther();
  }

  /** Begins anew with another network: a link may be proved before its model and its parts are known. */
  #onOther() {
    if (this.#run && !byId("prove").hidden) this.#prove();
    else this.#close();
  }

  #close() {
    this.#run?.abort();
    this.#run = null;
    this.#setPaused(false);
    this.#section.hidden = true;
  }

  /** @param {boolean} isPaused */
  #setPaused(isPaused) {
    this.#resume?.();
    this.#resume = null;
    if (isPaused) this.#turn = new Promise((resolve) => (this.#resume = resolve));
    this.#pause.textContent = isPaused ? "Go on" : "Pause";
  }

  async #prove() {
    this.#run?.abort();
    const run = (this.#run = new AbortController());
    const [model, off] = [this.#model, this.#off()];
    let [n, margin] = [0, Infinity];
    this.#setPaused(false);
    this.#section.hidden = this.#pause.hidden = false;
    this.#section.className = "card proof";
    this.#status.textContent = "Your browser tries all cases …";
    this.#count.textContent = "It finds out which there are.";
    this.#bar.removeAttribute("value");
    this.#result.replaceChildren();
    const onTried = (/** @type {Tried} */ tried) => {
      n += tried.tried;
      margin = Math.min(margin, tried.margin);
      [this.#bar.max, this.#bar.value] = [tried.of, n];
      this.#count.textContent = `${formatCount(n)} of ${formatCount(tried.of)}: ${wordsOf(tried.kind)}`;
      return this.#turn;
    };
    try {
      const refutation = await prove(model, off, onTried, run.signal);
      const without = off.length ? `, without ${namesOf(off)}` : "";
      const verdict = refutation ? "makes mistakes" : "cannot make a mistake";
      this.#status.textContent = `On this device, this network ${verdict}${without}.`;
      this.#section.classList.add(refutation ? "refuted" : "proved");
      this.#count.textContent = refutation
        ? `It stopped at the first mistake. Right cases until then: ${formatCount(n)}.`
        : `${formatCount(n)} of ${formatCount(this.#bar.max)} cases are right.`;
      this.#result.append(...(refutation ? counterexample(refutation, model, off) : induction(n, margin)));
    } catch (error) {
      if (run.signal.aborted || isAborted(error)) return;
      this.#status.textContent = messageOf(error);
      this.#count.textContent = "";
      this.#bar.value = 0;
    }
    this.#run = null;
    this.#pause.hidden = true;
  }
}

/** Returns a wrong case in words, and a link to a problem that fails because of it, if one is known.
 * @type {(refutation: Refutation, model: string, off: string[]) => HTMLElement[]} */
function counterexample({ mistake: { kind, read, wrote, right }, expression }, model, off) {
  const what = wordsOf(kind);
  const list = new Intl.ListFormat("en").format(read.filter(Boolean).map(formatSigns)) || "nothing";
  const words = `: it read ${list}; it wrote ${formatSigns(wrote)}; right is ${right.map(formatSigns).join(" or ")}.`;
  const whole = createElement("p", "", "None of 300 random problems comes out wrong because of it.");
  if (expression) {
    const link = createElement("a", "", formatSigns(expression));
    link.translate = false;
    link.href = formatHash({ ...DEFAULT_STATE, question: expression, model, off: off.join() });
    whole.replaceChildren("So this comes out wrong: ", link);
  }
  return [createElement("p", "", what[0].toUpperCase() + what.slice(1) + words), whole];
}

/** Returns what a proof means, with a picture, and what it trusts. @type {(n: number, margin: number) => Element[]} */
function induction(n, margin) {
  const meaning = [
    `Each character follows from at most seven before it, so work of any length has only ${formatCount(n)} cases.`,
    `In each of them, what is right led the best wrong character by at least ${margin.toFixed(2)} points.`,
    "If all characters so far are right, so is the next one: then all are.",
  ];
  const trusted = [
    "Trusted: JavaScript, this device and this page’s code, which finds the cases and tells the network where to look.",
    "How an expression is split into operations is tested, not proved.",
  ];
  return [createElement("p", "", meaning.join(" ")), picture(), createElement("p", "hint", trusted.join(" "))];
}

/** Returns a row of characters, with an arc from each to those that it follows from. Those of the last are marked. */
function picture() {
  const { slots } = new Layout(/** @type {import("./engine/layout.js").Shape} */ (shapeOf(PROMPT)));
  const label = "58 + 67 as the network writes it: arcs lead from each character to those that it follows from";
  const viewBox = `0 0 ${STEP * WORK.length} ${HEIGHT}`;
  const svg = createSvg("svg", { viewBox, role: "img", "aria-label": label, class: "induction" });
  const x = (/** @type {number} */ index) => STEP * (index + 0.5);
  const [foot, last] = [HEIGHT - 24, WORK.length - 1];
  for (const [index, character] of [...WORK].entries()) {
    const kind = { class: index === last ? "last" : "" };
    for (const source of slots[PROMPT.length + index][3].map((position) => position - PROMPT.length)) {
      const top = foot - 13 * (index - source); // of what guides the curve, which rises half as high
      const d = `M${x(index)} ${foot}Q${x((index + source) / 2)} ${top} ${x(source)} ${foot}`;
      if (source >= 0) svg.append(createSvg("path", { d, ...kind })); // others are in the question
    }
    svg.append(createSvg("text", { x: String(x(index)), y: String(HEIGHT - 6), ...kind }, character));
  }
  return svg;
}
