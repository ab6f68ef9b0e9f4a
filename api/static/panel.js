// A panel below an operation, behind a button.

import { element } from "./format.js";

/** @typedef {Partial<import("./address.js").State>} State */

/**
 * What a panel is. `restore` shows what an address says.
 * @typedef {{element: HTMLElement, restore: (state: State) => void}} Panel
 */

/** Tells the page what a panel shows, for the address.
 * @param {Element} source within the panel's operation
 * @param {State} state */
export function tell(source, state) {
  source.dispatchEvent(new CustomEvent("state", { bubbles: true, detail: state }));
}

/**
 * Adds the button of a panel to an operation.
 * @template {Panel} T
 * @param {HTMLElement} step
 * @param {string} name of the panel in addresses
 * @param {string} words on the button
 * @param {() => T} make the panel, when it is first opened
 * @returns {{panel: T | null, open: (state?: State) => T}} `panel` is null while it is closed
 */
export function offerPanel(step, name, words, make) {
  const button = element("button", "plain look-inside", words);
  button.type = "button";
  button.ariaExpanded = "false";
  /** @type {T | null} */
  let made = null;
  const offered = {
    get panel() {
      return made?.element.isConnected ? made : null;
    },
    /** @param {State} state */
    open(state = {}) {
      made ??= make();
      if (!made.element.isConnected) button.after(made.element);
      button.ariaExpanded = "true";
      made.restore(state);
      return made;
    },
  };
  button.addEventListener("click", () => {
    if (offered.panel) {
      offered.panel.element.remove();
      button.ariaExpanded = "false";
      tell(step, { panel: "" });
    } else {
      tell(step, { panel: name });
      offered.open();
    }
  });
  step.addEventListener("restore", (event) => {
    const { detail } = /** @type {CustomEvent<State>} */ (event);
    if (detail.panel === name) offered.open(detail);
  });
  step.append(button);
  return offered;
}

/**
 * Returns a control in its label.
 * @template {HTMLElement} T
 * @param {string} name
 * @param {T} control
 */
export function labelled(name, control) {
  const label = element("label", "", `${name} `);
  label.append(control);
  return { label, control };
}
