// Step 2: each character has a kind, and its rule reads a few others.

import { createElement } from "../format.js";

/** @import { Picture } from "../story.js" */

/** @type {Picture} */
export const places = {
  title: "It is told where to look",
  hasSheet: true,
  text: ({ subject }) => [
    "On paper you know which digits you need: those above each other, and the carry. So does the model: for each character it is told its kind, and which characters to look at, at most seven. That is all it is told. What to make of them, it had to learn.",
    `The framed characters are those that the model may see for the ${subject.character}, and no others. Choose another digit, and watch how they move along.`,
  ],
  more: () => [
    "A program finds these places from the question alone: it knows the lengths of the numbers, but none of the digits. The same rule holds in every column: the multiplier at the head of the row, the digit of the first number, what stands above, the carry. How long the numbers are makes no difference. That is why the model calculates with numbers of any length.",
    "So the next character depends on very little: its kind and at most seven characters. There are fewer than a million such cases, and this model was tried in all of them. An answer is looked up: the network answers each case once, and what it wrote is remembered, as a person remembers 7 × 8.",
  ],
  draw({ subject, board }) {
    const { kind, row, column, sources } = subject.place;
    board.tint([]);
    board.frame(sources);
    const facts = [
      ["Kind", kind],
      ["Its place", formatPlace(row, column)],
      ["What it reads", sources.map((source) => subject.text[source]).join(", ") || "nothing"],
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
