// The panel "Watch it learn": what snapshots of one training run write for an operation, next to the
// curve of the loss. The snapshots are small models that the page brings with it.

import { calculateWithSnapshot } from "./backend.js";
import { isAborted, messageOf } from "./client.js";
import { Curve } from "./curve.js";
import { createButton, createElement, createVerdict, formatCount, formatNumbers } from "./format.js";
import { addPanelButton, labelControl, reportState } from "./panel.js";

export const FOLDER = "static/learning";
export const PLACES = 2; // decimal places of answers
const PAUSE = 1_200; // milliseconds between two snapshots when they are played
const LEGEND =
  "The loss measures how badly the model predicts the next character: lower is better. Each dot is a snapshot; " +
  "click one to see its answer. ✓ and ✗ say whether its answer was right. Both scales are logarithmic.";

/** @typedef {{step: number, loss: number, file: string, sha256: string}} Snapshot
 * @typedef {{description: string, parameters: number, snapshots: Snapshot[], curve: [number, number][]}} Run
 * curve: pairs of step and loss */

/** @type {Promise<Run> | undefined} */ let loading;

/** Loads the training run once. @returns {Promise<Run>} */
export function loadRun() {
  loading ??= fetch(`${FOLDER}/learning.json`).then((response) => response.json());
  loading.catch(() => (loading = undefined)); // the next panel tries again
  return loading;
}

/** Adds the button that opens the panel to an operation that a model has answered.
 * @type {(step: HTMLElement, node: import("./client.js").Node) => void} */
export function addLearning(step, { problem, prompt }) {
  if (prompt) addPanelButton(step, "learning", "Watch it learn", () => new Panel(problem));
}

/** Shows what the snapshots write for one problem. */
export class Panel {
  #problem;
  /** @type {AbortController | null} */ #controller = null;
  #slider = labelControl("Steps of training", createElement("input"));
  #stepsText = createElement("output");
  #answer = createElement("div", "sample");
  #plot = createElement("div", "part");
  /** @type {Curve | null} */ #curve = null;
  #hint = createElement("p", "hint");
  #play = createButton("plain", "Play", () => (this.#isPlaying ? this.#pause() : this.#startPlaying()));
  #isPlaying = false;
  #playing = 0; // the number of the last step that was played; a pause counts as one
  #timer = 0;
  /** @type {Run | null} */ #run = null;

  /** @param {string} problem */
  constructor(problem) {
    this.#problem = problem;
    this.element = createElement("div", "inside beside learning");
    this.#answer.ariaLive = "polite";
    const slider = this.#slider.control;
    slider.type = "range";
    slider.disabled = this.#play.disabled = true; // until the run is loaded
    slider.addEventListener("input", () => {
      this.#pause();
      this.#show();
    });
    slider.addEventListener("change", () => this.#reportState());
    this.#slider.label.append(this.#stepsText);
    const controls = createElement("div", "controls", this.#slider.label, this.#play);
    const parts = createElement("div", "parts", this.#answer, this.#plot);
    this.element.append(this.#hint, controls, parts);
  }

  get state() {
    return { trained: this.#run?.snapshots[Number(this.#slider.control.value)].step };
  }

  #reportState() {
    reportState(this.element, { panel: "learning", ...this.state });
  }

  /** Shows one snapshot after the other, from the first on. */
  #startPlaying() {
    this.#slider.control.value = "0";
    this.#isPlaying = true;
    this.#play.textContent = "Pause";
    this.#playNext();
  }

  /** Shows the selected snapshot and, after a pause, the next one. */
  async #playNext() {
    this.#reportState();
    const run = ++this.#playing;
    await this.#show();
    if (run !== this.#playing) return; // paused, perhaps played again
    this.#timer = window.setTimeout(() => {
      const slider = this.#slider.control;
      if (slider.value === slider.max || !this.element.isConnected) return this.#pause();
      slider.stepUp();
      this.#playNext();
    }, PAUSE);
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#playing += 1;
    this.#isPlaying = false;
    this.#play.textContent = "Play";
  }

  /** Shows the snapshot that an address names. @param {import("./panel.js").State} state */
  async restore({ trained }) {
    try {
      this.#run ??= await loadRun();
    } catch {
      this.#hint.textContent = "The snapshots could not be loaded.";
      return;
    }
    const { description, parameters, snapshots } = this.#run;
    this.#hint.textContent =
      `${description} It has ${formatCount(parameters)} parameters and answers to ${PLACES} places. ` +
      "Halves go to the even digit: 3.125 is 3.12.";
    if (!this.#curve) this.#drawCurve(this.#run);
    const slider = this.#slider.control;
    const previousIndex = slider.disabled ? 0 : Number(slider.value); // the panel may be opened again
    Object.assign(slider, { min: 0, max: snapshots.length - 1, step: 1, disabled: false });
    this.#play.disabled = false;
    const index = trained ? snapshots.findIndex(({ step }) => step === trained) : previousIndex;
    slider.value = String(Math.max(0, index));
    this.#show();
  }

  /** @param {Run} run */
  #drawCurve(run) {
    const slider = this.#slider.control;
    this.#curve = new Curve(run, (index) => {
      this.#pause();
      slider.value = String(index);
      this.#show();
      this.#reportState();
    });
    this.#plot.append(createElement("h4", "", "The loss"), this.#curve.element, createElement("p", "hint", LEGEND));
  }

  async #show() {
    if (!this.#run) return;
    const slider = this.#slider.control;
    const snapshot = this.#run.snapshots[Number(slider.value)];
    const { step, loss, file, sha256 } = snapshot;
    this.#controller?.abort();
    const { signal } = (this.#controller = new AbortController());
    this.#stepsText.textContent = formatCount(step);
    slider.ariaValueText = `after ${formatCount(step)} steps`;
    this.#curve?.show(snapshot);
    try {
      const node = await calculateWithSnapshot({ path: `${FOLDER}/${file}`, sha256 }, this.#problem, PLACES, signal);
      this.#answer.replaceChildren(...answerLines(node, step, loss));
      this.#curve?.mark(snapshot, node.isNearest);
    } catch (error) {
      if (!isAborted(error)) this.#answer.replaceChildren(createElement("p", "", messageOf(error)));
    }
  }
}

/** Returns the elements for the answer of a snapshot.
 * @type {(node: import("./client.js").Node & {isNearest: boolean}, step: number,
 *   loss: number) => HTMLParagraphElement[]} */
function answerLines({ output, result, exact, agrees, isNearest }, step, loss) {
  const title = createElement("p", "title", `After ${formatCount(step)} steps, loss ${loss.toPrecision(2)}`);
  const verdict = createVerdict(result, isNearest);
  const right = formatNumbers(exact);
  verdict.append(agrees ? " Right." : isNearest ? ` As near as ${right}, the even one.` : ` Wrong: exact is ${right}.`);
  return [title, verdict, createElement("p", "written", output)];
}
