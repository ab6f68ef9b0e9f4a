// The store: the state of what the page shows. Everything draws from it, and the address mirrors it.

import { DEFAULT_STATE, formatHash } from "./address.js";

/** @import { State } from "./address.js" */

/** What stays the same when another question is asked. */
const LASTING = /** @type {const} */ (["off", "lesson"]);
const CLEARED = "cleared"; // marks an entry of the browser's history that shows nothing

class Store {
  /** @type {Readonly<State>} */ #state = DEFAULT_STATE;
  /** @type {{names: (keyof State)[], draw: (state: Readonly<State>) => void}[]} */ #listeners = [];
  #isExample = false;
  #ownHash = ""; // the last hash that this object wrote to the address

  get state() {
    return this.#state;
  }

  /** The hash of an address that leads to the state, or "" if nothing is shown. */
  get hash() {
    return this.#state.question && formatHash(this.#state);
  }

  /** Whether this object wrote the hash of the address, so that the user did not open it. */
  get isOwnAddress() {
    return this.#ownHash !== "" && location.hash === this.#ownHash;
  }

  /** Calls a function when a part of the state has changed.
   * @type {(names: (keyof State)[], draw: (state: Readonly<State>) => void) => void} */
  on(names, draw) {
    this.#listeners.push({ names, draw });
  }

  /** Begins with another question. Each is an entry of the browser's history, unless the address has led to it
   * (`opened`). An example has a link to copy, but the address does not change.
   * @type {(state: Partial<State>, kind?: "asked" | "opened" | "example") => void} */
  begin(state, kind = "asked") {
    this.#isExample = kind === "example";
    this.#change({ ...this.#nothing, ...state });
    const isNewEntry = kind === "asked" && location.hash !== this.hash && history.state !== CLEARED;
    this.#mirror(isNewEntry);
  }

  /** Changes parts of the state. @param {Partial<State>} patch */
  set(patch) {
    this.#change({ ...this.#state, ...patch });
    this.#mirror(false);
  }

  /** Removes the question from the state and from the address: nothing is shown. Back leads to it again. */
  clear() {
    this.#change(this.#nothing);
    this.#ownHash = ""; // so that the user can open it again
    if (location.hash) this.#write(true, CLEARED, location.pathname + location.search);
  }

  /** The state that shows nothing, with what lasts. @returns {State} */
  get #nothing() {
    return { ...DEFAULT_STATE, ...Object.fromEntries(LASTING.map((name) => [name, this.#state[name]])) };
  }

  /** @param {State} state */
  #change(state) {
    const before = this.#state;
    this.#state = Object.freeze(state);
    for (const { names, draw } of this.#listeners) {
      if (names.some((name) => this.#state[name] !== before[name])) draw(this.#state);
    }
  }

  /** Writes the state to the address. @param {boolean} isNewEntry of the browser's history */
  #mirror(isNewEntry) {
    if (!this.hash || this.#isExample) return;
    this.#write(isNewEntry, null, this.hash);
    this.#ownHash = location.hash;
  }

  /** @type {(isNewEntry: boolean, mark: string | null, address: string) => void} */
  #write(isNewEntry, mark, address) {
    try {
      if (isNewEntry) history.pushState(mark, "", address);
      else history.replaceState(mark, "", address);
    } catch {} // Safari allows 100 changes in 10 seconds; a later one catches up
  }
}

export const store = new Store();
