// The loss over the steps of a training run, with a dot for each snapshot. Both scales are logarithmic.
// Positions are percentages of the plot, so that its text has the size of the page's text at every width.

import { createElement, createSvg, formatCount, setAttributes } from "./format.js";

/** @typedef {{step: number, loss: number}} Point */

export class Curve {
  element = createElement("figure", "curve");
  /** @type {Map<number, Element>} */ #snapshots = new Map(); // by step: the dot and the mark of each snapshot
  #guides = [createSvg("line", { class: "guide", y2: "100%" }), createSvg("line", { class: "guide", x1: "0" })];
  #x;
  #y;

  /** @param {{curve: [number, number][], snapshots: Point[]}} run curve: pairs of step and loss
   * @param {(index: number) => void} onChoose called with the index of the snapshot nearest to a click */
  constructor({ curve, snapshots }, onChoose) {
    const [[first, firstLoss], [last, lastLoss]] = [curve[0], curve[curve.length - 1]];
    const losses = curve.map(([, loss]) => loss);
    const x = (this.#x = logScale(first, last));
    const y = (this.#y = logScale(Math.max(...losses), Math.min(...losses)));
    const plot = createSvg("svg", { class: "plot", role: "img" });
    const from = `${firstLoss.toPrecision(2)} after ${formatCount(first)} steps`;
    const to = `${lastLoss.toPrecision(2)} after ${formatCount(last)}`;
    plot.ariaLabel = `The loss falls from ${from} to ${to}.`;
    for (const step of powersOfTen(first, last / 2).concat(last)) {
      const position = `${x(step)}%`;
      const dx = step === last ? "0.5em" : "0"; // away from the previous label
      const attributes = { x: position, y: "100%", dx, dy: "1.3em", "text-anchor": "middle" };
      const label = createSvg("text", attributes, formatCount(step));
      plot.append(createSvg("line", { class: "grid", x1: position, x2: position, y2: "100%" }), label);
    }
    for (const loss of powersOfTen(Math.min(...losses), Math.max(...losses))) {
      const position = `${y(loss)}%`;
      const attributes = { y: position, dx: "-0.5em", dy: "0.35em", "text-anchor": "end" };
      const label = createSvg("text", attributes, String(loss));
      plot.append(createSvg("line", { class: "grid", x2: "100%", y1: position, y2: position }), label);
    }
    const name = { class: "name", "text-anchor": "end" };
    plot.append(createSvg("text", { ...name, dx: "-0.5em", dy: "-0.5em" }, "loss"));
    plot.append(createSvg("text", { ...name, x: "100%", y: "100%", dy: "2.7em" }, "steps of training"));
    const points = curve.map(([step, loss]) => `${x(step)},${y(loss)}`).join(" ");
    const line = createSvg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" });
    line.append(createSvg("polyline", { points, "vector-effect": "non-scaling-stroke" }));
    plot.append(line, ...this.#guides, ...snapshots.map((snapshot) => this.#dot(snapshot)));
    plot.addEventListener("click", ({ clientX }) => {
      const { left, width } = plot.getBoundingClientRect();
      const distances = snapshots.map(({ step }) => Math.abs(x(step) - (100 * (clientX - left)) / width));
      onChoose(distances.indexOf(Math.min(...distances)));
    });
    this.element.append(plot);
  }

  /** @param {Point} snapshot */
  #dot({ step, loss }) {
    const [x, y] = [`${this.#x(step)}%`, `${this.#y(loss)}%`];
    const dot = createSvg("g", {});
    dot.append(createSvg("circle", { cx: x, cy: y }), createSvg("text", { x, y, dx: "0.2em", dy: "-0.4em" }));
    this.#snapshots.set(step, dot);
    return dot;
  }

  /** Marks the snapshot that is shown. @param {Point} snapshot */
  show({ step, loss }) {
    for (const [other, dot] of this.#snapshots) dot.classList.toggle("here", other === step);
    const [x, y] = [`${this.#x(step)}%`, `${this.#y(loss)}%`];
    const [vertical, horizontal] = this.#guides;
    setAttributes(vertical, { x1: x, x2: x, y1: y });
    setAttributes(horizontal, { x2: x, y1: y, y2: y });
  }

  /** Marks a snapshot with whether its answer is right. @type {(snapshot: Point, isRight: boolean) => void} */
  mark({ step }, isRight) {
    const text = this.#snapshots.get(step)?.lastElementChild;
    if (!text) return;
    text.textContent = isRight ? "✓" : "✗";
    text.setAttribute("class", isRight ? "right" : "wrong");
  }
}

/** Returns a logarithmic scale that maps `from` to 0 and `to` to 100.
 * @type {(from: number, to: number) => (value: number) => number} */
function logScale(from, to) {
  return (/** @type {number} */ value) => +((100 * Math.log(value / from)) / Math.log(to / from)).toFixed(2);
}

/** Returns the powers of ten from `low` to `high`. @type {(low: number, high: number) => number[]} */
function powersOfTen(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => 10 ** (first + index));
}
