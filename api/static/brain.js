// The panel "Switch off a piece of its brain": a picture of the model with a switch for each part, what is measured of
// the parts, and challenges.

import { listOff } from "./address.js";
import { calculate, manifestOf } from "./backend.js";
import { CHALLENGES, hasParts, isAsWanted, wantText } from "./brain/challenges.js";
import { describe, fateOf, harmOf, nameOf, namesOf, neuronsOf, partsOf, placeOf, harmsOf } from "./brain/parts.js";
import { isAborted, messageOf } from "./client.js";
import { OPERATIONS } from "./engine/operations.js";
import { byId, createButton, createElement, createIcon, formatNumbers, formatResult, targetOf } from "./format.js";
import { store } from "./state.js";

/** @import { Challenge } from "./brain/challenges.js" */

const SOLVED = "calcgpt.challenges"; // in the browser's storage: the ids of those that were solved
const INTRODUCTION =
  "Heads fetch: each looks at the few characters that are needed. Feed-forward steps calculate with what they fetched.";
const IDLE =
  "Tap a part: the model writes the calculation again without it. The redder a cell, the more breaks; signs name what.";

/** The panel. `show` is called for each model that is selected. */
export class Brain {
  #panel = byId("brain", HTMLDetailsElement);
  #body = byId("brain-body");
  #model = "";
  #onChange;
  /** @type {import("./client.js").Manifest | null} of the model, when it is loaded */ #manifest = null;
  #about = createElement("p", "about", IDLE);
  #note = createElement("p");
  #outcome = createElement("p", "outcome-line");
  #reset = createButton("plain", "All on again", () => this.#set([]));
  /** @type {AbortController | null} of the challenge that is being checked */ #check = null;

  /** @param {() => void} onChange called when the reader has switched a part */
  constructor(onChange) {
    this.#onChange = onChange;
    this.#about.setAttribute("role", "status");
    this.#panel.addEventListener("toggle", () => this.#load());
    store.on(["off"], () => this.#draw());
  }

  /** Shows the panel for a model, if that writes worked steps. @param {import("./client.js").Model} model */
  show({ id, domain }) {
    this.#panel.hidden = !domain.works_in_steps;
    if (id === this.#model) return;
    this.#model = id;
    this.#manifest = null;
    this.#body.replaceChildren();
    if (!this.#panel.hidden) this.#load();
  }

  /** The parts that are off. A link may be opened before the models are listed. */
  get off() {
    return this.#model && this.#panel.hidden ? [] : listOff(store.state.off);
  }

  /** Yields the events of a calculation, and shows its result beside the switches.
   * @param {AsyncIterable<import("./client.js").CalculationEvent>} events */
  async *watch(events) {
    this.#outcome.textContent = "";
    for await (const event of events) {
      if (event.name === "result") {
        const { expression, result, exact } = event.data;
        const isRight = result === exact;
        const verdict = isRight ? "✓" : `✗ exact is ${formatNumbers(exact)}`;
        this.#outcome.textContent = `${formatNumbers(expression)} = ${formatResult(result)} ${verdict}`;
        this.#outcome.classList.toggle("missed", !isRight);
      }
      yield event;
    }
  }

  /** Loads the model and draws it, once, when the panel is open. */
  async #load() {
    if (!this.#panel.open || this.#manifest || !this.#model) return;
    const model = this.#model;
    this.#body.replaceChildren(createElement("p", "hint", "Loading the model …"));
    try {
      const manifest = await manifestOf(model);
      if (model !== this.#model || this.#manifest) return;
      this.#manifest = manifest;
      this.#fill();
    } catch (error) {
      if (model === this.#model) this.#body.replaceChildren(createElement("p", "failure", messageOf(error)));
    }
  }

  /** @type {import("./brain/parts.js").SwitchMap | null} */
  get #map() {
    return this.#manifest?.switches ?? null;
  }

  #fill() {
    const { layers: nLayers = 0, heads: nHeads = 0 } = this.#manifest ?? {};
    const layers = createElement("div", "layers");
    layers.style.setProperty("--layers", String(nLayers));
    for (let layer = 1; layer <= nLayers; layer += 1) {
      layers.append(this.#group(`Layer ${layer}`, partsOf(layer, nHeads)));
    }
    const neurons = neuronsOf(this.#map);
    if (neurons.length) {
      const group = this.#group("Single neurons of the feed-forward steps", neurons);
      group.classList.add("neurons");
      layers.append(group);
    }
    layers.addEventListener("click", (event) => {
      const part = targetOf(event).closest("button")?.dataset.part;
      if (part) this.#set(this.off.includes(part) ? this.off.filter((other) => other !== part) : [...this.off, part]);
    });
    for (const kind of ["pointerover", "focusin"]) {
      layers.addEventListener(kind, (event) => this.#describe(targetOf(event).closest("button")?.dataset.part));
    }
    const challenges = createElement("ol", "goals", ...CHALLENGES.map((challenge) => this.#challenge(challenge)));
    const bar = createElement("div", "bar", this.#outcome, this.#note, this.#reset);
    this.#body.replaceChildren(
      createElement("p", "", INTRODUCTION), layers, this.#about, bar, createElement("h3", "", "Can you …"), challenges,
    );
    this.#draw();
  }

  /** Returns switches with a title. @type {(title: string, parts: string[]) => HTMLElement} */
  #group(title, parts) {
    const heading = createElement("h3", "", title);
    const group = createElement("div", "layer", heading, ...parts.map((part) => this.#cell(part)));
    group.role = "group";
    group.ariaLabel = title;
    return group;
  }

  /** Returns the switch of a part. @param {string} name */
  #cell(name) {
    const part = this.#map?.parts[name];
    const place = name.includes("n") ? "" : placeOf(name).replace(" step", "");
    const button = createElement("button", "switch", createElement("b", "", place));
    button.type = "button";
    button.dataset.part = name;
    button.ariaLabel = `Switch off ${nameOf(name)}${part ? `: ${harmsOf(part)}` : ""}`;
    if (!part) return button;
    button.style.setProperty("--harm", harmOf(part).toFixed(3));
    const signs = Object.keys(part.right).filter((sign) => fateOf(part, sign) !== "fine");
    const broken = createIcon("", "signs");
    broken.append(...signs.map((sign) => createElement("i", fateOf(part, sign), OPERATIONS[sign].symbol)));
    button.append(createElement("span", "purpose", harmsOf(part)), broken);
    return button;
  }

  /** Says what a part is for and what it breaks. @param {string} [part] */
  #describe(part) {
    if (part) this.#about.textContent = describe(part, this.#map?.parts[part], this.#map?.n ?? 0);
  }

  /** Switches these parts off, and all others on. @param {string[]} parts */
  #set(parts) {
    store.set({ off: parts.join() });
    this.#onChange();
  }

  /** Draws which parts are off. */
  #draw() {
    const { off } = this;
    if (off.length) this.#panel.open = true;
    for (const button of this.#body.querySelectorAll("button")) {
      if (button.dataset.part) button.ariaPressed = String(off.includes(button.dataset.part));
    }
    this.#note.textContent = off.length ? `Off: ${namesOf(off)}.` : "All parts are on.";
    this.#reset.disabled = !off.length;
    this.#describe(off.at(-1));
    this.#checkOpen();
  }

  /** Returns a challenge, which is checked while it is open. @param {Challenge} challenge */
  #challenge(challenge) {
    const { id, title, wants, parts, hint } = challenge;
    const items = Object.entries(wants).map(([problem, want]) => createElement("li", "", wantText(problem, want)));
    const list = createElement("ul", "", ...items);
    const goal = createElement("p", "", `Switch off ${parts}${parts === "one" ? " part" : " or more"}, and get:`);
    const verdict = createElement("p", "verdict-line");
    verdict.setAttribute("role", "status");
    const tip = createElement("details", "hint", createElement("summary", "", "Hint"), createElement("p", "", hint));
    const summary = createElement("summary", "", createIcon("○"), title);
    const element = createElement("details", "goal", summary, goal, list, verdict, tip);
    element.name = "goal";
    element.dataset.id = id;
    element.addEventListener("toggle", ({ target }) => target === element && this.#checkOpen());
    if (solved().includes(id)) markSolved(element);
    return createElement("li", "", element);
  }

  /** Checks the open challenge with what is off now. */
  async #checkOpen() {
    this.#check?.abort();
    /** @type {HTMLDetailsElement | null} */ const element = this.#body.querySelector(".goal[open]");
    const challenge = CHALLENGES.find(({ id }) => id === element?.dataset.id);
    if (!element || !challenge || !this.#manifest) return;
    const controller = (this.#check = new AbortController());
    const verdict = /** @type {HTMLElement} */ (element.querySelector(".verdict-line"));
    const items = [...element.querySelectorAll("li")];
    for (const item of items) item.className = "";
    verdict.textContent = "";
    if (!hasParts(challenge, this.off)) return;
    try {
      let isSolved = true;
      for (const [index, [problem, want]] of Object.entries(challenge.wants).entries()) {
        const { answer, isMet } = await this.#try(problem, want, controller.signal);
        items[index].className = isMet ? "met" : "missed";
        items[index].textContent = `${wantText(problem, want)}: ${answer}`;
        isSolved &&= isMet;
      }
      verdict.textContent = isSolved ? `Solved, without ${namesOf(this.off)}!` : "Not yet.";
      if (isSolved) remember(challenge.id, element);
    } catch (error) {
      if (!isAborted(error)) verdict.textContent = messageOf(error);
    }
  }

  /** Asks the model a problem of a challenge.
   * @type {(problem: string, want: string, signal: AbortSignal) => Promise<{answer: string, isMet: boolean}>} */
  async #try(problem, want, signal) {
    const options = { model: this.#model, off: this.off };
    for await (const { name, data } of calculate(problem, options, signal)) {
      if (name !== "result") continue;
      const isEndless = data.nodes.some(({ output }) => !output?.endsWith("$"));
      return { answer: isEndless ? "no end" : formatResult(data.result), isMet: isAsWanted(want, data) };
    }
    return { answer: "nothing", isMet: false };
  }
}

/** Returns the ids of the challenges that were solved. @returns {string[]} */
function solved() {
  try {
    const ids = JSON.parse(localStorage.getItem(SOLVED) ?? "[]");
    return Array.isArray(ids) ? ids : [];
  } catch {
    return [];
  }
}

/** @type {(id: string, element: HTMLElement) => void} */
function remember(id, element) {
  markSolved(element);
  try {
    localStorage.setItem(SOLVED, JSON.stringify([...new Set([...solved(), id])].slice(0, CHALLENGES.length)));
  } catch {}
}

/** @param {HTMLElement} element */
function markSolved(element) {
  if (element.classList.contains("solved")) return;
  element.classList.add("solved");
  element.querySelector(".icon")?.replaceWith(createIcon("✓"), createElement("span", "unseen", "solved: "));
}
