// The neurons of the feed-forward networks add and multiply.

import { follow } from "../backend.js";
import { isAborted } from "../client.js";
import { createElement } from "../format.js";
import { createChoices, createShareBar, formatSigned } from "./bars.js";

/** @import { Neuron } from "../engine/dissect.js" */
/** @import { View } from "../inside.js" */

const NAMED = 3; // characters at which a neuron is strongest
const FOR = "var(--accent)";
const AGAINST = "var(--doubt-text)";

/** @type {View} */
export const neurons = {
  title: "Neurons add and multiply",
  text: ({ dissection: { ranked, layers, lead, feedForward, nNeurons } }) => {
    const [best, next] = ranked[layers];
    const sum = feedForward.reduce((total, part) => total + part, 0);
    return [
      `The digits are together now. In each layer ${nNeurons / layers} neurons react to them: a neuron is active for some sums and not for others, and raises or lowers the score of each character.`,
      `Here ${best.text} has ${lead.toFixed(1)} points more than ${next.text}, the next best; the neurons gave ${sum.toFixed(1)} of them, directly. These six gave or took most. Choose one to see where in this calculation it is active.`,
    ];
  },
  draw({ subject, dissection, board, signal }) {
    const { neurons: listed, vocabulary } = dissection;
    const largest = Math.max(...listed.map(({ part }) => Math.abs(part)));
    const labels = listed.map(({ layer, index, part }) => [
      createElement("span", "neuron", `layer ${layer + 1}, no. ${index + 1}`),
      createShareBar(part / largest, true, part < 0 ? AGAINST : FOR),
      createElement("span", "figure", formatSigned(part)),
    ]);
    const description = createElement("div", "active", "Measuring …");
    const activations = follow(subject.model, subject.text, subject.start, listed.map(toNeuron), signal);
    let shown = 0;
    const show = async (/** @type {number} */ index, /** @type {boolean} */ isAsked) => {
      shown = index;
      try {
        const all = (await activations).map((values) => values[index]);
        if (shown !== index) return; // another one is chosen
        const most = Math.max(...all.map(Math.abs));
        const tints = all.map((value, at) => {
          const colour = value < 0 ? AGAINST : FOR;
          return { position: subject.start + at, strength: Math.abs(value) / most, colour };
        });
        if (isAsked) board.tint(tints); // before, what a head looked at is tinted
        description.replaceChildren(...describe(subject, all, listed[index].effects, vocabulary));
      } catch (error) {
        if (!isAborted(error)) description.textContent = "The neurons could not be followed.";
      }
    };
    const choices = createChoices("Neuron", labels, 0, show);
    choices.classList.add("of-neurons");
    return [choices, description];
  },
};

/** @type {(neuron: Neuron) => Neuron} */
const toNeuron = ({ layer, index }) => ({ layer, index });

/** Returns sentences on where a neuron is active, and on what it does here. activations: for each character that the
 * model wrote.
 * @type {(subject: import("./subject.js").Subject, activations: number[], effects: number[], vocabulary: string) =>
 *   (Node | string)[]} */
function describe(subject, activations, effects, vocabulary) {
  const strongest = [...activations.keys()].sort((a, b) => Math.abs(activations[b]) - Math.abs(activations[a]));
  const most = Math.abs(activations[strongest[0]]);
  const effectOf = (/** @type {string} */ digit) => effects[vocabulary.indexOf(digit)];
  const ranked = [..."0123456789"].sort((a, b) => effectOf(b) - effectOf(a));
  const items = strongest.slice(0, NAMED).map((at) => {
    const position = subject.start + at;
    const share = createElement("span", "figure", `${Math.round((100 * Math.abs(activations[at])) / most)}%`);
    return createElement("li", "", createElement("code", "", subject.text[position]), share, subject.describe(position));
  });
  return [
    `Of the digits, it now speaks most for ${ranked[0]} and ${ranked[1]}, and most against ${ranked.at(-1)}. Of all that was written, it was most active at:`,
    createElement("ol", "strongest", ...items),
  ];
}
