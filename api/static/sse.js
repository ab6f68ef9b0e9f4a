// Server-sent events from any stream of bytes (WHATWG HTML, 9.2.6). EventSource cannot send a POST.

/** Parses a stream of text. The text may be cut anywhere. */
export class Parser {
  #incompleteLine = "";
  #afterReturn = false;
  #name = "";
  /** @type {string[]} */ #data = [];

  /** Yields the events that the next piece of text completes.
   * @type {(text: string) => Generator<{name: string, data: string}>} */
  *push(text) {
    if (!text) return;
    if (this.#afterReturn && text.startsWith("\n")) text = text.slice(1); // the second half of a CRLF
    this.#afterReturn = text ? text.endsWith("\r") : false;
    const lines = (this.#incompleteLine + text).split(/\r\n|\n|\r/);
    this.#incompleteLine = lines.pop() ?? "";
    for (const line of lines) {
      if (line) this.#field(line);
      else yield* this.#dispatch();
    }
  }

  /** @param {string} line */
  #field(line) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []; // a comment has an empty field
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

/** Yields the events of a stream of UTF-8. If the caller leaves its loop, the stream is cancelled.
 * @param {ReadableStream<Uint8Array>} stream */
export async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  const parser = new Parser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // an event without a blank line after it is incomplete, so it is ignored
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {}); // a failed stream is already closed
  }
}
