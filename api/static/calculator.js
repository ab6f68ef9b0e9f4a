// The page: connects its controls to the service and shows what comes back.

import { read } from "./address.js";
import { Beside } from "./beside.js";
import { calculate, keep, prepare } from "./backend.js";
import { ServiceError, useKey } from "./client.js";
import { LOOKED_AT, loadExample, recordedLook } from "./example.js";
import { Field } from "./field.js";
import { byId, count, targetOf } from "./format.js";
import { History } from "./history.js";
import { Inside } from "./inside.js";
import { weightsOf } from "./inside/bars.js";
import { Learning } from "./learning.js";
import { Link } from "./link.js";
import { Models } from "./models.js";
import { answer, failure } from "./outcome.js";
import { Playback } from "./playback.js";
import { Readout } from "./readout.js";
import { Step, legend } from "./steps.js";
import { Tour } from "./tour.js";

/** @typedef {import("./address.js").State} State */
/** @typedef {import("./client.js").CalculationEvent} CalculationEvent */

/**
 * A calculation that runs. isExample: nobody asked; isKept: the history lists it; isComplete: all that
 * is left is to show it.
 * @typedef {{controller: AbortController, playback: Playback<CalculationEvent>, steps: Step[],
 *   isExample: boolean, isKept: boolean, isComplete: boolean}} Run
 */

/** @type {Record<string, string>} */
const KEYS = { "*": "×", "/": "÷", "-": "−" }; // the keypad's signs
const USES_KEYS = "select, input:not([type=checkbox])"; // controls that use the keys themselves
const EXAMPLE = "471×29.9"; // plays when the page opens
const VIEWS = ["paper", "both", "model"];
const PRINTED = /^[0-9.+()×÷−^%]$/;

const input = byId("expression", HTMLInputElement);
const slow = byId("slow", HTMLInputElement);
const nodes = byId("nodes");
const field = new Field(input);
const history = new History(byId("history"), (expression) => {
  field.text = expression;
  input.focus();
});
const models = new Models(byId("model", HTMLSelectElement), byId("places", HTMLSelectElement), byId("model-facts"), {
  onChange({ parameters }) {
    byId("author").textContent = `GPT of ${count(parameters)} parameters`;
  },
  onUnauthorized(error) {
    byId("error").replaceChildren(failure(error, ""));
    askForKey();
  },
  onReady(isComplete) {
    const asked = read(location.hash);
    const model = asked ? asked.model : exampleModel;
    if (model && !models.has(model) && !isComplete) return false; // it is perhaps still loaded
    open();
    return true;
  },
});
const tour = new Tour(byId("tour"), byId("tour-offer"), {
  ask: (expression) => ask(expression, models.choice.model),
  askWithoutWork: (expression) => ask(expression, models.withoutWork),
  view: showView,
  pointAt: (at) => shownSteps.at(-1)?.show(at),
  restore() {
    if (beforeTour) models.choose(beforeTour);
    beforeTour = null;
  },
});
const link = new Link();
const readout = new Readout();
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

const panels = [new Inside(), new Beside(() => models.all), new Learning()];

/** @type {Run | null} */
let run = null;
/** @type {{model: string, places: number} | null} the choice before the tour */
let beforeTour = null;
/** @type {Step[]} */
let shownSteps = [];
let exampleModel = ""; // of the example that plays, or has played
let recalled = -1; // index of the history's entry that ArrowUp has recalled

/**
 * Calculates what is typed.
 * @param {boolean} unproven whether to ask about numbers for which the model was not measured
 * @param {Partial<State>} opened what the address names, if it is opened
 * @param {boolean} isKept whether the history lists it
 */
async function start(unproven = false, opened = {}, isKept = true) {
  const typed = field.text;
  if (!typed.trim()) {
    stop();
    byId("error").replaceChildren(failure(new ServiceError("Type an expression first, for example 12.5×3."), typed));
    input.focus();
    return;
  }
  const options = { ...models.choice, unproven };
  const state = { question: typed, ...models.unusual, ...opened };
  await play((signal) => calculate(typed, options, signal), state, { isKept });
}

/**
 * Shows the events of a calculation as they come.
 * @param {(signal: AbortSignal) => AsyncIterable<CalculationEvent>} source
 * @param {Partial<State> & {question: string}} state
 * @param {{isExample?: boolean, isKept?: boolean}} kind
 */
async function play(source, state, { isExample = false, isKept = false }) {
  stop();
  const typed = state.question;
  const controller = new AbortController();
  /** @type {Step[]} */
  const steps = [];
  const isSlow = () => slow.checked || (isExample && !reducedMotion.matches);
  const playback = new Playback((/** @type {CalculationEvent} */ event) => show(event, steps, typed), isSlow);
  /** @type {Run} */
  const mine = { controller, playback, steps, isExample, isKept, isComplete: false };
  run = mine;
  shownSteps = steps;
  begin(state, isExample);
  try {
    for await (const event of source(controller.signal)) playback.push(event);
    byId("stop").textContent = "Show all";
    mine.isComplete = true;
    await playback.finished();
    if (run === mine) finish();
  } catch (error) {
    if (run !== mine) return; // it was stopped, or another one began
    playback.flush();
    if (isExample) clear();
    else fail(error instanceof ServiceError ? error : new ServiceError(String(error)), typed);
  }
}

/**
 * @param {Partial<State>} state
 * @param {boolean} isExample
 */
function begin(state, isExample) {
  recalled = -1;
  link.begin(state, isExample);
  byId("example").hidden = !isExample;
  byId("answer").ariaLive = isExample ? "off" : "polite";
  if (isExample) field.answered(""); // the next key starts a new expression
  field.unmark();
  readout.hide();
  byId("answer").replaceChildren();
  if (!isExample) byId("error").replaceChildren(); // it may be that a key is needed
  nodes.replaceChildren();
  showWork(true, isExample);
  byId("stop").textContent = "Stop";
  byId("running").hidden = false;
  byId("work").ariaBusy = "true";
}

/**
 * Shows an event; unknown ones are ignored.
 * @param {CalculationEvent} event
 * @param {Step[]} steps
 * @param {string} typed
 */
function show({ name, data }, steps, typed) {
  if (name === "start") {
    for (const panel of panels) panel.begin(data);
    const characters = [...typed];
    data.nodes.forEach((_, index) => steps.push(new Step(data, index, characters)));
    nodes.append(...steps.map((step) => step.element));
    const isExample = Boolean(run?.isExample);
    showWork(data.nodes.length > 0, isExample || !data.nodes.length); // a number alone has none
    byId("fold").hidden = data.nodes.length < 2;
  } else if (name === "node") steps[data.node].begin(data);
  else if (name === "token") steps[data.node].write(data);
  else if (name === "answer") {
    steps[data.node].end(data);
    for (const panel of panels) panel.offer(steps[data.node].element, data);
  } else if (name === "result") {
    data.nodes.forEach((node, index) => node.problem || steps[index].end(node)); // not asked
    byId("answer").replaceChildren(answer(data));
    if (run?.isKept) history.add(data);
    if (field.text === typed) field.answered(data.result);
  }
}

function finish() {
  run = null;
  byId("running").hidden = true;
  byId("work").ariaBusy = "false";
  keep();
}

/**
 * @param {ServiceError} error
 * @param {string} typed
 */
function fail(error, typed) {
  for (const step of shownSteps) step.stop();
  showWork(shownSteps.length > 0);
  finish();
  byId("error").replaceChildren(failure(error, typed, () => start(true)));
  if (error.status === 401) askForKey();
  else if (error.position !== undefined && field.text === typed) {
    field.mark(error.position, error.end);
  }
}

/** Shows what the model wrote, or else the examples.
 * @param {boolean} hasWork
 * @param {boolean} hasExamples */
function showWork(hasWork, hasExamples = !hasWork) {
  byId("written").hidden = !hasWork;
  byId("examples").hidden = !hasExamples;
}

/** Stops the current calculation. What it has shown remains. */
function stop() {
  if (!run) return;
  const { controller, playback, steps } = run;
  finish();
  controller.abort();
  playback.drop();
  for (const step of steps) step.stop();
}

function clear() {
  stop();
  link.clear();
  readout.hide();
  byId("example").hidden = true;
  field.text = "";
  for (const id of ["answer", "error", "nodes"]) byId(id).replaceChildren();
  showWork(false);
  recalled = -1;
}

/** What plays unasked ends when somebody does something. */
function endExample() {
  if (run?.isExample) clear();
}

/** Plays the example. Its events are recorded, so no model is needed yet. */
async function playExample() {
  const example = await loadExample();
  if (!example) keep();
  if (!example || run || field.text || read(location.hash)) return;
  field.text = EXAMPLE;
  exampleModel = example.model;
  await play(() => recorded(example.events), { question: EXAMPLE, model: example.model }, { isExample: true });
  if (!byId("example").hidden && !run) showWhereItLooked();
}

/** Draws arcs from a character of the example. */
function showWhereItLooked() {
  const [step] = shownSteps;
  const { model, prompt, output } = step.describe(LOOKED_AT);
  const seen = recordedLook(model, prompt + output, prompt.length + LOOKED_AT);
  if (!seen) return;
  step.mark(LOOKED_AT, weightsOf(seen));
}

/** @param {CalculationEvent[]} events */
async function* recorded(events) {
  yield* events;
}

/** Shows what the address asks. An example of a model that is not here would promise too much. */
async function open() {
  const asked = read(location.hash);
  if (!asked) {
    const isShown = !byId("example").hidden && field.text === EXAMPLE;
    if (isShown && !models.has(exampleModel)) clear();
    return;
  }
  if (link.isOwn) return; // somebody typed before the models were there
  models.choose(asked);
  showView(asked.view);
  field.text = asked.question;
  const { question, model, places, view, ...opened } = asked;
  await start(false, opened, false);
  if (run) return; // another one began
  const step = shownSteps[(asked.step || shownSteps.length) - 1];
  if (asked.at) step?.show(asked.at - 1);
  if (asked.panel) {
    readout.hide(); // it would stand in front of the panel
    step?.element.dispatchEvent(new CustomEvent("restore", { detail: asked }));
  }
}

/** Asks a model a question of the tour.
 * @param {string} question
 * @param {string} model */
async function ask(question, model) {
  beforeTour ??= models.choice;
  const isShown = link.question === question && !run && byId("answer").textContent;
  for (const step of shownSteps) step.mark(-1, []);
  if (isShown && models.choice.model === model) return;
  models.choose({ ...beforeTour, model });
  field.text = question;
  await start(false, {}, false);
}

/** @param {string} view */
function showView(view) {
  const chosen = VIEWS.includes(view) ? view : VIEWS[0];
  byId("work").dataset.view = chosen;
  /** @type {HTMLInputElement | null} */
  const radio = document.querySelector(`input[name=view][value=${chosen}]`);
  if (radio) radio.checked = true;
  link.changeView(chosen === VIEWS[0] ? "" : chosen);
}

/** The number of an operation for the address: none if there is only one.
 * @param {Step} step */
function numberOf(step) {
  return shownSteps.length > 1 ? shownSteps.indexOf(step) + 1 : 0;
}

/** The operation that an event comes from.
 * @param {Event} event */
function stepOf({ target }) {
  return shownSteps.find(({ element }) => target instanceof Element && element.contains(target));
}

function askForKey() {
  byId("key-form").hidden = false;
  byId("key").focus();
}

/** Recalls an older (1) or a newer (-1) expression of the history.
 * @param {number} direction */
function recall(direction) {
  const { expressions } = history;
  const next = Math.min(recalled + direction, expressions.length - 1);
  if (!expressions.length || next < -1) return;
  recalled = next;
  field.text = next < 0 ? "" : expressions[next];
}

/** @type {Record<string, () => void>} */
const ACTIONS = { clear, backspace: () => field.backspace() };

byId("calculator").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});

byId("keypad").addEventListener("click", (event) => {
  const { key, action } = targetOf(event).closest("button")?.dataset ?? {};
  if (key || action) endExample();
  if (key) field.press(key);
  if (action) ACTIONS[action]();
});

// Pressing a key with the pointer does not move the focus, so that Enter still calculates.
byId("keypad").addEventListener("mousedown", (event) => event.preventDefault());

document.addEventListener("keydown", (event) => {
  const { key, ctrlKey, metaKey, altKey } = event;
  const target = targetOf(event);
  const inField = target === input;
  if (ctrlKey || metaKey || altKey || (target.matches(USES_KEYS) && !inField)) return;
  const printed = KEYS[key] ?? key;
  if (key === "Escape") {
    if (readout.isShown) readout.hide();
    else if (tour.isOpen) tour.end();
    else clear();
  } else if (key === "=" || (key === "Enter" && !target.closest("button, a, summary"))) start();
  else if (inField && key === "ArrowUp") recall(1);
  else if (inField && key === "ArrowDown") recall(-1);
  else if (PRINTED.test(printed) && (!inField || field.isAnswered)) {
    endExample();
    field.press(printed);
  } else if (key === "Backspace" && !inField) field.backspace();
  else {
    if (inField && key.length > 1 && key !== "Shift") field.edit(); // it moves the caret
    return;
  }
  event.preventDefault();
});

input.addEventListener("input", () => {
  if (run?.isExample) stop();
  byId("error").replaceChildren();
  field.unmark();
});

byId("stop").addEventListener("click", () => (run?.isComplete ? run.playback.flush() : stop()));

byId("examples").addEventListener("click", (event) => {
  const target = targetOf(event);
  if (!target.matches("button")) return;
  field.text = target.textContent ?? "";
  start();
});

byId("history").addEventListener("change", showHistory);
byId("forget").addEventListener("click", () => {
  history.clear();
  input.focus();
});

byId("key-form").addEventListener("submit", (event) => {
  const key = byId("key", HTMLInputElement);
  event.preventDefault();
  useKey(key.value);
  byId("key-form").hidden = true;
  key.value = "";
  byId("error").replaceChildren();
  models.load();
  input.focus();
  if (field.text.trim()) start();
});

nodes.addEventListener("point", (event) => {
  const { at, isChosen, anchor } = /** @type {CustomEvent<import("./steps.js").Point>} */ (event).detail;
  const step = stepOf(event);
  if (!step) return;
  readout.show(anchor, step.describe(at), (weights) => step.showSources(at, weights));
  if (isChosen) link.change({ step: numberOf(step), at: at + 1 });
});
nodes.addEventListener("pointerover", (event) => {
  if (event.pointerType === "mouse" && !targetOf(event).closest("[data-at]")) readout.hide();
});
nodes.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && readout.hide());
nodes.addEventListener("focusout", () => readout.isTouched || readout.hide());

nodes.addEventListener("state", (event) => {
  const step = stepOf(event);
  const { detail } = /** @type {CustomEvent<Partial<State>>} */ (event);
  if (step) link.change({ ...detail, step: numberOf(step) });
});

byId("views").addEventListener("change", (event) => showView(/** @type {HTMLInputElement} */ (event.target).value));
byId("take-tour").addEventListener("click", () => tour.start());
byId("fold").addEventListener("click", () => {
  const all = [...nodes.querySelectorAll("details")];
  const opens = all.some((details) => !details.open);
  for (const details of all) details.open = opens;
});
addEventListener("hashchange", () => models.reopen());

document.addEventListener("visibilitychange", () => {
  if (document.hidden) run?.playback.flush(); // animation frames stop in a hidden page
});

function showHistory() {
  const isEmpty = !history.expressions.length;
  byId("no-history").hidden = !isEmpty;
  byId("forget").hidden = isEmpty;
}

byId("scale").append(...legend());
showHistory();
if (!read(location.hash)) {
  tour.offer();
  playExample();
}
models.load();
prepare();
