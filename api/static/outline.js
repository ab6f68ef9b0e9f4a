// The steps of a calculation as a tree: those of a function, of the rows of its program, or some of very many are folded.

import { createElement, createIcon, formatResult, formatSigns, groupDigits } from "./format.js";

/** @import { Node, Span } from "./client.js" */
/** @import { Step } from "./steps.js" */

const MANY = 50; // steps in a list: with a thousand, each frame took a weak phone a third of a second

/** Arranges the steps of a calculation. Those of a function, and of a row of its program, are in a group. */
export class Outline {
  #nodes;
  #stepAt;
  /** @type {Group[][]} */ #groups; // of each step, the outermost first

  /** @param {Span[]} nodes @param {(index: number) => Step} stepAt returns the step of a node */
  constructor(nodes, stepAt) {
    this.#nodes = nodes;
    this.#stepAt = stepAt;
    this.#groups = nodes.map(() => []);
  }

  /** Adds all steps to a list, and yields after each. Of very many, MANY and the rest of a function are in a group.
   * @param {HTMLElement} list */
  *arrange(list) {
    const n = this.#nodes.length;
    for (let first = 0, end; first < n; first = end) {
      end = Math.min(first + MANY, n);
      while (end < n && this.#keyOf(end, 0) && this.#keyOf(end, 0) === this.#keyOf(end - 1, 0)) end += 1;
      if (end === n - 1) end = n; // no operation is alone in a group
      const group = end - first < n ? this.#group(`Operations ${first + 1} to ${end}`, "program", first, end) : null;
      yield* this.#arrange(first, end, 0, group?.list ?? list, null);
      if (group) list.append(group.element);
    }
  }

  /** Returns a group of some steps. @type {(title: string, className: string, first: number, end: number) => Group} */
  #group(title, className, first, end) {
    const group = new Group(title, className, end - first);
    for (let step = first; step < end; step += 1) this.#groups[step].push(group);
    return group;
  }

  /** Adds some steps to a list. depth: the number of groups around them.
   * @type {(first: number, end: number, depth: number, list: HTMLElement, around: Group | null) => Generator<void>} */
  *#arrange(first, end, depth, list, around) {
    for (let index = first; index < end; ) {
      let next = index + 1;
      const key = this.#keyOf(index, depth);
      while (key && next < end && this.#keyOf(next, depth) === key) next += 1;
      const { expression, path = [] } = this.#nodes[index];
      if (around && key && index === first && next === end && end > first + 1) {
        around.name(key); // a program of one row
        return yield* this.#arrange(first, end, depth + 1, list, around);
      }
      if (next > index + 1) {
        const group = this.#group(depth ? key : expression, depth ? "program turn" : "program call", index, next);
        yield* this.#arrange(index, next, depth + 1, group.list, group);
        list.append(group.element);
      } else {
        const { element, label } = this.#stepAt(index);
        label.append(path.slice(Math.max(0, depth - 1)).map(formatSigns).join(", in it "));
        list.append(element);
        yield;
      }
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
    for (const group of this.#groups[index]) group.add(node);
  }
}

/** A function or a row of a program, with the operations that belong to it, or some of very many operations. */
class Group {
  list = createElement("ol");
  label = createElement("span", "row-name");
  #nDone = 0; // of its steps
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
    const done = this.#nDone && this.#nDone < this.#count ? `${this.#nDone} of ` : "";
    this.label.textContent = `${this.#row}${done}${this.#count} operations`;
  }

  /** Adds the answer of a step. @param {Node} node */
  add(node) {
    this.#nDone += 1;
    this.#showCount();
    if (!node.agrees) {
      this.element.classList.add("wrong");
      this.#details.open = true;
    }
    if (this.#nDone < this.#count) return;
    const [sign, verdict] = this.element.classList.contains("wrong") ? ["✗", "wrong"] : ["✓", "right"];
    this.#mark.append(createIcon(sign, ""), createElement("span", "unseen", verdict));
    const hasResult = this.element.matches(".call, .turn");
    if (hasResult) this.#heading.append(" = ", createElement("strong", "", ...groupDigits(formatResult(node.result))));
  }
}
