// Arcs from a character to the characters that the model looked at when it wrote it.

import { createSvg } from "../format.js";

const MAX_ARCS = 16;

/** A character with its attention weight. @typedef {{element: Element | null | undefined, weight: number}} Source */

export class Arcs {
  #svg = createSvg("svg", { class: "arcs", "aria-hidden": "true" });
  /** @type {[Element, Source[], number] | null} */ #lastDrawn = null;

  constructor() {
    // Lines break at other characters when the width changes, so the arcs are drawn again.
    new ResizeObserver(() => this.#lastDrawn && this.#draw(...this.#lastDrawn)).observe(this.#svg);
  }

  /** Draws an arc from a character to each source with a weight of at least `minWeight`, up to MAX_ARCS. container: the
   * element that has the characters.
   * @type {(container: Element, character: Element, sources: Source[], minWeight: number) => void} */
  draw(container, character, sources, minWeight) {
    if (this.#svg.parentNode !== container) container.append(this.#svg);
    this.#lastDrawn = [character, sources, minWeight];
    this.#draw(character, sources, minWeight);
  }

  clear() {
    this.#lastDrawn = null;
    this.#svg.remove();
  }

  /** @type {(character: Element, sources: Source[], minWeight: number) => void} */
  #draw(character, sources, minWeight) {
    const { left, top, width, height } = this.#svg.getBoundingClientRect();
    if (!width) return; // the container is hidden
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const topCenter = (/** @type {Element} */ element) => {
      const box = element.getBoundingClientRect();
      return { x: box.left + box.width / 2 - left, y: box.top - top + 2 };
    };
    const start = topCenter(character);
    const strongest = sources
      .filter(({ element, weight }) => element && element !== character && weight >= minWeight)
      .sort((a, b) => b.weight - a.weight)
      .slice(0, MAX_ARCS);
    const arcs = strongest.map(({ weight, element }) => {
      const end = topCenter(/** @type {Element} */ (element));
      const rise = 8 + Math.min(22, Math.abs(start.x - end.x) / 8);
      const [x, y] = [(start.x + end.x) / 2, Math.min(start.y, end.y) - rise];
      const path = createSvg("path", { d: `M ${start.x} ${start.y} Q ${x} ${y} ${end.x} ${end.y}` });
      const share = weight / strongest[0].weight;
      path.style.strokeWidth = String(1 + 2 * share);
      path.style.strokeOpacity = String(0.2 + 0.7 * share);
      return path;
    });
    this.#svg.replaceChildren(...arcs);
  }
}
