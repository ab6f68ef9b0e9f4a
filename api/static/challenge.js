// "Try to make it wrong": draws problems of the kinds that break models (tools/adversarial.py), and keeps the score.

import { DEFAULT_STATE, formatHash } from "./address.js";
import { POINT, byId, createElement, formatNumbers } from "./format.js";

/** @import { Calculation } from "./client.js" */

const KEY = "calcgpt.score";
const MANY = 20; // problems that are asked at once
const MAX_MISTAKES = 20; // that are shown
const MAX_LENGTH = 400; // characters of a stored expression

/** Returns a random number below n. @param {number} n */
const below = (n) => crypto.getRandomValues(new Uint32Array(1))[0] % n;
/** @type {(least: number, most: number) => number} */ const between = (least, most) => least + below(most - least + 1);
/** @template T @param {ArrayLike<T>} items */ const pick = (items) => items[below(items.length)];
/** @type {<T>(items: [T, T]) => [T, T]} */ const inAnyOrder = ([a, b]) => (below(2) ? [a, b] : [b, a]);
/** @param {number} n */ const power = (n) => 10n ** BigInt(n);

/** Returns a number of n random digits. @param {number} n */
const random = (n) => pick("123456789") + Array.from({ length: n - 1 }, () => pick("0123456789")).join("");
/** @param {number} n */ const run = (n) => pick("123456789").repeat(n);
/** @param {number} n */ const pattern = (n) => random(between(2, 5)).repeat(n).slice(0, n);

/** @param {number} n */
function faultyRun(n) {
  const at = 1 + below(n - 1);
  const digits = run(n);
  return digits.slice(0, at) + pick("0123456789") + digits.slice(at + 1);
}

/** Returns units / 10**places. @type {(units: bigint, places: number) => string} */
function decimal(units, places) {
  const digits = String(units).padStart(places + 1, "0");
  return places ? `${digits.slice(0, -places)}.${digits.slice(-places)}` : digits;
}

/** Returns a problem of a number that `make` makes, and another. @param {(n: number) => string} make */
function withAnother(make) {
  const sign = pick("+−×÷");
  const longest = "+−".includes(sign) ? 40 : 20;
  const other = pick([make, random])(between(2, longest));
  const [a, b] = inAnyOrder([make(between(8, longest)), other]).map((digits) => decimal(BigInt(digits), pick([0, 0, 2, 5])));
  return a + sign + b;
}

/** Returns a quotient or product of `places` places and a half, `off` beside it. @param {bigint} off */
function tie(off) {
  const [b, places] = [BigInt(random(between(2, 12))), between(0, 4)];
  const half = BigInt(random(between(1, 8))) * 10n + 5n;
  return `${decimal(b * half + off, places + 1)}÷${b} to ${places} places`;
}

/** @type {[string, () => string][]} */
export const CLASSES = [
  ["one digit, over and over", () => withAnother(run)],
  ["one digit, over and over, but for one", () => withAnother(faultyRun)],
  ["a pattern that repeats", () => withAnother(pattern)],
  ["next to a power of ten", () => withAnother((n) => String(power(n - 1) * BigInt(between(1, 9)) + BigInt(pick([-1, 1]))))],
  ["a carry through every digit", () => `${inAnyOrder(["9".repeat(between(9, 39)), `${between(1, 9)}`]).join("+")}`],
  ["a borrow through every digit", () => `${power(between(9, 39))}−${between(1, 99)}`],
  ["equal but for one digit", () => {
    const [digits, sign] = [pick([run, pattern, random])(between(9, 40)), pick("+−−")];
    return digits + sign + (BigInt(digits) - BigInt(between(1, 9)) * power(below(digits.length - 1)));
  }],
  ["very unlike lengths", () => {
    const sign = pick("+−×÷");
    return inAnyOrder([random(between(16, "+−".includes(sign) ? 60 : 30)), `${between(2, 9)}`]).join(sign);
  }],
  ["a multiple", () => nearMultiple(0n)],
  ["nearly a multiple", () => nearMultiple(BigInt(between(1, 9)))],
  ["exactly between two answers", () => tie(0n)],
  ["nearly between two answers", () => tie(BigInt(pick([-1, 1])))],
  ["nearly nothing left", () => {
    const digits = `${random(between(9, 30))}.${random(5)}`;
    return `${digits}−${digits}${between(1, 9)}`;
  }],
  ["rounded up to a new digit", () => `${"9".repeat(between(3, 20))}.${"9".repeat(8)}${between(5, 9)}+0.000000000${between(1, 9)}`],
  ["longer than all it was taught", () => random(between(60, 99)) + pick("+−") + pick([random, run])(between(60, 99))],
];

/** @param {bigint} off */
function nearMultiple(off) {
  const [b, q] = [BigInt(pick([run, random])(between(2, 16))), BigInt(pick([run, random])(between(1, 9)))];
  return `${b * q - off * BigInt(pick([-1, 1]))}÷${b}`;
}

/** Asks problems, one or many, and shows how many of the answers were wrong. */
export class Challenge {
  #ask;
  #nTried = 0;
  #nWrong = 0;
  /** @type {string[]} */ #mistakes = [];

  /** @param {(expression: string, isFirst: boolean) => Promise<Calculation | null>} ask asks the first problem of some,
   * or another one; returns null if there is no answer */
  constructor(ask) {
    this.#ask = ask;
    this.#load();
    byId("try").addEventListener("click", () => this.#try(1));
    byId("try-many").addEventListener("click", () => this.#try(MANY));
    byId("forget-score").addEventListener("click", () => {
      [this.#nTried, this.#nWrong, this.#mistakes] = [0, 0, []];
      this.#save();
      this.#show("");
    });
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
      this.#nTried += 1;
      if (!calculation.verified) {
        this.#nWrong += 1;
        this.#mistakes = [expression, ...this.#mistakes].slice(0, MAX_MISTAKES);
      }
      this.#save();
      this.#show(`${sentence}: ${calculation.verified ? "right" : "wrong!"}`);
    }
  }

  /** @param {string} words on the last problem */
  #show(words) {
    const score = createElement("strong", this.#nWrong ? "wrong" : "", `Tried ${this.#nTried}, wrong ${this.#nWrong}`);
    byId("score").replaceChildren(score, " ", createElement("span", "", words));
    const items = this.#mistakes.map((expression) => {
      const link = createElement("a", "", expression);
      link.href = formatHash({ ...DEFAULT_STATE, question: expression, comma: Number(POINT === ",") });
      return createElement("li", "", link);
    });
    byId("mistakes").replaceChildren(...items);
  }

  #load() {
    try {
      const { tried, wrong, mistakes } = JSON.parse(localStorage.getItem(KEY) ?? "{}");
      const isCount = (/** @type {unknown} */ n) => Number.isSafeInteger(n) && Number(n) >= 0;
      if (!isCount(tried) || !isCount(wrong) || wrong > tried || !Array.isArray(mistakes)) return;
      [this.#nTried, this.#nWrong] = [tried, wrong];
      const isShort = (/** @type {unknown} */ text) => typeof text === "string" && text.length <= MAX_LENGTH;
      this.#mistakes = mistakes.filter(isShort).slice(0, MAX_MISTAKES);
    } catch {} // storage is forbidden or damaged: start with no score
  }

  #save() {
    try {
      const score = { tried: this.#nTried, wrong: this.#nWrong, mistakes: this.#mistakes };
      localStorage.setItem(KEY, JSON.stringify(score));
    } catch {} // storage is forbidden or full: the score lasts until the page is closed
  }
}
