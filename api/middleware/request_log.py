"""The id of a request, its line in the log, its place in the metrics, and the last resort."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import telemetry
from api.problems import problem
from api.telemetry import Metrics

log = logging.getLogger(__name__)

GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
QUIET = {"/healthz", "/readyz", "/metrics"}  # asked every few seconds, by machines
STALLED_SECONDS = 30.0  # for which a client may take nothing of its answer
CLIENT_GONE = 499  # no status of HTTP: the client went before it was answered
LONGEST_PATH = 200  # characters of a path that are logged


class RequestLog:
    """Gives every request an id: the client's `X-Request-ID` where that is a plain word, else a
    new one. It is in `scope["state"]["request_id"]`, in every log record and in the response.

    Logs and counts every request when it has ended. An exception that escapes is logged with its
    traceback; the client is told no more than that there was one.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        exchange = Exchange(scope, receive, send)
        scope.setdefault("state", {})["request_id"] = exchange.id
        token = telemetry.request_id.set(exchange.id)
        started = time.perf_counter()
        try:
            await self._run(scope, exchange)
        finally:
            self._record(scope, exchange, time.perf_counter() - started)
            telemetry.request_id.reset(token)

    async def _run(self, scope: Scope, exchange: Exchange) -> None:
        failure = problem(500, "the service has a defect; its log says more")
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except (ClientDisconnect, StalledError):
            exchange.disconnected = True
        except asyncio.CancelledError:  # the server ends, and does not wait for it any longer
            failure = problem(503, "the service ends", kind="ending", headers={"Retry-After": "1"})
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"][:LONGEST_PATH])
        if not exchange.started and not exchange.disconnected:
            await failure(scope, exchange.receive, exchange.send)

    def _record(self, scope: Scope, exchange: Exchange, seconds: float) -> None:
        method = scope["method"] if scope["method"] in METHODS else "other"
        # A path that matches nothing is the client's to choose: as a label it would be endless.
        route = getattr(scope.get("route"), "path", None) or "other"
        path = scope["path"][:LONGEST_PATH]
        self._metrics.requests.labels(route, method, str(exchange.status)).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        values: dict[str, Any] = {
            "method": method,
            "path": path,
            "route": route,
            "status": exchange.status,
            "ms": round(seconds * 1000, 3),
            "client": (scope.get("client") or (None,))[0],
            "bytes": exchange.n_bytes,
        }
        if exchange.disconnected:
            values["disconnected"] = True
        level = logging.DEBUG if path in QUIET else logging.INFO
        log.log(
            level, "%s %s %d %.1f ms", method, path, exchange.status, seconds * 1000, extra=values
        )


class StalledError(Exception):
    """The client takes nothing of its answer any more."""


class Exchange:
    """One request and its response, watched as they pass."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if GIVEN_ID.fullmatch(given) else uuid4().hex
        self.started = False
        self.disconnected = False
        self.n_bytes = 0
        self._answered = 500  # what the server says where nothing else is said
        self._complete = False
        self._receive = receive
        self._send = send

    @property
    def status(self) -> int:
        """Of the response; 499 where the client went before there was one."""
        return CLIENT_GONE if self.disconnected and not self.started else self._answered

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._complete:
            self.disconnected = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._answered = CLIENT_GONE if self.disconnected else message["status"]
            message.setdefault("headers", [])
            MutableHeaders(scope=message)["X-Request-ID"] = self.id
        elif message["type"] == "http.response.body":
            self.n_bytes += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await self._send(message)
        except TimeoutError:
            self.disconnected = True
            raise StalledError from None
