// Events that come faster than an eye can follow are shown at a pace that it can.

const SLOW = 14; // characters a second
const CATCH_UP = 24; // of what waits, one part in this many is shown a frame: a second or so in all

export class Pace {
  #waiting = [];
  #frame = 0;
  #last = 0;
  #due = 0; // characters that may be shown now
  #show;
  #isSlow;
  #isEmpty = () => {};

  /** `show` gets each event in its turn; `isSlow` says whether slow motion is on. */
  constructor(show, isSlow) {
    this.#show = show;
    this.#isSlow = isSlow;
  }

  push(event) {
    this.#waiting.push(event);
    if (document.hidden || (stillness.matches && !this.#isSlow())) this.flush();
    else if (!this.#frame) this.#schedule();
  }

  /** Show at once what waits. */
  flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    while (this.#waiting.length) this.#show(this.#waiting.shift());
    this.#isEmpty();
  }

  /** Show nothing more. */
  drop() {
    this.#waiting = [];
    this.flush();
  }

  /** Until everything pushed so far is shown. */
  empty() {
    return new Promise((resolve) => {
      this.#isEmpty = resolve;
      if (!this.#waiting.length) resolve();
    });
  }

  #schedule() {
    this.#last = performance.now();
    this.#frame = requestAnimationFrame((now) => this.#next(now));
  }

  #next(now) {
    const elapsed = Math.max(0, Math.min(0.1, (now - this.#last) / 1000));
    this.#due += this.#isSlow()
      ? elapsed * SLOW
      : Math.max(1, (this.#waiting.length / CATCH_UP) * elapsed * 60);
    while (this.#waiting.length && (this.#waiting[0].name !== "token" || this.#due >= 1)) {
      const event = this.#waiting.shift();
      if (event.name === "token") this.#due -= 1;
      this.#show(event);
    }
    this.#due = Math.min(this.#due, 1);
    this.#frame = 0;
    if (this.#waiting.length) this.#schedule();
    else this.#isEmpty();
  }
}

const stillness = matchMedia("(prefers-reduced-motion: reduce)");
