// The engine: runs models in a worker. This is the page's side of the worker.

import { ServiceError } from "../client.js";

/** @import { Message } from "./worker.js" */
/** @import { Manifest } from "../client.js" */

/** Runs models in a worker. The first task starts the worker, if `start` has not. */
export class Engine {
  /** @type {Worker | null} */ #worker = null;
  /** @type {Map<number, (message: Message) => void>} the handlers of messages, by the id of the task */
  #tasks = new Map();
  #nextId = 0;
  /** The manifests of the models, by name. @type {Map<string, Promise<Manifest>>} */ #loaded = new Map();
  #fetch;

  /** @param {(model: string) => Promise<{manifest: Manifest, buffer: ArrayBuffer}>} fetch */
  constructor(fetch) {
    this.#fetch = fetch;
  }

  /** Yields the events of a task of the worker, `{name, data}`.
   * @param {"calculate" | "write" | "dissect" | "tryCases" | "findProblem"} task
   * @param {{model: string} & Record<string, any>} payload
   * @param {AbortSignal} [signal]
   * @throws {ServiceError} or AbortError after `signal` */
  async *run(task, payload, signal) {
    await this.load(payload.model);
    yield* this.#run(task, payload, signal);
  }

  /** Loads a model, once, and returns its manifest. @type {(model: string) => Promise<Manifest>} */
  load(model) {
    const existing = this.#loaded.get(model);
    if (existing) return existing;
    const loading = this.#load(model);
    this.#loaded.set(model, loading);
    loading.catch(() => this.#loaded.delete(model)); // the next task tries again
    return loading;
  }

  /** Starts the worker, if it is not running, and returns it. */
  start() {
    return (this.#worker ??= this.#createWorker());
  }

  /** Ends the worker. */
  stop() {
    if (this.#worker) this.#abandon(this.#worker);
  }

  /** @param {string} model */
  async #load(model) {
    this.start(); // while the weights are loading
    const { manifest, buffer } = await this.#fetch(model);
    for await (const _ of this.#run("load", { model, buffer, manifest }, undefined, [buffer]));
    return manifest;
  }

  /** Sends a task to the worker and yields its events, whose types differ from task to task.
   * @type {(task: string, payload: Record<string, any>, signal?: AbortSignal,
   *   transfer?: Transferable[]) => AsyncGenerator<any>} */
  async *#run(task, payload, signal, transfer = []) {
    signal?.throwIfAborted();
    const worker = this.start();
    const id = this.#nextId++;
    /** @type {Message[]} */ const received = [];
    /** @type {(value?: unknown) => void} */ let wake = () => {};
    const cancel = () => {
      worker.postMessage({ id, task: "cancel" });
      wake();
    };
    this.#tasks.set(id, (message) => {
      received.push(message);
      wake();
    });
    signal?.addEventListener("abort", cancel);
    worker.postMessage({ id, task, payload }, transfer);
    try {
      for (;;) {
        signal?.throwIfAborted();
        if (!received.length) await new Promise((resolve) => (wake = resolve));
        signal?.throwIfAborted();
        for (const { events, done, error } of received.splice(0)) {
          yield* events;
          if (error) throw new ServiceError(error.message, error);
          if (done) return;
          signal?.throwIfAborted();
        }
      }
    } finally {
      signal?.removeEventListener("abort", cancel);
      this.#tasks.delete(id);
    }
  }

  #createWorker() {
    let worker = globalThis.earlyWorker;
    globalThis.earlyWorker = undefined;
    try {
      worker ??= new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    } catch {
      throw new ServiceError("The model runs in a worker, and this browser allows none here.");
    }
    worker.onmessage = ({ data }) => this.#tasks.get(data.id)?.(data);
    worker.onerror = () => this.#abandon(worker);
    return worker;
  }

  /** Gives up a worker that could not start or that broke: its tasks fail, and the next task starts another one.
   * @param {Worker} worker */
  #abandon(worker) {
    if (worker !== this.#worker) return;
    worker.terminate();
    this.#worker = null;
    this.#loaded.clear(); // the models were in the worker
    const error = { message: "The engine could not start." };
    for (const [id, receive] of this.#tasks) receive({ id, events: [], done: true, error });
  }
}
