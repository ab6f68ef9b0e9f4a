// The worker that runs the models, so that the page stays responsive. It takes one task at a time;
// a task that is cancelled ends after the next few characters.

import { Computation } from "./computation.js";
import { Decoder } from "./decoder.js";
import { ExpressionError } from "./expression.js";
import { generate, look } from "./generate.js";
import { limitsOf } from "./limits.js";
import { WeightsError, readWeights } from "./weights.js";

const SLICE = 12; // milliseconds between two looks at the messages

/**
 * What the page is told of a task: its new events and, once it is done, whether it failed.
 * @typedef {{name: string, data: any}} TaskEvent
 * @typedef {import("../client.js").Details & {message: string}} TaskError
 * @typedef {{id: number, events: TaskEvent[], done?: boolean, error?: TaskError}} Message
 */

/** @typedef {{decoder: Decoder, manifest: Record<string, any>}} Model */

/** @type {Map<string, Model>} by the model's name */
const models = new Map();
const cancelled = new Set();

/** Returns a model that was loaded.
 * @param {string} name
 * @returns {Model} */
function known(name) {
  const found = models.get(name);
  if (!found) throw new RangeError(`${name} is not loaded`);
  return found;
}

/** @type {Record<string, (payload: any) => Generator<TaskEvent>>} */
const TASKS = {
  *load({ model, buffer }) {
    const weights = readWeights(buffer);
    models.set(model, { decoder: new Decoder(weights), manifest: weights.manifest });
  },

  /** Calculates an expression; the events are those of the service's stream. */
  *calculate({ model, expression, places, unproven }) {
    const { decoder, manifest } = known(model);
    const limits = limitsOf(manifest);
    const computation = new Computation(expression, { model, limits, places, unproven });
    const { expression: whole, outline: nodes } = computation;
    yield { name: "start", data: { expression: whole, model, places: computation.places, nodes } };
    for (const question of computation.questions()) {
      yield { name: "node", data: question };
      /** @type {import("../client.js").Written[]} */
      const written = [];
      for (const token of generate(decoder, manifest.vocabulary, question.prompt)) {
        written.push(token);
        yield { name: "token", data: { node: question.node, ...token } };
      }
      const output = written.map(({ text }) => text).join("");
      const probabilities = written.map(({ probability }) => probability);
      const node = computation.answer(question, output, probabilities);
      yield { name: "answer", data: { node: question.node, ...node } };
    }
    yield { name: "result", data: computation.calculation() };
  },

  /** Goes on from a text, to its end. */
  *write({ model, text, sampling }) {
    const { decoder, manifest } = known(model);
    for (const data of generate(decoder, manifest.vocabulary, text, sampling)) {
      yield { name: "token", data };
    }
  },

  /** Tells what the model looked at when it wrote a character. */
  *look({ model, text, position }) {
    const { decoder, manifest } = known(model);
    yield { name: "look", data: look(decoder, manifest.vocabulary, text, position) };
  },
};

/** @param {{id: number, task: string, payload: any}} message */
async function run({ id, task, payload }) {
  let sent = performance.now();
  /** @type {TaskEvent[]} */
  let events = [];
  const send = (/** @type {Partial<Message>} */ more) => {
    postMessage({ id, events, ...more });
    [events, sent] = [[], performance.now()];
  };
  try {
    for (const event of TASKS[task](payload)) {
      if (cancelled.has(id)) break;
      events.push(event);
      if (performance.now() - sent < SLICE) continue;
      send({});
      await messages();
    }
    send({ done: true });
  } catch (error) {
    send({ done: true, error: describe(error) });
  }
  cancelled.delete(id);
}

/** Returns an error as the page's client expects it (`ServiceError`).
 * @param {unknown} error
 * @returns {TaskError} */
function describe(error) {
  if (error instanceof ExpressionError) {
    const { kind, position, end } = error;
    return { message: error.message, type: `urn:calcgpt:problem:${kind}`, position, end };
  }
  const isExpected = error instanceof WeightsError || error instanceof RangeError;
  const message = error instanceof Error ? error.message : String(error);
  return { message: isExpected ? message : `The engine failed: ${message}` };
}

/** Resolves after the messages that are waiting. A timer would wait for milliseconds. */
function messages() {
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

let last = Promise.resolve();

onmessage = ({ data }) => {
  if (data.task === "cancel") cancelled.add(data.id);
  else last = last.then(() => run(data));
};
