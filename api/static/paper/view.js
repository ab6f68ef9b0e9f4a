// Draws a sheet as a grid of cells. The pointer or the arrow keys move from cell to cell.

import { createElement, doubt, shade } from "../format.js";
import { explain } from "../paper.js";
import { isWrong, shownText, textOf } from "./cells.js";

/** @import { ShownRow } from "../paper.js" */
/** @import { Cell } from "./cells.js" */

/** @type {Record<string, string>} */ const SIGNS = { "-": "−" };
const MAX_COLUMNS_WITH_NOTES = 30; // wider sheets have no room for notes beside them

export class SheetView {
  /** @type {import("../paper.js").Sheet | null} */ #sheet = null;
  /** @type {number[]} */ #probabilities = [];
  /** The rows of the work. key: the row as JSON; element: the whole row; shown: what stands in its place, which is
   * another element while the user sees only a part of the row.
   * @type {{name: string, key: string, element: HTMLElement, shown: HTMLElement}[]} */
  #rows = [];
  #columns = 0;
  element = createElement("div", "paper");
  #grid = createElement("div", "sheet");

  constructor() {
    this.#grid.role = "grid";
    this.element.append(this.#grid);
    this.element.addEventListener("keydown", (event) => this.#onKeyDown(event));
  }

  /** Shows a sheet. Only the rows that have changed are drawn. probabilities: of the characters that the model wrote;
   * name: of the operation.
   * @type {(sheet: import("../paper.js").Sheet, probabilities: number[], name: string) => void} */
  show(sheet, probabilities, name) {
    this.#sheet = sheet;
    this.#probabilities = probabilities;
    const cells = sheet.rows.flatMap(({ cells, carries }) => [...cells, ...carries]);
    const columns = [...sheet.extent, ...cells.map(({ column }) => column)];
    const [low, high] = [Math.min(...columns), Math.max(...columns)];
    this.#grid.ariaLabel = `The work of ${name}, as on paper`;
    const n = high - low + 1;
    this.#grid.classList.toggle("long", n > MAX_COLUMNS_WITH_NOTES);
    this.#grid.style.setProperty("--columns", String(n));
    this.#grid.style.setProperty("--high", String(high));
    sheet.rows.forEach((row, index) => {
      const key = JSON.stringify(row);
      const previous = this.#rows[index];
      if (previous?.key === key) return;
      const rowElement = this.#drawRow(row);
      if (previous) previous.shown.replaceWith(rowElement);
      else this.#grid.append(rowElement);
      this.#rows[index] = { name: row.names[0], key, element: rowElement, shown: rowElement };
    });
    for (const { shown } of this.#rows.splice(sheet.rows.length)) shown.remove();
    if (!this.#grid.querySelector("[tabindex='0']")) this.#setTabStop(this.#grid.querySelector("[data-at]"));
    if (n !== this.#columns) this.element.scrollLeft = this.element.scrollWidth; // to the digits written first
    this.#columns = n;
  }

  /** Shows an earlier state of the work that `show` has shown. All rows keep their place and their size: those that
   * were not begun are hidden. A row that became a part of another one later is not shown.
   * @param {import("../paper.js").Sheet} sheet */
  showPart(sheet) {
    const rows = new Map(sheet.rows.map((row) => [row.names[0], row]));
    const changes = this.#rows.map((entry) => {
      const row = rows.get(entry.name);
      const isPartial = row !== undefined && JSON.stringify(row) !== entry.key;
      const height = isPartial ? entry.shown.offsetHeight : 0; // all are read before the first change
      return { entry, row, isPartial, height };
    });
    for (const { entry, row, isPartial, height } of changes) {
      const element = row && isPartial ? this.#drawRow(row) : entry.element;
      if (height) element.style.height = `${height}px`;
      element.classList.toggle("plain-to-see", entry.element.classList.contains("plain-to-see")); // for its margin
      if (element !== entry.shown) entry.shown.replaceWith(element);
      entry.shown = element;
      element.classList.toggle("unwritten", !row);
    }
    this.#setTabStop(this.#grid.querySelector(".row:not(.unwritten) [data-at]"));
  }

  /** @param {ShownRow} row */
  #drawRow(row) {
    const digits = row.cells.map((cell) => {
      const cellElement = this.#drawCell(cell);
      cellElement.classList.toggle("point", cell.column === row.point);
      return cellElement;
    });
    if (row.sign) {
      const sign = this.#drawCell(row.sign, Math.max(...row.cells.map(({ column }) => column)) + 1);
      sign.classList.toggle("operator", Boolean(row.showsPlus && !row.operator));
      digits.unshift(sign);
    }
    if (row.operator) digits.unshift(createTextCell(row.operator));
    const label = createElement("span", "label", row.label);
    label.role = "rowheader";
    const note = createElement("span", "note", ...row.side.flatMap((cell) => [this.#drawCell(cell), " "]), label);
    const parts = [...this.#drawCarries(row), createPart("digits", "row", ...digits, note)];
    const rowElement = createPart("row", "rowgroup", ...parts);
    rowElement.classList.toggle("derived", Boolean(row.isDerived));
    rowElement.classList.toggle("ruled", Boolean(row.hasLine));
    const isInformative = row.side.length || (row.isDerived ? /:/ : /[=:]|rounded|nothing|at once/).test(row.label);
    rowElement.classList.toggle("plain-to-see", !isInformative);
    return rowElement;
  }

  /** @param {ShownRow} row */
  #drawCarries({ carries }) {
    const cells = [...carries].sort((a, b) => b.column - a.column).map((cell) => {
      return this.#drawCell(cell);
    });
    return cells.length ? [createPart("carries", "row", ...cells)] : [];
  }

  /** @type {(cell: Cell, column?: number) => HTMLSpanElement} */
  #drawCell(cell, column = cell.column) {
    const text = shownText(cell);
    const cellElement = createTextCell(SIGNS[text] ?? text);
    cellElement.className = "cell";
    cellElement.style.setProperty("--column", String(column));
    const classes = { pale: cell.isPadding, below: cell.isBelow, "brought-down": cell.isBroughtDown };
    for (const [name, isSet] of Object.entries(classes)) cellElement.classList.toggle(name, Boolean(isSet));
    if (cell.at < 0) return cellElement;
    cellElement.dataset.at = String(cell.at);
    cellElement.tabIndex = -1;
    const source = this.#sheet?.cells[cell.at] ?? cell;
    cellElement.ariaLabel = `${cellElement.textContent}: ${textOf(explain(source))}`;
    cellElement.classList.toggle("off", isWrong(source));
    const probability = this.#probabilities[cell.at];
    if (probability !== undefined && !source.isChoice) {
      shade(cellElement, probability);
      cellElement.classList.toggle("doubtful", doubt(probability) > 0);
    }
    return cellElement;
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

  /** Makes a cell the only one that the Tab key reaches. @param {Element | null} next */
  #setTabStop(next) {
    for (const cell of this.#grid.querySelectorAll("[tabindex='0']")) {
      if (cell instanceof HTMLElement) cell.tabIndex = -1;
    }
    if (next instanceof HTMLElement) next.tabIndex = 0;
  }

  /** The grid, or null if no sheet is shown yet. */
  get grid() {
    return this.#rows.length ? this.#grid : null;
  }

  /** Returns the element that shows a character or a copy of it, or null if there is none. @param {number} at */
  cellOf(at) {
    for (const index of [at, ...this.copiesOf(at)]) {
      const element = index < 0 ? null : this.element.querySelector(`[data-at="${index}"]`);
      if (element) return element;
    }
    return null;
  }

  /** Returns the explanation of a character, as text and in parts, or null if it is not on the sheet. @param {number} at */
  describe(at) {
    const cell = this.#sheet?.cells[at];
    const parts = cell && explain(cell);
    return parts ? { words: textOf(parts), parts, isChoice: Boolean(cell.isChoice), isWrong: isWrong(cell) } : null;
  }

  /** Returns the indices of a character and of its copies. @param {number} at */
  copiesOf(at) {
    const cells = this.#sheet?.rows.flatMap((row) => [...row.cells, ...row.side, ...(row.sign ? [row.sign] : [])]) ?? [];
    const matching = cells.filter((cell) => cell.at === at || cell.copies.includes(at));
    return [at, ...matching.flatMap((cell) => [cell.at, ...cell.copies])];
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
