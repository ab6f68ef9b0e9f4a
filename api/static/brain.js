// The panel "Switch off a piece of its brain": a picture of the model with a switch for each part, what is measured of
// the parts, and the goal of the day.

import { listOff } from "./address.js";
import { manifestOf } from "./backend.js";
import { onPutBack, showDare } from "./brain/dare.js";
import { GoalOfTheDay, goalOf } from "./brain/goal.js";
import { allParts, describe, fateOf, harmOf, harmsOf, nameOf, namesOf, neuronsOf, partsOf } from "./brain/parts.js";
import { messageOf } from "./client.js";
import { OPERATIONS } from "./engine/operations.js";
import {
  byId, createButton, createElement, createIcon, formatNumbers, formatResult, shortenMiddle, targetOf,
} from "./format.js";
import { makeOneStop } from "./keypad.js";
import { store } from "./state.js";

const MAX_NAMES = 40; // characters of the names of missing parts
const INTRODUCTION =
  "Tap a part: the model writes the calculation again without it. Each says what goes wrong most then; the redder it is, the more answers are wrong, of the operations whose signs it has. Heads fetch characters; the neurons of a feed-forward step calculate with them.";

/** The panel. `show` is called for each model that is selected. */
export class Brain {
  #panel = byId("brain", HTMLDetailsElement);
  #body = byId("brain-body");
  #model = "";
  #missing = ""; // the parts of an address that the model does not have, until the reader was told
  #onChange;
  /** @type {import("./client.js").Manifest | null} of the model, when it is loaded */ #manifest = null;
  #about = createElement("p", "about");
  #note = createElement("p");
  #outcome = createElement("p", "outcome-line");
  #reset = createButton("plain", "All on again", () => this.#set([]));
  #ask;
  /** @type {GoalOfTheDay | null} */ #goal = null;

  /** @param {() => void} onChange called when the reader has switched a part
   * @param {(problem: string) => void} ask called when the reader wants a problem to be calculated */
  constructor(onChange, ask) {
    this.#onChange = onChange;
    this.#ask = ask;
    onPutBack(() => this.#set([]));
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

  /** Returns those of the parts of an address that the model has. The next result comes with the names of the others.
   * @param {string} off */
  async keepKnown(off) {
    if (!off) return off;
    const parts = listOff(off);
    const known = allParts(await manifestOf(this.#model));
    this.#missing = parts.filter((part) => !known.includes(part)).join(", ");
    return parts.filter((part) => known.includes(part)).join();
  }

  /** Yields the events of a calculation, and shows its result beside the switches, in the headline and with the goal.
   * @param {AsyncIterable<import("./client.js").CalculationEvent>} events */
  async *watch(events) {
    this.#outcome.textContent = "";
    for await (const event of events) {
      if (event.name === "result") {
        const { expression, result, exact, off = [], model } = event.data;
        const missing = shortenMiddle(this.#missing, MAX_NAMES);
        this.#missing = "";
        if (missing) byId("error").textContent = `This model has no part ${missing}.`;
        showDare(off, off.length ? await manifestOf(model) : null, event.data);
        this.#goal?.check(expression, result, off);
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
    const { layers: nLayers = 0, heads: nHeads = 0, neurons: nNeurons = 0 } = this.#manifest ?? {};
    const layers = createElement("div", "layers");
    layers.style.setProperty("--layers", String(nLayers));
    for (let layer = 1; layer <= nLayers; layer += 1) {
      const title = `Layer ${layer}`;
      const heads = this.#group(title, partsOf(layer, nHeads));
      layers.append(createElement("div", "", createElement("h3", "", title), heads));
    }
    for (let layer = 1; layer <= nLayers; layer += 1) layers.append(this.#neurons(layer, nNeurons));
    layers.addEventListener("click", (event) => this.#switch(targetOf(event).closest("button")?.dataset.part));
    for (const kind of ["pointerover", "focusin"]) {
      layers.addEventListener(kind, (event) => this.#describe(targetOf(event).closest("button")?.dataset.part));
    }
    const bar = createElement("div", "bar", this.#outcome, this.#note, this.#reset);
    this.#body.replaceChildren(createElement("p", "", INTRODUCTION), layers, this.#about, bar);
    const goals = this.#map?.goals ?? [];
    this.#goal = goals.length ? new GoalOfTheDay(goalOf(goals, Date.now()), this.#ask) : null;
    if (this.#goal) {
      this.#body.prepend(this.#goal.element);
      this.#outcome.after(this.#goal.verdict);
    }
    this.#draw();
  }

  /** Returns the n neurons of a layer, folded. Their switches are made when they are seen.
   * @type {(layer: number, n: number) => HTMLElement} */
  #neurons(layer, n) {
    const title = `${n} neurons of layer ${layer}`;
    const details = createElement("details", "neurons", createElement("summary", "", title));
    details.dataset.layer = String(layer);
    details.addEventListener("toggle", () => {
      if (details.childElementCount > 1) return;
      details.append(this.#group(title, neuronsOf(this.#map, layer, n)));
      this.#draw();
    });
    return details;
  }

  /** Returns the switches of parts. @type {(name: string, parts: string[]) => HTMLElement} */
  #group(name, parts) {
    const group = createElement("div", "layer", ...parts.map((part) => this.#cell(part)));
    group.role = "group";
    group.ariaLabel = name;
    makeOneStop(group);
    return group;
  }

  /** Returns the switch of a part. @param {string} name */
  #cell(name) {
    const part = this.#map?.parts[name];
    const button = createElement("button", "switch", createElement("b", "", nameOf(name)));
    button.type = "button";
    button.dataset.part = name;
    button.ariaLabel = `Switch off ${nameOf(name)}`;
    if (!this.#map) return button; // nothing is measured
    button.ariaLabel += `: breaks ${harmsOf(part)}`;
    button.append(createElement("span", "purpose", `breaks ${harmsOf(part)}`));
    if (!part) return button;
    button.style.setProperty("--harm", harmOf(part).toFixed(3));
    const signs = Object.keys(part.right).filter((sign) => fateOf(part, sign) !== "fine");
    const broken = createIcon("", "signs");
    broken.append(...signs.map((sign) => createElement("i", fateOf(part, sign), OPERATIONS[sign].symbol)));
    button.append(broken);
    return button;
  }

  /** Says what a part is for and what it breaks. @param {string} [part] */
  #describe(part) {
    if (part) this.#about.textContent = describe(part, this.#map);
  }

  /** Switches a part off or on. In the problem of the goal, only one is off. @param {string} [part] */
  #switch(part) {
    if (!part) return;
    const others = this.off.filter((other) => other !== part);
    if (others.length < this.off.length) this.#set(others);
    else this.#set(this.#goal?.isOf(store.state.question) ? [part] : [...others, part]);
  }

  /** Switches these parts off, and all others on. @param {string[]} parts */
  #set(parts) {
    store.set({ off: parts.join() });
    this.#onChange();
  }

  /** Says in the headline which parts are off, until a calculation does. */
  async #announce() {
    const { off } = this;
    const manifest = off.length ? await manifestOf(this.#model) : null;
    if (!store.state.question && this.off.join() === off.join()) showDare(off, manifest);
  }

  /** Draws which parts are off. */
  #draw() {
    const { off } = this;
    this.#announce().catch(() => {}); // the next calculation says what failed
    if (off.length) this.#panel.open = true;
    for (const button of this.#body.querySelectorAll("button")) {
      if (button.dataset.part) button.ariaPressed = String(off.includes(button.dataset.part));
    }
    this.#note.textContent = off.length ? `Off: ${namesOf(off)}.` : "All parts are on.";
    this.#reset.hidden = !off.length;
    this.#describe(off.at(-1));
    for (const part of off.filter((name) => name.includes("n"))) {
      const layer = this.#body.querySelector(`[data-layer="${CSS.escape(part.split(".")[0])}"]`);
      if (layer instanceof HTMLDetailsElement) layer.open = true;
    }
  }
}
