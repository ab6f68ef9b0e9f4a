// A classic script, which runs before the modules of the page are there. It keeps the keys that are pressed in the
// meantime in the field, `=` included, and says so if the modules do not load. An exported page names the worker and the
// weights of its default model: those of a link's question load beside the modules.

/** @type {Worker | undefined} until engine.js takes it */ var earlyWorker;

{
  const { weights, engine } = /** @type {HTMLScriptElement} */ (document.currentScript).dataset;
  const model = /[#&]model=([^&]*)/.exec(location.hash)?.[1] ?? "";
  const hasQuestion = /[#&]q=/.test(location.hash);
  if (engine && hasQuestion) {
    try {
      earlyWorker = new Worker(engine, { type: "module" });
      earlyWorker.onerror = () => (earlyWorker = undefined); // the page starts another one
    } catch {} // the page says that it cannot
  }
  if (weights?.includes(model) && hasQuestion) {
    const link = Object.assign(document.createElement("link"), { rel: "preload", as: "fetch", crossOrigin: "" });
    link.href = weights;
    document.head.append(link);
  }

  /** Returns an element of the page. Modules have `byId` for this. @param {string} id */
  const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
  const input = () => /** @type {HTMLInputElement} */ (element("expression"));
  const isReady = () => "ready" in element("calculator").dataset; // set by calculator.js, which handles all events

  addEventListener("submit", (event) => {
    if (isReady()) return;
    event.preventDefault();
    if (event.target === element("calculator") && input().value) input().value += "=";
  });

  addEventListener("click", ({ target }) => {
    const button = target instanceof Element && target.closest("button");
    if (!button || isReady()) return;
    if (button.matches(".chip:not([id])")) input().value = `${button.textContent}=`;
    else input().value += button.dataset.key ?? "";
  });

  addEventListener("load", () => {
    if (isReady()) return;
    const isFile = location.protocol === "file:"; // of which browsers load no modules
    element("error").textContent = isFile
      ? "This page needs a web host: run `python3 -m http.server` in its folder, and open http://localhost:8000."
      : "The page did not load completely. Reload it, perhaps with a newer browser.";
    element("model-facts").textContent = "";
  });
}
