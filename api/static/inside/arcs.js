// Arcs from a character to those that the model looked at when it wrote it.

const SVG = "http://www.w3.org/2000/svg";
const MOST = 16; // arcs

export class Arcs {
  #svg = document.createElementNS(SVG, "svg");
  #strip;
  #characters;
  #last = null;

  /**
   * @param {HTMLElement} strip on which the arcs are drawn
   * @param {HTMLElement[]} characters within it
   */
  constructor(strip, characters) {
    this.#strip = strip;
    this.#characters = characters;
    this.#svg.setAttribute("class", "arcs");
    this.#svg.setAttribute("aria-hidden", "true");
    strip.append(this.#svg);
    // Lines break elsewhere at another width.
    new ResizeObserver(() => this.#last && this.draw(...this.#last)).observe(strip);
  }

  /**
   * Draws an arc from text[position] to each character with a weight of at least `least`.
   * @param {number} position
   * @param {number[]} weights
   * @param {number} least
   */
  draw(position, weights, least) {
    this.#last = [position, weights, least];
    const { left, top, width, height } = this.#strip.getBoundingClientRect();
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const middle = (character) => {
      const box = character.getBoundingClientRect();
      return { x: box.left + box.width / 2 - left, y: box.top - top + 2 };
    };
    const from = middle(this.#characters[position]);
    const strongest = weights
      .map((weight, index) => ({ weight, index }))
      .filter(({ weight }) => weight >= least)
      .sort((a, b) => b.weight - a.weight)
      .slice(0, MOST);
    const arcs = strongest.map(({ weight, index }) => {
      const to = middle(this.#characters[index]);
      const rise = 8 + Math.min(22, Math.abs(from.x - to.x) / 8);
      const [x, y] = [(from.x + to.x) / 2, Math.min(from.y, to.y) - rise];
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", `M ${from.x} ${from.y} Q ${x} ${y} ${to.x} ${to.y}`);
      const share = weight / strongest[0].weight;
      path.style.strokeWidth = 1 + 2 * share;
      path.style.strokeOpacity = 0.2 + 0.7 * share;
      return path;
    });
    this.#svg.replaceChildren(...arcs);
  }
}
