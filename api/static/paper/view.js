// Draws a sheet: a grid of cells that can be pointed at, with the pointer or with the arrow keys.

import { doubt, element, percent } from "../format.js";
import { explain, isWrong } from "../paper.js";

const SIGNS = { "-": "−" };
const BEFORE = 2; // columns for operator and sign

export class SheetView {
  #sheet = null;
  #probabilities = [];
  element = element("div", "paper");

  constructor() {
    this.element.addEventListener("keydown", (event) => this.#move(event));
  }

  /** Shows a sheet. `probabilities`: of the characters that the model wrote. */
  show(sheet, probabilities, name) {
    this.#sheet = sheet;
    this.#probabilities = probabilities;
    const all = sheet.rows.flatMap(({ cells, carries }) => [...cells, ...carries]);
    const columns = all.map(({ column }) => column);
    const [low, high] = [Math.min(...columns), Math.max(...columns)];
    const grid = element("div", "sheet");
    grid.role = "grid";
    grid.ariaLabel = `The work of ${name}, as on paper`;
    grid.style.setProperty("--columns", high - low + 1);
    for (const row of sheet.rows) {
      if (row.carries.length) grid.append(this.#carries(row, high));
      grid.append(this.#row(row, high));
    }
    const first = grid.querySelector("[data-at]");
    if (first) first.tabIndex = 0;
    this.element.replaceChildren(grid);
    if (sheet.broken >= 0) {
      this.element.append(element("p", "broken", "From here on the text has no such form. The model view shows it."));
    }
  }

  #row(row, high) {
    const drawn = element("div", "row");
    drawn.role = "row";
    drawn.classList.toggle("derived", Boolean(row.isDerived));
    drawn.classList.toggle("ruled", Boolean(row.hasLine));
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

  #text(text, column) {
    const made = element("span", "cell operator", text);
    made.role = "gridcell";
    made.style.gridColumn = column;
    return made;
  }

  #cell(cell, column) {
    const made = this.#text(SIGNS[cell.text] ?? cell.text, column || "auto");
    made.className = "cell";
    made.classList.toggle("padding", Boolean(cell.isPadding));
    made.classList.toggle("negative", Boolean(cell.isNegative));
    made.classList.toggle("brought-down", Boolean(cell.isBroughtDown));
    if (cell.at < 0) return made;
    made.dataset.at = cell.at;
    made.tabIndex = -1;
    const read = this.#sheet.cells[cell.at];
    made.ariaLabel = `${made.textContent}: ${explain(read)}`;
    made.classList.toggle("off", isWrong(read));
    const probability = this.#probabilities[cell.at];
    if (probability !== undefined && !read.isChoice) {
      made.style.setProperty("--doubt", doubt(probability).toFixed(3));
    }
    return made;
  }

  /** The arrow keys go from cell to cell. */
  #move(event) {
    const { key, target } = event;
    if (!/^(Arrow(Up|Down|Left|Right)|Home|End)$/.test(key) || !target.matches("[data-at]")) return;
    event.preventDefault();
    event.stopPropagation();
    const rows = [...this.element.querySelectorAll("[role=row]")]
      .map((row) => [...row.querySelectorAll("[data-at]")])
      .filter((cells) => cells.length);
    const at = rows.findIndex((cells) => cells.includes(target));
    const cells = rows[at];
    const index = cells.indexOf(target);
    const next = {
      ArrowLeft: () => cells[index - 1],
      ArrowRight: () => cells[index + 1],
      ArrowUp: () => nearest(rows[at - 1], target),
      ArrowDown: () => nearest(rows[at + 1], target),
      Home: () => cells[0],
      End: () => cells.at(-1),
    }[key]();
    if (!next) return;
    target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  /** What a character is, in words, and how sure the model was of it. */
  describe(at) {
    const cell = this.#sheet?.cells[at];
    return cell ? { words: explain(cell), isChoice: Boolean(cell.isChoice), isWrong: isWrong(cell) } : null;
  }

  /** The indices of the characters that say the same as one, itself included. */
  alike(at) {
    const cells = this.#sheet?.rows.flatMap((row) => [...row.cells, ...row.side, ...(row.sign ? [row.sign] : [])]) ?? [];
    const same = cells.filter((cell) => cell.at === at || cell.copies.includes(at));
    return [at, ...same.flatMap((cell) => [cell.at, ...cell.copies])];
  }
}

function nearest(cells, { offsetLeft }) {
  const distance = (cell) => Math.abs(cell.offsetLeft - offsetLeft);
  return cells?.reduce((best, cell) => (distance(cell) < distance(best) ? cell : best));
}
