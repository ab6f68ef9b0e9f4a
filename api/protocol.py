"""A connection of HTTP/1.1: everything that a client can send on it has a bound.

uvicorn's fast parser, httptools, has no such bounds, and its other parser, h11, limits only the
size of a head. So this module builds on a class of uvicorn's that may change between versions;
tests/e2e/test_protocol.py notices if it does.
"""

from __future__ import annotations

import asyncio
import json
from asyncio import TimerHandle
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.problems import MEDIA_TYPE, ProblemError

HEAD_BYTES = 65_536  # most bytes of a request line and its headers
MAX_HEADERS = 100  # trailers included
# Bytes around the body: the sizes of its chunks, their extensions, trailers. The smallest chunk has
# six bytes, one of them of the body.
FRAMING_BYTES = 65_536
FRAMING_PER_BODY_BYTE = 8
# Bytes that are parsed at a time, so that many small requests in one piece of data are not all
# begun before the first of them is answered.
PIECE = 8_192


class RefusedError(Exception):
    """Ends the parsing of a request that must not be answered."""


class OpenTransport:
    """A transport that drops what is written once its connection is closing, as after a reset of
    which the protocol is not told yet. uvloop's own would raise an exception."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Writes to a connection that is open."""
        if not self._transport.is_closing():
            self._transport.write(data)


class BoundedProtocol(HttpToolsProtocol):
    """A connection on which each request is limited: its head in size, in time and in the number of
    headers, and what surrounds its body in size. Trailers are read and dropped."""

    head_seconds = 10.0  # most seconds until a head is complete
    close_seconds = 30.0  # most seconds until a client has read the rest, about

    _head_timer: TimerHandle | None = None
    _in_head = True
    _ended = False  # whether a request was completed by the latest piece
    _n_framing = 0  # bytes of the request so far that are not of its body
    _n_body = 0
    _n_headers = 0
    _fault: tuple[int, str] | None = None  # why the parser stopped, if we stopped it
    _refusal: bytes | None = None  # the last response: sent when those before it are complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, OpenTransport(transport)))
        self._unparsed = bytearray()
        self._start_timer()
        self._close_timer = self.loop.call_later(self.close_seconds, self._cut_if_closing)

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

    def _parse(self) -> None:
        """Parses what has arrived, unless a parsed request still waits for the one before it."""
        while self._unparsed and not self.pipeline and not self.transport.is_closing():
            piece = bytes(self._unparsed[:PIECE])
            del self._unparsed[:PIECE]
            self._ended = False
            n_body = self._n_body
            super().data_received(piece)
            if not self._ended:  # else an unknown part of the data belongs to the request before
                self._n_framing += len(piece) - (self._n_body - n_body)
            self._check_sizes()
        if self._unparsed:
            self.flow.pause_reading()

    def _check_sizes(self) -> None:
        if self._refusal is not None or self.transport.is_closing():
            return
        if self._in_head:
            if self._n_framing > HEAD_BYTES:
                self._refuse(431, f"the head of the request is larger than {HEAD_BYTES} bytes")
            elif self._head_timer is None:
                self._start_timer()
        elif self._n_framing > FRAMING_BYTES + FRAMING_PER_BODY_BYTE * self._n_body:
            self._refuse(431, "chunk extensions and trailers are too large")

    def on_response_complete(self) -> None:
        if self._refusal is not None and not self.pipeline:
            self._end()
        super().on_response_complete()
        if self._unparsed and not self.pipeline:
            self.loop.call_soon(self._parse)

    # Callbacks of the parser. If one raises, the parser stops and calls `send_400_response`.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._n_headers += 1
        if self._n_headers > MAX_HEADERS:
            self._stop(431, f"the request has more than {MAX_HEADERS} headers")
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        hosts = [value for name, value in self.headers if name == b"host"]
        if version not in ("1.0", "1.1"):
            self._stop(505, "the service speaks HTTP/1.1")
        if len(hosts) != 1 and not (version == "1.0" and not hosts):
            self._stop(400, "a request has one header `Host`")
        super().on_headers_complete()
        self._in_head = False
        self._n_framing = 0
        self._stop_timer()

    def on_body(self, body: bytes) -> None:
        self._n_body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._ended = True, True
        self._n_framing = self._n_body = self._n_headers = 0

    def send_400_response(self, msg: str) -> None:
        self._refuse(*(self._fault or (400, "this is not HTTP")))

    def _unsupported_upgrade_warning(self) -> None:
        """Says nothing: the client gets the ordinary response, as HTTP allows."""

    def _stop(self, status: int, detail: str) -> None:
        self._fault = status, detail
        raise RefusedError(detail)

    def _refuse(self, status: int, detail: str) -> None:
        """Answers with a problem, after the responses to earlier requests, and closes."""
        body = json.dumps(ProblemError(status, detail, kind="not-http").document()).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self._refusal = head.encode() + body
        self._unparsed.clear()
        self._stop_timer()
        if self._in_head:
            if self._is_answered:
                self._end()
        elif self.pipeline:  # the request is the last of those that wait: it is never begun
            self.pipeline.popleft()
        elif self.cycle.response_started:
            self.transport.close()
        else:
            self._end()

    def _end(self) -> None:
        self.transport.write(self._refusal or b"")
        self.transport.close()

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
        """Ends a connection that is being closed. It would stay for as long as its client neither
        reads what is left nor hangs up."""
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
