// What is shown, as a link: the address names it, and a button copies it.

import { CLOSED, USUAL, write } from "./address.js";
import { byId } from "./format.js";

/** @typedef {import("./address.js").State} State */

export class Link {
  /** @type {State | null} */
  #shown = null;
  #view = "";
  #isExample = false;
  #written = ""; // in the address, by this
  #field = byId("link", HTMLInputElement);
  #copied = byId("copied");

  constructor() {
    byId("copy").addEventListener("click", () => this.#copy());
  }

  /** The question that is shown; empty if there is none. */
  get question() {
    return this.#shown?.question ?? "";
  }

  /** Whether the address names what is shown here, and nobody came with it. */
  get isOwn() {
    return this.#written !== "" && location.hash === this.#written;
  }

  /** Something else is shown. An example has a link, but the address does not name it.
   * @param {Partial<State>} state
   * @param {boolean} isExample */
  begin(state, isExample) {
    this.#shown = { ...USUAL, ...state };
    this.#isExample = isExample;
    this.#field.hidden = true;
    this.#copied.textContent = "";
    this.#show();
  }

  /** What is shown has changed in part.
   * @param {Partial<State>} state */
  change(state) {
    if (!this.#shown) return;
    const isOther = state.panel !== undefined && state.panel !== this.#shown.panel;
    Object.assign(this.#shown, isOther ? CLOSED : {}, state);
    this.#show();
  }

  /** Another view, which stays until it is changed.
   * @param {string} view empty for the usual one */
  changeView(view) {
    this.#view = view;
    this.#show();
  }

  /** Nothing is shown. */
  clear() {
    this.#shown = null;
    history.replaceState(null, "", location.pathname);
  }

  get #address() {
    return this.#shown ? write({ ...this.#shown, view: this.#view }) : "";
  }

  #show() {
    if (!this.#shown || this.#isExample) return;
    history.replaceState(null, "", this.#address);
    this.#written = location.hash;
  }

  async #copy() {
    if (!this.#shown) return;
    const link = location.href.split("#")[0] + this.#address;
    this.#field.hidden = true;
    try {
      await navigator.clipboard.writeText(link);
      this.#copied.textContent = "Copied.";
    } catch {
      this.#field.value = link; // the browser forbids it: the reader can copy it
      this.#field.hidden = false;
      this.#field.select();
      this.#copied.textContent = "Copy this link:";
    }
  }
}
