// A classic script, which runs before the modules of the page are there. It keeps what the user asks in
// the meantime (`data-asked` of the form), and says so if the modules do not load.

addEventListener("DOMContentLoaded", () => {
  const form = /** @type {HTMLFormElement} */ (document.getElementById("calculator"));
  const input = /** @type {HTMLInputElement} */ (document.getElementById("expression"));
  const isReady = () => "ready" in form.dataset; // set by calculator.js, which then handles everything

  addEventListener("submit", (event) => {
    if (isReady()) return;
    event.preventDefault();
    if (event.target === form) form.dataset.asked = "";
  });

  addEventListener("click", ({ target }) => {
    const button = target instanceof Element && target.closest("button");
    if (isReady() || !button) return;
    const isExample = button.matches(".chip");
    if (isExample) form.dataset.asked = "";
    input.value = (isExample ? "" : input.value) + (isExample ? button.textContent : (button.dataset.key ?? ""));
  });

  addEventListener("load", () => {
    if (isReady()) return;
    const message = "The page did not load completely. Reload it, perhaps with a newer browser.";
    /** @type {HTMLElement} */ (document.getElementById("error")).textContent = message;
    /** @type {HTMLElement} */ (document.getElementById("model-facts")).textContent = "";
  });
});
