// The link to what the page shows. The address bar has it, and a button copies it.

import { CLOSED_PANEL, DEFAULT_STATE, formatHash } from "./address.js";
import { byId } from "./format.js";

/** @typedef {import("./address.js").State} State */

// On a phone, the share menu is more useful than the clipboard.
const canShare = "share" in navigator && matchMedia("(pointer: coarse)").matches;

/** Keeps the state that the page shows, and writes it to the address. */
export class Link {
  /** @type {State | null} */ #state = null;
  #view = "";
  #isExample = false;
  #ownHash = ""; // the last hash that this object wrote to the address
  #field = byId("link", HTMLInputElement);
  #copied = byId("copied");

  constructor() {
    const copy = byId("copy");
    if (canShare) copy.textContent = "Share link";
    copy.addEventListener("click", () => this.#copy());
  }

  /** The question that is shown, or "" if there is none. */
  get question() {
    return this.#state?.question ?? "";
  }

  /** 1 if `12,500` in that question is 12.5, and 0 if it is 12500. */
  get comma() {
    return this.#state?.comma ?? 0;
  }

  /** Whether this object wrote the hash of the address, so that the user did not open it. */
  get isOwnAddress() {
    return this.#ownHash !== "" && location.hash === this.#ownHash;
  }

  /** Sets the state. An example has a link to copy, but the address does not change.
   * @type {(state: Partial<State>, isExample: boolean) => void} */
  begin(state, isExample) {
    this.#state = { ...DEFAULT_STATE, ...state };
    this.#isExample = isExample;
    this.#field.hidden = true;
    this.#copied.textContent = "";
    this.#updateAddress();
  }

  /** Changes parts of the state. Removes what belonged to a panel that is no longer the open one, or to a
   * character that is no longer the selected one.
   * @param {Partial<State>} state */
  update(state) {
    if (!this.#state) return;
    const before = this.#state;
    const after = { ...before, ...state };
    const isOtherCharacter = after.step !== before.step || after.at !== before.at;
    const removed = after.panel !== before.panel ? CLOSED_PANEL : isOtherCharacter ? { instead: "" } : {};
    this.#state = { ...before, ...removed, ...state };
    this.#updateAddress();
  }

  /** Sets the view, which stays the same for later calculations. @param {string} view "" for the default */
  setView(view) {
    this.#view = view;
    this.#updateAddress();
  }

  /** Removes the state from the address: nothing is shown. */
  clear() {
    this.#state = null;
    this.#ownHash = ""; // so that the user can open it again
    history.replaceState(null, "", location.pathname + location.search);
  }

  get #address() {
    return this.#state ? formatHash({ ...this.#state, view: this.#view }) : "";
  }

  #updateAddress() {
    if (!this.#state || this.#isExample) return;
    try {
      history.replaceState(null, "", this.#address);
    } catch {} // Safari allows 100 changes in 10 seconds; a later one catches up
    this.#ownHash = location.hash;
  }

  async #copy() {
    if (!this.#state) return;
    const link = location.href.split("#")[0] + this.#address;
    this.#field.hidden = true;
    if (canShare) {
      await navigator.share({ title: document.title, url: link }).catch(() => {}); // the user changed their mind
      return;
    }
    try {
      await navigator.clipboard.writeText(link);
      this.#copied.textContent = "Copied.";
    } catch {
      this.#field.value = link; // the browser forbids copying, so the user has to do it
      this.#field.hidden = false;
      this.#field.select();
      this.#copied.textContent = "Copy this link:";
    }
  }
}
