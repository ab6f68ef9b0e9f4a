// The page: connects its controls, the keyboard, the address, the example and the story to the calculations.

import { parseHash } from "./address.js";
import { cachePage, calculate, dissect } from "./backend.js";
import { ServiceError, useKey } from "./client.js";
import { Brain } from "./brain.js";
import { takeBackClaim } from "./brain/dare.js";
import { shapeOf } from "./engine/layout.js";
import { Field } from "./field.js";
import { POINT, SYMBOLS, byId, createElement, formatCount, formatNumbers, formatSigns, targetOf } from "./format.js";
import { History } from "./history.js";
import { Inspector } from "./inspector.js";
import { setUpKeypad } from "./keypad.js";
import { setUpLink } from "./link.js";
import { Models } from "./models.js";
import { copyAnswer, renderError } from "./outcome.js";
import { HAS_WORK } from "./paper.js";
import { Proof } from "./prove.js";
import { Runner } from "./runner.js";
import { store } from "./state.js";
import { legend } from "./steps.js";
import { followWork } from "./strip.js";

/** @import { State } from "./address.js" */
/** @import { Step } from "./steps.js" */

/** @type {Record<string, string>} */ const KEYPAD_SIGNS = { ...SYMBOLS, x: "×", X: "×" };
const USES_KEYS = "select, input:not([type=checkbox])"; // controls that handle keys themselves
const EXAMPLE = "471×29.9"; // plays when the page opens
const RECORDED = "static/example/example.json"; // what the model writes for it (calcgpt_lab/export/page.py)
const MARKED = 20; // the index of the character that the page marks, a digit
const ANGLES = /sin|cos|tan/;
const MOVES_CARET = /^(Arrow|Home|End|Page)/;
const INSERTABLE = /^[0-9.,+()×÷−^%!√π]$/; // keys that insert their character
const LONG = 20; // digits of the numbers of a random product
const MAX_INSIDE = 4_000; // characters of a work into which one can look

const input = byId("expression", HTMLInputElement);
const nodes = byId("nodes");
const angle = byId("angle", HTMLSelectElement); // what sin(30) is the sine of: "" for radians
const field = new Field(input, () => start());
const history = new History(({ expression, model, places }) => {
  models.choose({ model, places });
  showEarlier(formatNumbers(expression));
  input.focus();
  start({ isKept: false });
});
const brain = new Brain(() => field.text && start({ isKept: false }), (problem) => calculateWithout(problem, ""));
const proof = new Proof(() => brain.off);
const models = new Models({
  onChange(model) {
    byId("author").textContent = `GPT of ${formatCount(model.parameters)} parameters`;
    if (model.default && model.id !== "calculator") takeBackClaim();
    brain.show(model);
    proof.show(model);
  },
  onChoose: askAgain,
  onUnauthorized(error) {
    byId("error").replaceChildren(renderError(error, ""));
    askForKey();
  },
  onReady(isComplete) {
    const state = parseHash(location.hash);
    const model = state ? state.model : exampleModel;
    if (model && !models.has(model) && !isComplete) return false; // the service may still be loading it
    openAddress();
    return true;
  },
});
/** @type {Inspector} */ const inspector = new Inspector(() => stepAt(store.state.step));
const runner = new Runner({ field, history, inspector }, {
  onWritten(step) {
    const { prompt, output } = step.describe(0);
    if (!shapeOf(prompt) || !HAS_WORK.test(output) || output.length > MAX_INSIDE) return;
    const details = createElement("details", "inside", createElement("summary", "", "Look inside the model"));
    details.name = "inside"; // one is open at a time
    details.addEventListener("toggle", () => {
      store.set({ inside: Number(nodes.querySelector(".inside[open]") !== null) });
      if (details.open) lookInside(step);
    });
    step.body.append(details);
  },
  ask(text) {
    field.text = formatSigns(text);
    start();
  },
  onUnauthorized: askForKey,
});

/** @type {import("./inside.js").Inside | null} */ let inside = null; // once it was opened
/** @type {import("./lesson.js").Lesson | null} */ let lesson = null;
let exampleModel = ""; // the model of the example, once it plays
let isEdited = false; // whether the user has typed since the address was opened

/** Calculates the expression in the field. Returns whether the result is shown.
 *
 * opened: the part of the state that the calculation keeps, if an address led to it; isKept: whether the history lists
 * the calculation.
 * @param {{opened?: Partial<State>, isKept?: boolean}} options */
async function start({ opened, isKept = true } = {}) {
  field.expand();
  const typed = field.text;
  if (!typed.trim()) {
    runner.stop();
    byId("error").replaceChildren(renderError(new ServiceError("Type an expression first, for example 12.5×3."), typed));
    input.focus();
    return false;
  }
  const { model, places } = models.choice;
  const comma = typed === store.state.question ? store.state.comma : Number(POINT === ",");
  const state = { question: typed, comma, angle: angle.value, model, places, ...opened };
  const options = {
    model: model || undefined,
    places: places ? Number(places) : undefined,
    decimal_comma: state.comma > 0 || undefined,
    angle: state.angle === "degrees" ? /** @type {const} */ ("degrees") : undefined,
  };
  const ask = (/** @type {AbortSignal} */ signal) => brain.watch(calculate(typed, { ...options, off: brain.off }, signal));
  return runner.play(ask, state, { isKept: isKept && !brain.off.length, isOpened: opened !== undefined });
}

/** Calculates a problem without the parts `off`. @type {(problem: string, off: string) => Promise<boolean>} */
function calculateWithout(problem, off) {
  store.set({ off });
  showEarlier(formatNumbers(problem));
  return start({ isKept: false });
}

/** Shows the card of the lesson that is open, and hides what the lesson does not need. */
async function teach() {
  const { lesson: number } = store.state;
  byId("lesson").hidden = !number;
  document.body.classList.toggle("teaching", number > 0);
  input.inputMode = number ? "text" : "none"; // it hides the keypad
  if (!number) return;
  const { Lesson } = await import("./lesson.js");
  lesson ??= new Lesson(calculateWithout);
  lesson.show(number);
}

/** Calculates what is shown again. Otherwise the page would show the answer of another choice. */
function askAgain() {
  const isShown = field.text && field.text === store.state.question && byId("example").hidden;
  return isShown && start({ isKept: false });
}

/** Prepares for a key that edits the expression: removes the example, if it is still playing. */
function beginEdit() {
  isEdited = true;
  if (runner.isExample) runner.clear();
  history.resetRecall();
}

/** Plays the example, and then draws arcs from one of its characters to those that the model looked at. Its events are
 * recorded, so that no model is needed before. */
async function playExample() {
  const example = await fetch(RECORDED).then((response) => (response.ok ? response.json() : null), () => null);
  if (!example) cachePage();
  if (!example || isEdited || runner.isRunning || field.text || parseHash(location.hash)) return;
  field.text = EXAMPLE;
  exampleModel = example.model;
  const state = { question: EXAMPLE, model: example.model };
  if (!(await runner.play(() => example.events, state, { isExample: true }))) return;
  const [step] = runner.steps;
  const { model, prompt, output } = step.describe(MARKED);
  const look = await dissect(model, prompt + output, prompt.length + MARKED).catch(() => null);
  if (!look || isEdited || runner.steps[0] !== step || inspector.isShown) return;
  step.highlight(MARKED);
  step.showSources(MARKED, look);
}

/** Shows the state that the address describes. Without one, removes the example if its model is not
 * listed, because the user could not ask it. */
async function openAddress() {
  const { hash } = location;
  const state = parseHash(hash);
  if (!state) {
    const isShown = !byId("example").hidden && field.text === EXAMPLE;
    if (isShown && !models.has(exampleModel)) runner.clear();
    return;
  }
  if (store.isOwnAddress || isEdited) return; // the user calculated or typed before the models were listed
  models.choose(state);
  const off = await brain.keepKnown(state.off).catch(() => state.off); // the calculation says what failed
  if (isEdited || location.hash !== hash) return; // meanwhile
  angle.value = state.angle === "degrees" ? state.angle : "";
  field.text = state.question;
  if (!state.question) return store.begin({ off, lesson: state.lesson }, "opened"); // a lesson asks its own
  const { question, model, places, ...opened } = { ...state, off };
  if (!(await start({ opened, isKept: false }))) return;
  const step = stepAt(state.step);
  if (state.at) step?.pointAt(state.at - 1);
  if (!state.inside || !step) return;
  step.open();
  step.drawNow();
  const details = step.body.querySelector(".inside");
  if (details instanceof HTMLDetailsElement) details.open = true;
}

/** Looks into a step that was opened for it: at its chosen character, or else at one that says much.
 * @param {Step} step */
async function lookInside(step) {
  const { mostTelling } = await import("./inside.js");
  const { at, probability } = step.describe(store.state.at - 1);
  const isChosen = stepAt(store.state.step) === step && probability !== undefined;
  choose(step, isChosen ? at : mostTelling(step), null);
}

/** Selects a character of a step. anchor: its element, beside which the box with its explanation appears, if any.
 * @type {(step: Step, at: number, anchor: Element | null) => Promise<void>} */
async function choose(step, at, anchor) {
  store.set({ step: step.number, at: at + 1 });
  inspector.show(step, at, anchor, true);
  const details = step.body.querySelector(".inside[open]");
  if (!details) return;
  const { Inside } = await import("./inside.js");
  inside ??= new Inside();
  details.append(inside.element);
  await inside.show(step.describe(at));
}

/** Returns the step with a number, the last one for 0, or null if there is none.
 * @type {(number: number) => import("./steps.js").Step | null} */
function stepAt(number) {
  return runner.steps[(number || runner.steps.length) - 1] ?? null;
}

/** Returns the step that has the target of an event. @param {Event} event */
function stepOf({ target }) {
  return runner.steps.find(({ element }) => target instanceof Element && element.contains(target));
}

function askForKey() {
  byId("key-form").hidden = false;
  byId("key").focus();
}

/** Shows an older (1) or a newer (-1) expression of the history in the field. @param {number} direction */
function recall(direction) {
  const expression = field.isWaiting ? null : history.recall(direction, field.text);
  if (expression !== null) showEarlier(expression);
}

/** Shows an expression of the history in the field. Its angles are in radians, or say that they are in degrees.
 * @param {string} expression */
function showEarlier(expression) {
  if (ANGLES.test(expression)) angle.value = "";
  field.text = expression;
  byId("error").replaceChildren(); // it was about another expression
}

/** @type {Record<string, () => void>} */
const ACTIONS = {
  clear: () => runner.clear(),
  backspace: () => field.backspace(),
  addToMemory: () => field.addToMemory(),
  recallMemory: () => field.recallMemory(),
  forgetMemory: () => field.forgetMemory(),
};

byId("calculator").addEventListener("submit", (event) => {
  event.preventDefault();
  field.press("=");
});

byId("keypad").addEventListener("click", (event) => {
  const { key, action } = targetOf(event).closest("button")?.dataset ?? {};
  if (key || (action && action !== "addToMemory")) beginEdit();
  if (key) field.press(key);
  if (action) ACTIONS[action]();
});

setUpKeypad(byId("keypad"), input);

document.addEventListener("keydown", (event) => {
  const { key, ctrlKey, metaKey, altKey, shiftKey, isComposing, repeat } = event;
  const target = targetOf(event);
  const inField = target === input;
  if (isComposing || altKey || (target.matches(USES_KEYS) && !inField)) return;
  if (ctrlKey || metaKey) {
    if (!/^[zy]$/i.test(key)) return;
    beginEdit();
    field.undo(key.toLowerCase() === "y" || shiftKey ? 1 : -1); // the browser does not know the keys of the keypad
    event.preventDefault();
    return;
  }
  const character = KEYPAD_SIGNS[key] ?? key;
  if (key === "Escape") {
    if (inspector.isShown) inspector.hide();
    else {
      beginEdit();
      runner.clear();
    }
  } else if (key === "=" || (key === "Enter" && !target.closest("button, a, summary, [data-at]"))) repeat || field.press("=");
  else if (inField && key === "ArrowUp") recall(1);
  else if (inField && key === "ArrowDown") recall(-1);
  else if (INSERTABLE.test(character) && (!inField || field.isAsked)) {
    beginEdit();
    field.press(character);
  } else if (key === "Backspace" && (!inField || field.isAsked)) field.backspace();
  else {
    if (inField && MOVES_CARET.test(key)) field.edit(); // the key moves the caret
    return;
  }
  event.preventDefault();
});

document.addEventListener("copy", (event) => {
  if (field.isAsked) copyAnswer(event);
});

input.addEventListener("input", () => {
  isEdited = true;
  if (runner.isExample) runner.stop();
  history.resetRecall();
  byId("error").replaceChildren();
  field.clearError();
});

byId("examples").addEventListener("click", (event) => {
  const target = targetOf(event);
  if (!target.matches(".chip")) return;
  if (target.id === "long-product") {
    models.choose({ model: models.modelInSteps(models.choice.model), places: "" });
    const digit = (/** @type {number} */ least) => least + Math.floor((10 - least) * Math.random());
    const random = () => digit(1) + Array.from({ length: LONG - 1 }, () => digit(0)).join("");
    field.text = `${random()}×${random()}`;
  } else field.text = target.textContent ?? "";
  start();
});

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
  if (isChosen && step) choose(step, at, anchor);
  else if (step) inspector.show(step, at, anchor, false);
});
nodes.addEventListener("pointerover", (event) => {
  if (event.pointerType !== "mouse") return; // a finger may only scroll
  if (targetOf(event).closest("[data-at]")) stepOf(event)?.pointAtElement(targetOf(event));
  else inspector.hide();
});
for (const name of ["click", "focusin"]) {
  nodes.addEventListener(name, (event) => stepOf(event)?.pointAtElement(targetOf(event), true));
}
nodes.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && inspector.hide());
nodes.addEventListener("focusout", () => inspector.isTouched || inspector.hide());

angle.addEventListener("change", askAgain);
store.on(["lesson"], teach);
setUpLink();
byId("fold").addEventListener("click", () => {
  const operations = /** @type {NodeListOf<HTMLDetailsElement>} */ (nodes.querySelectorAll("details.operation"));
  const isAnyClosed = [...operations].some((details) => !details.open);
  for (const details of operations) details.open = isAnyClosed;
});
addEventListener("hashchange", () => {
  isEdited = false;
  parseHash(location.hash) ? models.reopen() : runner.clear(); // back to where nothing was asked
});
addEventListener("beforeprint", () => {
  for (const step of runner.steps) step.drawNow();
});
byId("to-work").addEventListener("click", (event) => {
  event.preventDefault(); // the address stays that of the calculation
  const isBelowSwitches = byId("brain", HTMLDetailsElement).open && !byId("written").hidden;
  byId(isBelowSwitches ? "written" : "work").scrollIntoView();
  byId("work").focus();
});

byId("scale").append(...legend());
followWork(nodes, byId("strip"));
byId("calculator").dataset.ready = "";
const isAsked = field.replay(); // what was typed before this module was there (early.js)
if (!isAsked && !parseHash(location.hash)) playExample();
models.load();
