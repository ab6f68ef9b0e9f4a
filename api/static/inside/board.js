// The work whose character is followed: a line with the text, and the sheet. Both mark and tint characters.

import { createElement } from "../format.js";
import { SheetView } from "../paper/view.js";

/** The tint of a character: how strong, from 0 to 1, and its colour, a value of CSS.
 * @typedef {{position: number, strength: number, colour: string}} Tint */

const FAINT = 0.03; // weaker tints are not drawn

export class Board {
  #subject;
  #sheet = new SheetView();
  #characters;
  #line = createElement("p", "text");
  #slider;
  /** The line with its slider, and the sheet. */
  elements;

  /** @param {import("./subject.js").Subject} subject */
  constructor(subject) {
    this.#subject = subject;
    const { text, start, sheet, name } = subject;
    this.#characters = Array.from(text, (character, position) => {
      return createElement("span", position < start ? "asked" : "", character);
    });
    this.#line.append(...this.#characters);
    this.#line.translate = false;
    this.#line.ariaHidden = "true"; // the slider has the character as its text
    this.#line.addEventListener("click", ({ target }) => {
      subject.choose(this.#characters.findIndex((character) => character === target));
    });
    const slider = (this.#slider = createElement("input"));
    Object.assign(slider, { type: "range", min: 1, max: text.length - start });
    slider.addEventListener("input", () => subject.choose(start + Number(slider.value) - 1));
    const label = createElement("label", "", "Character ", slider);
    this.#sheet.show(sheet, [], name);
    for (const kind of ["click", "focusin"]) {
      this.#sheet.element.addEventListener(kind, ({ target }) => {
        const cell = target instanceof Element ? target.closest("[data-at]") : null;
        if (cell instanceof HTMLElement) subject.choose(start + Number(cell.dataset.at));
      });
    }
    this.elements = [createElement("div", "line-of-text", this.#line, label), this.#sheet.element];
  }

  /** Marks the character that is followed. */
  show() {
    const { position, start, text } = this.#subject;
    this.#slider.value = String(position - start + 1);
    this.#slider.ariaValueText = `${text[position]}: ${this.#subject.describe(position)}`;
    this.#characters.forEach((character, index) => character.classList.toggle("unread", index > position));
    for (const name of ["here", "tinted", "framed"]) this.#clear(name);
    for (const cell of this.#sheet.element.querySelectorAll("[tabindex='0']")) cell.setAttribute("tabindex", "-1");
    for (const element of this.#elementsOf(position)) element.classList.add("here");
    this.#sheet.cellOf(position - start)?.setAttribute("tabindex", "0"); // another one would be chosen with the Tab key
    const { offsetLeft } = this.#characters[position];
    this.#line.scrollTo({ left: offsetLeft - this.#line.clientWidth / 2 });
  }

  /** Tints characters, and no others. @param {Tint[]} tints */
  tint(tints) {
    this.#clear("tinted");
    for (const { position, strength, colour } of tints.filter((tint) => tint.strength >= FAINT)) {
      for (const element of this.#elementsOf(position)) {
        element.classList.add("tinted");
        element.style.setProperty("--strength", strength.toFixed(3));
        element.style.setProperty("--tint", colour);
      }
    }
  }

  /** Frames characters. @param {number[]} positions */
  frame(positions) {
    for (const element of positions.flatMap((position) => this.#elementsOf(position))) element.classList.add("framed");
  }

  /** @param {string} name */
  #clear(name) {
    for (const element of this.elements.flatMap((part) => [...part.querySelectorAll(`.${name}`)])) {
      element.classList.remove(name);
    }
  }

  /** Returns the elements that show a character, on the line and on the sheet. @param {number} position */
  #elementsOf(position) {
    const cell = this.#sheet.cellOf(position - this.#subject.start);
    return [this.#characters[position], ...(cell instanceof HTMLElement ? [cell] : [])];
  }
}
