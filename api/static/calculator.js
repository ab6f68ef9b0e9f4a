// The page: connects its controls to the service and shows what comes back.

import { calculate, prepare } from "./backend.js";
import { useKey } from "./client.js";
import { Field } from "./field.js";
import { History } from "./history.js";
import { Inside } from "./inside.js";
import { Models } from "./models.js";
import { answer, failure } from "./outcome.js";
import { Playback } from "./playback.js";
import { Step, legend } from "./steps.js";
import { count } from "./format.js";

const $ = (id) => document.getElementById(id);
const KEYS = { "*": "×", "/": "÷", "-": "−" }; // the keypad's signs
const USES_KEYS = "select, input:not([type=checkbox])"; // controls that use the keys themselves
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
});

const inside = new Inside();

let run = null; // the current calculation
let recalled = -1; // index of the history's entry that ArrowUp has recalled

/** `unproven` asks the model about numbers for which it was not measured. */
async function start(unproven = false) {
  stop();
  const typed = field.text;
  if (!typed.trim()) return;
  const controller = new AbortController();
  const steps = [];
  const playback = new Playback((event) => show(event, steps, typed), () => $("slow").checked);
  const mine = (run = { controller, playback, steps });
  begin();
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
    fail(error, typed);
  }
}

function begin() {
  recalled = -1;
  field.unmark();
  $("answer").replaceChildren();
  $("error").replaceChildren();
  $("nodes").replaceChildren();
  showWork(true);
  $("stop").textContent = "Stop";
  $("running").hidden = false;
  $("work").ariaBusy = "true";
}

const HANDLERS = {
  start(data, steps, typed) {
    const { nodes } = data;
    inside.begin(data);
    const characters = [...typed];
    nodes.forEach((node, index) => steps.push(new Step(node, index + 1, nodes.length, characters)));
    $("nodes").append(...steps.map((step) => step.element));
    showWork(nodes.length > 0); // a number alone has none
  },
  node: (data, steps) => steps[data.node].begin(data),
  token: (data, steps) => steps[data.node].write(data),
  answer(data, steps) {
    steps[data.node].end(data);
    inside.offer(steps[data.node].element, data);
  },
  result(calculation, steps, typed) {
    calculation.nodes.forEach((node, index) => node.problem || steps[index].end(node)); // not asked
    $("answer").replaceChildren(answer(calculation));
    history.add(calculation);
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
  $("error").replaceChildren(failure(error, typed, () => start(true)));
  if (error.status === 401) askForKey();
  else if (error.position !== undefined && field.text === typed) {
    field.mark(error.position, error.end);
  }
}

/** Shows what the model wrote, or else the examples. */
function showWork(hasWork) {
  $("written").hidden = !hasWork;
  $("examples").hidden = hasWork;
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
  field.text = "";
  for (const id of ["answer", "error", "nodes"]) $(id).replaceChildren();
  showWork(false);
  recalled = -1;
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
  if (key === "Escape") clear();
  else if (key === "=" || (key === "Enter" && !target.closest("button, a, summary"))) start();
  else if (inField && key === "ArrowUp") recall(1);
  else if (inField && key === "ArrowDown") recall(-1);
  else if (PRINTED.test(printed) && (!inField || field.isAnswered)) field.press(printed);
  else if (key === "Backspace" && !inField) field.backspace();
  else {
    if (inField && key.length > 1 && key !== "Shift") field.edit(); // it moves the caret
    return;
  }
  event.preventDefault();
});

$("expression").addEventListener("input", () => {
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
  start();
});

for (const name of ["click", "pointerover"]) {
  $("nodes").addEventListener(name, ({ target }) => {
    if (target.title) $("readout").textContent = `This one: ${target.title}`;
  });
}

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
models.load();
prepare();
