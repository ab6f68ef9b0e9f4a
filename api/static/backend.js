// The backend of the page. The engine calculates in this browser. The host is a service, or else has only files
// (backend.json). A service lists its models, gives the weights of those that the engine runs, and calculates with
// others.

import { listOff, parseHash } from "./address.js";
import * as service from "./client.js";
import { Engine } from "./engine/engine.js";
import { byId, createButton } from "./format.js";
import { store } from "./state.js";

const NO_WEIGHTS = "urn:calcgpt:problem:no-weights"; // the engine cannot run the model
const AT_ONCE = 4096; // cases that a worker tries before it tells
const N_PROVERS = Math.min(4, navigator.hardwareConcurrency - 1) || 1; // workers: one core is left to the page
const PROGRESS = 100; // milliseconds between two reports on a model that is loading

/** @import { Refutation, Tried } from "./engine/proof.js" */

/** service: whether there is a service; models: only without one, the manifests of the models, with their files.
 * @typedef {{service: boolean, models: (service.Manifest & service.Model & {file: string})[]}} Host */

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

/** Returns what an engine needs to run a model.
 * @type {(model: string) => Promise<{manifest: service.Manifest, buffer: ArrayBuffer}>} */
async function fetchModel(model) {
  const onProgress = (/** @type {service.Progress} */ report) => progress.set(model, report);
  const { service: hasService, models } = await getHost();
  if (hasService) {
    const path = `v1/models/${encodeURIComponent(model)}`;
    const manifest = service.manifest(`${path}/manifest`);
    const buffer = service.weights(`${path}/weights`, onProgress);
    await Promise.all([manifest, buffer]);
    return { manifest: await manifest, buffer: await buffer };
  }
  const manifest = models.find(({ id }) => id === model);
  if (!manifest) throw new service.ServiceError(`There is no model ${model}.`);
  return { manifest, buffer: await service.weights(manifest.file, onProgress) };
}

const engine = new Engine(fetchModel);

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
 * after the page has shown its first answer. Says so when a new version has replaced the one that this page is. */
export async function cachePage() {
  await new Promise((begin) => (globalThis.requestIdleCallback ?? setTimeout)(begin)); // when the answer is painted
  const { serviceWorker } = navigator;
  try {
    if ((await getHost()).service) return;
    await serviceWorker?.register("sw.js");
    if (!serviceWorker?.controller) return; // it is the first version
    serviceWorker.oncontrollerchange = () => {
      const reload = createButton("plain", "Reload it", () => location.reload());
      byId("error").replaceChildren("There is a new version of this page. ", reload);
    };
  } catch {} // for example in a private window
}

/** Returns the models.
 * @returns {Promise<service.Model[]>}
 * @throws {service.ServiceError} */
export async function listModels() {
  const { service: hasService, models } = await getHost();
  listed = hasService ? await service.listModels() : models;
  return [...listed];
}

/** Returns what the engine knows of a model besides its weights, after loading it.
 * @param {string} model "": the default */
export const manifestOf = async (model) => engine.load(await find(model));

/** Returns whether the host of the page is a service. */
export const hasService = async () => (await getHost()).service;

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

/** Yields the characters that a model writes after the beginning of a line.
 * @type {(model: string, text: string, signal?: AbortSignal) => AsyncGenerator<string>} */
export async function* write(model, text, signal) {
  for await (const { data } of engine.run("write", { model, text, off: offOf(model) }, signal)) yield data;
}

/** Takes apart how a model wrote text[position].
 * @type {(model: string, text: string, position: number) => Promise<import("./engine/dissect.js").Dissection>} */
export async function dissect(model, text, position) {
  const payload = { model, text, position, off: offOf(model) };
  for await (const { data } of engine.run("dissect", payload)) return data;
  throw new service.ServiceError("The engine gave no answer.");
}

/** Tries a model without the parts `off` in all cases, in workers of their own, so that the page still answers. onTried:
 * called with what came of some cases; what it returns is awaited. Returns null if the model is right in all, or else a
 * wrong case, and a problem in which it is the first, if one was found.
 * @type {(model: string, off: string[], onTried: (tried: Tried) => Promise<void>, signal: AbortSignal) =>
 *   Promise<Refutation | null>} */
export async function prove(model, off, onTried, signal) {
  const engines = Array.from({ length: N_PROVERS }, () => new Engine(fetchModel));
  const id = await find(model);
  /** @type {Map<number, import("./engine/proof.js").Mistake>} by the number of the first case that was tried with it */
  const mistakes = new Map();
  let [next, end] = [0, 1];
  const run = async (/** @type {Engine} */ prover) => {
    while (next < end) {
      const start = next;
      next += AT_ONCE;
      for await (const { data } of prover.run("tryCases", { model: id, off, start, n: AT_ONCE }, signal)) {
        if (data.mistake) mistakes.set(start, data.mistake);
        end = mistakes.size ? 0 : data.of;
        await onTried(data);
      }
    }
  };
  try {
    await Promise.all(engines.map(run));
    const mistake = mistakes.get(Math.min(...mistakes.keys()));
    if (!mistake) return null;
    const payload = { model: id, off, kind: mistake.kind };
    for await (const { data } of engines[0].run("findProblem", payload, signal)) return data ?? { mistake };
    return { mistake };
  } finally {
    for (const prover of engines) prover.stop();
  }
}
