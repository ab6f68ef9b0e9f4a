// Requests to the service.

const KEY = "calcgpt.key";

/** A part of an expression. position, end: its code points in the text that was typed; path: if it is an operation of a
 * function, the rows of its program, and of those that this calls, the outermost first.
 * @typedef {{expression: string, position: number, end: number, path?: string[]}} Span
 * @typedef {import("./engine/computation.js").Confidence} Confidence */

/** An operation and the model's answer. If an operand is missing, the model is not asked: then `problem` and all other
 * fields that are not in Span are null or false.
 * @typedef {Span & {problem: string, prompt: string, output: string, result: string | null,
 * exact: string, agrees: boolean, proved: boolean, confidence: Confidence}} Node */

/** The answer to an expression. reading: how it was read, if a reader could think otherwise; alternative: the
 * expression in that other reading; fraction: the exact value, unless it is very long; off: the parts of the model that
 * were switched off, if any.
 * @typedef {{expression: string, reading: string | null, alternative: string | null, result: string | null,
 * exact: string, fraction: string | null, places: number, rounded: boolean | null, verified: boolean,
 * confidence: Confidence, nodes: Node[], model: string, off?: string[]}} Calculation */

/** The events of a calculation.
 * @typedef {{received: number, total: number}} Progress bytes of a model that is loading; total: 0 if it is not known
 * @typedef {{expression: string, model: string, places: number, nodes: Span[]}} Start
 * @typedef {{node: number, problem: string, prompt: string}} Question
 * @typedef {{text: string, probability: number}} Token a character that the model wrote
 * @typedef {{name: "loading", data: Progress} | {name: "start", data: Start} | {name: "node", data: Question}
 * | {name: "token", data: Token & {node: number}} | {name: "answer", data: Node & {node: number}}
 * | {name: "result", data: Calculation}} CalculationEvent */

/** A model, as the service lists it. It has no domain if it does not calculate.
 * @typedef {{decimal_places: number, default_places: number, max_characters: number, works_in_steps: boolean}} Domain
 * @typedef {{id: string, default: boolean, parameters: number, domain: Domain,
 * metrics: {n: number, exact_match: number} | null}} Model */

/** What the engine knows of a model besides its weights (calcgpt/inference/browser.py).
 * @typedef {{id: string, parameters: number, metrics: Model["metrics"], vocabulary: string, layers: number,
 * heads: number, neurons: number, switches: import("./brain/parts.js").SwitchMap | null}} Manifest */

/** Options of a calculation. The service chooses those that are missing. decimal_comma: whether `12,500` is 12.5; angle:
 * what sin(30) is the sine of.
 * @typedef {{model?: string, places?: number, decimal_comma?: boolean, angle?: "radians" | "degrees"}} Options */

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

/** @type {string | null} */ let key = null; // lasts until the page is closed, if the browser forbids storage

/** Stores an API key for this tab, without spaces around it and invisible characters, which may be pasted with it. Later
 * requests send it.
 * @param {string} typed */
export function useKey(typed) {
  key = typed.replace(/[\p{Cc}\p{Cf}]/gu, "").trim();
  try {
    sessionStorage.setItem(KEY, key);
  } catch {}
}

function storedKey() {
  try {
    return key ?? sessionStorage.getItem(KEY);
  } catch {
    return key;
  }
}

/** Returns what `read` makes of a file. The message is that of the ServiceError if it fails.
 * @template T
 * @param {string} path @param {(response: Response) => Promise<T>} read @param {string} message */
async function load(path, read, message) {
  const response = await request(path);
  try {
    return await read(response);
  } catch {
    throw new ServiceError(message);
  }
}

/** Returns what the host of the page offers (backend.js). @type {() => Promise<import("./backend.js").Host>} */
export const getHost = () => load("static/backend.json", (file) => file.json(), "A file of the page could not be read.");

/** Returns the models that calculate. @returns {Promise<Model[]>} */
export async function listModels() {
  const { data } = await load("v1/models", (file) => file.json(), "The list of models could not be read.");
  return data.filter((/** @type {Model} */ { domain }) => domain);
}

/** Returns the manifest of a model. @type {(path: string) => Promise<Manifest>} */
export const manifest = (path) => load(path, (file) => file.json(), "The manifest of this model could not be read.");

/** Returns the file with the weights of a model. onProgress: called as it arrives.
 * @type {(path: string, onProgress: (report: Progress) => void) => Promise<ArrayBuffer>} */
export function weights(path, onProgress) {
  const read = (/** @type {Response} */ { body, headers }) => {
    const total = headers.has("Content-Encoding") ? 0 : Number(headers.get("Content-Length"));
    let received = 0;
    const count = new TransformStream({
      transform(chunk, controller) {
        received += chunk.length;
        onProgress({ received, total });
        controller.enqueue(chunk);
      },
    });
    return new Response(body?.pipeThrough(count)).arrayBuffer();
  };
  return load(path, read, "The weights of this model could not be loaded.");
}

/** Yields the server-sent events of a stream in UTF-8 (EventSource cannot send a POST). If the caller leaves its loop,
 * the stream is cancelled. An event without a blank line after it is incomplete, so it is ignored.
 * @param {ReadableStream<Uint8Array>} stream */
export async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (text + decoder.decode(value, { stream: true })).split("\n\n");
      text = blocks.pop() ?? "";
      yield* blocks.flatMap(parse);
    }
  } finally {
    reader.cancel().catch(() => {}); // a failed stream is already closed
  }
}

/** Returns the event of a block, none for a comment. @param {string} block */
function parse(block) {
  const fields = block.split("\n").map((line) => line.split(/: ?(.*)/s));
  const data = fields.filter(([name]) => name === "data").map(([, value]) => value);
  const name = fields.findLast(([name]) => name === "event")?.[1] ?? "message";
  return data.length ? [{ name, data: data.join("\n") }] : [];
}

/** Yields the events of a calculation; the last one is `result`.
 * @throws {ServiceError} or AbortError after `signal`
 * @type {(expression: string, options: Options, signal?: AbortSignal) => AsyncGenerator<CalculationEvent>} */
export async function* calculate(expression, options, signal) {
  const response = await request("v1/calculate/stream", post({ expression, ...options }, signal));
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

/** @type {(body: object, signal?: AbortSignal) => RequestInit} */
const post = (body, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
  signal,
});

/** Sends a request with the API key and returns the response.
 * @throws {ServiceError} or AbortError
 * @type {(path: string, options?: RequestInit) => Promise<Response>} */
async function request(path, options = {}) {
  const stored = storedKey();
  const headers = new Headers(options.headers);
  const bytes = String.fromCharCode(...new TextEncoder().encode(stored ?? "")); // a header can have no other characters
  if (stored) headers.set("Authorization", `Bearer ${bytes}`);
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
  if (status === 401) problem.detail = `${stored ? "This API key is not valid" : "This service requires an API key"}.`;
  const retryAfter = response.headers.get("Retry-After");
  throw ServiceError.fromProblem({ ...problem, status }, /^\d+$/.test(retryAfter ?? "") ? Number(retryAfter) : null);
}
