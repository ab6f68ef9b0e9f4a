// "Try to make it wrong": draws problems of the kinds that break models (tools/adversarial.py), and keeps the score.

import { DEFAULT_STATE, formatHash } from "./address.js";
import { POINT, byId, createElement, formatNumbers } from "./format.js";

/** @import { Calculation } from "./client.js" */

const KEY = "calcgpt.score";
const MANY = 20; // problems that are asked at once
const MAX_MISTAKES = 20; // that are shown
const MAX_LENGTH = 400; // characters of a stored expression
const [DIGITS, FIRST] = ["0123456789", "123456789"];

/** Returns a random number below n. @param {number} n */
const below = (n) => crypto.getRandomValues(new Uint32Array(1))[0] % n;
/** @type {(least: number, most: number) => number} */ const between = (least, most) => least + below(most - least + 1);
/** @template T @param {ArrayLike<T>} items */ const pick = (items) => items[below(items.length)];
/** @type {(pair: string[]) => string[]} */ const shuffle = (pair) => (below(2) ? pair : pair.reverse());
/** @param {number} n */ const power = (n) => 10n ** BigInt(n);

// Numbers of n digits

/** @param {number} n */ export const random = (n) => pick(FIRST) + Array.from({ length: n - 1 }, () => pick(DIGITS)).join("");
/** @param {number} n */ const run = (n) => pick(FIRST).repeat(n);
/** @param {number} n */ const faultyRun = (n) => run(n).split("").with(1 + below(n - 1), pick(DIGITS)).join("");
/** @param {number} n */ const pattern = (n) => random(between(2, 5)).repeat(n).slice(0, n);
/** @param {number} n */ const besidePower = (n) => String(power(n - 1) * BigInt(pick(FIRST)) + BigInt(pick([-1, 1])));

/** Returns units / 10**places. @type {(units: bigint, places: number) => string} */
function decimal(units, places) {
  const digits = String(units).padStart(places + 1, "0");
  return places ? `${digits.slice(0, -places)}.${digits.slice(-places)}` : digits;
}

// Problems

/** Returns a problem of a number that `make` makes, and another. @param {(n: number) => string} make */
function withAnother(make) {
  const sign = pick("+−×÷");
  const longest = "+−".includes(sign) ? 40 : 20;
  const pair = [make(between(8, longest)), pick([make, random])(between(2, longest))];
  return shuffle(pair.map((digits) => decimal(BigInt(digits), pick([0, 0, 2, 5])))).join(sign);
}

/** Returns a quotient that is a whole number, or `off` beside it. @param {number} off */
function multiple(off) {
  const [b, q] = [pick([run, random])(between(2, 16)), pick([run, random])(between(1, 9))];
  return `${BigInt(b) * BigInt(q) + BigInt(off)}÷${b}`;
}

/** Returns a quotient exactly between two answers, or `off` beside it. @param {number} off */
function tie(off) {
  const [b, half, places] = [random(between(2, 12)), random(between(1, 8)) + "5", between(0, 4)];
  return `${decimal(BigInt(b) * BigInt(half) + BigInt(off), places + 1)}÷${b} to ${places} places`;
}

function equalButOne() {
  const digits = pick([run, pattern, random])(between(9, 40));
  return digits + pick("+−−") + (BigInt(digits) - BigInt(pick(FIRST)) * power(below(digits.length - 1)));
}

function unlikeLengths() {
  const sign = pick("+−×÷");
  return shuffle([random(between(16, "+−".includes(sign) ? 60 : 30)), pick(FIRST)]).join(sign);
}

function nearlyNothing() {
  const digits = `${random(between(9, 30))}.${random(5)}`;
  return `${digits}−${digits}${pick(FIRST)}`;
}

const newDigit = () => `${"9".repeat(between(3, 20))}.99999999${between(5, 9)}+0.000000000${pick(FIRST)}`;

/** @type {[string, () => string][]} */
export const CLASSES = [
  ["one digit, over and over", () => withAnother(run)],
  ["one digit, over and over, but for one", () => withAnother(faultyRun)],
  ["a pattern that repeats", () => withAnother(pattern)],
  ["next to a power of ten", () => withAnother(besidePower)],
  ["a carry through every digit", () => shuffle(["9".repeat(between(9, 39)), pick(FIRST)]).join("+")],
  ["a borrow through every digit", () => `${power(between(9, 39))}−${between(1, 99)}`],
  ["equal but for one digit", equalButOne],
  ["very unlike lengths", unlikeLengths],
  ["a multiple", () => multiple(0)],
  ["nearly a multiple", () => multiple(pick([-1, 1]) * between(1, 9))],
  ["exactly between two answers", () => tie(0)],
  ["nearly between two answers", () => tie(pick([-1, 1]))],
  ["nearly nothing left", nearlyNothing],
  ["rounded up to a new digit", newDigit],
  ["longer than all it was taught", () => random(between(60, 99)) + pick("+−") + pick([random, run])(between(60, 99))],
];

/** Asks problems, one or many, and shows how many of the answers were wrong. */
export class Challenge {
  #ask;
  #score = { tried: 0, wrong: 0, mistakes: /** @type {string[]} */ ([]) };

  /** @param {(expression: string, isFirst: boolean) => Promise<Calculation | null>} ask asks the first problem of some,
   * or another one; returns null if there is no answer */
  constructor(ask) {
    this.#ask = ask;
    this.#load();
    byId("try").addEventListener("click", () => this.#try(1));
    byId("try-many").addEventListener("click", () => this.#try(MANY));
    byId("forget-score").addEventListener("click", () => this.#keep({ tried: 0, wrong: 0, mistakes: [] }, ""));
  }

  /** @param {number} n */
  async #try(n) {
    byId("challenge").hidden = false;
    byId("try").textContent = "Try another one";
    for (let i = 0; i < n; i += 1) {
      const [name, draw] = pick(CLASSES);
      const sentence = name[0].toUpperCase() + name.slice(1);
      const expression = formatNumbers(draw());
      this.#show(`${sentence} …`);
      const calculation = await this.#ask(expression, i === 0);
      if (!calculation) return this.#show("No answer, so it does not count.");
      const { tried, wrong, mistakes } = this.#score;
      const missed = calculation.verified ? [] : [expression];
      const score = { wrong: wrong + missed.length, mistakes: [...missed, ...mistakes].slice(0, MAX_MISTAKES) };
      this.#keep({ tried: tried + 1, ...score }, `${sentence}: ${calculation.verified ? "right" : "wrong!"}`);
    }
  }

  /** @param {string} words on the last problem */
  #show(words) {
    const { tried, wrong, mistakes } = this.#score;
    const score = createElement("strong", wrong ? "wrong" : "", `Tried ${tried}, wrong ${wrong}`);
    byId("score").replaceChildren(score, " ", createElement("span", "", words));
    const links = mistakes.map((expression) => {
      const link = createElement("a", "", expression);
      link.href = formatHash({ ...DEFAULT_STATE, question: expression, comma: Number(POINT === ",") });
      return createElement("li", "", link);
    });
    byId("mistakes").replaceChildren(...links);
  }

  #load() {
    try {
      const { tried, wrong, mistakes } = JSON.parse(localStorage.getItem(KEY) ?? "{}");
      const isShort = (/** @type {unknown} */ text) => typeof text === "string" && text.length <= MAX_LENGTH;
      const areCounts = [tried, wrong].every(Number.isSafeInteger) && 0 <= wrong && wrong <= tried;
      if (areCounts) this.#score = { tried, wrong, mistakes: mistakes.filter(isShort).slice(0, MAX_MISTAKES) };
    } catch {} // storage is forbidden or damaged: start with no score
  }

  /** @type {(score: {tried: number, wrong: number, mistakes: string[]}, words: string) => void} */
  #keep(score, words) {
    this.#score = score;
    try {
      localStorage.setItem(KEY, JSON.stringify(score));
    } catch {} // storage is forbidden or full: the score lasts until the page is closed
    this.#show(words);
  }
}
