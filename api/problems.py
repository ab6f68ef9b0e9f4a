"""Every error leaves as a problem document (RFC 9457), never as a stack trace. What nothing here
knows, `api.middleware.request_log` makes a 500 of."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from api import telemetry
from calcgpt.errors import ExpressionError

MEDIA_TYPE = "application/problem+json"
TYPE = "urn:calcgpt:problem:"  # what a kind stands behind


class ProblemError(Exception):
    """Ends a request with a problem document; `extra` are members of its own."""

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
        """The document as JSON values."""
        return document(self.status, self.detail, kind=self.kind, **self.extra)


def document(status: int, detail: str, *, kind: str | None = None, **extra: Any) -> dict[str, Any]:
    """A problem document as JSON values, without members that are None."""
    body = {
        "type": f"{TYPE}{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **extra,
        "request_id": telemetry.request_id.get(),
    }
    return {name: value for name, value in body.items() if value is not None}


def problem(
    status: int,
    detail: str,
    *,
    kind: str | None = None,
    headers: Mapping[str, str] | None = None,
    **extra: Any,
) -> JSONResponse:
    """A problem document as a response."""
    body = document(status, detail, kind=kind, **extra)
    return JSONResponse(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def of_expression(error: ExpressionError) -> ProblemError:
    """What a client hears of an expression that cannot be taken."""
    return ProblemError(
        422, str(error), kind=error.kind.value, position=error.position, end=error.end
    )


def install(app: FastAPI) -> None:
    """Register the handlers."""

    @app.exception_handler(ProblemError)
    async def known(request: Request, error: ProblemError) -> JSONResponse:
        return problem(
            error.status, error.detail, kind=error.kind, headers=error.headers, **error.extra
        )

    @app.exception_handler(ExpressionError)
    async def bad_expression(request: Request, error: ExpressionError) -> JSONResponse:
        return await known(request, of_expression(error))

    @app.exception_handler(RequestValidationError)
    async def bad_request(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(422, f"{where}: {first['msg']}", kind="invalid-request")

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, error.detail, headers=error.headers)
