// Server-sent events from any stream of bytes (WHATWG HTML, 9.2.6). EventSource cannot POST.

/** Parses text that arrives in pieces, cut anywhere. */
export class Parser {
  #rest = "";
  #afterReturn = false;
  #name = "";
  /** @type {string[]} */
  #data = [];

  /**
   * Yields the events that this piece completes.
   * @param {string} text
   * @returns {Generator<{name: string, data: string}>}
   */
  *push(text) {
    if (!text) return;
    if (this.#afterReturn && text.startsWith("\n")) text = text.slice(1); // the second half of a CRLF
    this.#afterReturn = text ? text.endsWith("\r") : false;
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line) this.#field(line);
      else yield* this.#dispatch();
    }
  }

  /** @param {string} line */
  #field(line) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []; // an empty field: a comment
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
  }

  *#dispatch() {
    const [name, data] = [this.#name || "message", this.#data];
    this.#name = "";
    this.#data = [];
    if (data.length) yield { name, data: data.join("\n") };
  }
}

/**
 * Yields the events of a stream of UTF-8. Leaving the loop cancels the stream.
 * @param {ReadableStream<Uint8Array>} stream
 */
export async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  const parser = new Parser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // an event without a blank line at its end is incomplete
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {}); // a failed stream is already closed
  }
}
