// A panel below an operation, behind a button.

import { element } from "./format.js";

/**
 * Adds the button of a panel to an operation.
 * @param {HTMLElement} step
 * @param {string} words on the button
 * @param {() => {element: HTMLElement}} make the panel, when it is first opened
 * @param {(panel: any) => void} onOpen after a press of the button has opened it
 * @returns {{panel: any, open: () => any}} `panel` is null while it is closed; `open` returns it
 */
export function offerPanel(step, words, make, onOpen) {
  const button = element("button", "plain look-inside", words);
  button.type = "button";
  button.ariaExpanded = "false";
  let made = null;
  const offered = {
    get panel() {
      return made?.element.isConnected ? made : null;
    },
    open() {
      made ??= make();
      if (!made.element.isConnected) button.after(made.element);
      button.ariaExpanded = "true";
      return made;
    },
  };
  button.addEventListener("click", () => {
    if (offered.panel) {
      made.element.remove();
      button.ariaExpanded = "false";
    } else onOpen(offered.open());
  });
  step.append(button);
  return offered;
}

/** Returns a control in its label. */
export function labelled(name, control) {
  const label = element("label", "", `${name} `);
  label.append(control);
  return { label, control };
}
