// Earlier calculations, stored on this device.

import { element, plain, pretty } from "./format.js";

const KEY = "calcgpt.history";
const LIMIT = 50;

/** @typedef {Pick<import("./client.js").Calculation, "expression" | "result" | "exact" | "verified" | "model">} Entry */

export class History {
  /** @type {Entry[]} */
  #entries = [];
  #list;
  #recall;

  /**
   * @param {HTMLElement} list
   * @param {(expression: string) => void} recall is called when the user chooses an entry
   */
  constructor(list, recall) {
    this.#list = list;
    this.#recall = recall;
    this.#load();
    this.#show();
  }

  /** Newest first. */
  get expressions() {
    return this.#entries.map((entry) => pretty(entry.expression));
  }

  /** Adds an entry at the top, unless it is there.
   * @param {Entry} entry */
  add({ expression, result, exact, verified, model }) {
    const [last] = this.#entries;
    if (last?.expression === expression && last.model === model && last.result === result) return;
    this.#entries.unshift({ expression, result, exact, verified, model });
    this.#entries.length = Math.min(this.#entries.length, LIMIT);
    this.#save();
    this.#show();
  }

  clear() {
    this.#entries = [];
    this.#save();
    this.#show();
  }

  #load() {
    try {
      const stored = JSON.parse(localStorage.getItem(KEY) ?? "");
      if (Array.isArray(stored)) this.#entries = stored.filter(isEntry).slice(0, LIMIT);
    } catch {} // forbidden or damaged: start with an empty history
  }

  #save() {
    try {
      localStorage.setItem(KEY, JSON.stringify(this.#entries));
    } catch {} // forbidden or full: the history lasts until the page is closed
  }

  #show() {
    this.#list.replaceChildren(...this.#entries.map((entry) => this.#item(entry)));
    this.#list.dispatchEvent(new Event("change"));
  }

  /** @param {Entry} entry */
  #item({ expression, result, exact, verified, model }) {
    const button = element("button", verified ? "" : "wrong");
    button.type = "button";
    const mark = element("span", "icon", verified ? "✓" : "✗");
    mark.ariaHidden = "true";
    const value = result === null ? "no number" : plain(result);
    const outcome = element("span", "value", `= ${value} `);
    outcome.append(mark);
    button.append(
      element("span", "expression", pretty(expression)),
      outcome,
      element("span", "unseen", verified ? "agrees," : `wrong, exact is ${plain(exact)},`),
      element("span", "model", model),
    );
    button.addEventListener("click", () => this.#recall(pretty(expression)));
    const item = element("li");
    item.append(button);
    return item;
  }
}

/** @param {any} entry */
function isEntry(entry) {
  const { expression, result, exact, model } = entry ?? {};
  return [expression, result ?? "", exact, model].every((text) => typeof text === "string");
}
