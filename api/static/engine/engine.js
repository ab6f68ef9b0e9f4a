// The page's side of the worker that runs the models.

import { ServiceError } from "../client.js";

/** Runs models in a worker, which starts with the first task or before. */
export class Engine {
  #worker = null;
  #tasks = new Map(); // id -> what to do with its messages
  #next = 0;
  #loaded = new Map(); // name -> promise
  #fetchWeights;

  /** @param {(model: string) => Promise<ArrayBuffer>} fetchWeights */
  constructor(fetchWeights) {
    this.#fetchWeights = fetchWeights;
  }

  /**
   * Yields the events of a task of the worker, `{name, data}`.
   * @param {"calculate" | "write" | "look"} task
   * @param {{model: string} & Record<string, any>} payload
   * @param {AbortSignal} [signal]
   * @throws {ServiceError} or AbortError after `signal`
   */
  async *run(task, payload, signal) {
    await this.load(payload.model);
    yield* this.#run(task, payload, signal);
  }

  /**
   * Loads a model, once.
   * @param {string} model
   * @returns {Promise<void>}
   */
  load(model) {
    if (!this.#loaded.has(model)) {
      const loading = this.#load(model);
      this.#loaded.set(model, loading);
      loading.catch(() => this.#loaded.delete(model)); // the next task tries again
    }
    return this.#loaded.get(model);
  }

  /** Starts the worker, if it does not run. */
  start() {
    this.#worker ??= this.#newWorker();
  }

  async #load(model) {
    this.start(); // while the weights come
    const buffer = await this.#fetchWeights(model);
    for await (const _ of this.#run("load", { model, buffer }, undefined, [buffer]));
  }

  async *#run(task, payload, signal, transfer = []) {
    signal?.throwIfAborted();
    this.start();
    const id = this.#next++;
    const waiting = [];
    /** @type {(value?: unknown) => void} */
    let wake = () => {};
    const cancel = () => {
      this.#worker.postMessage({ id, task: "cancel" });
      wake();
    };
    this.#tasks.set(id, (message) => {
      waiting.push(message);
      wake();
    });
    signal?.addEventListener("abort", cancel);
    this.#worker.postMessage({ id, task, payload }, transfer);
    try {
      for (;;) {
        signal?.throwIfAborted();
        if (!waiting.length) await new Promise((resolve) => (wake = resolve));
        signal?.throwIfAborted();
        const { events, done, error } = waiting.shift();
        yield* events;
        if (error) throw new ServiceError(error.message, error);
        if (done) return;
      }
    } finally {
      signal?.removeEventListener("abort", cancel);
      this.#tasks.delete(id);
    }
  }

  #newWorker() {
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => this.#tasks.get(data.id)?.(data);
    worker.onerror = () => {
      const error = { message: "The engine could not start." };
      for (const receive of this.#tasks.values()) receive({ events: [], done: true, error });
    };
    return worker;
  }
}
