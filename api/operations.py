"""For those who run the service: is it alive, is it ready, what does it do.

What a browser shows: the calculator, and the documentation. No file comes from elsewhere.
"""

from __future__ import annotations

from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

from api.responses import GUARDED, problems
from api.schemas import ModelList, Status
from api.service import Service

EXAMPLE = {
    "schema": {"type": "string"},
    "example": 'calcgpt_answers_total{model="steps",verified="true"} 31.0\n',
}


def router(service: Service) -> APIRouter:
    """/healthz, /readyz, /metrics and /v1/models."""
    routes = APIRouter()

    @routes.get("/v1/models", tags=["models"], responses=GUARDED)
    async def models() -> ModelList:
        """The models that can be named, what each can be asked, and how good it is."""
        default = service.models.default
        return ModelList(data=[model.described(model is default) for model in service.models])

    @routes.get("/healthz", tags=["operations"])
    async def healthz() -> Status:
        """Whether the process is alive."""
        default = service.models.default
        return Status(status="ok", model=default.name if default else None)

    @routes.get("/readyz", tags=["operations"], responses=problems(503))
    async def readyz() -> Status:
        """Whether the default model is loaded."""
        return Status(status="ok", model=service.models.find().name)

    @routes.get(
        "/metrics",
        tags=["operations"],
        response_class=Response,
        responses={200: {"content": {"text/plain": EXAMPLE}}},
    )
    async def metrics() -> Response:
        """What it did so far, for Prometheus."""
        body, media_type = service.metrics.render()
        return Response(body, media_type=media_type)

    return routes


STATIC = Path(__file__).parent / "static"
SWAGGER = Path(fastapi_offline.__file__).parent / "static"  # the bundle of Swagger UI


def install(app: FastAPI) -> None:
    """`/`, `/docs` and the files that they need."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def index() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @routes.get("/docs")
    async def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    app.include_router(routes)
    app.mount("/static/swagger", StaticFiles(directory=SWAGGER), name="swagger")
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
