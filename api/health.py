"""Health and metrics apart: a listener of their own, answered by a thread of their own.

So they are answered at once, however many connections the service has to accept or refuse.
"""

from __future__ import annotations

import logging
import socket
from threading import Thread

import uvicorn
from fastapi import APIRouter, FastAPI
from fastapi.responses import Response

from api import problems
from api.problems import responses
from api.protocol import BoundedProtocol
from api.schemas.models import Status
from api.service import Service

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 100
METRICS_EXAMPLE = {
    "schema": {"type": "string"},
    "example": 'calcgpt_answers_total{model="steps",verified="true"} 31.0\n',
}


def routes(service: Service) -> APIRouter:
    """Returns the routes of /healthz, /readyz and /metrics. They may run in any thread."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz")
    async def healthz() -> Status:
        """Check that the process is alive."""
        default = service.models.default
        return Status(status="ok", model=default.name if default else None)

    @routes.get("/readyz", responses=responses(503))
    async def readyz() -> Status:
        """Check that the default model is loaded."""
        return Status(status="ok", model=service.models.find().name)

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": METRICS_EXAMPLE}}},
    )
    async def metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        body, media_type = service.metrics.render()
        return Response(body, media_type=media_type)

    return routes


def serve(service: Service, listener: socket.socket) -> None:
    """Answers on `listener`, in a thread that ends with the process."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    problems.install(app)
    app.include_router(routes(service))
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
