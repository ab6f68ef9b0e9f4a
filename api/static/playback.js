// Shows events at a speed that people can follow.

const SLOW = 14; // characters a second
const CATCH_UP = 5; // a frame shows this fraction of the waiting events: less than half a second in all
const FRAMES = 60; // a second; where there are fewer, each shows more

/**
 * @template {{name: string}} Shown an event; those named `token` are shown one after the other
 */
export class Playback {
  /** @type {Shown[]} */
  #waiting = [];
  #frame = 0;
  #last = 0;
  #due = 0; // characters that may be shown now
  #show;
  #isSlow;
  #onEmpty = () => {};

  /**
   * @param {(event: Shown) => void} show is called with each event
   * @param {() => boolean} isSlow whether slow motion is on
   */
  constructor(show, isSlow) {
    this.#show = show;
    this.#isSlow = isSlow;
  }

  /** @param {Shown} event */
  push(event) {
    this.#waiting.push(event);
    if (document.hidden || (reducedMotion.matches && !this.#isSlow())) this.flush();
    else if (!this.#frame) this.#schedule();
  }

  /** Shows all waiting events now. */
  flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    for (const event of this.#waiting.splice(0)) this.#show(event);
    this.#onEmpty();
  }

  /** Drops all waiting events. */
  drop() {
    this.#waiting = [];
    this.flush();
  }

  /** Resolves once all events are shown. */
  finished() {
    return /** @type {Promise<void>} */ (new Promise((resolve) => {
      this.#onEmpty = resolve;
      if (!this.#waiting.length) resolve();
    }));
  }

  #schedule() {
    this.#last = performance.now();
    this.#frame = requestAnimationFrame((now) => this.#next(now));
  }

  /** @param {number} now */
  #next(now) {
    const elapsed = Math.max(0, Math.min(0.1, (now - this.#last) / 1000));
    const aFrame = Math.max(1, this.#waiting.length / CATCH_UP);
    this.#due += elapsed * (this.#isSlow() ? SLOW : aFrame * FRAMES);
    for (;;) {
      const [event] = this.#waiting;
      if (!event || (event.name === "token" && this.#due < 1)) break;
      this.#waiting.shift();
      if (event.name === "token") this.#due -= 1;
      this.#show(event);
    }
    this.#due = Math.min(this.#due, 1);
    this.#frame = 0;
    if (this.#waiting.length) this.#schedule();
    else this.#onEmpty();
  }
}

const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
