// The steps of a function as a tree: the rows of its program, and their operations. It is folded. A plot shows how fast
// an iteration or a series approaches the value.

import tables from "./engine/tables.js";
import { createElement, createIcon, createSvg, formatNumbers, formatResult, formatSigns, groupDigits } from "./format.js";

/** @import { Node, Span } from "./client.js" */
/** @import { Step } from "./steps.js" */
/** A turn of an iteration: its steps, and where it is said how much nearer the value is.
 * @typedef {{number: number, name: string, last: number, label: Element}} Turn */

const TURN = /^(\d+)\. ((\w+) = \3 [+-] \w+)$/; // a turn of an iteration adds something to the value
const SUM = /^(-?[\d.]+)([+-])(-?[\d.]+)$/;
const REPEATED = new Set(Object.values(tables.PROGRAMS).flatMap(({ rows }) => repeatedRows(rows)));
const GUESSED = new Set(Array.from(JSON.stringify(tables.PROGRAMS).matchAll(/"(\w+) guess /g), ([, name]) => name));
const TICK = 5; // powers of ten between two lines of a plot

/** Returns the rows of a program that are repeated until they change nothing.
 * @type {(rows: any[], isRepeated?: boolean) => string[]} */
function repeatedRows(rows, isRepeated = false) {
  return rows.flatMap((row) => {
    if (typeof row === "string") return isRepeated ? [row] : [];
    const parts = row.filter(Array.isArray);
    return parts.flatMap((/** @type {any[]} */ part) => repeatedRows(part, isRepeated || row[0] === "repeat"));
  });
}

/** Arranges the steps of a calculation. Those of a function, and of a row of its program, are in a group. */
export class Outline {
  #nodes;
  #steps;
  /** @type {Group[][]} */ #groups; // of each step, the outermost first

  /** @param {Span[]} nodes @param {Step[]} steps @param {HTMLElement} list of their elements */
  constructor(nodes, steps, list) {
    this.#nodes = nodes;
    this.#steps = steps;
    this.#groups = nodes.map(() => []);
    this.#arrange(0, nodes.length, 0, list, null);
  }

  /** Adds some steps to a list. depth: the number of groups around them.
   * @type {(first: number, end: number, depth: number, list: HTMLElement, around: Group | null) => void} */
  #arrange(first, end, depth, list, around) {
    for (let index = first; index < end; ) {
      let next = index + 1;
      const key = this.#keyOf(index, depth);
      while (key && next < end && this.#keyOf(next, depth) === key) next += 1;
      const { expression, path = [] } = this.#nodes[index];
      let { element, label } = this.#steps[index];
      if (around && key && index === first && next === end && end > first + 1) {
        around.name(key); // a program of one row
        return this.#arrange(first, end, depth + 1, list, around);
      }
      if (next > index + 1) {
        const group = new Group(depth ? key : expression, depth ? "program turn" : "program call", next - index);
        for (let step = index; step < next; step += 1) this.#groups[step].push(group);
        this.#arrange(index, next, depth + 1, group.list, group);
        ({ element, label } = group);
      } else label.append(path.slice(Math.max(0, depth - 1)).map(formatSigns).join(", in it "));
      const turn = TURN.exec(depth ? key : "");
      if (turn && REPEATED.has(turn[2])) around?.turns.push({ number: +turn[1], name: turn[3], last: next - 1, label });
      list.append(element);
      index = next;
    }
  }

  /** Returns what the steps of a group have in common: the function or, within it, a row of a program.
   * @type {(index: number, depth: number) => string} */
  #keyOf(index, depth) {
    const { expression, position, end, path = [] } = this.#nodes[index];
    return depth ? (path[depth - 1] ?? "") : path.length ? `${position} ${end} ${expression}` : "";
  }

  /** Shows the answer of a step in its groups. @type {(index: number, node: Node) => void} */
  end(index, node) {
    for (const group of this.#groups[index]) group.add(index, node);
  }
}

/** A function or a row of a program, with the operations that belong to it. */
class Group {
  list = createElement("ol");
  label = createElement("span", "row-name");
  /** @type {Turn[]} */ turns = [];
  /** @type {Map<number, Node>} */ #nodes = new Map(); // that have their answers, by step
  #heading;
  #count;
  #row = "";
  #mark = createElement("span", "mark");
  #details;

  /** @param {string} title @param {string} className @param {number} count of its steps */
  constructor(title, className, count) {
    this.#count = count;
    this.#heading = createElement("h3", "problem", formatSigns(title));
    this.#heading.translate = false;
    this.#details = createElement("details", "operation");
    this.#details.append(createElement("summary", "head", this.#heading, this.#mark, this.label), this.list);
    this.element = createElement("li", className, this.#details);
    this.#showCount();
  }

  /** Names the only row of the program. @param {string} row */
  name(row) {
    this.#row = `${formatSigns(row)}: `;
    this.#showCount();
  }

  #showCount() {
    const { size } = this.#nodes;
    const done = size && size < this.#count ? `${size} of ` : "";
    const improved = this.turns.filter(({ name }) => GUESSED.has(name)).length;
    const how = improved ? `: a first guess, improved ${improved === 1 ? "once" : `${improved} times`}` : "";
    this.label.textContent = `${this.#row}${done}${this.#count} operations${how}`;
  }

  /** Adds the answer of a step. @type {(index: number, node: Node) => void} */
  add(index, node) {
    this.#nodes.set(index, node);
    this.#showCount();
    if (!node.agrees) {
      this.element.classList.add("wrong");
      this.#details.open = true;
    }
    if (this.#nodes.size < this.#count) return;
    const [sign, verdict] = this.element.classList.contains("wrong") ? ["✗", "wrong"] : ["✓", "right"];
    this.#mark.append(createIcon(sign, ""), createElement("span", "unseen", verdict));
    this.#heading.append(" = ", createElement("strong", "", ...groupDigits(formatResult(node.result))));
    const iterations = this.#iterations();
    if (iterations.flat().some(Boolean)) this.list.before(plot(iterations));
  }

  /** Says what each turn of an iteration gained. Returns the size of what each turn added, iteration by iteration. */
  #iterations() {
    /** @type {(Turn & {before: string, added: number, after: string})[][]} */ const iterations = [];
    for (const turn of this.turns) {
      const { problem, result } = /** @type {Node} */ (this.#nodes.get(turn.last));
      const [, before, , added] = SUM.exec(problem ?? "") ?? [];
      if (!added || result === null) continue;
      if (!iterations.length || turn.number === 1) iterations.push([]);
      iterations.at(-1)?.push({ ...turn, before, added: Math.abs(Number(added)), after: result });
    }
    for (const turns of iterations) {
      const value = turns[turns.length - 1].after;
      for (const { name, before, after, label } of turns) {
        const gain = digitsInCommon(after, value) - digitsInCommon(before, value);
        if (gain > 0) label.append(`: ${name} got ${gain} more digit${gain > 1 ? "s" : ""} right`);
      }
    }
    return iterations.map((turns) => turns.map(({ added }) => added));
  }
}

/** Returns how many digits of a number are right. @type {(text: string, right: string) => number} */
function digitsInCommon(text, right) {
  const numbers = [text, right].map((number) => number.split("."));
  const places = Math.max(...numbers.map(([, fraction = ""]) => fraction.length));
  const [a, b] = numbers.map(([whole, fraction = ""]) => BigInt(whole + fraction.padEnd(places, "0")));
  const [length, wrong] = [b, a - b].map((n) => String(n < 0n ? -n : n).length);
  return a === b ? length : Math.max(0, length - wrong);
}

/** Returns the plot of what the turns of iterations add. The vertical scale is logarithmic.
 * @param {number[][]} iterations */
function plot(iterations) {
  const logs = iterations.map((sizes) => sizes.map((size) => (size ? Math.log10(size) : NaN)));
  const finite = logs.flat().filter(Number.isFinite);
  const [top, bottom] = [Math.ceil(Math.max(0, ...finite)), Math.floor(Math.min(-1, ...finite))];
  const most = Math.max(2, ...logs.map(({ length }) => length));
  const y = (/** @type {number} */ log) => (100 * (top - log)) / (top - bottom);
  const svg = createSvg("svg", { class: "plot", role: "img" });
  const [largest, least] = [Math.max(...finite), Math.min(...finite)].map((log) => (10 ** log).toPrecision(1));
  svg.ariaLabel = `What a turn adds becomes smaller, from ${largest} to ${least}.`;
  for (let power = Math.floor(top / TICK) * TICK; power >= bottom; power -= TICK) {
    const at = `${y(power)}%`;
    const label = { y: at, dx: "-0.5em", dy: "0.35em", "text-anchor": "end" };
    const line = createSvg("line", { class: "grid", x2: "100%", y1: at, y2: at });
    svg.append(line, createSvg("text", label, `1e${power}`));
  }
  for (const turns of logs) {
    const all = turns.map((log, index) => [(100 * index) / (most - 1), y(log)]);
    const points = all.filter(([, at]) => !Number.isNaN(at));
    const line = createSvg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" });
    const path = points.map((point) => point.join(",")).join(" ");
    line.append(createSvg("polyline", { points: path, "vector-effect": "non-scaling-stroke" }));
    svg.append(line, ...points.map(([x, at]) => createSvg("circle", { cx: `${x}%`, cy: `${at}%` })));
  }
  return createElement("figure", "curve", svg, createElement("figcaption", "hint", "What each turn adds"));
}
