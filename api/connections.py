"""Connections of HTTP/1.1, as uvicorn makes them with h11, and what a bare service needs beyond it.

h11 bounds the size of heads, of trailers and of chunk extensions (`HEAD_BYTES`), and reads one
request of a connection at a time. Missing are limits of time, which a proxy would have, and small
buffers for thousands of clients that read nothing.
"""

import asyncio
import threading
import time
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.problems import full_problem

HEAD_BYTES = 16_384  # most bytes of a request line and its headers; also of trailers
PIECE = 8_192  # bytes that are read at a time
MAX_PARTS, SMALL = 512, 64  # parts of a body of less than that many bytes
PAUSE = 1e-9  # seconds; in effect the shortest pause that the system makes, about 60 us
# Connections above the limit that get a response: a quarter of it, within these bounds. More are
# closed at once.
LEAST_SPARE, SPARE = 16, 1_000
# Most unsent bytes of a connection while its response goes on. With uvloop's default of 64 KiB
# thousands of clients that read nothing would keep hundreds of megabytes.
UNSENT_BYTES = 4_096
LINGER_SECONDS = 2  # for which a connection without a request stays open when the service ends
ENDING = "ending"  # a key in the state of a request that comes after that
FLOW = "flow"  # the key of uvicorn's FlowControl in the state of a request
ON_FULL = "on_full"  # the key of a function in the state of a lifespan: counts refusals


class BoundedParser(h11.Connection):
    """A parser that refuses a body of very many chunks, each of which takes it 50 us, and chunks in
    HTTP/1.0, which has none: a proxy would take them for the next request."""

    _n_parts = 0  # small ones of the body so far

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._n_parts = 0
            codings = [name for name, _ in event.headers if name == b"transfer-encoding"]
            if codings and event.http_version < b"1.1":
                raise h11.RemoteProtocolError("a transfer coding in HTTP/1.0")
        elif isinstance(event, h11.Data) and len(event.data) < SMALL:
            self._n_parts += 1
            if self._n_parts > MAX_PARTS and self.our_state is h11.SEND_RESPONSE:
                raise h11.RemoteProtocolError("too many chunks")
        return event


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

    def __init__(self, connection: H11Protocol) -> None:
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


class Connection(H11Protocol):
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
        self.conn = BoundedParser(h11.SERVER, HEAD_BYTES)
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
            self.headers.append(CLOSE_HEADER)  # read when the response starts
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


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if on_full := scope["state"].get(ON_FULL):
        on_full()
    await full_problem("connections", closes=True).response()(scope, receive, send)
