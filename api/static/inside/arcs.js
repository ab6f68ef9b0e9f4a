// Arcs from a character to the characters that the model looked at when it wrote it.

import { createSvg } from "../format.js";
import { headColour } from "./heads.js";

const MAX_ARCS = 16;

/** A character with the weight that a head gave it. @typedef {{element: Element | null, weight: number, head: number}} Source */

export class Arcs {
  #svg = createSvg("svg", { class: "arcs", "aria-hidden": "true" });
  /** @type {[Element, Source[]] | null} */ #lastDrawn = null;

  constructor() {
    // Lines break at other characters when the width changes, so the arcs are drawn again.
    new ResizeObserver(() => this.#lastDrawn && this.#draw(...this.#lastDrawn)).observe(this.#svg);
  }

  /** Draws an arc from a character to each source, up to MAX_ARCS. container: the element that has the characters.
   * @type {(container: Element, character: Element, sources: Source[]) => void} */
  draw(container, character, sources) {
    if (this.#svg.parentNode !== container) container.append(this.#svg);
    this.#lastDrawn = [character, sources];
    this.#draw(character, sources);
  }

  clear() {
    this.#lastDrawn = null;
    this.#svg.remove();
  }

  /** @type {(character: Element, sources: Source[]) => void} */
  #draw(character, sources) {
    const { left, top, width, height } = this.#svg.getBoundingClientRect();
    if (!width) return; // the container is hidden
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const topCenter = (/** @type {Element} */ element) => {
      const box = element.getBoundingClientRect();
      return { x: box.left + box.width / 2 - left, y: box.top - top + 2 };
    };
    const start = topCenter(character);
    const shown = sources.filter(({ element }) => element && element !== character).slice(0, MAX_ARCS);
    const arcs = shown.map(({ weight, element, head }) => {
      const end = topCenter(/** @type {Element} */ (element));
      const reach = Math.abs(start.x - end.x);
      const aside = reach < 8 ? 20 : 0; // an arc within a column bends, so that its digits can be read
      const [x, y] = [(start.x + end.x) / 2 - aside, Math.min(start.y, end.y) - 8 - Math.min(22, reach / 8)];
      const path = createSvg("path", { d: `M ${start.x} ${start.y} Q ${x} ${y} ${end.x} ${end.y}` });
      path.style.stroke = headColour(head);
      path.style.strokeWidth = String(1 + 2 * weight);
      path.style.strokeOpacity = String(0.4 + 0.6 * weight);
      return path;
    });
    this.#svg.replaceChildren(...arcs);
  }
}
