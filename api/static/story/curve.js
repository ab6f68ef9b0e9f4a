// The loss over the steps of a training, with a dot for each snapshot. Both scales are logarithmic. Positions are
// percentages of the plot, so that its text has the size of the page's text at every width.

import { createElement, createSvg, formatCount } from "../format.js";

/** Returns the picture. curve: pairs of step and loss.
 * @type {(run: {curve: [number, number][], snapshots: {step: number, loss: number}[]}) => HTMLElement} */
export function drawCurve({ curve, snapshots }) {
  const [[first, firstLoss], [last, lastLoss]] = [curve[0], curve[curve.length - 1]];
  const losses = curve.map(([, loss]) => loss);
  const x = logScale(first, last);
  const y = logScale(Math.max(...losses), Math.min(...losses));
  const plot = createSvg("svg", { class: "plot", role: "img" });
  const from = `${firstLoss.toPrecision(2)} after ${formatCount(first)} steps`;
  plot.ariaLabel = `The loss falls from ${from} to ${lastLoss.toPrecision(2)} after ${formatCount(last)}.`;
  for (const step of powersOfTen(first, last / 2).concat(last)) {
    const position = `${x(step)}%`;
    const attributes = { x: position, y: "100%", dy: "1.3em", "text-anchor": "middle" };
    const line = createSvg("line", { class: "grid", x1: position, x2: position, y2: "100%" });
    plot.append(line, createSvg("text", attributes, formatCount(step)));
  }
  for (const loss of powersOfTen(Math.min(...losses), Math.max(...losses))) {
    const position = `${y(loss)}%`;
    const attributes = { y: position, dx: "-0.5em", dy: "0.35em", "text-anchor": "end" };
    const line = createSvg("line", { class: "grid", x2: "100%", y1: position, y2: position });
    plot.append(line, createSvg("text", attributes, String(loss)));
  }
  const name = { class: "name", "text-anchor": "end" };
  plot.append(createSvg("text", { ...name, dx: "-0.5em", dy: "-0.5em" }, "loss"));
  plot.append(createSvg("text", { ...name, x: "100%", y: "100%", dy: "2.7em" }, "steps of training"));
  const points = curve.map(([step, loss]) => `${x(step)},${y(loss)}`).join(" ");
  const line = createSvg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" });
  line.append(createSvg("polyline", { points, "vector-effect": "non-scaling-stroke" }));
  const dots = snapshots.map(({ step, loss }) => createSvg("circle", { cx: `${x(step)}%`, cy: `${y(loss)}%` }));
  plot.append(line, ...dots);
  return createElement("figure", "curve", plot);
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
