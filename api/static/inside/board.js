// The work whose character is followed, as on paper. Its characters are marked and tinted.

import { SheetView } from "../paper/view.js";

/** The tint of a character: how strong, from 0 to 1, and its colour, a value of CSS.
 * @typedef {{position: number, strength: number, colour: string}} Tint */

const FAINT = 0.03; // weaker tints are not drawn

export class Board {
  #subject;
  #sheet = new SheetView();

  /** @param {import("./subject.js").Subject} subject */
  constructor(subject) {
    this.#subject = subject;
    this.#sheet.show(subject.sheet, [], subject.name);
    for (const kind of ["click", "focusin"]) {
      this.element.addEventListener(kind, ({ target }) => {
        const cell = target instanceof Element ? target.closest("[data-at]") : null;
        if (cell instanceof HTMLElement) subject.choose(subject.start + Number(cell.dataset.at));
      });
    }
  }

  get element() {
    return this.#sheet.element;
  }

  /** Marks the character that is followed. */
  show() {
    for (const name of ["here", "tinted", "framed"]) this.#clear(name);
    for (const cell of this.element.querySelectorAll("[tabindex='0']")) cell.setAttribute("tabindex", "-1");
    const cell = this.#cellOf(this.#subject.position);
    cell?.classList.add("here");
    cell?.setAttribute("tabindex", "0"); // another one would be chosen with the Tab key
  }

  /** Tints characters, and no others. @param {Tint[]} tints */
  tint(tints) {
    this.#clear("tinted");
    for (const { position, strength, colour } of tints.filter((tint) => tint.strength >= FAINT)) {
      const cell = this.#cellOf(position);
      cell?.classList.add("tinted");
      cell?.style.setProperty("--strength", strength.toFixed(3));
      cell?.style.setProperty("--tint", colour);
    }
  }

  /** Frames characters. @param {number[]} positions */
  frame(positions) {
    for (const position of positions) this.#cellOf(position)?.classList.add("framed");
  }

  /** @param {string} name */
  #clear(name) {
    for (const cell of this.element.querySelectorAll(`.${name}`)) cell.classList.remove(name);
  }

  /** @param {number} position */
  #cellOf(position) {
    const cell = this.#sheet.cellOf(position - this.#subject.start);
    return cell instanceof HTMLElement ? cell : null;
  }
}
