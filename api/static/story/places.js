// Step 2: each character has a kind, a row and a column.

import { createElement } from "../format.js";

/** @import { Picture } from "../story.js" */

/** @type {Picture} */
export const places = {
  title: "Every character has a place",
  hasSheet: true,
  text: ({ subject }) => [
    "On paper you find a digit by its row and its column. So does the model: each character comes with its kind, its row and its column. That is all it is told. What to do there, it had to learn.",
    `For the ${subject.character}, it is told where to look: the coloured row and column. The framed characters are those that it needs. Choose another digit, and watch how they move along.`,
  ],
  more: () => [
    "Each row counts its columns from its own lowest digit. So the same rule holds for every digit: the multiplier at the head of the row, the digit of the first number, what stands above, the carry. How far these are away in the text, and how long the numbers are, makes no difference. That is why the model calculates with longer numbers than it ever saw in training.",
    "Row and column turn the arrows with which the heads compare characters: those of a place, and of a search for that place, point in the same direction (rotary position embedding). A program computes the places from the question alone; it knows none of the digits.",
  ],
  draw({ subject, board }) {
    const { position, slots } = subject;
    const { kind, row, column, queryRow, queryColumn, sources } = subject.place(position);
    const tints = slots.slice(subject.start, position).map((_, index) => {
      const place = subject.place(subject.start + index);
      const isInRow = queryRow > 0 && place.row === queryRow;
      const isInColumn = queryColumn > 0 && place.column === queryColumn;
      const strength = (Number(isInRow) + Number(isInColumn)) / 2;
      return { position: subject.start + index, strength, colour: "var(--accent)" };
    });
    board.tint(tints);
    board.frame(sources);
    const facts = [
      ["Kind", kind],
      ["Its own place", formatPlace(row, column)],
      ["Where it has to look", formatPlace(queryRow, queryColumn)],
      ["What it needs", sources.map((source) => subject.text[source]).join(", ") || "nothing"],
    ];
    return [createElement("dl", "facts", ...facts.map(([name, value]) =>
      createElement("div", "", createElement("dt", "", name), createElement("dd", "", value)),
    ))];
  },
};

/** @type {(row: number, column: number) => string} */
function formatPlace(row, column) {
  const parts = [row ? `row ${row}` : "", column ? `column ${column}` : ""].filter(Boolean);
  return parts.join(", ") || "no row, no column";
}
