// Who calculates: the service or, where the page is served without one, the engine in this browser.
// The host of the page says which (backend.json).

import { read } from "./address.js";
import * as service from "./client.js";
import { Engine } from "./engine/engine.js";
import { limitsOf } from "./engine/limits.js";
import { recordedLook } from "./example.js";

/**
 * models, with their files and manifests: only without a service
 * @typedef {{service: boolean, models: (service.Model & {file: string} & Record<string, any>)[]}} Host
 */

/** @type {Host} */
const SERVED = { service: true, models: [] };

/** @type {Promise<Host> | undefined} */
let host;

/** Returns what the host of the page says. @returns {Promise<Host>} */
function theHost() {
  host ??= fetch("static/backend.json")
    .then((response) => (response.ok ? response.json() : SERVED))
    .catch(() => SERVED); // whose client says that it cannot be reached
  return host;
}

/** Hashes of the snapshots' weights, by path: these are models of the page itself.
 * @type {Map<string, string>} */
const hashes = new Map();

const engine = new Engine(async (model) => {
  const hash = hashes.get(model);
  if (hash) return checked(await service.weights(model), hash);
  const { service: isServed, models } = await theHost();
  if (isServed) return service.weights(`v1/models/${encodeURIComponent(model)}/weights`);
  const known = models.find(({ id }) => id === model);
  if (!known) throw new service.ServiceError(`There is no model ${model}.`);
  return service.weights(known.file);
});

/** Starts what a page without a service needs, while its other modules are still on their way: the
 * engine and, if the address asks something, the model that it asks. */
async function start() {
  const { service: isServed, models } = await theHost();
  if (isServed) return;
  engine.start();
  const asked = read(location.hash);
  const model = models.find(({ id }) => id === asked?.model) ?? models.find((known) => known.default);
  if (asked && model) await engine.load(model.id);
}

start().catch(() => {}); // who calculates tries again, and tells

/** Adapts the page to a host without a service. */
export async function prepare() {
  if ((await theHost()).service) return;
  for (const shown of document.querySelectorAll(".of-service")) shown.setAttribute("hidden", "");
}

/** Keeps a page without a service for times without a connection. This fetches all its files, so it is
 * done when the page has shown its first answer. */
export async function keep() {
  if ((await theHost()).service) return;
  await navigator.serviceWorker?.register("sw.js").catch(() => {}); // for example in a private window
}

/**
 * Returns the models that calculate.
 * @returns {Promise<service.Model[]>}
 * @throws {service.ServiceError}
 */
export async function listModels() {
  const { service: isServed, models } = await theHost();
  if (isServed) return service.listModels();
  return models.map((model) => ({ ...model, domain: limitsOf(model).domain }));
}

/**
 * Yields the events of a calculation; see `calculate` of client.js.
 * @param {string} expression
 * @param {service.Options} options
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<service.CalculationEvent>}
 */
export async function* calculate(expression, options, signal) {
  const { service: isServed, models } = await theHost();
  if (isServed) yield* service.calculate(expression, options, signal);
  else {
    const model = options.model || models.find((known) => known.default)?.id || "";
    yield* engine.run("calculate", { ...options, model, expression }, signal);
  }
}

/**
 * Returns what a snapshot of a training answers to an operation, as the event `answer` has it. It runs
 * in this browser.
 * @param {{path: string, sha256: string}} snapshot
 * @param {string} expression
 * @param {number} places
 * @param {AbortSignal} [signal]
 * @returns {Promise<service.Node>}
 */
export async function calculateBySnapshot({ path, sha256 }, expression, places, signal) {
  hashes.set(path, sha256);
  const payload = { model: path, expression, places, unproven: true };
  for await (const { name, data } of engine.run("calculate", payload, signal)) {
    if (name === "answer") return data;
  }
  throw new service.ServiceError("The snapshot gave no answer.");
}

/**
 * Returns a file if its hash is right. Browsers compute hashes only for safe connections.
 * @param {ArrayBuffer} buffer
 * @param {string} sha256
 */
async function checked(buffer, sha256) {
  const digest = await crypto.subtle?.digest("SHA-256", buffer);
  const found = digest && Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found && found !== sha256) throw new service.ServiceError("A snapshot is damaged.");
  return buffer;
}

/**
 * Yields the characters that a model writes after a text, `{text, probability}`.
 * @param {string} model
 * @param {string} text
 * @param {import("./engine/generate.js").Sampling} sampling
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<service.Written>}
 */
export async function* write(model, text, sampling, signal) {
  for await (const { data } of engine.run("write", { model, text, sampling }, signal)) yield data;
}

/**
 * Returns what a model looked at and considered when it wrote text[position].
 * @param {string} model
 * @param {string} text
 * @param {number} position
 * @param {AbortSignal} [signal]
 * @returns {Promise<import("./engine/generate.js").Look>}
 */
export async function look(model, text, position, signal) {
  const recorded = recordedLook(model, text, position);
  if (recorded) return recorded;
  for await (const { data } of engine.run("look", { model, text, position }, signal)) return data;
  throw new service.ServiceError("The engine gave no answer.");
}
