// Panels below an operation. A button opens and closes each of them.

import { createButton, createElement } from "./format.js";

/** @typedef {Partial<import("./address.js").State>} State */

/** A panel. `restore` shows the state that an address describes; `state` is what it shows now.
 * @typedef {{element: HTMLElement, restore: (state: State) => void, readonly state: State}} Panel */

/** Reports to the page what a panel shows, so that the address can describe it. source: an element within the panel's
 * operation.
 * @type {(source: Element, state: State) => void} */
export function reportState(source, state) {
  source.dispatchEvent(new CustomEvent("state", { bubbles: true, detail: state }));
}

/** Adds the button of a panel to an operation.
 * @template {Panel} T
 * @param {HTMLElement} step
 * @param {string} name the name of the panel in addresses
 * @param {string} text the text on the button
 * @param {() => T} create creates the panel when it is first opened
 * @returns {{panel: T | null, open: (state?: State) => T}} `panel` is null while it is closed */
export function addPanelButton(step, name, text, create) {
  const button = createButton("plain look-inside", text, () => {
    if (toggle.panel) {
      toggle.panel.element.remove();
      button.ariaExpanded = "false";
      reportState(step, { panel: "" });
    } else {
      const { state } = toggle.open(); // a panel that is opened again shows what it showed before
      reportState(step, { panel: name, ...state });
    }
  });
  button.ariaExpanded = "false";
  /** @type {T | null} */ let panel = null;
  const toggle = {
    get panel() {
      return panel?.element.isConnected ? panel : null;
    },
    /** @param {State} state */
    open(state = {}) {
      panel ??= create();
      if (!panel.element.isConnected) button.after(panel.element);
      button.ariaExpanded = "true";
      panel.restore(state);
      return panel;
    },
  };
  step.addEventListener("restore", (event) => {
    const { detail } = /** @type {CustomEvent<State>} */ (event);
    if (detail.panel === name) toggle.open(detail);
  });
  step.append(button);
  return toggle;
}

/** Returns a control in its label.
 * @template {HTMLElement} T
 * @param {string} name
 * @param {T} control */
export function labelControl(name, control) {
  const label = createElement("label", "", `${name} `);
  label.append(control);
  return { label, control };
}
