// Draws a sheet: a grid of cells that can be pointed at, with the pointer or with the arrow keys.

import { doubt, element, percent } from "../format.js";
import { explain, isWrong } from "../paper.js";

/** @typedef {import("./sheet.js").Cell} Cell */
/** @typedef {import("../paper.js").ShownRow} ShownRow */

/** @type {Record<string, string>} */
const SIGNS = { "-": "−" };
const LONG = 30; // columns beside which there is no room for notes

export class SheetView {
  /** @type {import("../paper.js").Sheet | null} */
  #sheet = null;
  /** @type {number[]} */
  #probabilities = [];
  /** @type {{key: string, element: Element}[]} the rows that are shown; a key says all that a row shows */
  #rows = [];
  #columns = 0;
  element = element("div", "paper");
  #grid = element("div", "sheet");
  #broken = element("p", "broken", "From here on, the text does not fit this form. The raw text shows it.");

  constructor() {
    this.#grid.role = "grid";
    this.#broken.hidden = true;
    this.element.append(this.#grid, this.#broken);
    this.element.addEventListener("keydown", (event) => this.#move(event));
  }

  /**
   * Shows a sheet. Only the rows that have changed are drawn.
   * @param {import("../paper.js").Sheet} sheet
   * @param {number[]} probabilities of the characters that the model wrote
   * @param {string} name of the operation
   */
  show(sheet, probabilities, name) {
    this.#sheet = sheet;
    this.#probabilities = probabilities;
    const columns = sheet.rows.flatMap(({ cells, carries }) => [...cells, ...carries].map(({ column }) => column));
    const [low, high] = [Math.min(...columns), Math.max(...columns)];
    this.#grid.ariaLabel = `The work of ${name}, as on paper`;
    const n = high - low + 1;
    this.#grid.classList.toggle("long", n > LONG);
    this.#grid.style.setProperty("--columns", String(n));
    this.#grid.style.setProperty("--high", String(high));
    sheet.rows.forEach((row, index) => {
      const key = JSON.stringify(row);
      const before = this.#rows[index];
      if (before?.key === key) return;
      const drawn = this.#row(row);
      if (before) before.element.replaceWith(drawn);
      else this.#grid.append(drawn);
      this.#rows[index] = { key, element: drawn };
    });
    for (const gone of this.#rows.splice(sheet.rows.length)) gone.element.remove();
    const first = this.#grid.querySelector("[data-at]");
    if (first instanceof HTMLElement && !this.#grid.querySelector("[tabindex='0']")) first.tabIndex = 0;
    this.#broken.hidden = sheet.broken < 0;
    if (n !== this.#columns) this.element.scrollLeft = this.element.scrollWidth; // the lowest digits are written first
    this.#columns = n;
  }

  /** @param {ShownRow} row */
  #row(row) {
    const drawn = element("div", "row");
    drawn.role = "rowgroup";
    drawn.classList.toggle("derived", Boolean(row.isDerived));
    drawn.classList.toggle("ruled", Boolean(row.hasLine));
    const tells = row.side.length || (!row.isDerived && /[=:]|rounded|nothing|at once/.test(row.label));
    drawn.classList.toggle("plain-to-see", !tells);
    if (row.carries.length) drawn.append(this.#carries(row));
    const digits = element("div", "digits");
    digits.role = "row";
    if (row.operator) digits.append(text(row.operator));
    if (row.sign && (row.sign.text === "-" || row.showsPlus)) {
      const top = Math.max(...row.cells.map(({ column }) => column));
      const sign = this.#cell(row.sign, top + 1);
      sign.classList.toggle("operator", Boolean(row.showsPlus && !row.operator));
      digits.append(sign);
    }
    for (const cell of row.cells) {
      const made = this.#cell(cell);
      made.classList.toggle("point", cell.column === row.point);
      digits.append(made);
    }
    const note = element("span", "note");
    for (const cell of row.side) note.append(this.#cell(cell), " ");
    const label = element("span", "label", row.label);
    label.role = "rowheader";
    note.append(label);
    digits.append(note);
    drawn.append(digits);
    return drawn;
  }

  /** @param {ShownRow} row */
  #carries({ carries }) {
    const drawn = element("div", "carries");
    drawn.role = "row";
    for (const cell of [...carries].sort((a, b) => b.column - a.column)) {
      const made = this.#cell(cell);
      if (cell.text === "0") made.classList.add("padding");
      drawn.append(made);
    }
    return drawn;
  }

  /**
   * @param {Cell} cell
   * @param {number} column
   */
  #cell(cell, column = cell.column) {
    const made = text(SIGNS[cell.text] ?? cell.text);
    made.className = "cell";
    made.style.setProperty("--column", String(column));
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
    return this.#rows.length ? this.#grid : null;
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

/** @param {string} shown */
function text(shown) {
  const made = element("span", "cell operator", shown);
  made.role = "gridcell";
  return made;
}

/**
 * @param {HTMLElement[] | undefined} cells
 * @param {HTMLElement} target
 */
function nearest(cells, { offsetLeft }) {
  const distance = (/** @type {HTMLElement} */ cell) => Math.abs(cell.offsetLeft - offsetLeft);
  return cells?.reduce((best, cell) => (distance(cell) < distance(best) ? cell : best));
}
