"""Every error leaves as a problem document (RFC 9457), never as a stack trace."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from api.schemas import Problem
from calcgpt.errors import ExpressionError

log = logging.getLogger(__name__)


def problem(
    status: int,
    detail: str,
    position: int | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """A problem document as a response."""
    body = Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        position=position,
    )
    return JSONResponse(
        body.model_dump(exclude_none=True),
        status,
        headers=headers,
        media_type="application/problem+json",
    )


def install(app: FastAPI) -> None:
    """Register the handlers."""

    @app.exception_handler(ExpressionError)
    async def bad_expression(request: Request, error: ExpressionError) -> JSONResponse:
        return problem(422, str(error), error.position)

    @app.exception_handler(RequestValidationError)
    async def bad_request(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(422, f"{where}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers) if error.headers else None
        return problem(error.status_code, error.detail, headers=headers)

    @app.exception_handler(Exception)
    async def defect(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(500, "the service has a defect; its log says more")
