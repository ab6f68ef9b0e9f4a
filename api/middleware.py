"""Middleware for all requests: their log, headers for browsers, and their size.

It is plain ASGI, so responses are passed on while they are written, and disconnects are noticed.
"""

import asyncio
import logging
import re
import time
from contextlib import ExitStack, suppress
from functools import cache
from secrets import token_hex
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.connections import ENDING, FLOW
from api.http import (
    RETRY,
    STACK,
    ProblemError,
    address_of,
    client_of,
    ending_problem,
    full_problem,
    internal_problem,
    is_api,
)
from api.slow_clients import UNREAD, Delivery, GivenUpError, Kept, SlowClients, poll
from api.telemetry import Metrics, request_id
from calcgpt.inference.browser import PAGE_POLICY

log = logging.getLogger(__name__)

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
QUIET = {"/healthz", "/readyz", "/metrics"}  # requested by machines every few seconds
CLIENT_GONE = 499  # not a status of HTTP: the client disconnected before the response
MAX_PARAMETERS = 100
MAX_PATH = 200  # characters of a path in the log
MAX_DISCARDED = 1 << 25  # bytes of a refused body that are read and thrown away
POLICY = f"{PAGE_POLICY}; frame-ancestors 'none'"
DOCS_POLICY = f"{POLICY}; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

RawHeaders = list[tuple[bytes, bytes]]


class RequestLog:
    """Gives every request an id, logs and counts it when it ends, and adds headers for browsers.

    The id is the client's `X-Request-ID` if that is a plain word, else a new one. It is in
    `scope["state"]["request_id"]`, in every log record and in the response. An unexpected exception
    is logged with its traceback and becomes a response of status 500. A request ends if its client
    reads more slowly than `slow` allows. Beyond `limit` requests at once, one is refused (503), and
    nothing of it is kept.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, slow: SlowClients | None = None, limit: int = 2_048
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._limit, self._n = limit, 0
        self._slow = slow or SlowClients()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if self._n >= self._limit:
            self._metrics.sheds.labels("full").inc()
            return await full_problem("requests", closes=True).response()(scope, receive, send)
        state = scope.setdefault("state", {})
        delivery = Delivery(send, client_of(scope), self._slow, state.get(FLOW))
        exchange = Exchange(scope, receive, delivery)
        if scope["method"] == "HEAD":  # is answered as GET
            scope["method"] = "GET"
        request_id.set(exchange.id)  # in the task of this request
        started = time.perf_counter()
        self._n += 1
        try:
            with ExitStack() as stack:
                state |= {"request_id": exchange.id, UNREAD: self._slow.unread, STACK: stack}
                await self._run(scope, exchange)
        finally:
            self._n -= 1
            self._record(scope, exchange, time.perf_counter() - started)

    async def _run(self, scope: Scope, exchange: "Exchange") -> None:
        failure = internal_problem()
        try:
            if scope.get("query_string", b"").count(b"&") >= MAX_PARAMETERS:
                # Reading and refusing thousands of parameters would hold the event loop.
                detail = f"the address has more than {MAX_PARAMETERS} parameters"
                failure = ProblemError(422, detail, kind="invalid-request")
            else:
                await self._app(scope, exchange.receive, exchange.send)
        except (ClientDisconnect, GivenUpError):
            exchange.disconnected = True
        except asyncio.CancelledError:  # the server shuts down and does not wait any longer
            failure = ending_problem()
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"][:MAX_PATH])
        if not exchange.started and not exchange.disconnected:
            await failure.response()(scope, exchange.receive, exchange.send)

    def _record(self, scope: Scope, exchange: "Exchange", seconds: float) -> None:
        method = exchange.method if exchange.method in METHODS else "other"
        # Paths without a route are not labels, because clients could make any number of them.
        route = getattr(scope.get("route"), "path", None) or "other"
        path = scope["path"][:MAX_PATH]
        self._metrics.requests.labels(route, method, str(exchange.status)).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        values: dict[str, Any] = {
            "method": method,
            "path": path,
            "route": route,
            "status": exchange.status,
            "ms": round(seconds * 1000, 3),
            "client": address_of(scope),
            "bytes": exchange.n_bytes,
        }
        if exchange.disconnected:
            values["disconnected"] = True
        level = logging.DEBUG if path in QUIET else logging.INFO
        log.log(
            level, "%s %s %d %.1f ms", method, path, exchange.status, seconds * 1000, extra=values
        )


class Exchange:
    """One request and its response. Records what passes through `receive` and `send`."""

    def __init__(self, scope: Scope, receive: Receive, delivery: Delivery) -> None:
        client_id = Headers(scope=scope).get("x-request-id", "")
        self.id = client_id if REQUEST_ID.fullmatch(client_id) else token_hex(16)
        self.started = False
        self.disconnected = False
        self.n_bytes = 0
        self._sent_status = 500  # the status that the server sends if the application sends none
        self.method: str = scope["method"]
        self._added = _headers_for(scope)  # now: mounted applications change the path
        self._complete = False
        self._scope, self._receive, self._delivery = scope, receive, delivery

    @property
    def status(self) -> int:
        """The status of the response; 499 if the client disconnected before it."""
        return CLIENT_GONE if self.disconnected and not self.started else self._sent_status

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._complete:
            self.disconnected = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._sent_status = CLIENT_GONE if self.disconnected else message["status"]
            headers = message.get("headers", [])
            names = {name.lower() for name, _ in headers}
            added = [header for header in self._added if header[0] not in names]
            message["headers"] = [*headers, (b"x-request-id", self.id.encode()), *added]
            self._scope["method"] = self.method  # for the server
            self._delivery.is_shared = b"etag" in names
        elif message["type"] == "http.response.body":
            if self.method == "HEAD":
                message = {**message, "body": b""}
            self.n_bytes += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
        try:
            await self._delivery.send(message)
        except TimeoutError:
            raise GivenUpError from None


def _headers_for(scope: Scope) -> RawHeaders:
    """Returns the headers for browsers of a response that does not set them itself."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    docs = path == "/docs" or path.startswith("/docs/")
    if is_api(scope):
        return _headers(docs, "no-store")
    is_page = docs or path == "/" or path.startswith("/static/")
    # Files of different versions do not work together.
    return _headers(docs, "no-cache" if is_page else None)


@cache
def _headers(docs: bool, cache_control: str | None) -> RawHeaders:
    headers = {**HEADERS, "Content-Security-Policy": DOCS_POLICY if docs else POLICY}
    if cache_control:
        headers["Cache-Control"] = cache_control
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


class BodyLimit:
    """Reads the body of a request before the application does.

    Answers 413 if the body has more than `limit` bytes, 408 if it is not complete after `seconds`,
    and 503 if it is given up earlier, because too many requests wait, or if the service ends.

    If a connection is closed while its client still writes, it is reset, and the client may never
    read the response. So MAX_DISCARDED bytes are read before 413. For the same reason inner
    middleware can refuse a request at once: its body has been read.
    """

    def __init__(
        self, app: ASGIApp, limit: int, slow: SlowClients | None = None, seconds: float = 30.0
    ) -> None:
        self._app, self._limit, self._seconds = app, limit, seconds
        self._slow = slow or SlowClients()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # A proxy could read one of them, we the other, and the rest as another request.
            refusal = _refusal(400, "a body has a length or a coding, not both", "invalid-request")
            return await refusal(scope, receive, send)
        try:
            body = await self._body(scope, receive)
        except ClientDisconnect:
            return  # nobody waits for an answer
        except GivenUpError:
            detail = "too many requests wait for the rest of their bodies; try again"
            refusal = _refusal(503, detail, "full", **RETRY)
            return await refusal(scope, receive, send)
        except TimeoutError:
            refusal = _refusal(
                408, f"the body did not arrive within {self._seconds:g} s", "too-slow"
            )
            return await refusal(scope, receive, send)
        if body is None:
            detail = f"the body is larger than {self._limit} bytes"
            refusal = _refusal(413, detail, "too-large")  # the rest may be still to come
            return await refusal(scope, receive, send)
        if ENDING in scope.get("state", ()):
            return await ending_problem().response()(scope, receive, send)
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, receive_again, send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Returns the body. If it is too large, reads and drops the rest, and returns None."""
        headers = Headers(scope=scope)
        first = None if "expect" in headers else poll(receive)  # most bodies come with their heads
        if first and first["type"] == "http.request" and not first.get("more_body", False):
            body: bytes = first.get("body", b"")
            return body if len(body) <= self._limit else None
        async with self._slow.waiting.wait(client_of(scope), self._seconds) as kept:
            return await self._read(headers, receive, kept, first)

    async def _read(
        self,
        headers: Headers,
        receive: Receive,
        kept: Kept,
        first: Message | None,
    ) -> bytes | None:
        body, n_read, is_too_large = bytearray(), 0, False
        with suppress(ValueError):  # without a valid length, the bytes are counted
            is_too_large = int(headers.get("content-length", "")) > self._limit
        while first or not (is_too_large and "expect" in headers):  # it waits before it writes
            message, first = first or await receive(), None
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece = message.get("body", b"")
            n_read += len(piece)
            if not is_too_large:
                body = kept.add(piece)
                if kept.is_given_up:  # because of this piece
                    raise GivenUpError
                is_too_large = len(body) > self._limit
            if not message.get("more_body", False) or n_read > MAX_DISCARDED:
                break
        return None if is_too_large else bytes(body)


def _refusal(status: int, detail: str, kind: str, **headers: str) -> Response:
    headers = {"Connection": "close", **headers}
    return ProblemError(status, detail, kind=kind, headers=headers).response()
