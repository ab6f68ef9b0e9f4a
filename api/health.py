"""Health and metrics: their endpoints, and a server for them alone."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI
from fastapi.responses import Response

from api import problems
from api.problems import ProblemError, responses
from api.protocol import BoundedProtocol
from api.schemas.models import Status
from api.telemetry import Metrics

METRICS_EXAMPLE: dict[str, Any] = {
    "schema": {"type": "string"},
    "example": 'calcgpt_answers_total{model="scratchpad",verified="true"} 31.0\n',
}
MAX_CONNECTIONS = 100  # of the server for health and metrics alone


def router(ready: Callable[[], str], registry: Metrics) -> APIRouter:
    """Returns the routes of /healthz, /readyz and /metrics.

    `ready` returns the name of the default model, or raises ProblemError while no problem is
    answered.
    """
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz")
    async def healthz() -> Status:
        """Check that the process is alive."""
        with suppress(ProblemError):
            return Status(status="ok", model=ready())
        return Status(status="ok", model=None)

    @routes.get("/readyz", responses=responses(503))
    async def readyz() -> Status:
        """Check that the default model is loaded."""
        return Status(status="ok", model=ready())

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": METRICS_EXAMPLE}}},
    )
    async def metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        body, media_type = registry.render()
        return Response(body, media_type=media_type)

    return routes


def serve(routes: APIRouter, listener: socket.socket) -> None:
    """Answers these routes in a thread, which ends with the process."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    problems.install(app)
    app.include_router(routes)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        http=BoundedProtocol,
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
    )
    server = uvicorn.Server(config)
    Thread(target=server.run, kwargs={"sockets": [listener]}, name="health", daemon=True).start()
