// Draws a sheet: a grid of cells that can be pointed at, with the pointer or with the arrow keys.

import { doubt, element, percent } from "../format.js";
import { explain, isWrong } from "../paper.js";

/** @typedef {import("./sheet.js").Cell} Cell */
/** @typedef {import("../paper.js").ShownRow} ShownRow */

/** @type {Record<string, string>} */
const SIGNS = { "-": "−" };
const BEFORE = 2; // columns for operator and sign

export class SheetView {
  /** @type {import("../paper.js").Sheet | null} */
  #sheet = null;
  /** @type {number[]} */
  #probabilities = [];
  element = element("div", "paper");

  constructor() {
    this.element.addEventListener("keydown", (event) => this.#move(event));
  }

  /**
   * Shows a sheet.
   * @param {import("../paper.js").Sheet} sheet
   * @param {number[]} probabilities of the characters that the model wrote
   * @param {string} name of the operation
   */
  show(sheet, probabilities, name) {
    this.#sheet = sheet;
    this.#probabilities = probabilities;
    const all = sheet.rows.flatMap(({ cells, carries }) => [...cells, ...carries]);
    const columns = all.map(({ column }) => column);
    const [low, high] = [Math.min(...columns), Math.max(...columns)];
    const grid = element("div", "sheet");
    grid.role = "grid";
    grid.ariaLabel = `The work of ${name}, as on paper`;
    grid.style.setProperty("--columns", String(high - low + 1));
    for (const row of sheet.rows) {
      if (row.carries.length) grid.append(this.#carries(row, high));
      grid.append(this.#row(row, high));
    }
    const first = grid.querySelector("[data-at]");
    if (first instanceof HTMLElement) first.tabIndex = 0;
    this.element.replaceChildren(grid);
    if (sheet.broken >= 0) {
      this.element.append(element("p", "broken", "From here on the text has no such form. The model view shows it."));
    }
  }

  /**
   * @param {ShownRow} row
   * @param {number} high the highest column
   */
  #row(row, high) {
    const drawn = element("div", "row");
    drawn.role = "row";
    drawn.classList.toggle("derived", Boolean(row.isDerived));
    drawn.classList.toggle("ruled", Boolean(row.hasLine));
    const tells = row.side.length || (!row.isDerived && /[=:]|rounded|nothing|at once/.test(row.label));
    drawn.classList.toggle("plain-to-see", !tells);
    if (row.operator) drawn.append(this.#text(row.operator, 1));
    const top = Math.max(...row.cells.map(({ column }) => column));
    if (row.sign && (row.sign.text === "-" || row.showsPlus)) {
      drawn.append(this.#cell(row.sign, row.showsPlus && !row.operator ? 1 : BEFORE + high - top));
    }
    for (const cell of row.cells) {
      const made = this.#cell(cell, BEFORE + 1 + high - cell.column);
      made.classList.toggle("point", cell.column === row.point);
      drawn.append(made);
    }
    const note = element("span", "note");
    for (const cell of row.side) note.append(this.#cell(cell, 0), " ");
    const label = element("span", "label", row.label);
    label.role = "rowheader";
    note.append(label);
    drawn.append(note);
    return drawn;
  }

  /**
   * @param {ShownRow} row
   * @param {number} high
   */
  #carries({ carries }, high) {
    const drawn = element("div", "row carries");
    drawn.role = "row";
    for (const cell of [...carries].sort((a, b) => b.column - a.column)) {
      const made = this.#cell(cell, BEFORE + 1 + high - cell.column);
      if (cell.text === "0") made.classList.add("padding");
      drawn.append(made);
    }
    return drawn;
  }

  /**
   * @param {string} text
   * @param {number | "auto"} column of the grid
   */
  #text(text, column) {
    const made = element("span", "cell operator", text);
    made.role = "gridcell";
    made.style.gridColumn = String(column);
    return made;
  }

  /**
   * @param {Cell} cell
   * @param {number} column of the grid; 0 for none
   */
  #cell(cell, column) {
    const made = this.#text(SIGNS[cell.text] ?? cell.text, column || "auto");
    made.className = "cell";
    made.classList.toggle("padding", Boolean(cell.isPadding));
    made.classList.toggle("negative", Boolean(cell.isNegative));
    made.classList.toggle("brought-down", Boolean(cell.isBroughtDown));
    if (cell.at < 0) return made;
    made.dataset.at = String(cell.at);
    made.tabIndex = -1;
    const read = this.#sheet?.cells[cell.at] ?? cell;
    made.ariaLabel = `${made.textContent}: ${explain(read)}`;
    made.classList.toggle("off", isWrong(read));
    const probability = this.#probabilities[cell.at];
    if (probability !== undefined && !read.isChoice) {
      made.style.setProperty("--doubt", doubt(probability).toFixed(3));
    }
    return made;
  }

  /** The arrow keys go from cell to cell.
   * @param {KeyboardEvent} event */
  #move(event) {
    const { key, target } = event;
    if (!(target instanceof HTMLElement && target.matches("[data-at]"))) return;
    const rows = [...this.element.querySelectorAll("[role=row]")]
      .map((row) => /** @type {HTMLElement[]} */ ([...row.querySelectorAll("[data-at]")]))
      .filter((cells) => cells.length);
    const at = rows.findIndex((cells) => cells.includes(target));
    const cells = rows[at];
    const index = cells.indexOf(target);
    /** @type {Record<string, () => HTMLElement | undefined>} */
    const moves = {
      ArrowLeft: () => cells[index - 1],
      ArrowRight: () => cells[index + 1],
      ArrowUp: () => nearest(rows[at - 1], target),
      ArrowDown: () => nearest(rows[at + 1], target),
      Home: () => cells[0],
      End: () => cells.at(-1),
    };
    if (!(key in moves)) return;
    event.preventDefault();
    event.stopPropagation();
    const next = moves[key]();
    if (!next) return;
    target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  /** The grid, once there is one. */
  get grid() {
    return this.element.querySelector(".sheet");
  }

  /** The cell that shows a character, or a copy of it; null if none does.
   * @param {number} at */
  cellOf(at) {
    for (const index of [at, ...this.alike(at)]) {
      const found = index < 0 ? null : this.element.querySelector(`[data-at="${index}"]`);
      if (found) return found;
    }
    return null;
  }

  /** What a character is, in words.
   * @param {number} at */
  describe(at) {
    const cell = this.#sheet?.cells[at];
    return cell ? { words: explain(cell), isChoice: Boolean(cell.isChoice), isWrong: isWrong(cell) } : null;
  }

  /** The indices of the characters that say the same as one, itself included.
   * @param {number} at */
  alike(at) {
    const cells = this.#sheet?.rows.flatMap((row) => [...row.cells, ...row.side, ...(row.sign ? [row.sign] : [])]) ?? [];
    const same = cells.filter((cell) => cell.at === at || cell.copies.includes(at));
    return [at, ...same.flatMap((cell) => [cell.at, ...cell.copies])];
  }
}

/**
 * @param {HTMLElement[] | undefined} cells
 * @param {HTMLElement} target
 */
function nearest(cells, { offsetLeft }) {
  const distance = (/** @type {HTMLElement} */ cell) => Math.abs(cell.offsetLeft - offsetLeft);
  return cells?.reduce((best, cell) => (distance(cell) < distance(best) ? cell : best));
}
