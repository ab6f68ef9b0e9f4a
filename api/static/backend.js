// The backend of the page. The service calculates or, on a page without one (backend.json), the engine in
// this browser. Samples, attention weights and snapshots always come from the engine.

import { listOff, parseHash } from "./address.js";
import * as service from "./client.js";
import { Engine } from "./engine/engine.js";
import { limitsOf } from "./engine/limits.js";
import { recordedLook } from "./example.js";
import { store } from "./state.js";

/** service: whether there is a service; models: without a service, the models with their files and manifests.
 * @typedef {{service: boolean, models: (service.Model & {file: string, bytes: number} & Record<string, any>)[]}} Host
 */

/** @type {Promise<Host> | undefined} */ let host;

/** Returns what the host of the page offers.
 * @returns {Promise<Host>}
 * @throws {service.ServiceError} */
function getHost() {
  host ??= service.getHost().catch((error) => {
    host = undefined; // the next request tries again
    throw error;
  });
  return host;
}

/** The hashes of the snapshots' weights, by path. Snapshots are models that the page brings with it.
 * @type {Map<string, string>} */
const hashes = new Map();

const engine = new Engine(async (model) => {
  const hash = hashes.get(model);
  if (hash) return verify(await service.weights(model), hash);
  const { service: hasService, models } = await getHost();
  if (hasService) return service.weights(`v1/models/${encodeURIComponent(model)}/weights`);
  const entry = models.find(({ id }) => id === model);
  if (!entry) throw new service.ServiceError(`There is no model ${model}.`);
  return service.weights(entry.file);
});

/** Starts the engine of a page without a service while the other modules are still loading and, if the
 * address has a question, loads its model. */
async function start() {
  const { service: hasService, models } = await getHost();
  if (hasService) return;
  engine.start();
  const state = parseHash(location.hash);
  const model = models.find(({ id }) => id === state?.model) ?? models.find((entry) => entry.default);
  if (state && model) await engine.load(model.id);
}

start().catch(() => {}); // the next calculation tries again and reports the error

/** Caches a page without a service, so that it works offline. This fetches all its files, so call it
 * after the page has shown its first answer. */
export async function cachePage() {
  try {
    if (!(await getHost()).service) await navigator.serviceWorker?.register("sw.js");
  } catch {} // for example in a private window
}

/** Returns the models that calculate.
 * @returns {Promise<service.Model[]>}
 * @throws {service.ServiceError} */
export async function listModels() {
  const { service: hasService, models } = await getHost();
  if (hasService) return service.listModels();
  return models.map((model) => ({ ...model, domain: limitsOf(model).domain }));
}

/** Returns what the engine knows of a model besides its weights (calcgpt/inference/browser.py), after loading it.
 * @param {string} model */
export const manifestOf = (model) => engine.load(model);

/** Returns the parts that are switched off of a model: only of the one that the page asks. @param {string} model */
const offOf = (model) => (model === store.state.model ? listOff(store.state.off) : []);

/** Yields the events of a calculation; see `calculate` of client.js. The service has no switches: without the parts
 * `off`, the engine calculates.
 * @type {(expression: string, options: service.Options & {off?: string[]},
 *   signal?: AbortSignal) => AsyncGenerator<service.CalculationEvent>} */
export async function* calculate(expression, { off = [], ...options }, signal) {
  const { service: hasService, models } = await getHost();
  if (hasService && !off.length) yield* service.calculate(expression, options, signal);
  else {
    const entry = models?.find(({ id, default: isDefault }) => (options.model ? id === options.model : isDefault));
    const model = entry?.id ?? options.model ?? "";
    if (!engine.ready.has(model)) yield { name: "loading", data: { bytes: entry?.bytes ?? 0 } };
    yield* engine.run("calculate", { ...options, model, expression, off }, signal);
  }
}

/** Returns the answer of a snapshot of a training run to an operation, as the event `answer` has it. The snapshot runs
 * in this browser.
 * @type {(snapshot: {path: string, sha256: string}, expression: string, places: number,
 *   signal?: AbortSignal) => Promise<service.Node>} */
export async function calculateWithSnapshot({ path, sha256 }, expression, places, signal) {
  hashes.set(path, sha256);
  const payload = { model: path, expression, places, beyond_tested: true };
  for await (const { name, data } of engine.run("calculate", payload, signal)) {
    if (name === "answer") return data;
  }
  throw new service.ServiceError("The snapshot gave no answer.");
}

/** Returns a file after checking its hash. Browsers compute hashes only in secure contexts; elsewhere, the file is not
 * checked.
 * @throws {service.ServiceError} if the hash is wrong
 * @type {(buffer: ArrayBuffer, sha256: string) => Promise<ArrayBuffer>} */
async function verify(buffer, sha256) {
  const digest = await crypto.subtle?.digest("SHA-256", buffer);
  const actual = digest && Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (actual && actual !== sha256) throw new service.ServiceError("A snapshot is damaged.");
  return buffer;
}

/** Yields the characters that a model writes after a text, `{text, probability}`.
 * @type {(model: string, text: string, sampling: import("./engine/generate.js").Sampling,
 *   signal?: AbortSignal) => AsyncGenerator<service.Token>} */
export async function* write(model, text, sampling, signal) {
  for await (const { data } of engine.run("write", { model, text, sampling, off: offOf(model) }, signal)) yield data;
}

/** Returns the attention and the predictions of a model for text[position].
 * @type {(model: string, text: string, position: number,
 *   signal?: AbortSignal) => Promise<import("./engine/generate.js").Look>} */
export async function look(model, text, position, signal) {
  const off = offOf(model);
  const recorded = off.length ? null : recordedLook(model, text, position);
  if (recorded) return recorded;
  for await (const { data } of engine.run("look", { model, text, position, off }, signal)) return data;
  throw new service.ServiceError("The engine gave no answer.");
}

/** Takes apart how a model wrote text[position].
 * @type {(model: string, text: string, position: number) => Promise<import("./engine/dissect.js").Dissection>} */
export async function dissect(model, text, position) {
  for await (const { data } of engine.run("dissect", { model, text, position })) return data;
  throw new service.ServiceError("The engine gave no answer.");
}

/** Returns the activations of neurons for each character of a text from `start` on.
 * @type {(model: string, text: string, start: number, neurons: import("./engine/dissect.js").Neuron[],
 *   signal: AbortSignal) => Promise<number[][]>} */
export async function follow(model, text, start, neurons, signal) {
  const activations = [];
  for await (const { data } of engine.run("follow", { model, text, start, neurons }, signal)) activations.push(data);
  return activations;
}
