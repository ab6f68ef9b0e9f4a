"""What a connection reads, beside h11 as an independent reader."""

import asyncio
from itertools import pairwise
from typing import Any, NamedTuple

import h11
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState

from api.connections import HEAD_BYTES, PIECE, Connection
from api.slow_clients import poll

HEAD = b"POST /a?b=1 HTTP/1.1\r\nHost: x\r\n"
CHUNKS = b"5\r\nhel\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: v\r\n\r\n"
REQUESTS = (
    b"GET /a?b=1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    HEAD + b"Content-Length: 5\r\n\r\nhello",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
)
INSERTED = (
    b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\t", b":", b"0", b"5", b"\0", b"\x80", b",", b";", b"+",
    b"Host: y\r\n", b"Content-Length: 5\r\n", b"Content-Length: 6\r\n", b"Connection: close\r\n",
    b"Transfer-Encoding: chunked\r\n", b"transfer-encoding : chunked\r\n", b" x: folded\r\n",
    b"Transfer-Encoding: gzip\r\n", b"chunked", b"HTTP/1.1", b"HTTP/2.0", b"0x", b"%00", b"GET",
)  # fmt: skip


class Read(NamedTuple):
    """A request that was read."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Transport:
    """What a connection writes to, which keeps nothing."""

    is_closed = is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def get_extra_info(self, name: str) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


def _shown(headers: Any) -> list[tuple[bytes, bytes]]:
    pairs = [(bytes(name), bytes(value)) for name, value in headers]
    return [(name, value) for name, value in pairs if name != b"upgrade"]  # an offer is dropped


async def by_us(pieces: list[bytes]) -> list[Read]:
    """Returns the requests that an application gets."""
    read: list[Read] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        read.append(Read(scope["method"].encode(), target, _shown(scope["headers"]), body))
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, lifespan="off", log_level="critical")
    connection, transport = Connection(config, ServerState(), {}), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    for piece in pieces:
        if not transport.is_closed:
            connection.data_received(piece)
        for _ in range(20):  # turns of the loop, in which what is read is answered
            await asyncio.sleep(0)
    connection.connection_lost(None)
    return read


def by_h11(data: bytes) -> list[Read]:
    """Returns the requests that h11 reads before it refuses anything."""
    parser, read, request, body = h11.Connection(h11.SERVER, HEAD_BYTES), list[Read](), None, b""
    parser.receive_data(data)
    try:
        while (event := parser.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Request):
                request, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert request
                headers = _shown(request.headers)
                read.append(Read(bytes(request.method), bytes(request.target), headers, body))
                parser.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                parser.send(h11.EndOfMessage())
                if parser.our_state is not h11.DONE or parser.their_state is not h11.DONE:
                    break
                parser.start_next_cycle()
            else:
                break
    except h11.RemoteProtocolError:
        pass
    return read


@settings(max_examples=300)
@given(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=3).map(b"".join), st.data())
def test_what_is_read_is_what_h11_reads(sent: bytes, data: st.DataObject) -> None:
    """Otherwise a proxy and the service could take the end of a request for another one. One may
    refuse what the other reads."""
    n_changed = data.draw(st.integers(0, 2))
    for _ in range(n_changed):
        place, dropped = data.draw(st.integers(0, len(sent))), data.draw(st.integers(0, 3))
        sent = sent[:place] + data.draw(st.sampled_from(INSERTED)) + sent[place + dropped :]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=2)))
    ends = [0, *cuts, len(sent)]
    pieces = [sent[first:last] for first, last in pairwise(ends)]
    ours, theirs = asyncio.run(by_us(pieces)), by_h11(sent)
    both = min(len(ours), len(theirs))
    assert ours[:both] == theirs[:both]
    assert n_changed or len(ours) == len(theirs) > 0


def test_requests_are_the_same_wherever_their_pieces_end() -> None:
    sent = REQUESTS[3] + REQUESTS[4] + REQUESTS[0]
    expected = by_h11(sent)
    assert len(expected) == 3
    for place in range(1, len(sent)):
        assert asyncio.run(by_us([sent[:place], sent[place:]])) == expected


async def test_a_request_that_looks_for_a_disconnect_does_not_read_on() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(1_000):
            poll(receive)
            await asyncio.sleep(0)

    config = uvicorn.Config(app, lifespan="off", log_level="critical")
    connection, transport = Connection(config, ServerState(), {}), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    connection.data_received(REQUESTS[0])
    n_read = 0
    for _ in range(500):
        if not transport.is_paused:
            connection.data_received(bytes(PIECE))
            n_read += PIECE
        await asyncio.sleep(0)
    assert 0 < n_read <= HEAD_BYTES + 2 * PIECE
    connection.connection_lost(None)
