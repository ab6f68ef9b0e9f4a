// The neurons of the feed-forward steps: those that decided.

import { createElement } from "../format.js";
import { createShareBar, formatSigned } from "./bars.js";

const FOR = "var(--accent)";
const AGAINST = "var(--doubt-text)";

/** @type {import("../inside.js").View} */
export const neurons = {
  title: "Neurons add and multiply",
  text: ({ dissection: { ranked, layers, lead, feedForward, nNeurons } }) => {
    const [best, next] = ranked[layers];
    const sum = feedForward.reduce((total, part) => total + part, 0);
    return [
      `The digits are together now. In each layer ${nNeurons / layers} neurons react to them: a neuron is active for some sums and not for others, and raises or lowers the score of each character.`,
      `Here ${best.text} has ${lead.toFixed(1)} points more than ${next.text}, the next best; the neurons gave ${sum.toFixed(1)} of them, directly. These six gave or took most. Switch one off, and see.`,
    ];
  },
  draw({ dissection: { neurons: listed, vocabulary } }) {
    const largest = Math.max(...listed.map(({ part }) => Math.abs(part)));
    const items = listed.map(({ layer, index, part, effects }) => {
      const effectOf = (/** @type {string} */ digit) => effects[vocabulary.indexOf(digit)];
      const digits = [..."0123456789"].sort((a, b) => effectOf(b) - effectOf(a));
      const [most, next] = digits;
      const words = `of the digits, it speaks most for ${most} and ${next}, and most against ${digits.at(-1)}`;
      const name = createElement("span", "", `neuron ${index + 1} of layer ${layer + 1}`);
      const bar = createShareBar(part / largest, true, part < 0 ? AGAINST : FOR);
      return createElement("li", "", name, bar, formatSigned(part), createElement("span", "words", words));
    });
    return [createElement("ol", "weights of-neurons", ...items)];
  },
};
