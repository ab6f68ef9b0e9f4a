"""One request to an application, without a server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import ASGIApp, Message, Scope
from waiting import PATIENCE

GET = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": "/"}


async def silent() -> Message:
    """Receives an empty body, and never a disconnect."""
    return {"type": "http.request", "body": b"", "more_body": False}


def run(
    app: ASGIApp, receive: Callable[[], Awaitable[Message]] = silent, **scope: Any
) -> list[Message]:
    """Returns what an application sends."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(asyncio.wait_for(app(request(**scope), receive, send), PATIENCE))
    return sent


def request(**scope: Any) -> Scope:
    """The scope of a request: a GET without headers, unless it is said otherwise."""
    return {**GET, "query_string": b"", "headers": [], "client": None, **scope}
