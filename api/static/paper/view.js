// Draws a sheet as a grid of cells. The pointer or the arrow keys move from cell to cell.

import { createElement, doubt, groupDigits, shade } from "../format.js";
import { explain, isWrong, shownText, textOf } from "./cells.js";

/** @import { ShownRow, Sheet } from "../paper.js" */
/** @import { Cell } from "./cells.js" */

const FEW_COLUMNS = 18; // which fit into any window: to ask for the width of each of many sheets takes long
const MAX_COLUMNS_WITH_NOTES = 30; // wider sheets have no room for notes beside them

export class SheetView {
  /** @type {Sheet | null} */ #sheet = null;
  /** @type {number[]} */ #probabilities = [];
  /** The rows of the work, and each as JSON. @type {{key: string, element: HTMLElement}[]} */ #rows = [];
  /** @type {Map<number, number[]>} */ #copies = new Map(); // the indices of characters with the same cell, by index
  #columns = 0;
  element = createElement("div", "paper");
  #grid = createElement("div", "sheet");

  constructor() {
    this.#grid.role = "grid";
    this.element.append(this.#grid);
    this.element.addEventListener("keydown", (event) => this.#onKeyDown(event));
  }

  /** Shows a sheet at once. @type {(sheet: Sheet, probabilities: number[], name: string) => void} */
  show(sheet, probabilities, name) {
    for (const _ of this.draw(sheet, probabilities, name));
  }

  /** Draws a sheet, and yields after each row. Only the rows that have changed are drawn. probabilities: of the characters
   * that the model wrote; name: of the operation.
   * @type {(sheet: Sheet, probabilities: number[], name: string) => Generator<void>} */
  *draw(sheet, probabilities, name) {
    this.#sheet = sheet;
    this.#probabilities = probabilities;
    const columns = [...sheet.extent, ...sheet.rows.flatMap(({ cells }) => cells.map(({ column }) => column))];
    const [low, high] = [Math.min(...columns), Math.max(...columns)];
    const n = high - low + 1;
    this.#grid.ariaLabel = `The work of ${name}, as on paper`;
    this.#grid.classList.toggle("long", n > MAX_COLUMNS_WITH_NOTES);
    this.#grid.style.setProperty("--columns", String(n));
    this.#grid.style.setProperty("--high", String(high));
    this.#copies.clear();
    for (const [index, row] of sheet.rows.entries()) {
      for (const { at, copies, hides } of [...row.cells, ...row.carries, ...row.side].concat(row.sign ?? [])) {
        for (const copy of [at, ...copies]) this.#copies.set(copy, [copy, at, ...copies]);
        for (const hidden of hides) this.#copies.set(hidden, [hidden, at]);
      }
      const key = JSON.stringify(row);
      const previous = this.#rows[index];
      if (previous?.key === key) continue;
      const element = this.#drawRow(row);
      if (previous) previous.element.replaceWith(element);
      else this.#grid.append(element);
      this.#rows[index] = { key, element };
      yield;
    }
    for (const { element } of this.#rows.splice(sheet.rows.length)) element.remove();
    if (!this.#grid.querySelector("[tabindex='0']")) this.#setTabStop(this.#grid.querySelector("[data-at]"));
    if (n !== this.#columns && n > FEW_COLUMNS) this.element.scrollLeft = this.element.scrollWidth; // to what came first
    this.#columns = n;
  }

  /** @param {ShownRow} row */
  #drawRow(row) {
    const { cells, sign, operator, side, label, point } = row;
    const isLong = this.#grid.classList.contains("long");
    const digits = cells.map((cell) => this.#drawCell(cell));
    cells.forEach(({ column }, index) => digits[index].classList.toggle("point", column === point));
    if (sign) {
      const cell = this.#drawCell({ ...sign, column: Math.max(...cells.map(({ column }) => column)) + 1 });
      cell.classList.toggle("operator", Boolean(row.showsPlus && !operator));
      digits.unshift(cell);
    }
    if (operator) digits.unshift(createTextCell(operator));
    const labelElement = createElement("span", "label", ...(isLong ? [label] : groupDigits(label)));
    labelElement.role = "rowheader";
    const note = createElement("span", "note", ...side.flatMap((cell) => [this.#drawCell(cell), " "]), labelElement);
    const carries = [...row.carries].sort((a, b) => b.column - a.column).map((cell) => this.#drawCell(cell));
    const above = carries.length ? [createPart("carries", "row", ...carries)] : [];
    for (const part of above) part.ariaLabel = "carries";
    const line = createPart("digits", "row", ...digits, note);
    line.ariaLabel = label; // or readers would name it by the explanations of all its cells
    const element = createPart("row", "rowgroup", ...above, line);
    const isInformative = side.length || (row.isDerived ? /:/ : /[=:]|rounded|nothing|at once/).test(label);
    const isBroken = row.names[0] === "broken";
    const classes = { derived: row.isDerived, ruled: row.hasLine, "plain-to-see": !isInformative, broken: isBroken };
    for (const [name, isSet] of Object.entries(classes)) element.classList.toggle(name, Boolean(isSet));
    return element;
  }

  /** @param {Cell} cell */
  #drawCell(cell) {
    const { at, column } = cell;
    const element = createTextCell(shownText(cell).replace("-", "−"));
    element.style.setProperty("--column", String(column));
    const source = this.#sheet?.cells[at] ?? cell;
    const { isPadding: pale, isBelow: below, isBroughtDown } = cell;
    const classes = Object.entries({ pale, below, "brought-down": isBroughtDown, off: isWrong(source) });
    element.className = ["cell", ...classes.flatMap(([name, isSet]) => (isSet ? name : []))].join(" ");
    if (at < 0) return element;
    element.dataset.at = String(at);
    element.tabIndex = -1;
    element.ariaLabel = `${element.textContent}: ${textOf(explain(source))}`;
    const probability = this.#probabilities[at];
    if (probability !== undefined && !source.isChoice) {
      shade(element, probability);
      element.classList.toggle("doubtful", doubt(probability) > 0);
    }
    return element;
  }

  /** Moves the focus from cell to cell with the arrow keys, Home and End. @param {KeyboardEvent} event */
  #onKeyDown(event) {
    const { key, target } = event;
    if (!(target instanceof HTMLElement && target.matches("[data-at]"))) return;
    const rows = [...this.element.querySelectorAll("[role=row]")]
      .map((row) => /** @type {HTMLElement[]} */ ([...row.querySelectorAll("[data-at]")]))
      .filter((cells) => cells.length);
    const rowIndex = rows.findIndex((cells) => cells.includes(target));
    const cells = rows[rowIndex];
    const index = cells.indexOf(target);
    /** @type {Record<string, () => HTMLElement | undefined>} */ const moves = {
      ArrowLeft: () => cells[index - 1],
      ArrowRight: () => cells[index + 1],
      ArrowUp: () => nearest(rows[rowIndex - 1], target),
      ArrowDown: () => nearest(rows[rowIndex + 1], target),
      Home: () => cells[0],
      End: () => cells.at(-1),
    };
    if (!(key in moves)) return;
    event.preventDefault();
    event.stopPropagation();
    const next = moves[key]();
    if (!next) return;
    this.#setTabStop(next);
    next.focus();
  }

  /** Makes a cell the only one that the Tab key reaches. @param {HTMLElement | null} next */
  #setTabStop(next) {
    const cells = /** @type {NodeListOf<HTMLElement>} */ (this.#grid.querySelectorAll("[tabindex='0']"));
    for (const cell of cells) cell.tabIndex = -1;
    if (next) next.tabIndex = 0;
  }

  /** The grid, or null if no sheet is shown yet. */
  get grid() {
    return this.#rows.length ? this.#grid : null;
  }

  /** Returns the element that shows a character or a copy of it, or null if there is none. @param {number} at */
  cellOf(at) {
    for (const index of this.#copies.get(at) ?? [at]) {
      const element = index < 0 ? null : this.element.querySelector(`[data-at="${index}"]`);
      if (element) return element;
    }
    return null;
  }

  /** Returns the explanation of a character, as text and in parts, or null if it is not on the sheet.
   * @param {number} at */
  describe(at) {
    const cell = this.#sheet?.cells[at];
    const parts = cell && explain(cell);
    return parts ? { words: textOf(parts), parts, isChoice: Boolean(cell.isChoice), isWrong: isWrong(cell) } : null;
  }
}

/** @type {(className: string, role: string, ...children: Node[]) => HTMLDivElement} */
function createPart(className, role, ...children) {
  const part = createElement("div", className, ...children);
  part.role = role;
  return part;
}

/** Returns a cell without an index, as operators have it. @param {string} text */
function createTextCell(text) {
  const cell = createElement("span", "cell operator", text);
  cell.translate = false;
  cell.role = "gridcell";
  return cell;
}

/** Returns the cell that is nearest to a column.
 * @type {(cells: HTMLElement[] | undefined, target: HTMLElement) => HTMLElement | undefined} */
function nearest(cells, { offsetLeft }) {
  const distance = (/** @type {HTMLElement} */ cell) => Math.abs(cell.offsetLeft - offsetLeft);
  return cells?.reduce((best, cell) => (distance(cell) < distance(best) ? cell : best));
}
