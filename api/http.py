"""What the endpoints share: who asks, bodies of strict JSON, and errors as problem documents (RFC
9457).

A body must be JSON in UTF-8, as RFC 8259 requires between systems. Unexpected exceptions become a
500 in `api.middleware.RequestLog`.
"""

import json
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from functools import lru_cache
from http import HTTPStatus
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.sse import format_sse_event
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.types import Scope

from api.telemetry import request_id
from calcgpt.base.files import strict_json
from calcgpt.errors import ExpressionError

CHARGE = "charge"  # the key of `RateLimit`'s function in the state of a request
STACK = "stack"  # the key of an ExitStack in the state of a request, closed when it ends
CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s";]*)', re.IGNORECASE)
MAX_MEMBERS = 1_000  # of an object: each unknown member gets an error message
EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
DONE = format_sse_event(data_str="[DONE]")  # the last event of OpenAI's streams
MAX_DETAIL = 1_000  # characters: a detail may quote what a client has sent
MEDIA_TYPE = "application/problem+json"
TYPE = "urn:calcgpt:problem:"  # followed by the kind
RETRY = {"Retry-After": "1"}
PHRASES = {413: "Content Too Large", 422: "Unprocessable Content"}  # Python 3.11 has older ones
METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
MAX_ADDRESS = 64  # characters
CLIENT_BITS = 64  # of an IPv6 network that is one client


def is_api(scope: Scope) -> bool:
    """Returns whether a request is for a path under /v1/, wherever the application is mounted."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.startswith("/v1/")


def address_of(scope: Scope) -> str | None:
    """Returns the address of a client, if it is known. A proxy may pass on what is none."""
    client = scope.get("client")
    return client and client[0][:MAX_ADDRESS]


def client_of(scope: Scope) -> str:
    """Returns the name of the client. An IPv6 network (/64) is one client: most users have one.
    `api.access.Limiter` looks at larger networks, too."""
    key_owner: str | None = scope.get("state", {}).get("api_client")
    if key_owner:
        return key_owner
    return _network(address_of(scope) or "unknown")


@lru_cache
def _network(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Network((int(address), CLIENT_BITS), strict=False))
    return host


async def charge_for(scope: Scope, n_operations: int) -> None:
    """Counts the operations of a request for the rate of its client, all or none. Raises
    ProblemError: 422 if there are more than its rate ever allows at once, else 429 if there are too
    many."""
    if charge := scope.get("state", {}).get(CHARGE):
        await charge(n_operations)


class ProblemError(Exception):
    """Ends a request with a problem document. `extra` are further members of the document."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind
        self.headers = headers
        self.extra = extra

    def document(self) -> dict[str, Any]:
        """Returns the document as JSON values, without members that are None."""
        detail = self.detail
        if len(detail) > MAX_DETAIL:
            detail = f"{detail[: MAX_DETAIL // 2]} ... {detail[-MAX_DETAIL // 2 :]}"
        body = {
            "type": f"{TYPE}{self.kind}" if self.kind else "about:blank",
            "title": PHRASES.get(self.status) or HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": detail,
            "message": detail,  # which OpenAI's clients show
            **self.extra,
            "request_id": request_id.get(),
        }
        return {name: value for name, value in body.items() if value is not None}

    def response(self) -> JSONResponse:
        """Returns a response whose body is the document."""
        return JSONResponse(self.document(), self.status, self.headers, MEDIA_TYPE)


def internal_problem() -> ProblemError:
    """Returns the problem of a failure that the client has no part in."""
    return ProblemError(500, "internal error; the log of the service has the details")


def ending_problem() -> ProblemError:
    """Returns the problem of a request that a service refuses because it shuts down."""
    headers = {**RETRY, "Connection": "close"}
    return ProblemError(503, "the service is shutting down", kind="ending", headers=headers)


def full_problem(what: str, closes: bool = False) -> ProblemError:
    """Returns the problem of a request that comes while there is no room for it. `closes` means
    that the connection ends, too."""
    headers = {**RETRY, "Connection": "close"} if closes else RETRY
    return ProblemError(503, f"too many {what} at once; try again", kind="full", headers=headers)


def expression_problem(error: ExpressionError) -> ProblemError:
    """Returns the problem of an invalid expression."""
    return ProblemError(
        422, str(error), kind=error.kind.value, position=error.position, end=error.end
    )


def install_problems(app: FastAPI) -> None:
    """Registers the exception handlers."""

    @app.exception_handler(ProblemError)
    async def problem_error(request: Request, error: ProblemError) -> JSONResponse:
        return error.response()

    @app.exception_handler(ExpressionError)
    async def bad_expression(request: Request, error: ExpressionError) -> JSONResponse:
        return expression_problem(error).response()

    @app.exception_handler(RequestValidationError)
    async def bad_request(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        detail = f"{location}: {first['msg']}"
        if location == "body" and "json" not in request.headers.get("content-type", ""):
            detail = "the header Content-Type: application/json is missing"
        return ProblemError(422, detail, kind="invalid-request").response()

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, ProblemError):  # FastAPI wraps what reading a body raises
            return error.__cause__.response()
        headers = dict(error.headers or {})
        if error.status_code == 405 and (methods := _methods(app, request.scope)):
            headers["Allow"] = ", ".join(methods)
        return ProblemError(error.status_code, error.detail, headers=headers).response()


def _methods(app: FastAPI, scope: Scope) -> list[str]:
    """Returns the methods of a path. Starlette's 405 names those of only one of its routes.

    Files have no routes, and name their methods themselves.
    """
    routes = [route for route in app.routes if not isinstance(route, Mount)]
    methods = [
        method
        for method in METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return [*methods, "HEAD"] if "GET" in methods else methods  # HEAD is answered as GET


DESCRIPTIONS = {
    400: "The body is not JSON in UTF-8.",
    401: "An API key is required.",
    404: "There is no such model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body has a Content-Encoding, or a charset other than UTF-8.",
    422: "The expression or the request is invalid; or the answer does not reach the requested "
    "confidence or verification; or the request asks for too much work.",
    429: "Too many requests from this client; `Retry-After` says when to try again.",
    503: "The model is still loading, or too many requests are in progress; `Retry-After` says "
    "when to try again.",
    504: "Not answered in time.",
}


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns FastAPI's `responses` of an endpoint that can end with these statuses.

    The schema is named rather than given as `model`, because FastAPI would then document
    application/json as well. It is in the OpenAPI document because batches contain it.
    """
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": DESCRIPTIONS[status], "content": content} for status in statuses
    }


API_RESPONSES = responses(401, 429)  # of every endpoint under /v1/
QUESTION_RESPONSES = responses(
    400, 401, 404, 408, 413, 415, 422, 429, 503, 504
)  # if a model is asked


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
    the method has one, and the request, and return a Response.

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
            response: Response = await self.endpoint(body, request)
            return response

        return read


def stack_of(request: Request) -> ExitStack:
    """Returns what is closed at the end of the work for a request, and at the latest once its
    response is sent."""
    stack: ExitStack = request.scope["state"][STACK]
    return stack


def json_response(content: BaseModel) -> Response:
    """Returns a response of JSON, which FastAPI would check once more."""
    return Response(content.model_dump_json(), media_type="application/json")


def stream_responses(description: str, example: str) -> dict[int | str, dict[str, Any]]:
    """Returns FastAPI's `responses` of an endpoint that can answer with a stream of events."""
    content = {"text/event-stream": {"schema": EVENT_SCHEMA, "example": example}}
    return {200: {"description": description, "content": content}}


def error_event(error: ProblemError) -> bytes:
    """Returns the event in which OpenAI's clients look for `error`, and show its `message`."""
    return format_sse_event(data_str=json.dumps({"error": error.document()}))
