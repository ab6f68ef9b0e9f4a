"""The application: settings and models in, an ASGI application out.

The OpenAPI document as a file: `python -m api.app docs/openapi.json`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from api import calculate, completions, operations, problems
from api.middleware.api_keys import ApiKeys
from api.middleware.body_limit import BodyLimit
from api.middleware.rate_limit import Limiter, RateLimit
from api.middleware.request_log import RequestLog
from api.middleware.security_headers import SecurityHeaders
from api.models import LoadedModel, Loader, ModelPool
from api.service import Service
from api.settings import Settings
from api.telemetry import Metrics, watch_loop
from calcgpt import __version__
from datagen.files import write_json

log = logging.getLogger(__name__)

DESCRIPTION = """
A calculator whose answers come from a small GPT trained from scratch, with the evidence: what the
model read and wrote, how sure it was, and whether exact arithmetic agrees, which never takes the
place of an answer.

Every error is a problem document (RFC 9457). Its `type` is `urn:calcgpt:problem:` and a kind:
`syntax`, `decimal-comma`, `no-operation`, `too-long`, `too-deep`, `too-many-places`,
`out-of-range` and `division-by-zero`, each with the place in the expression; `wrong-answer`,
`invalid-request`, `too-many-items`, `unknown-model`, `no-calculator`, `unauthorized`, `too-large`,
`too-slow`, `rate-limited`, `full`, `loading`, `ending`, `deadline`.
"""


def create_app(
    settings: Settings,
    load: Loader,
    on_ready: Callable[[LoadedModel], Any] = lambda model: None,
    on_failure: Callable[[Exception], Any] = lambda error: None,
) -> FastAPI:
    """The application. It serves at once; `load` runs in the background, and one of `on_ready`,
    with the default model, and `on_failure` is called when that is loaded, or cannot be."""
    metrics = Metrics()
    service = Service(settings, ModelPool(load), metrics)

    async def load_in_background() -> None:
        try:
            await service.models.load(on_ready)
        except Exception as error:  # whatever it is, the server must not wait forever
            if service.models.default:
                log.error("not all models are loaded", exc_info=error)
            else:
                on_failure(error)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        tasks = [asyncio.create_task(c) for c in (load_in_background(), watch_loop(metrics))]
        yield
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        service.close()

    app = FastAPI(
        title="CalcGPT",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # the one of api/operations.py needs no other host
        redoc_url=None,
    )
    app.state.service = service
    problems.install(app)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # for the log; nobody reads it

    app.include_router(calculate.router(service))
    app.include_router(completions.router(service))
    app.include_router(operations.router(service))
    operations.install(app)
    _guard(app, settings, metrics)
    return app


def _guard(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """What a request passes before it gets to a route, innermost first."""
    if settings.rate_limit:
        limiter = Limiter(settings.rate_limit, settings.rate_storage.get_secret_value())
        app.add_middleware(RateLimit, limiter=limiter, metrics=metrics)
    if settings.api_keys:
        keys = [key.get_secret_value() for key in settings.api_keys]
        app.add_middleware(ApiKeys, keys=keys)
    app.add_middleware(BodyLimit, limit=settings.max_body, seconds=settings.deadline)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key"],
            expose_headers=["Retry-After", "X-Request-ID"],
        )
    app.add_middleware(RequestLog, metrics=metrics)
    app.add_middleware(SecurityHeaders)


def document() -> dict[str, Any]:
    """What the service serves at /openapi.json."""
    return create_app(Settings(), lambda: iter(())).openapi()


if __name__ == "__main__":
    write_json(Path(sys.argv[1]), document())
