// Requests to the service.

import { events } from "./sse.js";

const KEY = "calcgpt.key";

/**
 * A part of an expression, as code points of what was typed.
 * @typedef {{expression: string, position: number, end: number}} Span
 * @typedef {import("./engine/computation.js").Confidence} Confidence
 */

/**
 * An operation that a model was asked, and its answer. Without a problem it was not asked, because an
 * operand is missing: then all that is not a part of Span is null or false.
 * @typedef {Span & {problem: string, prompt: string, output: string, result: string | null,
 *   exact: string, agrees: boolean, confidence: Confidence}} Node
 */

/**
 * The answer to an expression.
 * @typedef {{expression: string, result: string | null, exact: string, places: number, rounded: boolean,
 *   verified: boolean, proven: boolean, confidence: Confidence, nodes: Node[], model: string}} Calculation
 */

/**
 * @typedef {{expression: string, model: string, places: number, nodes: Span[]}} Start
 * @typedef {{node: number, problem: string, prompt: string}} Question
 * @typedef {{text: string, probability: number}} Written a character
 * @typedef {{name: "start", data: Start} | {name: "node", data: Question}
 *   | {name: "token", data: Written & {node: number}} | {name: "answer", data: Node & {node: number}}
 *   | {name: "result", data: Calculation}} CalculationEvent
 */

/**
 * A model that calculates, as the service lists it.
 * @typedef {{below: number | null, digits: number | null, divisor_digits: number | null,
 *   decimal_places: number, default_places: number, max_characters: number, works_in_steps: boolean}} Domain
 * @typedef {{id: string, default: boolean, parameters: number, domain: Domain,
 *   metrics: {n: number, exact_match: number} | null}} Model
 */

/**
 * How to calculate. What is missing or empty, the service chooses. `unproven` asks beyond what the
 * model was measured for.
 * @typedef {{model?: string, places?: number, unproven?: boolean}} Options
 */

/**
 * What else is known of an error. type: a URN; position, end: in the expression, as code points;
 * retryAfter: seconds.
 * @typedef {{type?: string, status?: number, position?: number, end?: number,
 *   retryAfter?: number | null}} Details
 */

/** An error whose message is one line for the user. */
export class ServiceError extends Error {
  /**
   * @param {string} message
   * @param {Details} details
   */
  constructor(message, { type, status, position, end, retryAfter } = {}) {
    super(message);
    this.type = type;
    this.status = status;
    this.position = position;
    this.end = end;
    this.retryAfter = retryAfter;
  }

  /**
   * @param {Details & {detail?: string, title?: string}} problem a problem document
   * @param {number | null} retryAfter
   */
  static of(problem, retryAfter = null) {
    const { type, status, detail, title, position, end } = problem;
    const text = detail || title || `The service answered with status ${status}.`;
    const message = position === undefined ? text : text.replace(/ \(position \d+\)$/, "");
    return new ServiceError(message, { type, status, position, end, retryAfter });
  }
}

/** Whether somebody has ended it.
 * @param {unknown} error */
export function isAborted(error) {
  return error instanceof Error && error.name === "AbortError";
}

/** What an error says.
 * @param {unknown} error */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Stores an API key for this tab. Later requests send it.
 * @param {string} key
 */
export function useKey(key) {
  storedKey.set(key);
}

// If storage is forbidden, the key lasts until the page is closed.
const storedKey = {
  /** @type {string | null} */
  key: null,
  /** @param {string} key */
  set(key) {
    this.key = key;
    try {
      sessionStorage.setItem(KEY, key);
    } catch {}
  },
  get() {
    try {
      return this.key ?? sessionStorage.getItem(KEY);
    } catch {
      return this.key;
    }
  },
};

/**
 * Returns the models that calculate.
 * @returns {Promise<Model[]>}
 * @throws {ServiceError}
 */
export async function listModels() {
  const response = await request("v1/models");
  try {
    return (await response.json()).data.filter((/** @type {Model} */ model) => model.domain);
  } catch {
    throw new ServiceError("The list of models could not be read.");
  }
}

/**
 * Yields the events of a calculation; the last one is `result`.
 * @param {string} expression
 * @param {Options} options
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<CalculationEvent>}
 * @throws {ServiceError} or AbortError after `signal`
 */
export async function* calculate(expression, { model, places, unproven }, signal) {
  const body = JSON.stringify({
    expression,
    ...(model && { model }),
    ...(places && { places }),
    ...(unproven && { unproven }),
  });
  const response = await request("v1/calculate/stream", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body,
    signal,
  });
  try {
    for await (const { name, data } of events(/** @type {ReadableStream<Uint8Array>} */ (response.body))) {
      const value = JSON.parse(data);
      if (name === "error") throw ServiceError.of(value);
      yield /** @type {CalculationEvent} */ ({ name, data: value });
      if (name === "result") return;
    }
  } catch (error) {
    if (error instanceof ServiceError || isAborted(error)) throw error;
  }
  throw new ServiceError("The connection ended before the answer was complete.");
}

/**
 * Returns the file with the weights of a model.
 * @param {string} path
 * @throws {ServiceError}
 */
export async function weights(path) {
  const response = await request(path);
  try {
    return await response.arrayBuffer();
  } catch {
    throw new ServiceError("The weights of this model could not be loaded.");
  }
}

/**
 * @param {string} path
 * @param {RequestInit} options
 */
async function request(path, options = {}) {
  const key = storedKey.get();
  const headers = new Headers(options.headers);
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ServiceError("The service cannot be reached.");
  }
  if (response.ok) return response;
  const { status } = response;
  const problem = await response.json().catch(() => ({}));
  if (status === 401) problem.detail = `${key ? "This API key is not valid" : "This service requires an API key"}.`;
  throw ServiceError.of({ ...problem, status }, seconds(response.headers.get("Retry-After")));
}

/**
 * Retry-After, a number of seconds or a date, in seconds; null if it is neither.
 * @param {string | null} text
 */
function seconds(text) {
  if (!text) return null;
  const wait = /^\d+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1000);
  return Number.isNaN(wait) ? null : Math.max(0, wait);
}
