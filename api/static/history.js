// Earlier calculations, stored on this device.

import { byId, createButton, createElement, createIcon, formatNumbers, formatResult, groupDigits } from "./format.js";
import { makeOneStop } from "./keypad.js";

const KEY = "calcgpt.history";
const LIMIT = 50;

/** An entry. isGiven: whether it has no operation, so that no model was needed.
 * @typedef {import("./client.js").Calculation} Calculation
 * @typedef {Pick<Calculation, "expression" | "result" | "exact" | "verified" | "model" | "places"> & {isGiven?: boolean}} Entry */

export class History {
  /** @type {Entry[]} */ #entries = []; // newest first
  #cursor = -1; // the index of the entry that was recalled last
  #draft = ""; // what was in the field before the first recall
  #list = byId("history");
  #onChoose;

  /** @param {(entry: Entry) => void} onChoose called when the user chooses an entry */
  constructor(onChoose) {
    this.#onChoose = onChoose;
    this.#load();
    makeOneStop(this.#list);
    addEventListener("storage", ({ key }) => (key === KEY || key === null) && this.#load()); // another tab changed it
  }

  /** Returns an older (1) or a newer (-1) expression than the last one. After the newest comes what was in the field
   * before. Returns null if there is none. text: what is in the field.
   * @type {(direction: number, text: string) => string | null} */
  recall(direction, text) {
    const next = Math.min(this.#cursor + direction, this.#entries.length - 1);
    if (!this.#entries.length || next < -1) return null;
    if (this.#cursor < 0) this.#draft = text;
    this.#cursor = next;
    return next < 0 ? this.#draft : formatNumbers(this.#entries[next].expression);
  }

  /** Makes the next recall start at the newest entry, because the field has another text now. */
  resetRecall() {
    this.#cursor = -1;
  }

  /** Adds a calculation at the top, unless it is already there. @param {Calculation} calculation */
  add({ expression, result, exact, verified, model, places, nodes }) {
    const [last] = this.#entries;
    if (last?.expression === expression && last.model === model && last.result === result) return;
    this.#entries.unshift({ expression, result, exact, verified, model, places, isGiven: !nodes.length });
    this.#entries.length = Math.min(this.#entries.length, LIMIT);
    this.#save();
  }

  clear() {
    this.#entries = [];
    this.#save();
  }

  #load() {
    try {
      const stored = JSON.parse(localStorage.getItem(KEY) ?? "[]");
      if (Array.isArray(stored)) this.#entries = stored.filter(isEntry).slice(0, LIMIT);
    } catch {} // storage is forbidden or damaged: start with an empty history
    this.#show();
  }

  #save() {
    try {
      localStorage.setItem(KEY, JSON.stringify(this.#entries));
    } catch {} // storage is forbidden or full: the history lasts until the page is closed
    this.#show();
  }

  #show() {
    this.#list.replaceChildren(...this.#entries.map((entry) => this.#item(entry)));
    byId("no-history").hidden = this.#entries.length > 0;
    byId("forget").hidden = !this.#entries.length;
  }

  /** @param {Entry} entry */
  #item(entry) {
    const { expression, result, exact, verified, model, isGiven } = entry;
    const button = createButton(verified ? "" : "wrong", "", () => this.#onChoose(entry));
    button.translate = false;
    const outcome = createElement("span", "value", "=\u00a0", ...groupDigits(formatResult(result)), " ");
    button.append(createElement("span", "expression", ...groupDigits(formatNumbers(expression))), outcome);
    if (!isGiven) {
      outcome.append(createIcon(verified ? "✓" : "✗"));
      const check = verified ? "agrees," : `wrong, exact is ${formatNumbers(exact)},`;
      button.append(createElement("span", "unseen", check), createElement("span", "model", model));
    }
    return createElement("li", "", button);
  }
}

/** Returns whether a stored value is an entry. @param {any} entry */
function isEntry(entry) {
  const { expression, result, exact, model } = entry ?? {};
  return [expression, result ?? "", exact, model].every((text) => typeof text === "string");
}
