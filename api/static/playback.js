// Shows the events of a calculation at a speed that people can follow.

const SLOW_RATE = 14; // characters a second in slow motion
const SLICE = 12; // milliseconds of a frame

/** Queues events and shows them in animation frames.
 * @template {{name: string}} PlayedEvent an event; events named `token` are shown one after the other */
export class Playback {
  /** @type {PlayedEvent[]} */ #queue = [];
  #frame = 0;
  #lastTime = 0;
  #budget = 0; // the number of characters that may be shown now
  #show;
  #isSlow;
  /** @type {Iterator<void> | null} of the event that is being shown */ #pieces = null;
  #onEmpty = () => {};
  /** @type {unknown} */ #error = null; // why an event could not be shown

  /** @param {(event: PlayedEvent) => Iterator<void>} show shows an event, piece by piece
   * @param {() => boolean} isSlow returns whether slow motion is on */
  constructor(show, isSlow) {
    this.#show = show;
    this.#isSlow = isSlow;
  }

  /** Adds an event to the queue.
   * @param {PlayedEvent} event
   * @throws if an earlier event could not be shown */
  push(event) {
    if (this.#error) throw this.#error;
    this.#queue.push(event);
    if (document.hidden) this.flush();
    else if (!this.#frame) this.#schedule();
  }

  flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    while (this.#queue.length) this.#showNext();
    this.#onEmpty();
  }

  discard() {
    this.#queue = [];
    this.#pieces = null;
    this.flush();
  }

  /** Returns a promise that resolves when all events are shown, and rejects if one could not be shown. */
  finished() {
    return /** @type {Promise<void>} */ (new Promise((resolve, reject) => {
      this.#onEmpty = () => (this.#error ? reject(this.#error) : resolve());
      if (!this.#queue.length) this.#onEmpty();
    }));
  }

  /** Shows the next event, or a piece of it. If that fails, discards the others. */
  #showNext() {
    try {
      this.#pieces ??= this.#show(this.#queue[0]);
      if (!this.#pieces.next().done) return;
    } catch (error) {
      this.#error = error;
      this.#queue = [];
    }
    this.#pieces = null;
    this.#queue.shift();
  }

  #schedule() {
    this.#lastTime = performance.now();
    this.#frame = requestAnimationFrame((now) => this.#onFrame(now));
  }

  /** @param {number} now */
  #onFrame(now) {
    const elapsed = Math.max(0, Math.min(0.1, (now - this.#lastTime) / 1000));
    this.#budget = this.#isSlow() ? this.#budget + elapsed * SLOW_RATE : Infinity;
    const end = performance.now() + SLICE;
    while (performance.now() < end) {
      const [event] = this.#queue;
      if (!event || (event.name === "token" && this.#budget < 1)) break;
      if (event.name === "token") this.#budget -= 1;
      this.#showNext();
    }
    this.#budget = Math.min(this.#budget, 1);
    this.#frame = 0;
    if (this.#queue.length) this.#schedule();
    else this.#onEmpty();
  }
}
