// A classic script, which runs before the modules of the page are there. It keeps what the user asks in
// the meantime (`data-asked` of the form), and says so if the modules do not load.

{
  /** Returns an element of the page. Modules have `byId` for this.
   * @param {string} id */
  const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
  const isReady = () => "ready" in element("calculator").dataset; // set by calculator.js, which handles all events

  addEventListener("submit", (event) => {
    if (isReady()) return;
    event.preventDefault();
    if (event.target === element("calculator")) element("calculator").dataset.asked = "";
  });

  addEventListener("click", ({ target }) => {
    const button = target instanceof Element && target.closest("button");
    if (!button || isReady()) return;
    const input = /** @type {HTMLInputElement} */ (element("expression"));
    if (button.matches(".chip:not([id])")) {
      input.value = button.textContent ?? "";
      element("calculator").dataset.asked = "";
    } else input.value += button.dataset.key ?? "";
  });

  addEventListener("load", () => {
    if (isReady()) return;
    element("error").textContent = "The page did not load completely. Reload it, perhaps with a newer browser.";
    element("model-facts").textContent = "";
  });
}
