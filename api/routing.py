"""What the routes share: bodies of strict JSON, a stack for each request, and streams of events.

A body must be JSON in UTF-8, as RFC 8259 requires between systems.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.sse import format_sse_event
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from api.middleware import STACK
from api.problems import ProblemError
from api.slow_clients import UNREAD, Unread
from calcgpt.base.files import strict_json

CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s";]*)', re.IGNORECASE)
MAX_MEMBERS = 1_000  # of an object: each unknown member gets an error message
EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
DONE = format_sse_event(data_str="[DONE]")  # the last event of OpenAI's streams


class JsonRequest(Request):
    """A request whose `json` raises ProblemError: 400 for a body that is not JSON, 415 for one that
    says that it is compressed or not in UTF-8."""

    async def json(self) -> Any:
        if (coding := self.headers.get("content-encoding", "identity")) != "identity":
            headers = {"Accept-Encoding": "identity"}
            detail = f"the body has Content-Encoding {coding!r:.40}: send it as it is"
            raise ProblemError(415, detail, headers=headers)
        charset = CHARSET.search(self.headers.get("content-type", ""))
        if charset and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
            raise ProblemError(415, f"the body has the charset {charset[1]!r:.40}: send UTF-8")
        try:
            return strict_json((await self.body()).decode("utf-8"), MAX_MEMBERS)
        except UnicodeDecodeError as error:
            reason = f"byte {error.start} is not UTF-8"
        except RecursionError:
            reason = "it is nested too deeply"
        except ValueError as error:  # such as a JSONDecodeError
            reason = str(error)
        raise ProblemError(400, f"the body is not JSON: {reason:.200}", kind="invalid-json")


class JsonRoute(APIRoute):
    """The class of routes that take a `JsonRequest`. Their endpoints are called with the body, if
    the method has one, the request and its stack, and return a Response.

    A usual body is validated here, because FastAPI's search for the arguments of an endpoint takes
    as long as the rest of a route.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, field = super().get_route_handler(), self.body_field

        async def read(request: Request) -> Response:
            request = JsonRequest(request.scope, request.receive)
            is_json = request.headers.get("content-type") == "application/json"
            if not (field and is_json and await request.body()):
                return await handle(request)
            body, errors = field.validate(await request.json(), {}, loc=("body",))
            if errors:
                raise RequestValidationError(errors)
            response: Response = await self.endpoint(body, request, await _request_stack(request))
            return response

        return read


async def _request_stack(request: Request) -> ExitStack:
    stack: ExitStack = request.scope["state"][STACK]
    return stack


RequestStack = Annotated[ExitStack, Depends(_request_stack)]
"""Closed at the end of the work for a request, and at the latest once its response is sent."""


def json_response(content: BaseModel) -> Response:
    """Returns a response of JSON, which FastAPI would check once more."""
    return Response(content.model_dump_json(), media_type="application/json")


class EventStream(StreamingResponse):
    """A response of server-sent events. HTTP/1.0 has no chunks: there, they come all at once.

    The events do not wait for the client, so that the work for them ends, however slowly it reads.
    What it has not read yet is in an `Outbox`.
    """

    media_type = "text/event-stream"

    # FastAPI reads the default of `status_code` for the OpenAPI document.
    def __init__(self, events: AsyncIterator[bytes], status_code: int = 200) -> None:
        super().__init__(events, status_code, {"X-Accel-Buffering": "no"})  # for proxies
        self._events = events
        self._is_whole = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._is_whole = scope.get("http_version") == "1.0"
        self._unread: Unread = scope["state"][UNREAD]
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async with self._unread.response() as outbox:
            writing = asyncio.create_task(outbox.fill(self._events))
            try:
                if self._is_whole:
                    await writing
                    self.headers["Content-Length"] = str(outbox.n_bytes)
                start = {"type": "http.response.start", "status": self.status_code}
                await send({**start, "headers": self.raw_headers})
                while piece := await outbox.take():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await writing  # raises what the events raise
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                writing.cancel()


def stream_responses(description: str, example: str) -> dict[int | str, dict[str, Any]]:
    """Returns FastAPI's `responses` of an endpoint that can answer with a stream of events."""
    content = {"text/event-stream": {"schema": EVENT_SCHEMA, "example": example}}
    return {200: {"description": description, "content": content}}


def error_event(error: ProblemError) -> bytes:
    """Returns the event in which OpenAI's clients look for `error`, and show its `message`."""
    return format_sse_event(data_str=json.dumps({"error": error.document()}))
