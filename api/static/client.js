// Requests to the service.

import { events } from "./sse.js";

const KEY = "calcgpt.key";

/** A part of an expression. position, end: its code points in the text that was typed.
 * @typedef {{expression: string, position: number, end: number}} Span
 * @typedef {import("./engine/computation.js").Confidence} Confidence */

/** An operation and the model's answer. If an operand is missing, the model is not asked: then `problem` and all other
 * fields that are not in Span are null or false.
 * @typedef {Span & {problem: string, prompt: string, output: string, result: string | null,
 * exact: string, agrees: boolean, confidence: Confidence}} Node */

/** The answer to an expression. reading: how it was read, if a reader could think otherwise; alternative: the
 * expression in that other reading; fraction: the exact value, unless it is very long.
 * @typedef {{expression: string, reading: string | null, alternative: string | null, result: string | null,
 * exact: string, fraction: string | null, places: number, rounded: boolean, verified: boolean,
 * in_tested_range: boolean, confidence: Confidence, nodes: Node[], model: string}} Calculation */

/** The events of a calculation.
 * @typedef {{expression: string, model: string, places: number, nodes: Span[]}} Start
 * @typedef {{node: number, problem: string, prompt: string}} Question
 * @typedef {{text: string, probability: number}} Token a character that the model wrote
 * @typedef {{name: "loading", data: {bytes: number}} | {name: "start", data: Start} | {name: "node", data: Question}
 * | {name: "token", data: Token & {node: number}} | {name: "answer", data: Node & {node: number}}
 * | {name: "result", data: Calculation}} CalculationEvent */

/** A model that calculates, as the service lists it.
 * @typedef {{below: number | null, digits: number | null, divisor_digits: number | null,
 * decimal_places: number, default_places: number, max_characters: number, works_in_steps: boolean}} Domain
 * @typedef {{id: string, default: boolean, parameters: number, domain: Domain,
 * metrics: {n: number, exact_match: number} | null}} Model */

/** Options of a calculation. The service chooses those that are missing. beyond_tested: whether to accept numbers for
 * which the model was not measured; decimal_comma: whether `12,500` is 12.5.
 * @typedef {{model?: string, places?: number, beyond_tested?: boolean, decimal_comma?: boolean}} Options */

/** Details of an error. type: a URN; position, end: code points of the expression; retryAfter: seconds.
 * @typedef {{type?: string, status?: number, position?: number, end?: number,
 * retryAfter?: number | null}} Details */

/** An error with a message of one line for the user. */
export class ServiceError extends Error {
  /** @param {string} message @param {Details} details */
  constructor(message, { type, status, position, end, retryAfter } = {}) {
    super(message);
    this.type = type;
    this.status = status;
    this.position = position;
    this.end = end;
    this.retryAfter = retryAfter;
  }

  /** Returns the error that a problem document (RFC 9457) describes.
   * @type {(problem: Details & {detail?: string, title?: string}, retryAfter?: number | null) => ServiceError} */
  static fromProblem(problem, retryAfter = null) {
    const { type, status, detail, title, position, end } = problem;
    const text = detail || title || `The server answered with status ${status}.`;
    const message = position === undefined ? text : text.replace(/ \(position \d+\)$/, "");
    return new ServiceError(message, { type, status, position, end, retryAfter });
  }
}

/** Returns whether an error says that an operation was aborted. @param {unknown} error */
export function isAborted(error) {
  return error instanceof Error && error.name === "AbortError";
}

/** Returns the message of an error. @param {unknown} error */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/** Stores an API key for this tab, without spaces around it and invisible characters, which may be pasted with it.
 * Later requests send it.
 * @param {string} key */
export function useKey(key) {
  storedKey.set(key.replace(/[\p{Cc}\p{Cf}]/gu, "").trim());
}

// If the browser forbids storage, the key lasts until the page is closed.
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

/** Returns what the host of the page offers (backend.js).
 * @returns {Promise<import("./backend.js").Host>}
 * @throws {ServiceError} */
export async function getHost() {
  const response = await request("static/backend.json");
  try {
    return await response.json();
  } catch {
    throw new ServiceError("A file of the page could not be read.");
  }
}

/** Returns the models that calculate.
 * @returns {Promise<Model[]>}
 * @throws {ServiceError} */
export async function listModels() {
  const response = await request("v1/models");
  try {
    return (await response.json()).data.filter((/** @type {Model} */ model) => model.domain);
  } catch {
    throw new ServiceError("The list of models could not be read.");
  }
}

/** Yields the events of a calculation; the last one is `result`.
 * @throws {ServiceError} or AbortError after `signal`
 * @type {(expression: string, options: Options, signal?: AbortSignal) => AsyncGenerator<CalculationEvent>} */
export async function* calculate(expression, options, signal) {
  const response = await request("v1/calculate/stream", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ expression, ...options }),
    signal,
  });
  try {
    for await (const { name, data } of events(/** @type {ReadableStream<Uint8Array>} */ (response.body))) {
      const value = JSON.parse(data);
      if (name === "error") throw ServiceError.fromProblem(value);
      yield /** @type {CalculationEvent} */ ({ name, data: value });
      if (name === "result") return;
    }
  } catch (error) {
    if (error instanceof ServiceError || isAborted(error)) throw error;
  }
  throw new ServiceError("The connection ended before the answer was complete.");
}

/** Returns the file with the weights of a model.
 * @param {string} path
 * @throws {ServiceError} */
export async function weights(path) {
  const response = await request(path);
  try {
    return await response.arrayBuffer();
  } catch {
    throw new ServiceError("The weights of this model could not be loaded.");
  }
}

/** Sends a request with the API key and returns the response.
 * @throws {ServiceError} or AbortError
 * @type {(path: string, options?: RequestInit) => Promise<Response>} */
async function request(path, options = {}) {
  const key = storedKey.get();
  const headers = new Headers(options.headers);
  if (key) headers.set("Authorization", `Bearer ${toByteString(key)}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ServiceError("The server cannot be reached.");
  }
  if (response.ok) return response;
  const { status } = response;
  const problem = await response.json().catch(() => ({}));
  if (status === 401) problem.detail = `${key ? "This API key is not valid" : "This service requires an API key"}.`;
  throw ServiceError.fromProblem({ ...problem, status }, parseRetryAfter(response.headers.get("Retry-After")));
}

/** Returns the bytes of a text in UTF-8, as characters: a header can have no others. @param {string} text */
function toByteString(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

/** Returns the value of Retry-After in seconds, or null if it is neither a number nor a date.
 * @param {string | null} text */
function parseRetryAfter(text) {
  if (!text) return null;
  const seconds = /^\d+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1000);
  return Number.isNaN(seconds) ? null : Math.max(0, seconds);
}
