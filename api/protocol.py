"""uvicorn's HTTP protocol, with limits on the size and the time of a request's head."""

from __future__ import annotations

import asyncio
import json
from asyncio import TimerHandle
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.problems import MEDIA_TYPE, document

HEAD_BYTES = 65_536  # most bytes of a request line and its headers


class BoundedProtocol(HttpToolsProtocol):
    """A connection on which the head of each request is limited in size and in time.

    uvicorn has no such limits for its fast parser, httptools, and its other parser, h11, limits
    only the size. So this class builds on a class of uvicorn's that may change between versions;
    tests/e2e/test_failures.py notices if it does.
    """

    head_seconds = 10.0  # most seconds until a head is complete

    _head_timer: TimerHandle | None = None
    _n_head = 0  # bytes of the incomplete head
    _in_head = True
    _ended = False  # whether a request was completed by the latest data

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._ended = False
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        if not self._ended:  # else an unknown part of the data belongs to the request before
            self._n_head += len(data)
        if self._n_head > HEAD_BYTES:
            self._refuse(431, f"the head of the request is larger than {HEAD_BYTES} bytes")
        elif self._head_timer is None:
            self._start_timer()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._n_head, self._ended = True, 0, True

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not HTTP")

    def _refuse(self, status: int, detail: str) -> None:
        body = json.dumps(document(status, detail, kind="not-http")).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:  # the client still waits for the response to its previous request
            self._start_timer()
