"""Connections of HTTP/1.1: what a bare service needs beyond uvicorn with httptools.

httptools reads heads and chunks fast, but without bounds, and all requests that it is given. Here
are bounds of what is read, and limits of time, which a proxy would have.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import Any

import httptools
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.http import full_problem
from api.slow_clients import UNSENT_BYTES

HEAD_BYTES = 16_384  # most bytes of a request beside its body: its head, its trailers, its chunks
HEAD_END = b"\r\n\r\n"
UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)
PIECE = 8_192  # bytes that are read at a time
MAX_CHUNKS = 512  # of a body
VERSIONS = ("1.0", "1.1")
PAUSE = 1e-9  # seconds; in effect the shortest pause that the system makes, about 60 us
# Connections above the limit that get a response: a quarter of it, within these bounds. More are
# closed at once.
LEAST_SPARE, SPARE = 16, 1_000
LINGER_SECONDS = 2  # for which a connection without a request stays open when the service ends
ENDING = "ending"  # a key in the state of a request that comes after that
FLOW = "flow"  # the key of uvicorn's FlowControl in the state of a request
ON_FULL = "on_full"  # the key of a function in the state of a lifespan: counts refusals

_of_thread = threading.local()


def _piece() -> bytearray:
    """Returns the buffer of a thread, whose event loop reads one piece after the other."""
    try:
        piece: bytearray = _of_thread.piece
    except AttributeError:
        piece = _of_thread.piece = bytearray(PIECE)
    return piece


class PieceReceiver(asyncio.BufferedProtocol):
    """Reads data in pieces, and no further while a piece of a body waits for the application.

    Otherwise thousands of clients could each make a connection keep all that the system received.
    """

    def __init__(self, connection: HttpToolsProtocol) -> None:
        self._connection = connection
        for name in ("eof_received", "pause_writing", "resume_writing", "connection_lost"):
            setattr(self, name, getattr(connection, name))

    def get_buffer(self, sizehint: int) -> bytearray:
        return _piece()

    def buffer_updated(self, nbytes: int) -> None:
        connection = self._connection
        connection.data_received(bytes(_piece()[:nbytes]))
        if connection.cycle and connection.cycle.body and not connection.cycle.response_complete:
            connection.flow.pause_reading()


class BoundedFlow(FlowControl):
    """Does not read on while enough is received that waits: each look for a disconnect would."""

    def __init__(self, transport: asyncio.Transport, reader: BoundedReader) -> None:
        super().__init__(transport)
        self._reader = reader

    def resume_reading(self) -> None:
        if not self._reader.has_enough():
            super().resume_reading()


class BoundedReader(HttpToolsProtocol):
    """Reads one request of a connection at a time, in bounds, and refuses what another server could
    read differently."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rest = b""  # what is received and not read
        self._in_head = True
        self._length = 0  # of the rest of the body, if the head tells it
        self._n_beside = self._n_chunks = 0  # bytes beside the body, and chunks, of the request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = BoundedFlow(transport, self)

    def data_received(self, data: bytes) -> None:
        if ENDING not in self.app_state:  # a part of a head does not delay the end
            self._unset_keepalive_if_required()
        self._rest += data
        self._read()
        if self._rest and self._is_waiting():
            self.flow.pause_reading()

    def eof_received(self) -> None:
        if self._rest and not self._is_waiting():
            self._refuse()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._read()

    def _read(self) -> None:
        """Reads up to the end of a request that is not answered yet."""
        while not self.transport.is_closing() and not self._is_waiting():
            size = self._next_size()
            if not size:
                return
            if self._in_head and size > HEAD_BYTES:
                return self._refuse()
            piece, self._rest = self._rest[:size], self._rest[size:]
            self._n_beside += size
            if self._in_head:
                piece = UPGRADE.sub(b"", piece)  # what is offered is not taken
            try:
                self.parser.feed_data(piece)
                if self._n_beside > HEAD_BYTES:
                    raise httptools.HttpParserError("too much beside the body")
            except (httptools.HttpParserError, httptools.HttpParserUpgrade):
                self._refuse()

    def _next_size(self) -> int:
        """Returns how many bytes can be read: a whole head, or no more than the rest of a body.
        After chunks there is an empty line, and then perhaps another request."""
        n, end = len(self._rest), self._rest.find(HEAD_END)
        if not self._in_head and self._length:
            return min(n, self._length)
        if not self._in_head and self._rest[:1] in (b"\r", b"\n"):  # the end of a line came before
            return 1
        if end >= 0:
            return end + len(HEAD_END)
        is_head = self._in_head and n <= HEAD_BYTES and self._rest[:1].isalpha()
        return 0 if is_head else n  # of what is no head, the parser says so

    def has_enough(self) -> bool:
        """Whether more is received of other requests than is kept."""
        return len(self._rest) > HEAD_BYTES and self._is_waiting()

    def _is_waiting(self) -> bool:
        """Whether a request is read and not answered."""
        cycle = self.cycle
        return cycle is not None and not (cycle.more_body or cycle.response_complete)

    def _refuse(self) -> None:
        if self._in_head or not self.cycle.response_started:
            self.send_400_response("Invalid HTTP request received.")
        self.transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else it is a trailer
            super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        names = [name for name, _ in self.headers]
        codings = [value for name, value in self.headers if name == b"transfer-encoding"]
        version, n_host = self.parser.get_http_version(), names.count(b"host")
        if (
            version not in VERSIONS
            or n_host > 1
            or (version == "1.1" and not n_host)
            or (codings and (version == "1.0" or [c.lower() for c in codings] != [b"chunked"]))
        ):
            raise httptools.HttpParserError
        self._unset_keepalive_if_required()
        super().on_headers_complete()
        self._in_head = False
        self._length = int(dict(self.headers).get(b"content-length", 0))

    def on_chunk_header(self) -> None:
        self._n_chunks += 1
        if self._n_chunks > MAX_CHUNKS and not self.cycle.response_complete:
            raise httptools.HttpParserError

    def on_body(self, body: bytes) -> None:
        self._n_beside -= len(body)
        self._length = max(0, self._length - len(body))  # of chunks it is 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._n_beside, self._n_chunks = True, 0, 0


class Connection(BoundedReader):
    """A connection that ends if its client takes too long, for the head of a request or for the
    rest of a response after which it is closed.

    Connections beyond `limit_concurrency` of uvicorn's configuration get a problem document. If
    several workers accept from one listener, each connection is followed by a pause in which the
    others can accept the next. Otherwise the worker that accepts the first of many would often
    accept them all.
    """

    check_seconds = 10.0  # what is the same at two checks takes too long

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, FLOW: self.flow}
        transport.set_protocol(PieceReceiver(self))
        transport.set_write_buffer_limits(UNSENT_BYTES)
        limit, self.limit_concurrency = self.limit_concurrency, None
        if limit and len(self.connections) > limit:
            self.app = _refuse
            if len(self.connections) > limit + min(SPARE, max(LEAST_SPARE, limit // 4)):
                transport.abort()
        self._check(before=None)
        if self.config.workers > 1:
            time.sleep(PAUSE)

    def shutdown(self) -> None:
        """Ends the connection with its next response, which says so, or after LINGER_SECONDS.

        If it ended at once, a request on its way would be lost. The next one finds ENDING in its
        state, unless this response says already that it is the last.
        """
        self.app_state[ENDING] = True
        self.timeout_keep_alive = LINGER_SECONDS
        if self.cycle and not self.cycle.response_complete:
            self.cycle.keep_alive = False  # read when the response starts
        else:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                LINGER_SECONDS, self.timeout_keep_alive_handler
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()  # it would keep the connection
        super().connection_lost(exc)

    def _check(self, before: Any) -> None:
        waits_for: Any = None
        if self.transport.is_closing():
            waits_for = "the client to read the rest"
        elif not self.cycle or self.cycle.response_complete:
            # The head of the next request, or the rest of one that is refused already.
            waits_for = self.cycle or "the first request"
        self._timer = self.loop.call_later(self.check_seconds, self._check, waits_for)
        if waits_for is not None and waits_for is before:
            self.transport.abort()


class LocalConnection(Connection):
    """A connection within a machine, where a request comes at once: a silent one soon ends, so that
    it keeps nobody out."""

    check_seconds = 1.0


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if on_full := scope["state"].get(ON_FULL):
        on_full()
    await full_problem("connections", closes=True).response()(scope, receive, send)
