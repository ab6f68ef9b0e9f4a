// Server-sent events of the service, in UTF-8. EventSource cannot send a POST.

/** Yields the events of a stream. If the caller leaves its loop, the stream is cancelled. An event without a blank line
 * after it is incomplete, so it is ignored.
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
