// The loss over the steps of a training, with a dot for each snapshot. Both scales are logarithmic.
// Places are percentages of the plot, so that its text is as large as the page's at every width.

import { count, element } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {{step: number, loss: number}} Point */

export class Curve {
  element = element("figure", "curve");
  /** @type {Map<number, Element>} by step: a dot, and a mark once the snapshot has answered */
  #snapshots = new Map();
  #guides = [drawn("line", { class: "guide", y2: "100%" }), drawn("line", { class: "guide", x1: "0" })];
  #x;
  #y;

  /**
   * @param {{curve: [number, number][], snapshots: Point[]}} run `curve`: step and loss
   * @param {(index: number) => void} onChoose is called with the snapshot that is nearest to a click
   */
  constructor({ curve, snapshots }, onChoose) {
    const [[first, most], [last, least]] = [curve[0], curve[curve.length - 1]];
    const losses = curve.map(([, loss]) => loss);
    const x = (this.#x = scale(first, last));
    const y = (this.#y = scale(Math.max(...losses), Math.min(...losses)));
    const plot = drawn("svg", { class: "plot", role: "img" });
    const fall = `from ${most.toPrecision(2)} after ${count(first)} steps to ${least.toPrecision(2)} after ${count(last)}`;
    plot.ariaLabel = `The loss falls ${fall}.`;
    for (const step of powers(first, last / 2).concat(last)) {
      const at = `${x(step)}%`;
      const dx = step === last ? "0.5em" : "0"; // away from the label before
      const label = drawn("text", { x: at, y: "100%", dx, dy: "1.3em", "text-anchor": "middle" }, count(step));
      plot.append(drawn("line", { class: "grid", x1: at, x2: at, y2: "100%" }), label);
    }
    for (const loss of powers(Math.min(...losses), Math.max(...losses))) {
      const at = `${y(loss)}%`;
      const label = drawn("text", { y: at, dx: "-0.5em", dy: "0.35em", "text-anchor": "end" }, String(loss));
      plot.append(drawn("line", { class: "grid", x2: "100%", y1: at, y2: at }), label);
    }
    const name = { class: "name", "text-anchor": "end" };
    plot.append(drawn("text", { ...name, dx: "-0.5em", dy: "-0.5em" }, "loss"));
    plot.append(drawn("text", { ...name, x: "100%", y: "100%", dy: "2.7em" }, "steps of training"));
    const points = curve.map(([step, loss]) => `${x(step)},${y(loss)}`).join(" ");
    const line = drawn("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" });
    line.append(drawn("polyline", { points, "vector-effect": "non-scaling-stroke" }));
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
    const dot = drawn("g", {});
    dot.append(drawn("circle", { cx: x, cy: y }), drawn("text", { x, y, dx: "0.2em", dy: "-0.4em" }));
    this.#snapshots.set(step, dot);
    return dot;
  }

  /** Marks the snapshot that is shown.
   * @param {Point} snapshot */
  show({ step, loss }) {
    for (const [other, dot] of this.#snapshots) dot.classList.toggle("here", other === step);
    const [x, y] = [`${this.#x(step)}%`, `${this.#y(loss)}%`];
    const [down, left] = this.#guides;
    set(down, { x1: x, x2: x, y1: y });
    set(left, { x2: x, y1: y, y2: y });
  }

  /** Marks whether a snapshot has answered right.
   * @param {Point} snapshot
   * @param {boolean} isRight */
  mark({ step }, isRight) {
    const text = this.#snapshots.get(step)?.lastElementChild;
    if (!text) return;
    text.textContent = isRight ? "✓" : "✗";
    text.setAttribute("class", isRight ? "right" : "wrong");
  }
}

/** Returns a scale of powers, from 0 for `from` to 100 for `to`.
 * @param {number} from
 * @param {number} to */
function scale(from, to) {
  return (/** @type {number} */ value) => +((100 * Math.log(value / from)) / Math.log(to / from)).toFixed(2);
}

/** Returns the powers of ten from `low` to `high`.
 * @param {number} low
 * @param {number} high */
function powers(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => 10 ** (first + index));
}

/**
 * Returns a new element of a drawing.
 * @param {string} tag
 * @param {Record<string, string>} attributes
 * @param {string} text
 */
function drawn(tag, attributes, text = "") {
  const made = document.createElementNS(SVG, tag);
  set(made, attributes);
  made.textContent = text;
  return made;
}

/**
 * @param {Element} element
 * @param {Record<string, string>} attributes
 */
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}
