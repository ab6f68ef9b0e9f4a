"""A connection of HTTP/1.1: everything that a client can send on it has a bound.

uvicorn's fast parser, httptools, has no such bounds, and its other parser, h11, limits only the
size of a head. So this module builds on a class of uvicorn's that may change between versions;
tests/e2e/test_protocol.py notices if it does.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from asyncio import TimerHandle
from http import HTTPStatus
from typing import Any, NoReturn, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.problems import MEDIA_TYPE, ProblemError, full_problem

HEAD_BYTES = 65_536  # most bytes of a request line and its headers
MAX_HEADERS = 100  # trailers included
# Bytes around the body: the sizes of its chunks, their extensions, trailers. The smallest chunk has
# six bytes, one of them of the body.
FRAMING_BYTES = 65_536
FRAMING_PER_BODY_BYTE = 8
# Most bytes to parse at a time. Otherwise many small requests in one piece of data would all begin
# before the first one is answered.
PIECE = 8_192
MAX_REQUESTS = 1_024  # in progress, on all connections of a process
PAUSE = 1e-9  # seconds; in effect the shortest pause that the system makes, about 60 us
SPARE = 1_000  # connections above the limit that get a response; more are closed at once
LINGER_BYTES = 1 << 20  # most bytes of a refused request that are still read
# Most unsent bytes of a connection while its response goes on. With uvloop's default of 64 KiB
# thousands of clients that read nothing would keep hundreds of megabytes.
UNSENT_BYTES = 4_096


ON_FULL = "on_full"  # the key of a function in the state of a lifespan: counts refusals


class RefusedError(Exception):
    """Stops the parser at a request that is refused."""


class OpenTransport:
    """A transport that drops writes once its connection is closing, for example after a reset that
    the protocol has not noticed yet. uvloop's transport would raise an exception."""

    __slots__ = ("_transport",)

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Writes, unless the connection is closing."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def write_eof(self) -> None:
        """Closes the writing end, unless the connection is closing."""
        if not self._transport.is_closing():
            self._transport.write_eof()


class Buffer(threading.local):
    """The buffer of all connections of a thread. Its content is passed on at once."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(PIECE))


BUFFER = Buffer()


class PieceReceiver(asyncio.BufferedProtocol):
    """Passes received data to another protocol, in pieces of at most PIECE bytes.

    Without it, the other protocol could pause only after it has received all that the system keeps
    for a connection: 24 KiB for each of thousands of clients, before their first request runs.
    """

    __slots__ = ("_buffer", "_protocol")

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol, self._buffer = protocol, BUFFER.view

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)


class BoundedProtocol(HttpToolsProtocol):
    """A connection that limits each request: the size, the time and the number of headers of its
    head, and the size of the framing around its body. Trailers are read and dropped.

    Connections beyond `limit_concurrency` of uvicorn's configuration are refused, and so are
    requests beyond `max_requests`. With `is_shared`, other processes accept from the same listener,
    and each connection is followed by a pause in which they can accept the next. Otherwise the
    process that accepts the first connection of many would often accept them all.
    """

    head_seconds = 10.0  # most seconds until a head is complete
    close_seconds = 30.0  # about the most seconds for a client to read the rest
    linger_seconds = 2.0  # most seconds for a client to read why it is refused

    # Slots, because a dictionary of all attributes would take 1.3 KiB more for each connection.
    __slots__ = (
        "_close_timer",
        "_ended",  # whether a request was completed by the latest piece
        "_head_timer",
        "_in_head",
        "_is_shared",
        "_max_connections",
        "_max_requests",
        "_n_body",
        "_n_framing",  # bytes of the request so far that are not of its body
        "_n_headers",
        "_refusal",  # the last response; sent after all earlier ones, and then empty
        "_stop_problem",  # why a callback stopped the parser
        "_unparsed",
    )

    def __init__(
        self,
        *args: Any,
        max_requests: int = MAX_REQUESTS,
        is_shared: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._is_shared = is_shared
        self._max_requests = max_requests
        self._max_connections = self.limit_concurrency
        self.limit_concurrency = None  # uvicorn would answer by itself, and log each time
        self._in_head = True
        self._ended = False
        self._n_framing = self._n_body = self._n_headers = 0
        self._stop_problem: ProblemError | None = None
        self._refusal: bytes | None = None
        self._unparsed = bytearray()
        self._head_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, OpenTransport(transport)))
        transport.set_protocol(PieceReceiver(self))
        transport.set_write_buffer_limits(UNSENT_BYTES)
        self._close_timer = self.loop.call_later(self.close_seconds, self._cut_if_closing)
        self._start_timer()
        if self._max_connections and len(self.connections) > self._max_connections + SPARE:
            transport.close()
        if self._is_shared:
            time.sleep(PAUSE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._close_timer.cancel()
        self._unparsed.clear()
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is None:
            self._unparsed += data
            self._parse()
            return
        self._n_framing += len(data)
        if self._n_framing > LINGER_BYTES:
            self.flow.pause_reading()
            if not self._refusal:  # it is sent
                self.transport.close()

    def _parse(self) -> None:
        """Parses what has arrived, unless a parsed request still waits for the one before it."""
        while self._unparsed and not self.pipeline and not self.transport.is_closing():
            piece = bytes(self._unparsed[:PIECE])
            del self._unparsed[:PIECE]
            self._ended = False
            n_body = self._n_body
            self._feed(piece)
            if not self._ended:  # else an unknown part of the piece belongs to the previous request
                self._n_framing += len(piece) - (self._n_body - n_body)
            self._check_sizes()
        if self._unparsed or (not self._in_head and self.cycle.body):  # until the body is read
            self.flow.pause_reading()

    def _feed(self, piece: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._unparsed[:0] = piece[upgrade.args[0] :]
            self._feed(self._without_upgrade())
        except httptools.HttpParserError:
            self._refuse(self._stop_problem or _not_http(400, "the request is not valid HTTP"))

    def _without_upgrade(self) -> bytes:
        """Returns the head of a request without `Upgrade`, and makes a new parser for it. The
        client gets the ordinary response, as HTTP allows. The old parser would take the body for
        the next request."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(fields))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self._n_headers = 0
        return head

    def _check_sizes(self) -> None:
        if self._refusal is not None or self.transport.is_closing():
            return
        if self._in_head:
            if self._n_framing > HEAD_BYTES:
                detail = f"the head of the request is larger than {HEAD_BYTES} bytes"
                self._refuse(_not_http(431, detail))
            elif self._head_timer is None and self._n_framing:  # else the connection is idle
                self._start_timer()
        elif self._n_framing > FRAMING_BYTES + FRAMING_PER_BODY_BYTE * self._n_body:
            self._refuse(_not_http(431, "chunk extensions and trailers are too large"))

    def on_response_complete(self) -> None:
        if self._refusal is not None and not self.pipeline:
            self._end()
        elif self._in_head and self._is_answered:
            self._forget()
        super().on_response_complete()
        if self._unparsed and not self.pipeline:
            self.loop.call_soon(self._parse)

    def _forget(self) -> None:
        """Drops the request that is answered, so that an idle connection takes little memory."""
        if self.cycle and self.scope is self.cycle.scope:  # else the next one has begun
            self.headers, self.scope = [], {}  # type: ignore[typeddict-item]
        self.cycle = None  # type: ignore[assignment]

    # Callbacks of the parser. If one raises, the parser stops and `_feed` gets an error.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._n_headers += 1
        if self._n_headers > MAX_HEADERS:
            self._stop(_not_http(431, f"the request has more than {MAX_HEADERS} headers"))
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.get_method() == b"CONNECT":
            self._stop(_not_http(400, "the service is not a proxy"))
        if self.parser.should_upgrade():  # the request begins again without that
            return
        version = self.parser.get_http_version()
        hosts = [value for name, value in self.headers if name == b"host"]
        if version not in ("1.0", "1.1"):
            self._stop(_not_http(505, "the service supports only HTTP/1.0 and HTTP/1.1"))
        if len(hosts) != 1 and not (version == "1.0" and not hosts):
            self._stop(_not_http(400, "a request must have exactly one `Host` header"))
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and (codings != [b"chunked"] or version == "1.0"):
            self._stop(_not_http(501, "the only transfer coding is `chunked`, in HTTP/1.1"))
        if len(self.tasks) >= self._max_requests:
            self._stop_full("requests")
        if self._max_connections and len(self.connections) > self._max_connections:
            self._stop_full("connections")
        super().on_headers_complete()
        self._in_head = False
        self._n_framing = 0
        self._stop_timer()

    def on_body(self, body: bytes) -> None:
        self._n_body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._in_head, self._ended = True, True
        self._n_framing = self._n_body = self._n_headers = 0

    def _stop(self, problem: ProblemError) -> NoReturn:
        self._stop_problem = problem
        raise RefusedError

    def _stop_full(self, what: str) -> NoReturn:
        if on_full := self.app_state.get(ON_FULL):
            on_full()
        self._stop(full_problem(what))

    def _refuse(self, problem: ProblemError) -> None:
        """Answers with a problem, after the responses to earlier requests, and closes."""
        self._refusal, self._stop_problem = _response(problem), None
        self.headers, self.scope = [], {}  # type: ignore[typeddict-item]
        self._unparsed.clear()
        self._stop_timer()
        self._n_framing = 0
        if self._in_head:
            if self._is_answered:
                self._end()
        elif self.pipeline:  # the request is the last one that waits: it never begins
            self.pipeline.popleft()
        elif self.cycle.response_started:
            self.transport.close()
        else:  # the application waits for the body: it gets a disconnect instead
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._end()

    def _end(self) -> None:
        """Sends the refusal, then reads and drops further data for a while. Otherwise the
        connection would be reset, and the client might never read the refusal."""
        self.transport.write(self._refusal or b"")
        self.transport.write_eof()
        self._refusal = b""
        self._stop_timer()
        self._head_timer = self.loop.call_later(self.linger_seconds, self.transport.close)

    @property
    def _is_answered(self) -> bool:
        """Whether all requests so far have their responses."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer:
            self._head_timer.cancel()
            self._head_timer = None

    def _cut_if_closing(self) -> None:
        """Aborts a connection that is closing. Otherwise it would stay open until its client reads
        the rest or hangs up."""
        if self.transport.is_closing():
            self.transport.abort()
        else:
            self._close_timer = self.loop.call_later(self.close_seconds, self._cut_if_closing)

    def _too_slow(self) -> None:
        self._head_timer = None
        if self._is_answered:
            self.transport.close()
        else:  # the client still waits for the response to its previous request
            self._start_timer()


def _not_http(status: int, detail: str) -> ProblemError:
    return ProblemError(status, detail, kind="not-http")


def _response(problem: ProblemError) -> bytes:
    """Returns the bytes of a response after which the connection ends."""
    body = json.dumps(problem.document()).encode()
    headers = {
        "content-type": MEDIA_TYPE,
        "content-length": len(body),
        "connection": "close",
        **(problem.headers or {}),
    }
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    phrase = HTTPStatus(problem.status).phrase
    return f"HTTP/1.1 {problem.status} {phrase}\r\n{''.join(lines)}\r\n".encode() + body
