"""How the page reads the stream of a service."""

from tools.node import in_node

STREAM = (
    ": a comment\n\nevent: a\ndata: 1\ndata:  2\n\ndata: ×÷−😀\n\n: ping\n\nevent: empty\n\n"
    "id: 7\nretry: 5\ndata\ndata\n\nevent: r\ndata:x: y\n\ndata: never ended"
)
EVENTS = [
    {"name": "a", "data": "1\n 2"},
    {"name": "message", "data": "×÷−😀"},
    {"name": "message", "data": "\n"},
    {"name": "r", "data": "x: y"},
]
READ = """async (bytes) => {
    const { events } = await import("/static/client.js");
    const read = async (cut) => {
        let at = 0;
        const pull = (controller) => {
            if (at >= bytes.length) return controller.close();
            const end = Math.min(bytes.length, at + cut(at));
            controller.enqueue(new Uint8Array(bytes.slice(at, end)));
            at = end;
        };
        const found = [];
        for await (const event of events(new ReadableStream({ pull }))) found.push(event);
        return found;
    };
    const all = [];
    for (let size = 1; size <= bytes.length; size++) all.push(await read(() => size));
    for (let place = 1; place < bytes.length; place++)
        all.push(await read((at) => (at < place ? place - at : bytes.length)));
    return all;
}"""


def test_a_stream_is_read_in_pieces_of_any_size() -> None:
    for events in in_node(READ, list(STREAM.encode())):
        assert events == EVENTS
