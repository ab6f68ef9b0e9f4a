// The backend of the page. The engine calculates in this browser. The host is a service, or else has only files
// (backend.json). A service lists its models and gives their weights, and calculates with those that the engine cannot
// run.

import { listOff, parseHash } from "./address.js";
import * as service from "./client.js";
import { Engine } from "./engine/engine.js";
import { breaksTie } from "./engine/fractions.js";
import { limitsOf } from "./engine/limits.js";
import { recordedLook } from "./example.js";
import { store } from "./state.js";

const NO_WEIGHTS = "urn:calcgpt:problem:no-weights"; // the engine cannot run the model
const PROGRESS = 100; // milliseconds between two reports on a model that is loading

/** service: whether there is a service; models: only without one, the models with their files and manifests.
 * @typedef {{service: boolean, models: (service.Model & {file: string} & Record<string, any>)[]}} Host
 */

/** @type {Promise<Host> | undefined} */ let host;
/** @type {service.Model[]} */ let listed = []; // the models of the last list
/** @type {Map<string, service.Progress>} */ const progress = new Map(); // of models that are loading

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
  const ofService = `v1/models/${encodeURIComponent(model)}/weights`;
  const path = hasService ? ofService : models.find(({ id }) => id === model)?.file;
  if (!path) throw new service.ServiceError(`There is no model ${model}.`);
  return service.weights(path, (report) => progress.set(model, report));
});

/** Starts the engine while the other modules are still loading, and loads the model that the first calculation needs:
 * at once if the address has a question, else when the user begins to type. */
async function start() {
  await getHost();
  engine.start();
  const state = parseHash(location.hash);
  if (!state) await new Promise((begin) => ["keydown", "pointerdown"].forEach((type) => addEventListener(type, begin)));
  await engine.load(await find(state?.model));
}

start().catch(() => {}); // the next calculation tries again and reports the error

/** Caches a page without a service, so that it works offline. This fetches all its files, so call it
 * after the page has shown its first answer. */
export async function cachePage() {
  await new Promise((begin) => (globalThis.requestIdleCallback ?? setTimeout)(begin)); // when the answer is painted
  try {
    if (!(await getHost()).service) await navigator.serviceWorker?.register("sw.js");
  } catch {} // for example in a private window
}

/** Returns the models.
 * @returns {Promise<service.Model[]>}
 * @throws {service.ServiceError} */
export async function listModels() {
  const { service: hasService, models } = await getHost();
  listed = hasService
    ? await service.listModels()
    : models.map((model) => ({ ...model, domain: model.task ? null : limitsOf(model).domain }));
  return [...listed];
}

/** Returns what the engine knows of a model besides its weights (calcgpt/inference/browser.py), after loading it.
 * @param {string} model */
export const manifestOf = (model) => engine.load(model);

/** Returns the parts that are switched off of a model: only of the one that the page asks. @param {string} model */
const offOf = (model) => (model === store.state.model ? listOff(store.state.off) : []);

/** Returns the name of a model that is listed. @param {string} [model] without it, the default */
async function find(model) {
  const isMeant = (/** @type {service.Model} */ entry) => (model ? entry.id === model : entry.default);
  const found = listed.find(isMeant) ?? (await listModels()).find(isMeant);
  if (!found) throw new service.ServiceError(model ? `There is no model ${model}.` : "No model is loaded yet.");
  return found.id;
}

/** Loads a model and yields how much of it has arrived.
 * @type {(model: string) => AsyncGenerator<service.CalculationEvent>} */
async function* loading(model) {
  const loaded = engine.load(model).then(() => true);
  while (!(await Promise.race([loaded, new Promise((resolve) => setTimeout(resolve, PROGRESS))]))) {
    yield { name: "loading", data: progress.get(model) ?? { received: 0, total: 0 } };
  }
}

/** Yields the events of a calculation without the parts `off`; the last one is `result`. The service has no switches.
 * @throws {service.ServiceError} or AbortError after `signal`
 * @type {(expression: string, options: service.Options & {off?: string[]},
 *   signal?: AbortSignal) => AsyncGenerator<service.CalculationEvent>} */
export async function* calculate(expression, { off = [], ...options }, signal) {
  const model = await find(options.model);
  try {
    yield* loading(model);
  } catch (error) {
    if (!isForService(error) || off.length) throw error;
    yield* service.calculate(expression, { ...options, model }, signal);
    return;
  }
  yield* engine.run("calculate", { ...options, model, expression, off }, signal);
}

/** Returns whether an error says that the engine cannot run a model. @param {unknown} error */
const isForService = (error) => error instanceof service.ServiceError && error.type === NO_WEIGHTS;

/** Yields what a model of a task writes after a question: its characters, or all at once if the service had to ask it.
 * @type {(model: string, question: string, signal: AbortSignal) => AsyncGenerator<service.Token>} */
export async function* ask(model, question, signal) {
  try {
    await engine.load(model);
  } catch (error) {
    if (!isForService(error)) throw error;
    const { result, work, confidence } = await service.ask(model, question, signal);
    const text = result === null ? "" : `${work === null ? "" : `${work}=`}${result}$`;
    yield { text, probability: confidence.whole };
    return;
  }
  for await (const { data } of engine.run("write", { model, text: `${question}=` }, signal)) yield data;
}

/** Returns the answer of a snapshot of a training run to an operation. isNearest: whether no other is nearer to the exact
 * value. The snapshot runs in this browser.
 * @type {(snapshot: {path: string, sha256: string}, expression: string, places: number,
 *   signal?: AbortSignal) => Promise<service.Node & {isNearest: boolean}>} */
export async function calculateWithSnapshot({ path, sha256 }, expression, places, signal) {
  hashes.set(path, sha256);
  const payload = { model: path, expression, places };
  for await (const { name, data } of engine.run("calculate", payload, signal)) {
    if (name !== "result") continue;
    const [node] = data.nodes;
    return { ...node, isNearest: node.agrees || breaksTie(node.result, data.fraction, places) };
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

/** Takes apart how a model wrote text[position], without the parts `off`.
 * @type {(model: string, text: string, position: number) => Promise<import("./story.js").Told>} */
export async function dissect(model, text, position) {
  const off = offOf(model);
  for await (const { data } of engine.run("dissect", { model, text, position, off })) return { ...data, off };
  throw new service.ServiceError("The engine gave no answer.");
}

/** Returns the activations of neurons for each character of a text from `start` on.
 * @type {(model: string, text: string, start: number, neurons: import("./engine/dissect.js").Neuron[],
 *   signal: AbortSignal) => Promise<number[][]>} */
export async function follow(model, text, start, neurons, signal) {
  const activations = [];
  const payload = { model, text, start, neurons, off: offOf(model) };
  for await (const { data } of engine.run("follow", payload, signal)) activations.push(data);
  return activations;
}
