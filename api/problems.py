"""Errors as problem documents (RFC 9457), and how the endpoints document them.

Unexpected exceptions become a 500 in `api.middleware.RequestLog`.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.types import Scope

from api import logs
from calcgpt.errors import ExpressionError

MAX_DETAIL = 1_000  # characters: a detail may quote what a client has sent
MEDIA_TYPE = "application/problem+json"
TYPE = "urn:calcgpt:problem:"  # followed by the kind
RETRY = {"Retry-After": "1"}
PHRASES = {413: "Content Too Large", 422: "Unprocessable Content"}  # Python 3.11 has older ones
METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


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
            "request_id": logs.request_id.get(),
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


def install(app: FastAPI) -> None:
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
    422: "The expression or the request is invalid; or the answer is wrong and `on_wrong` is "
    "`error`, or it does not reach the requested confidence or verification; or the request asks "
    "for too much work.",
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
