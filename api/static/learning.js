// Watch it learn: what the model of one training run wrote for an operation after so many steps,
// beside the loss. The snapshots are small models that the page brings with it.

import { calculateBySnapshot } from "./backend.js";
import { isAborted, messageOf } from "./client.js";
import { Curve } from "./curve.js";
import { count, element, plain } from "./format.js";
import { labelled, offerPanel, tell } from "./panel.js";

const FOLDER = "static/learning";
const PLACES = 2; // of answers
const PAUSE = 1_200; // milliseconds between two snapshots that play
const LEGEND =
  "The loss says how badly the model predicts the next character. Each dot is a snapshot; click one to ask it. " +
  "✓ and ✗ say whether its answer was right. Both scales are logarithmic.";

/**
 * @typedef {{step: number, loss: number, file: string, sha256: string}} Snapshot
 * @typedef {{description: string, parameters: number, snapshots: Snapshot[], curve: [number, number][]}} Run
 *   curve: step and loss
 */

/** @type {Promise<Run> | undefined} */
let known;

/** Returns the run. @returns {Promise<Run>} */
function theRun() {
  known ??= fetch(`${FOLDER}/learning.json`).then((response) => response.json());
  known.catch(() => (known = undefined)); // the next panel tries again
  return known;
}

/** Offers the snapshots for each operation that a model has answered. */
export class Learning {
  begin() {}

  /**
   * Adds the button that opens the panel of an operation.
   * @param {HTMLElement} step
   * @param {import("./client.js").Node} node
   */
  offer(step, { problem, prompt }) {
    if (prompt) offerPanel(step, "learning", "Watch it learn", () => new Panel(problem));
  }
}

class Panel {
  #problem;
  /** @type {AbortController | null} */
  #stop = null;
  #slider = labelled("Steps of training", element("input"));
  #figure = element("output");
  #answer = element("div", "sample");
  #drawing = element("div", "part");
  /** @type {Curve | null} */
  #curve = null;
  #hint = element("p", "hint");
  #play = element("button", "plain", "Play");
  #isPlaying = false;
  #timer = 0;
  /** @type {Run | null} */
  #run = null;

  /** @param {string} problem */
  constructor(problem) {
    this.#problem = problem;
    this.element = element("div", "inside beside learning");
    this.#answer.ariaLive = "polite";
    const slider = this.#slider.control;
    slider.type = "range";
    slider.disabled = this.#play.disabled = true; // until the run is there
    slider.addEventListener("input", () => {
      this.#pause();
      this.#show();
    });
    this.#play.type = "button";
    this.#play.addEventListener("click", () => (this.#isPlaying ? this.#pause() : this.#begin()));
    slider.addEventListener("change", () => this.#tell());
    this.#slider.label.append(this.#figure);
    const controls = element("div", "controls");
    controls.append(this.#slider.label, this.#play);
    const parts = element("div", "parts");
    parts.append(this.#answer, this.#drawing);
    this.element.append(this.#hint, controls, parts);
  }

  #tell() {
    const { value } = this.#slider.control;
    tell(this.element, { panel: "learning", trained: this.#run?.snapshots[Number(value)].step });
  }

  /** Shows one snapshot after the other, from the first. */
  #begin() {
    this.#slider.control.value = "0";
    this.#isPlaying = true;
    this.#play.textContent = "Pause";
    this.#next();
  }

  async #next() {
    await this.#show();
    if (!this.#isPlaying) return;
    this.#timer = window.setTimeout(() => {
      const slider = this.#slider.control;
      if (slider.value === slider.max || !this.element.isConnected) return this.#pause();
      slider.stepUp();
      this.#next();
    }, PAUSE);
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#isPlaying = false;
    this.#play.textContent = "Play";
  }

  /** Shows what an address says.
   * @param {import("./panel.js").State} state */
  async restore({ trained }) {
    try {
      this.#run ??= await theRun();
    } catch {
      this.element.replaceChildren(element("p", "", "The snapshots could not be loaded."));
      return;
    }
    const { description, parameters, snapshots } = this.#run;
    this.#hint.textContent = `${description} It has ${count(parameters)} parameters and answers to ${PLACES} places.`;
    if (!this.#curve) this.#draw(this.#run);
    const slider = this.#slider.control;
    const before = slider.disabled ? 0 : Number(slider.value); // the panel may have been open before
    Object.assign(slider, { min: 0, max: snapshots.length - 1, step: 1, disabled: false });
    this.#play.disabled = false;
    const index = trained ? snapshots.findIndex(({ step }) => step === trained) : before;
    slider.value = String(Math.max(0, index));
    this.#show();
  }

  /** @param {Run} run */
  #draw(run) {
    const slider = this.#slider.control;
    this.#curve = new Curve(run, (index) => {
      this.#pause();
      slider.value = String(index);
      this.#show();
      this.#tell();
    });
    this.#drawing.append(element("h4", "", "The loss"), this.#curve.element, element("p", "hint", LEGEND));
  }

  /** Shows what the chosen snapshot writes. */
  async #show() {
    if (!this.#run) return;
    const slider = this.#slider.control;
    const snapshot = this.#run.snapshots[Number(slider.value)];
    const { step, loss, file, sha256 } = snapshot;
    this.#stop?.abort();
    const { signal } = (this.#stop = new AbortController());
    this.#figure.textContent = count(step);
    slider.ariaValueText = `after ${count(step)} steps`;
    this.#curve?.show(snapshot);
    try {
      const node = await calculateBySnapshot({ path: `${FOLDER}/${file}`, sha256 }, this.#problem, PLACES, signal);
      this.#answer.replaceChildren(...answer(node, step, loss));
      this.#curve?.mark(snapshot, node.agrees);
    } catch (error) {
      if (!isAborted(error)) this.#answer.replaceChildren(element("p", "", messageOf(error)));
    }
  }
}

/**
 * Returns the lines on what a snapshot wrote.
 * @param {import("./client.js").Node} node
 * @param {number} step
 * @param {number} loss
 */
function answer({ output, result, exact, agrees }, step, loss) {
  const title = element("p", "title", `After ${count(step)} steps, loss ${loss.toPrecision(2)}`);
  const verdict = element("p", agrees ? "right" : "wrong");
  const shown = result === null ? "no number" : plain(result);
  verdict.append(`${agrees ? "✓" : "✗"} `, element("strong", "", shown));
  verdict.append(agrees ? " Right." : ` Wrong: exact is ${plain(exact)}.`);
  return [title, verdict, element("p", "written", output)];
}
