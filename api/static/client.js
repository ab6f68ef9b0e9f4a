// Requests to the service.

import { events } from "./sse.js";

const KEY = "calcgpt.key";

/** An error whose message is one line for the user. */
export class ServiceError extends Error {
  /** `details`: type, a URN; status; position and end in the expression, as code points;
   * retryAfter, seconds. */
  constructor(message, details = {}) {
    super(message);
    Object.assign(this, details);
  }

  static of(problem, retryAfter = null) {
    const { type, status, detail, title, position, end } = problem;
    const text = detail || title || `The service answered with status ${status}.`;
    const message = position === undefined ? text : text.replace(/ \(position \d+\)$/, "");
    return new ServiceError(message, { type, status, position, end, retryAfter });
  }
}

/** Stores an API key for this tab. Later requests send it. */
export function useKey(key) {
  storedKey.set(key);
}

// If storage is forbidden, the key lasts until the page is closed.
const storedKey = {
  key: null,
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

/** Returns the models that calculate. Throws ServiceError. */
export async function listModels() {
  const response = await request("v1/models");
  try {
    return (await response.json()).data.filter((model) => model.domain);
  } catch {
    throw new ServiceError("The list of checkpoints could not be read.");
  }
}

/** Yields the events of a calculation, `{name, data}`; the last one is `result`. The service
 * chooses a model or places that are empty. `unproven` asks beyond what the model was measured for.
 * Throws ServiceError, or AbortError after `signal`. */
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
    for await (const { name, data } of events(response.body)) {
      const value = JSON.parse(data);
      if (name === "error") throw ServiceError.of(value);
      yield { name, data: value };
      if (name === "result") return;
    }
  } catch (error) {
    if (error instanceof ServiceError || error.name === "AbortError") throw error;
  }
  throw new ServiceError("The connection ended before the answer was complete.");
}

/** Returns the file with the weights of a model. Throws ServiceError. */
export async function weights(path) {
  const response = await request(path);
  try {
    return await response.arrayBuffer();
  } catch {
    throw new ServiceError("The weights of this checkpoint could not be loaded.");
  }
}

async function request(path, options = {}) {
  const key = storedKey.get();
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError("The service cannot be reached.");
  }
  if (response.ok) return response;
  const { status } = response;
  const problem = await response.json().catch(() => ({}));
  if (status === 401) problem.detail = `${key ? "This API key is not valid" : "This service requires an API key"}.`;
  throw ServiceError.of({ ...problem, status }, seconds(response.headers.get("Retry-After")));
}

/** Retry-After, a number of seconds or a date, in seconds; null if it is neither. */
function seconds(text) {
  if (!text) return null;
  const wait = /^\d+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1000);
  return Number.isNaN(wait) ? null : Math.max(0, wait);
}
