// The page: connects its controls to the service and shows what comes back.

import * as address from "./address.js";
import { Beside } from "./beside.js";
import { calculate, prepare } from "./backend.js";
import { ServiceError, useKey } from "./client.js";
import { Field } from "./field.js";
import { History } from "./history.js";
import { Inside } from "./inside.js";
import { Learning } from "./learning.js";
import { Models } from "./models.js";
import { answer, failure } from "./outcome.js";
import { Playback } from "./playback.js";
import { Step, legend } from "./steps.js";
import { Tour } from "./tour.js";
import { count } from "./format.js";

const $ = (id) => document.getElementById(id);
const KEYS = { "*": "×", "/": "÷", "-": "−" }; // the keypad's signs
const USES_KEYS = "select, input:not([type=checkbox])"; // controls that use the keys themselves
const EXAMPLE = "471×29.9"; // plays when the page opens
const VIEWS = ["paper", "both", "model"];
const PRINTED = /^[0-9.+()×÷−^%]$/;

const field = new Field($("expression"));
const history = new History($("history"), (expression) => {
  field.text = expression;
  $("expression").focus();
});
const models = new Models($("model"), $("places"), $("model-facts"), {
  onChange({ parameters }) {
    $("author").textContent = `GPT of ${count(parameters)} parameters`;
  },
  onUnauthorized(error) {
    $("error").replaceChildren(failure(error, ""));
    askForKey();
  },
  onReady(isComplete) {
    const model = address.read(location.hash)?.model;
    if (model && !models.has(model) && !isComplete) return false; // it is perhaps still loaded
    open();
    return true;
  },
});
const tour = new Tour($("tour"), $("tour-offer"), {
  ask: (expression) => ask(expression, models.choice.model),
  askWithoutWork: (expression) => ask(expression, models.withoutWork),
  view: showView,
  restore() {
    if (beforeTour) models.choose(beforeTour);
    beforeTour = null;
  },
});
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

const panels = [new Inside(), new Beside(() => models.all), new Learning()];

let run = null; // the current calculation
let shown = null; // the question that is shown, and the character that is pointed at
let beforeTour = null; // the choice of a model before the tour
let shownSteps = [];
let recalled = -1; // index of the history's entry that ArrowUp has recalled

/** `unproven` asks the model about numbers for which it was not measured; `isExample`: nobody asked;
 * `place`: the step and character that the address names. */
async function start({ unproven = false, isExample = false, place = {} } = {}) {
  stop();
  const typed = field.text;
  if (!typed.trim()) {
    $("error").replaceChildren(failure(new ServiceError("Type an expression first, for example 12.5×3."), typed));
    $("expression").focus();
    return;
  }
  const controller = new AbortController();
  const steps = [];
  const isSlow = () => isExample || $("slow").checked;
  const playback = new Playback((event) => show(event, steps, typed), isSlow);
  const mine = (run = { controller, playback, steps, isExample });
  shownSteps = steps;
  begin(typed, place);
  try {
    const options = { ...models.choice, unproven };
    for await (const event of calculate(typed, options, controller.signal)) {
      playback.push(event);
    }
    $("stop").textContent = "Show all";
    mine.isComplete = true;
    await playback.finished();
    if (run === mine) finish();
  } catch (error) {
    if (run !== mine) return; // it was stopped, or another one began
    playback.flush();
    if (isExample) clear();
    else fail(error, typed);
  }
}

function begin(typed, place) {
  const { isExample } = run;
  recalled = -1;
  shown = { question: typed, ...models.unusual, ...place };
  $("example").hidden = !isExample;
  $("answer").ariaLive = isExample ? "off" : "polite";
  if (isExample) field.answered(""); // the next key starts a new expression
  else showAddress();
  field.unmark();
  $("answer").replaceChildren();
  $("error").replaceChildren();
  $("nodes").replaceChildren();
  showWork(true, isExample);
  $("stop").textContent = "Stop";
  $("running").hidden = false;
  $("work").ariaBusy = "true";
}

const HANDLERS = {
  start(data, steps, typed) {
    const { nodes } = data;
    for (const panel of panels) panel.begin(data);
    const characters = [...typed];
    nodes.forEach((node, index) => steps.push(new Step(node, index, nodes, characters)));
    $("nodes").append(...steps.map((step) => step.element));
    showWork(nodes.length > 0, run.isExample || !nodes.length); // a number alone has none
    $("fold").hidden = nodes.length < 2;
  },
  node: (data, steps) => steps[data.node].begin(data),
  token: (data, steps) => steps[data.node].write(data),
  answer(data, steps) {
    steps[data.node].end(data);
    for (const panel of panels) panel.offer(steps[data.node].element, data);
  },
  result(calculation, steps, typed) {
    calculation.nodes.forEach((node, index) => node.problem || steps[index].end(node)); // not asked
    $("answer").replaceChildren(answer(calculation));
    if (!run.isExample) history.add(calculation);
    if (field.text === typed) field.answered(calculation.result);
  },
};

function show({ name, data }, steps, typed) {
  HANDLERS[name]?.(data, steps, typed); // unknown events are ignored
}

function finish() {
  run = null;
  $("running").hidden = true;
  $("work").ariaBusy = "false";
}

function fail(error, typed) {
  for (const step of run.steps) step.stop();
  showWork(run.steps.length > 0);
  finish();
  $("error").replaceChildren(failure(error, typed, () => start({ unproven: true })));
  if (error.status === 401) askForKey();
  else if (error.position !== undefined && field.text === typed) {
    field.mark(error.position, error.end);
  }
}

/** Shows what the model wrote, or else the examples. */
function showWork(hasWork, hasExamples = !hasWork) {
  $("written").hidden = !hasWork;
  $("examples").hidden = !hasExamples;
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
  shown = null;
  window.history.replaceState(null, "", location.pathname);
  $("example").hidden = true;
  field.text = "";
  for (const id of ["answer", "error", "nodes"]) $(id).replaceChildren();
  showWork(false);
  recalled = -1;
}

/** What plays unasked ends when somebody does something. */
function endExample() {
  if (run?.isExample) clear();
}

/** Opens the page: what its address asks, or else an example. */
async function open() {
  const asked = address.read(location.hash);
  if (!asked) {
    if (!field.text && !run && !reducedMotion.matches) {
      field.text = EXAMPLE;
      start({ isExample: true });
    }
    return;
  }
  models.choose(asked);
  showView(asked.view);
  field.text = asked.question;
  const { step, at } = asked;
  await start({ place: { step, at } });
  if (!run && at) shownSteps[(step || shownSteps.length) - 1]?.show(at - 1);
}

/** Asks a model a question of the tour. */
async function ask(question, model) {
  beforeTour ??= models.choice;
  const isShown = shown?.question === question && !run && $("answer").textContent;
  if (isShown && models.choice.model === model) return;
  models.choose({ ...beforeTour, model });
  field.text = question;
  await start();
}

function showView(view) {
  const chosen = VIEWS.includes(view) ? view : VIEWS[0];
  $("work").dataset.view = chosen;
  document.querySelector(`input[name=view][value=${chosen}]`).checked = true;
  showAddress();
}

/** Points at a character: the address names it. */
function point(step, at) {
  if (!shown) return;
  Object.assign(shown, { step: shownSteps.length > 1 ? shownSteps.indexOf(step) + 1 : 0, at: at + 1 });
  showAddress();
}

/** The address of what is shown, without the page's own. */
function state() {
  const { view } = $("work").dataset;
  return shown ? address.write({ ...shown, view: view === VIEWS[0] ? "" : view }) : "";
}

function showAddress() {
  if (shown && !run?.isExample && $("example").hidden) window.history.replaceState(null, "", state());
}

async function copyLink() {
  const link = location.href.split("#")[0] + state();
  $("link").hidden = true;
  try {
    await navigator.clipboard.writeText(link);
    $("copied").textContent = "Copied.";
  } catch {
    $("link").value = link; // the browser forbids it: the reader can copy it
    $("link").hidden = false;
    $("link").select();
    $("copied").textContent = "Copy this link:";
  }
}

function askForKey() {
  $("key-form").hidden = false;
  $("key").focus();
}

/** Recalls an older (`step` 1) or a newer (`step` -1) expression of the history. */
function recall(step) {
  const { expressions } = history;
  const next = Math.min(recalled + step, expressions.length - 1);
  if (!expressions.length || next < -1) return;
  recalled = next;
  field.text = next < 0 ? "" : expressions[next];
}

const ACTIONS = { clear, backspace: () => field.backspace() };

$("calculator").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});

$("keypad").addEventListener("click", ({ target }) => {
  const { key, action } = target.closest("button")?.dataset ?? {};
  if (key || action) endExample();
  if (key) field.press(key);
  if (action) ACTIONS[action]();
});

// Pressing a key with the pointer does not move the focus, so that Enter still calculates.
$("keypad").addEventListener("mousedown", (event) => event.preventDefault());

document.addEventListener("keydown", (event) => {
  const { target, key, ctrlKey, metaKey, altKey } = event;
  const inField = target === $("expression");
  if (ctrlKey || metaKey || altKey || (target.matches(USES_KEYS) && !inField)) return;
  const printed = KEYS[key] ?? key;
  if (key === "Escape") tour.isOpen ? tour.end() : clear();
  else if (key === "=" || (key === "Enter" && !target.closest("button, a, summary"))) start();
  else if (inField && key === "ArrowUp") recall(1);
  else if (inField && key === "ArrowDown") recall(-1);
  else if (PRINTED.test(printed) && (!inField || field.isAnswered)) {
    endExample();
    field.press(printed);
  }
  else if (key === "Backspace" && !inField) field.backspace();
  else {
    if (inField && key.length > 1 && key !== "Shift") field.edit(); // it moves the caret
    return;
  }
  event.preventDefault();
});

$("expression").addEventListener("input", () => {
  if (run?.isExample) stop();
  $("error").replaceChildren();
  field.unmark();
});

$("stop").addEventListener("click", () => (run?.isComplete ? run.playback.flush() : stop()));

$("examples").addEventListener("click", ({ target }) => {
  if (!target.matches("button")) return;
  field.text = target.textContent;
  start();
});

$("history").addEventListener("change", showHistory);
$("forget").addEventListener("click", () => {
  history.clear();
  $("expression").focus();
});

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey($("key").value);
  $("key-form").hidden = true;
  $("key").value = "";
  $("error").replaceChildren();
  models.load();
  $("expression").focus();
  if (field.text.trim()) start();
});

$("nodes").addEventListener("point", ({ target, detail: { at, isChosen } }) => {
  const step = shownSteps.find(({ element }) => element === target);
  if (isChosen && step) point(step, at);
});

$("views").addEventListener("change", ({ target }) => showView(target.value));
$("copy").addEventListener("click", copyLink);
$("take-tour").addEventListener("click", () => tour.start());
$("fold").addEventListener("click", () => {
  const all = [...$("nodes").querySelectorAll("details")];
  const opens = all.some((details) => !details.open);
  for (const details of all) details.open = opens;
});
window.addEventListener("hashchange", () => models.reopen());

document.addEventListener("visibilitychange", () => {
  if (document.hidden) run?.playback.flush(); // animation frames stop in a hidden page
});

function showHistory() {
  const isEmpty = !history.expressions.length;
  $("no-history").hidden = !isEmpty;
  $("forget").hidden = isEmpty;
}

$("scale").append(...legend());
showHistory();
if (!address.read(location.hash)) tour.offer();
models.load();
prepare();
