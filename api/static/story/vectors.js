// Step 1: each character becomes a column of numbers.

import { createElement } from "../format.js";
import { createChoices } from "./bars.js";

/** @import { Dissection } from "../engine/dissect.js" */
/** @import { Picture } from "../story.js" */

const DIGITS = [..."0123456789"];
const COLOURS = { positive: [64, 96, 220], negative: [224, 122, 20] }; // visible on light and on dark

/** @type {Picture} */
export const vectors = {
  title: "Characters become numbers",
  text({ subject, dissection }) {
    const neighbours = DIGITS.filter((digit) => {
      const [, nearest] = similarTo(digit, DIGITS, dissection).sort((a, b) => b.cosine - a.cosine); // after itself
      return Math.abs(Number(nearest.character) - Number(digit)) === 1;
    });
    return [
      `A neural network can only compute with numbers. So each character that it reads becomes a column of ${dissection.width} numbers, here as colours: blue above 0, orange below. The same character gets the same column everywhere.`,
      `These are the columns of the digits. The model is going to write a ${subject.character} of ${subject.name}. Choose a digit: which columns are like its own? ${neighbours.length} of the 10 digits are most like a neighbour. Nobody told the model the order 0, 1, 2, 3 …: it found it.`,
    ];
  },
  more: ({ dissection: { vocabulary, width } }) => [
    `The table of columns is called the embedding: ${vocabulary.length} characters with ${width} numbers each. They were random at the beginning, and training changed them. The bars are cosines: 1 if two columns point in the same direction, 0 if they have nothing in common, −1 if they are opposite.`,
    "A second column is added to that of each character, for what it is to the one that is written: a multiplier, a digit above, a carry. The model itself begins with a column for the kind of the character to write, such as a digit of a product. Each layer adds to this column.",
  ],
  draw({ subject, dissection }) {
    const title = createElement("h3");
    const similar = createElement("ol", "similar");
    const show = (/** @type {number} */ index) => {
      const character = DIGITS[index];
      title.textContent = `How similar is ${character} to …`;
      const items = similarTo(character, DIGITS, dissection).map(({ character: other, cosine }) => {
        const value = createElement("span", "figure", cosine.toFixed(2).replace("-", "−"));
        const item = createElement("li", other === character ? "own" : "", createElement("code", "", other), value);
        item.style.setProperty("--size", `${(50 * Math.abs(cosine)).toFixed(1)}%`);
        item.classList.toggle("opposite", cosine < 0);
        return item;
      });
      similar.replaceChildren(...items);
    };
    const labels = DIGITS.map((digit) => [createElement("code", "", digit)]);
    const choices = createChoices("Digit", labels, Math.max(0, DIGITS.indexOf(subject.character)), show);
    choices.style.setProperty("--columns", String(DIGITS.length));
    const picture = drawColumns(DIGITS.map((digit) => columnOf(digit, dissection)));
    const figure = createElement("div", "columns", choices, picture);
    return [figure, title, similar];
  },
};

/** @type {(character: string, dissection: Dissection) => Float64Array} */
function columnOf(character, { vocabulary, embeddings, width }) {
  const token = vocabulary.indexOf(character);
  return embeddings.subarray(token * width, (token + 1) * width);
}

/** Returns how similar the column of a character is to those of others.
 * @type {(character: string, others: string[], dissection: Dissection) => {character: string, cosine: number}[]} */
function similarTo(character, others, dissection) {
  const own = columnOf(character, dissection);
  return others.map((other) => ({ character: other, cosine: cosineOf(own, columnOf(other, dissection)) }));
}

/** @type {(a: Float64Array, b: Float64Array) => number} */
function cosineOf(a, b) {
  const product = (/** @type {Float64Array} */ x, /** @type {Float64Array} */ y) =>
    x.reduce((sum, value, i) => sum + value * y[i], 0);
  return product(a, b) / Math.sqrt(product(a, a) * product(b, b));
}

/** Draws columns of numbers as colours. @param {Float64Array[]} columns */
function drawColumns(columns) {
  const canvas = createElement("canvas");
  const height = columns[0].length;
  Object.assign(canvas, { width: columns.length, height });
  canvas.role = "img";
  canvas.ariaLabel = `${columns.length} columns of ${height} numbers, as colours`;
  const largest = Math.max(...columns.map((column) => Math.max(...column.map(Math.abs))));
  const image = new ImageData(columns.length, height);
  columns.forEach((column, x) => {
    column.forEach((value, y) => {
      const [red, green, blue] = value < 0 ? COLOURS.negative : COLOURS.positive;
      image.data.set([red, green, blue, (255 * Math.abs(value)) / largest], 4 * (y * columns.length + x));
    });
  });
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}
