"""How large the body of a request may be, and how long it may take to come."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import problem

LINGER_SECONDS = 10.0  # for which the rest of a refused body is read, and thrown away
LINGER_BYTES = 1 << 28


class BodyLimit:
    """Reads the body of a request before the application sees it; answers 413 where that is
    larger than `limit` bytes, 408 where it is not there after `seconds`.

    A connection that is closed while its client still writes is reset, and the client may never
    read why. So after 413 what still comes is read for a while. For the same reason the guards
    within can refuse a request at once: its body has been read.
    """

    def __init__(self, app: ASGIApp, limit: int, seconds: float = 30.0) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            async with asyncio.timeout(self._seconds):
                body = await self._read(scope, receive)
        except _Disconnected:
            return  # nobody is there to be answered
        except TimeoutError:
            refusal = _refusal(408, f"the body was not there after {self._seconds:g} s", "too-slow")
            return await refusal(scope, receive, send)
        if body is None:
            refusal = _refusal(413, f"the body is larger than {self._limit} bytes", "too-large")
            return await _answer_and_linger(refusal, receive, send)
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, receive_again, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None as soon as it is known to be too large."""
        with suppress(ValueError):  # of what is not announced as a number the bytes are counted
            if int(Headers(scope=scope).get("content-length", "")) > self._limit:
                return None
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            body += message.get("body", b"")
            if len(body) > self._limit:
                return None
            more = message.get("more_body", False)
        return bytes(body)


class _Disconnected(Exception):
    """The client went before its body was complete."""


def _refusal(status: int, detail: str, kind: str) -> Response:
    return problem(status, detail, kind=kind, headers={"Connection": "close"})


async def _answer_and_linger(response: Response, receive: Receive, send: Send) -> None:
    """Send the whole response, but end it, and with it the connection, only when the client has
    written all, has gone, or is not to be waited for."""
    await send(
        {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": response.raw_headers,
        }
    )
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            await _discard(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive) -> None:
    n = 0
    while n < LINGER_BYTES:
        message = await receive()
        n += len(message.get("body", b""))
        if not message.get("more_body", False):  # the end, or the client has gone
            return
