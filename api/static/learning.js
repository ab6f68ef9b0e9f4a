// Watch it learn: what the model of one training run wrote for an operation after so many steps,
// beside the loss. The snapshots are small models that the page brings with it.

import { calculateBySnapshot } from "./backend.js";
import { isAborted, messageOf } from "./client.js";
import { count, element, plain } from "./format.js";
import { labelled, offerPanel, tell } from "./panel.js";

const FOLDER = "static/learning";
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [300, 120]; // of the curve, in its own units
const PLACES = 2; // of answers
const PAUSE = 1_200; // milliseconds between two snapshots that play

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
  #curve = document.createElementNS(SVG, "svg");

  #hint = element("p", "hint");
  #caption = element("p", "hint");
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
    slider.addEventListener("input", () => {
      this.#pause();
      this.#show();
    });
    this.#play.type = "button";
    this.#play.addEventListener("click", () => (this.#isPlaying ? this.#pause() : this.#begin()));
    slider.addEventListener("change", () => {
      tell(this.element, { panel: "learning", trained: this.#run?.snapshots[Number(slider.value)].step });
    });
    this.#slider.label.append(this.#figure);
    const controls = element("div", "controls");
    controls.append(this.#slider.label, this.#play);
    this.element.append(this.#hint, controls, this.#answer, this.#curve, this.#caption);
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
    this.#hint.textContent = `${description} It has ${count(parameters)} parameters. It answers to ${PLACES} places.`;
    this.#caption.textContent = described(this.#run);
    const slider = this.#slider.control;
    const before = slider.max ? Number(slider.value) : 0; // the panel was open before
    Object.assign(slider, { min: 0, max: snapshots.length - 1, step: 1 });
    const index = trained ? snapshots.findIndex(({ step }) => step === trained) : before;
    slider.value = String(Math.max(0, index));
    this.#show();
  }

  /** Shows what the chosen snapshot writes. */
  async #show() {
    if (!this.#run) return;
    const slider = this.#slider.control;
    const { step, loss, file, sha256 } = this.#run.snapshots[Number(slider.value)];
    this.#stop?.abort();
    const { signal } = (this.#stop = new AbortController());
    this.#figure.textContent = count(step);
    slider.ariaValueText = `after ${count(step)} steps`;
    draw(this.#curve, this.#run, step);
    try {
      const node = await calculateBySnapshot({ path: `${FOLDER}/${file}`, sha256 }, this.#problem, PLACES, signal);
      this.#answer.replaceChildren(...answer(node, step, loss));
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

/**
 * Draws the loss over the steps, both on a scale of powers, and marks a step.
 * @param {SVGElement} svg
 * @param {Run} run
 * @param {number} step
 */
function draw(svg, { curve, snapshots }, step) {
  const losses = curve.map(([, loss]) => Math.log(loss));
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const [from, to] = [curve[0], curve[curve.length - 1]];
  const [first, last] = [Math.log(from[0]), Math.log(to[0])];
  const x = (/** @type {number} */ at) => (WIDTH * (Math.log(Math.max(at, curve[0][0])) - first)) / (last - first);
  const y = (/** @type {number} */ loss) => (HEIGHT * (high - Math.log(loss))) / (high - low);
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", curve.map(([at, loss]) => `${x(at).toFixed(1)},${y(loss).toFixed(1)}`).join(" "));
  const marks = snapshots.map((snapshot) => {
    const mark = document.createElementNS(SVG, "circle");
    mark.setAttribute("cx", x(snapshot.step).toFixed(1));
    mark.setAttribute("cy", y(snapshot.loss).toFixed(1));
    mark.setAttribute("r", snapshot.step === step ? "6" : "3");
    return mark;
  });
  svg.setAttribute("viewBox", `-8 -8 ${WIDTH + 16} ${HEIGHT + 16}`);
  svg.setAttribute("class", "loss");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", described({ curve }));
  svg.replaceChildren(line, ...marks);
}

/** The curve in words.
 * @param {Pick<Run, "curve">} run */
function described({ curve }) {
  const [[first, most], [last, least]] = [curve[0], curve[curve.length - 1]];
  const fall = `from ${most.toPrecision(2)} after ${count(first)} steps to ${least.toPrecision(2)} after ${count(last)}`;
  return `The loss, which says how badly it predicts the next character, falls ${fall}. Dots are snapshots.`;
}
