// Arcs from a character to those that the model looked at when it wrote it.

const SVG = "http://www.w3.org/2000/svg";
const MOST = 16; // arcs

/** @typedef {{element: Element | null | undefined, weight: number}} Source a character that was looked at */

export class Arcs {
  #svg = document.createElementNS(SVG, "svg");
  /** @type {[Element, Source[], number] | null} */
  #last = null;

  constructor() {
    this.#svg.setAttribute("class", "arcs");
    this.#svg.setAttribute("aria-hidden", "true");
    // Lines break elsewhere at another width.
    new ResizeObserver(() => this.#last && this.#draw(...this.#last)).observe(this.#svg);
  }

  /**
   * Draws an arc from a character to each one with a weight of at least `least`.
   * @param {Element} strip on which the arcs are drawn, and which has the characters
   * @param {Element} from
   * @param {Source[]} sources
   * @param {number} least
   */
  draw(strip, from, sources, least) {
    if (this.#svg.parentNode !== strip) strip.append(this.#svg);
    this.#last = [from, sources, least];
    this.#draw(from, sources, least);
  }

  clear() {
    this.#last = null;
    this.#svg.remove();
  }

  /** @type {(from: Element, sources: Source[], least: number) => void} */
  #draw(from, sources, least) {
    const { left, top, width, height } = this.#svg.getBoundingClientRect();
    if (!width) return; // it is not shown
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const middle = (/** @type {Element} */ character) => {
      const box = character.getBoundingClientRect();
      return { x: box.left + box.width / 2 - left, y: box.top - top + 2 };
    };
    const start = middle(from);
    const strongest = sources
      .filter(({ element, weight }) => element && element !== from && weight >= least)
      .sort((a, b) => b.weight - a.weight)
      .slice(0, MOST);
    const arcs = strongest.map(({ weight, element }) => {
      const to = middle(/** @type {Element} */ (element));
      const rise = 8 + Math.min(22, Math.abs(start.x - to.x) / 8);
      const [x, y] = [(start.x + to.x) / 2, Math.min(start.y, to.y) - rise];
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", `M ${start.x} ${start.y} Q ${x} ${y} ${to.x} ${to.y}`);
      const share = weight / strongest[0].weight;
      path.style.strokeWidth = String(1 + 2 * share);
      path.style.strokeOpacity = String(0.2 + 0.7 * share);
      return path;
    });
    this.#svg.replaceChildren(...arcs);
  }
}
