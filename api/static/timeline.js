// The time line below the work of an operation. It shows the work as it was after each character that the
// model wrote: the user plays it, goes from one character to the next, or drags a slider.

import { byId, createButton, createElement, createSvg } from "./format.js";

const RATE = 8; // characters a second; half of it in slow motion
const DELAY = 120; // milliseconds before the newest character is selected, so that not each one of a drag is
const HINT = "Play them again, or go through them one by one.";
const ICONS = {
  play: "M4 2v12l10-6z",
  pause: "M3 2h4v12H3zM9 2h4v12H9z",
  back: "M11.5 2 4 8l7.5 6V2ZM1 2h2v12H1z",
  forward: "M4.5 2 12 8l-7.5 6V2ZM13 2h2v12h-2z",
};

/** The controls of an operation that is completely written. */
export class Timeline {
  #step;
  #length;
  #end; // the number of characters that are shown
  #frame = 0; // of the next drawing, so that there is at most one in a frame
  #playFrame = 0; // 0 while it does not play
  #lastTime = 0; // when the last character was played
  #timer = 0; // until what was drawn last is selected
  #slow = byId("slow", HTMLInputElement);
  #playButton = createButton("plain", "", () => (this.#playFrame ? this.pause() : this.#play()));
  #slider = createElement("input");
  #text = createElement("p", "now");
  #words = new Text(); // one node: to replace it makes Chromium compute the styles of the whole work again

  /** @param {import("./steps.js").Step} step
   * @param {string} name of the operation
   * @param {number} length the number of characters that the model wrote */
  constructor(step, name, length) {
    this.#step = step;
    this.#length = length;
    this.#end = length;
    this.element = createElement("div", "timeline");
    this.element.role = "group";
    this.element.ariaLabel = `Time line of ${name}`;
    const back = createButton("plain", "", () => this.#stepBy(-1));
    const forward = createButton("plain", "", () => this.#stepBy(1));
    setIcon(back, "One character back", ICONS.back);
    setIcon(forward, "One character forward", ICONS.forward);
    Object.assign(this.#slider, { type: "range", min: 0, max: length, value: length, ariaLabel: "Characters" });
    this.#slider.addEventListener("input", () => {
      this.#text.ariaLive = "off"; // a screen reader reads the slider
      this.pause();
      this.#goTo(Number(this.#slider.value));
    });
    const controls = createElement("div", "controls", back, this.#playButton, forward, this.#slider);
    this.#text.append(this.#words);
    this.element.append(controls, this.#text);
    this.#showPlaying();
    this.#describe();
  }

  pause() {
    if (!this.#playFrame) return;
    cancelAnimationFrame(this.#playFrame);
    this.#playFrame = 0;
    this.#showPlaying();
    this.#settle();
  }

  showAll() {
    this.pause();
    if (this.#end === this.#length) return;
    this.#goTo(this.#length);
    this.#draw();
  }

  #play() {
    this.#text.ariaLive = "off"; // it changes too fast to be read aloud
    if (this.#end === this.#length) this.#goTo(0);
    this.#lastTime = performance.now();
    this.#playFrame = requestAnimationFrame((now) => this.#advance(now));
    this.#showPlaying();
  }

  /** Plays a character when its time has come. @param {number} now */
  #advance(now) {
    if (this.#end === this.#length || !this.element.checkVisibility()) {
      this.pause(); // it has ended, or the operation was folded or removed
      return;
    }
    const rate = this.#slow.checked ? RATE / 2 : RATE;
    if (now - this.#lastTime >= 1000 / rate) {
      this.#lastTime = now;
      this.#goTo(this.#end + 1);
    }
    this.#playFrame = requestAnimationFrame((next) => this.#advance(next));
  }

  /** @param {number} count */
  #stepBy(count) {
    this.#text.ariaLive = "polite";
    this.pause();
    this.#goTo(Math.max(0, Math.min(this.#length, this.#end + count)));
  }

  /** Shows a number of characters, in the next frame. @param {number} end */
  #goTo(end) {
    this.#end = end;
    this.#slider.value = String(end);
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.element.classList.toggle("moved", this.#end < this.#length);
    const newest = this.#step.showUntil(this.#end);
    this.#describe();
    newest?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (!this.#playFrame) this.#settle();
  }

  #describe() {
    const isPart = this.#end && this.#end < this.#length;
    const { output, words } = this.#step.describe(this.#end - 1);
    const number = `${this.#end} of ${this.#length}`;
    const explanation = isPart && words ? `: ${words}` : "";
    this.#slider.ariaValueText = `character ${number}${explanation}`;
    if (isPart) this.#words.data = `Character ${number}, “${output[this.#end - 1]}”${explanation}`;
    else if (this.#end) this.#words.data = `The model wrote ${this.#length} characters. ${HINT}`;
    else this.#words.data = "Nothing is written yet.";
  }

  /** Selects the newest character, unless the user soon goes on to another one. */
  #settle() {
    clearTimeout(this.#timer);
    if (!this.#end || this.#end === this.#length) return;
    this.#timer = window.setTimeout(() => this.#playFrame || this.#step.choose(this.#end - 1), DELAY);
  }

  #showPlaying() {
    if (this.#playFrame) setIcon(this.#playButton, "Pause", ICONS.pause);
    else setIcon(this.#playButton, "Play", ICONS.play);
  }
}

/** Shows an icon on a button. @type {(button: HTMLButtonElement, name: string, path: string) => void} */
function setIcon(button, name, path) {
  const svg = createSvg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" });
  svg.append(createSvg("path", { d: path }));
  button.replaceChildren(svg);
  button.ariaLabel = button.title = name;
}
