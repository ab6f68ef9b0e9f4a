"""Files and CORS: what only browsers ask for."""

from __future__ import annotations

import os

from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access import is_api
from api.problems import ProblemError


class Files(StaticFiles):
    """The files of a folder, always whole: Starlette refuses an invalid `Range` in plain text."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        scope["headers"] = [header for header in scope["headers"] if header[0] != b"range"]
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Accept-Ranges"] = "none"
        return response


class CompressedFiles:
    """Compresses the page, its files and the documentation, but no answer of the API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressed = GZipMiddleware(app, minimum_size=1000, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_file = scope["type"] == "http" and not is_api(scope)
        await (self._compressed if is_file else self._app)(scope, receive, send)


class Cors(CORSMiddleware):
    """CORS that refuses a preflight with a problem document instead of plain text."""

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code < 400:
            return response
        headers = response.headers  # they tell the browser what is allowed
        del headers["Content-Length"], headers["Content-Type"]
        return ProblemError(
            response.status_code, bytes(response.body).decode(), headers=headers
        ).response()
