// The worker that runs the models, so that the page stays responsive. It runs one task at a time. A
// cancelled task ends after the next few characters.

import { Computation, limitsOf } from "./computation.js";
import { dissect } from "./dissect.js";
import { ExpressionError } from "./errors.js";
import { Network } from "./network.js";
import { findProblem, tryCases } from "./proof.js";
import { WeightsError, readWeights } from "./weights.js";
import { Memory, write } from "./write.js";

const MAX_SLICE = 12; // milliseconds between two checks for messages

/** A message to the page about a task: its new events and, when the task is done, the error if it failed.
 * @typedef {{name: string, data: any}} TaskEvent
 * @typedef {import("../client.js").Details & {message: string}} TaskError
 * @typedef {{id: number, events: TaskEvent[], done?: boolean, error?: TaskError}} Message */

/** A model. memories: without the parts that are named, of which the last are kept.
 * @typedef {{tensors: import("./weights.js").Tensors, manifest: import("../client.js").Manifest,
 * memories: Map<string, Memory>}} Model */

/** @type {Map<string, Model>} */ const models = new Map(); // by the model's name
/** @type {Set<number>} */ const cancelled = new Set(); // the ids of cancelled tasks

/** Returns a model that was loaded. @param {string} name */
function loadedModel(name) {
  const model = models.get(name);
  if (!model) throw new RangeError(`${name} is not loaded`);
  return model;
}

/** Returns the memory of a model with these parts switched off: the same as the last time, or a new one.
 * @type {(name: string, off?: string[]) => Memory} */
function memoryOf(name, off = []) {
  const { tensors, manifest, memories } = loadedModel(name);
  const key = off.join();
  const memory = memories.get(key) ?? new Memory(new Network(tensors, off), manifest.vocabulary);
  if (!memories.has(key)) for (const other of memories.keys()) if (other) memories.delete(other);
  memories.set(key, memory);
  return memory;
}

/** The tasks, by name. Each yields its events. @type {Record<string, (payload: any) => Generator<TaskEvent>>} */
const TASKS = {
  /** Loads a model from the file with its weights. */
  *load({ model, buffer, manifest }) {
    models.set(model, { tensors: readWeights(buffer), manifest, memories: new Map() });
    memoryOf(model);
  },

  /** Calculates an expression. The events are those of the service's stream. */
  *calculate({ model, expression, off = [], ...options }) {
    const memory = memoryOf(model, off);
    const limits = limitsOf(loadedModel(model).manifest.vocabulary);
    const computation = new Computation(expression, { model, limits, ...options });
    const { expression: whole, outline: nodes } = computation;
    yield { name: "start", data: { expression: whole, model, places: computation.places, nodes } };
    for (const question of computation.questions()) {
      yield { name: "node", data: question };
      /** @type {string[]} */ const texts = [];
      /** @type {number[]} */ const probabilities = [];
      for (const { text, probability } of write(memory, question.prompt)) {
        texts.push(text);
        probabilities.push(probability);
        yield { name: "token", data: { node: question.node, text, probability } };
      }
      const node = computation.answer(question, texts.join(""), probabilities);
      yield { name: "answer", data: { node: question.node, ...node } };
    }
    yield { name: "result", data: { ...computation.calculation(), ...(off.length ? { off } : {}) } };
  },

  /** Writes what follows the beginning of a line. */
  *write({ model, text: beginning, off }) {
    for (const { text } of write(memoryOf(model, off), beginning)) yield { name: "text", data: text };
  },

  /** Takes apart how the model wrote a character. */
  *dissect({ model, text, position, off }) {
    yield { name: "dissection", data: dissect(memoryOf(model, off), text, position) };
  },

  /** Tries some of all cases. */
  *tryCases({ model, start, n, off }) {
    yield { name: "tried", data: tryCases(memoryOf(model, off), start, n) };
  },

  /** Finds a problem that goes wrong. */
  *findProblem({ model, kind, off }) {
    const limits = limitsOf(loadedModel(model).manifest.vocabulary);
    yield { name: "problem", data: findProblem(memoryOf(model, off), limits, kind) };
  },
};

/** Runs a task and sends its events. @param {{id: number, task: string, payload: any}} message */
async function run({ id, task, payload }) {
  let lastSent = performance.now();
  /** @type {TaskEvent[]} */ let events = [];
  const send = (/** @type {Partial<Message>} */ fields) => {
    postMessage({ id, events, ...fields });
    [events, lastSent] = [[], performance.now()];
  };
  try {
    for (const event of TASKS[task](payload)) {
      if (cancelled.has(id)) break;
      events.push(event);
      if (performance.now() - lastSent < MAX_SLICE) continue;
      send({});
      await pendingMessages();
    }
    send({ done: true });
  } catch (error) {
    send({ done: true, error: toTaskError(error) });
  }
  cancelled.delete(id);
}

/** Returns an error as the page's client expects it (`ServiceError`). @type {(error: unknown) => TaskError} */
function toTaskError(error) {
  if (error instanceof ExpressionError) {
    const { kind, position, end } = error;
    return { message: error.message, type: `urn:calcgpt:problem:${kind}`, position, end };
  }
  const isExpected = error instanceof WeightsError || error instanceof RangeError;
  const message = error instanceof Error ? error.message : String(error);
  return { message: isExpected ? message : `The engine failed: ${message}` };
}

/** Returns a promise that resolves after the pending messages are handled. A timer would take milliseconds longer. */
function pendingMessages() {
  const { port1, port2 } = new MessageChannel();
  return /** @type {Promise<void>} */ (
    new Promise((resolve) => {
      port1.onmessage = () => {
        port1.close();
        resolve();
      };
      port2.postMessage(null);
    })
  );
}

let queue = Promise.resolve();

onmessage = ({ data }) => {
  if (data.task === "cancel") cancelled.add(data.id);
  else queue = queue.then(() => run(data));
};
