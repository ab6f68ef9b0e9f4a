// The worker that runs the models, so that the page stays responsive. It runs one task at a time. A
// cancelled task ends after the next few characters.

import { Computation } from "./computation.js";
import { Decoder } from "./decoder.js";
import { dissect, follow } from "./dissect.js";
import { ExpressionError } from "./expression_errors.js";
import { generate, look } from "./generate.js";
import { limitsOf } from "./limits.js";
import { WeightsError, readWeights } from "./weights.js";

const MAX_SLICE = 12; // milliseconds between two checks for messages
const LONGER = 2; // without a part, a model writes at most that many times the right length

/** A message to the page about a task: its new events and, when the task is done, the error if it failed.
 * @typedef {{name: string, data: any}} TaskEvent
 * @typedef {import("../client.js").Details & {message: string}} TaskError
 * @typedef {{id: number, events: TaskEvent[], done?: boolean, error?: TaskError}} Message */

/** @typedef {{decoder: Decoder, manifest: Record<string, any>}} Model */

/** @type {Map<string, Model>} */ const models = new Map(); // by the model's name
/** @type {Set<number>} */ const cancelled = new Set(); // the ids of cancelled tasks

/** Returns a model that was loaded, with these parts switched off. @type {(name: string, off?: string[]) => Model} */
function loadedModel(name, off = []) {
  const model = models.get(name);
  if (!model) throw new RangeError(`${name} is not loaded`);
  model.decoder.switchOff(off);
  return model;
}

/** The tasks, by name. Each yields its events. @type {Record<string, (payload: any) => Generator<TaskEvent>>} */
const TASKS = {
  /** Loads a model from the file with its weights. */
  *load({ model, buffer }) {
    const weights = readWeights(buffer);
    models.set(model, { decoder: new Decoder(weights), manifest: weights.manifest });
    yield { name: "manifest", data: weights.manifest };
  },

  /** Calculates an expression. The events are those of the service's stream. */
  *calculate({ model, expression, off = [], ...options }) {
    const { decoder, manifest } = loadedModel(model, off);
    const limits = limitsOf(manifest);
    const computation = new Computation(expression, { model, limits, ...options });
    const { expression: whole, outline: nodes } = computation;
    yield { name: "start", data: { expression: whole, model, places: computation.places, nodes } };
    for (const question of computation.questions()) {
      yield { name: "node", data: question };
      /** @type {import("../client.js").Token[]} */ const tokens = [];
      // Without a part, a model may never end.
      const maxLength = off.length ? question.prompt.length + LONGER * computation.rightLength : Infinity;
      for (const token of generate(decoder, manifest.vocabulary, question.prompt, { maxLength })) {
        tokens.push(token);
        yield { name: "token", data: { node: question.node, ...token } };
      }
      const output = tokens.map(({ text }) => text).join("");
      const probabilities = tokens.map(({ probability }) => probability);
      const node = computation.answer(question, output, probabilities);
      yield { name: "answer", data: { node: question.node, ...node } };
    }
    yield { name: "result", data: { ...computation.calculation(), ...(off.length ? { off } : {}) } };
  },

  *write({ model, text, sampling, off }) {
    const { decoder, manifest } = loadedModel(model, off);
    for (const data of generate(decoder, manifest.vocabulary, text, sampling)) {
      yield { name: "token", data };
    }
  },

  /** Inspects how the model wrote a character. */
  *look({ model, text, position, off }) {
    const { decoder, manifest } = loadedModel(model, off);
    yield { name: "look", data: look(decoder, manifest.vocabulary, text, position) };
  },

  /** Takes apart how the model wrote a character. */
  *dissect({ model, text, position, off }) {
    const { decoder, manifest } = loadedModel(model, off);
    yield { name: "dissection", data: dissect(decoder, manifest.vocabulary, text, position) };
  },

  /** Follows neurons through a text. */
  *follow({ model, text, start, neurons, off }) {
    const { decoder, manifest } = loadedModel(model, off);
    for (const data of follow(decoder, manifest.vocabulary, text, start, neurons)) yield { name: "active", data };
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
