// Runs one calculation at a time and shows its events: the steps, and then the answer or the error.

import { cachePage } from "./backend.js";
import { Outline } from "./outline.js";
import { ServiceError } from "./client.js";
import { byId, createElement, formatNumbers, formatResult, formatSigns } from "./format.js";
import { renderAnswer, renderError } from "./outcome.js";
import { Playback } from "./playback.js";
import { store } from "./state.js";
import { Step } from "./steps.js";

/** @import { State } from "./address.js" */
/** @import { CalculationEvent } from "./client.js" */

/** A running calculation. isExample: whether the page plays it unasked; isKept: whether the history lists it;
 * isComplete: whether all events have arrived, so that only showing them remains.
 * @typedef {{controller: AbortController, playback: Playback<CalculationEvent>, steps: Step[],
 * isExample: boolean, isKept: boolean, isComplete: boolean}} Run */

/** The parts of the page that a calculation changes.
 * @typedef {{field: import("./field.js").Field, history: import("./history.js").History,
 * inspector: import("./inspector.js").Inspector}} Parts */

/** The callbacks of the page. ask: called when the user asks for another reading; onUnauthorized: called when the service
 * requires a key; onWritten: called when the whole work of an operation is drawn.
 * @typedef {{ask: (expression: string) => void, onUnauthorized: () => void,
 *   onWritten: (step: Step) => void}} Callbacks */

const WRITING = "The model writes …";
const NO_VALUE = "urn:calcgpt:problem:division-by-zero";
const TITLE = document.title;
const MAX_TITLE = 60; // characters of a calculation in the title
const MAX_FRACTION = 24; // characters of a fraction with which the next expression begins
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

/** Runs calculations. A new one stops the one before it. */
export class Runner {
  #page;
  #callbacks;
  #slow = byId("slow", HTMLInputElement);
  #nodes = byId("nodes");
  #status = /** @type {HTMLElement} */ (byId("running").firstElementChild);
  /** @type {Run | null} */ #run = null;
  /** @type {Step[]} of the calculation that is shown */ steps = [];
  /** @type {Outline | null} */ #outline = null;

  /** @param {Parts} parts @param {Callbacks} callbacks */
  constructor(parts, callbacks) {
    this.#page = parts;
    this.#callbacks = callbacks;
    byId("stop").addEventListener("click", () => (this.#run?.isComplete ? this.#run.playback.flush() : this.stop()));
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.#run?.playback.flush(); // animation frames stop in a hidden page
    });
  }

  get isRunning() {
    return this.#run !== null;
  }

  get isExample() {
    return Boolean(this.#run?.isExample);
  }

  /** Shows the events of a calculation as they arrive. Returns whether all were shown: a calculation can fail, and the
   * user or another one can stop it. isOpened: whether the address led to it.
   * @param {(signal: AbortSignal) => AsyncIterable<CalculationEvent> | Iterable<CalculationEvent>} source
   * @param {Partial<State> & {question: string}} state
   * @param {{isExample?: boolean, isKept?: boolean, isOpened?: boolean}} kind */
  async play(source, state, { isExample = false, isKept = false, isOpened = false }) {
    this.stop();
    const typed = state.question;
    const controller = new AbortController();
    /** @type {Step[]} */ const steps = [];
    const isSlow = () => this.#slow.checked || (isExample && !reducedMotion.matches);
    const show = (/** @type {CalculationEvent} */ event) => this.#show(event, steps, typed);
    const playback = new Playback(show, isSlow);
    /** @type {Run} */ const run = { controller, playback, steps, isExample, isKept, isComplete: false };
    this.#run = run;
    this.steps = steps;
    try {
      let operand = "";
      this.#begin(state, isExample, isOpened);
      for await (const event of source(controller.signal)) {
        playback.push(event);
        if (event.name === "result") operand = operandOf(event.data);
      }
      byId("stop").textContent = "Show all";
      run.isComplete = true;
      await playback.finished();
      await Promise.all(steps.map((step) => step.draw()));
      if (this.#run !== run) return false; // the calculation was stopped, or another one has begun
      this.#finish();
      this.#name(this.#page.field.setAnswer(operand));
      return true;
    } catch (error) {
      if (this.#run !== run) return false;
      playback.flush();
      if (isExample) this.clear();
      else this.#fail(error instanceof ServiceError ? error : new ServiceError(String(error)), typed);
      return false;
    }
  }

  /** Stops the calculation. What it has shown remains. */
  stop() {
    if (!this.#run) return;
    const { controller, playback, steps } = this.#run;
    this.#finish();
    controller.abort();
    playback.discard();
    for (const step of steps) step.stop();
    this.#name(this.#page.field.cancel());
  }

  /** Stops the calculation and removes the expression and all that was shown. */
  clear() {
    this.stop();
    store.clear();
    this.#page.inspector.clear();
    byId("example").hidden = true;
    this.#page.field.text = "";
    document.title = TITLE;
    this.#showWork(false);
    for (const id of ["answer", "error", "nodes"]) this.#empty(id);
    this.#page.history.resetRecall();
  }

  /** Prepares the page for the events of a calculation.
   * @type {(state: Partial<State> & {question: string}, isExample: boolean, isOpened: boolean) => void} */
  #begin(state, isExample, isOpened) {
    this.#page.history.resetRecall();
    store.begin(state, isExample ? "example" : isOpened ? "opened" : "asked");
    byId("example").hidden = !isExample;
    byId("answer").ariaLive = isExample ? "off" : "polite";
    this.#page.field.submit();
    if (isExample) this.#page.field.setAnswer(""); // its answer is not awaited
    this.#page.field.clearError();
    this.#page.inspector.clear();
    this.#empty("answer");
    if (!isExample) this.#empty("error"); // the example keeps the message that a key is needed
    this.#empty("nodes");
    this.#showWork(true, isExample);
    byId("stop").textContent = "Stop";
    this.#status.textContent = WRITING;
    byId("running").hidden = false;
    byId("work").ariaBusy = "true";
  }

  /** Shows an event. Unknown events are ignored. Yields between two operations of a long outline, and after an answer.
   * @type {(event: CalculationEvent, steps: Step[], typed: string) => Generator<void>} */
  *#show({ name, data }, steps, typed) {
    if (name === "loading") {
      const { received: value, total: max } = data;
      const bar = Object.assign(createElement("progress"), max ? { value, max } : {}, { ariaLabel: "Received" });
      this.#status.replaceChildren("Loading the model … ", bar);
    } else if (name === "start") {
      this.#status.textContent = WRITING;
      const characters = [...typed];
      const create = (/** @type {number} */ index) => {
        return (steps[index] ??= new Step(data, index, characters, this.#callbacks.onWritten));
      };
      this.#outline = new Outline(data.nodes, create);
      const hasWork = data.nodes.length > 0; // a number alone has none
      this.#showWork(hasWork, this.isExample || !hasWork);
      byId("fold").hidden = data.nodes.length < 2;
      yield* this.#outline.arrange(this.#nodes);
    } else if (name === "node") steps[data.node].begin(data);
    else if (name === "token") steps[data.node].addToken(data);
    else if (name === "answer") {
      steps[data.node].end(data);
      this.#outline?.end(data.node, data);
    } else if (name === "result") {
      // An operation about which the model was not asked has no event of its own.
      for (const [index, node] of data.nodes.entries()) {
        if (node.problem) continue;
        steps[index].end(node);
        this.#outline?.end(index, node);
      }
      byId("answer").replaceChildren(renderAnswer(data, this.#callbacks.ask));
      if (!this.isExample) document.title = titleOf(typed, data.result);
      yield;
      if (this.#run?.isKept) this.#page.history.add(data);
    }
  }

  #finish() {
    this.#run = null;
    this.#hide("running", true);
    byId("work").ariaBusy = "false";
    cachePage();
  }

  /** Ends the calculation with an error. @type {(error: ServiceError, typed: string) => void} */
  #fail(error, typed) {
    this.#showWork(this.steps.length > 0);
    this.#finish();
    document.title = TITLE;
    const later = this.#page.field.cancel();
    byId("error").replaceChildren(renderError(error, typed, this.#callbacks.ask));
    this.#name(later);
    if (error.status === 401) this.#callbacks.onUnauthorized();
    else if (error.position !== undefined && this.#page.field.text === typed) {
      this.#page.field.markError(error.position, error.end);
      if (error.type === NO_VALUE) this.#page.field.endQuestion();
    }
    for (const step of this.steps) step.stop(); // last, because to draw one may be what failed
  }

  /** Shows what was typed after a question that has no answer. @param {string} later */
  #name(later) {
    if (later) byId("error").append(createElement("p", "", `Typed after it, and not calculated: ${formatSigns(later)}`));
  }

  /** Shows what the model wrote, or else the examples. @type {(hasWork: boolean, hasExamples?: boolean) => void} */
  #showWork(hasWork, hasExamples = !hasWork) {
    this.#hide("written", !hasWork);
    this.#hide("examples", !hasExamples);
  }

  /** Removes what an element of the page shows. @param {string} id */
  #empty(id) {
    this.#takeFocusFrom(id);
    byId(id).replaceChildren();
  }

  /** Hides an element of the page, or shows it. @type {(id: string, isHidden: boolean) => void} */
  #hide(id, isHidden) {
    if (isHidden) this.#takeFocusFrom(id);
    byId(id).hidden = isHidden;
  }

  /** Moves the focus to the field if it is within an element. Otherwise it would be lost with the element.
   * @param {string} id */
  #takeFocusFrom(id) {
    if (byId(id).contains(document.activeElement)) this.#page.field.focus();
  }
}

/** Returns what an operation after an answer continues from: of a rounded answer, its exact value. Returns "" if the
 * answer is not a number.
 * @param {import("./client.js").Calculation} calculation */
function operandOf({ result, rounded, verified, fraction }) {
  const isLost = rounded && verified && fraction && fraction.length <= MAX_FRACTION;
  return isLost ? `(${formatNumbers(fraction)})` : formatNumbers(result ?? "");
}

/** Returns a title of the page that names the calculation, for tabs and bookmarks.
 * @type {(question: string, result: string | null) => string} */
function titleOf(question, result) {
  const calculation = `${formatSigns(question)} = ${formatResult(result)}`;
  const isLong = calculation.length > MAX_TITLE;
  return `${isLong ? `${calculation.slice(0, MAX_TITLE)}…` : calculation} · CalcGPT`;
}
