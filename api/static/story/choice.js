// Step 6: scores become chances, and one character is written.

import { SURE_CHARACTER, createButton, createElement, formatProbability } from "../format.js";
import { createShareBar, createSlider, formatSigned } from "./bars.js";
import { instead } from "./instead.js";

/** @import { Picture } from "../story.js" */

const LISTED = 6; // characters that are listed
const TEMPERATURES = { min: 0.5, max: 10, step: 0.5, value: 1 };

/** @type {Picture} */
export const choice = {
  title: "Scores become a character",
  text: ({ dissection: { ranked, layers, vocabulary } }) => {
    const [best, next] = ranked[layers];
    return [
      `At the end, each of the ${vocabulary.length} characters has a score. The function softmax turns scores into chances that add up to 1: each point more makes a character 2.7 times as probable.`,
      `Here ${best.text} is ${best.probability >= SURE_CHARACTER ? "sure" : "most probable"}; next comes ${next.text}, ${formatProbability(next.probability)}. The model writes ${best.text}, and everything begins again, for the next character. Choose another character, and see what follows from it.`,
    ];
  },
  more: () => [
    "The scores are called logits. The chance of a character is e to the power of its score, divided by the sum of this over all characters. At a higher temperature the scores are divided by it first: then other characters get a chance, as where a chatbot should sound less monotonous. A calculator always takes the most probable one.",
  ],
  draw({ subject, dissection: { ranked, layers }, signal }) {
    const all = ranked[layers];
    const largest = Math.max(...all.slice(0, LISTED).map(({ logit }) => Math.abs(logit)));
    const list = createElement("ol", "weights of-scores");
    const { label, slider } = createSlider("Temperature", TEMPERATURES);
    const value = createElement("output");
    label.append(value);
    const what = createElement("div");
    const show = () => {
      const temperature = Number(slider.value);
      value.textContent = temperature.toFixed(1);
      const powers = all.map(({ logit }) => Math.exp((logit - all[0].logit) / temperature));
      const total = powers.reduce((sum, power) => sum + power, 0);
      list.replaceChildren(...all.slice(0, LISTED).map(({ text, logit }, index) => {
        const chance = powers[index] / total;
        const choose = createButton("plain", text, () => what.replaceChildren(instead(subject, text, signal)));
        choose.ariaLabel = `Write ${text} instead`;
        choose.disabled = text === subject.character;
        const score = createElement("span", "score", createShareBar(logit / largest, true), formatSigned(logit));
        const bar = createShareBar(chance);
        return createElement("li", "", choose, score, bar, formatProbability(chance));
      }));
    };
    slider.addEventListener("input", show);
    show();
    const head = createElement("p", "heads-of", createElement("span", "", "score"), createElement("span", "", "chance"));
    return [head, list, label, what];
  },
};
