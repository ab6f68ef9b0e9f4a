"""Endpoints for operators and browsers: models, health, metrics, the page and the documentation.

All files are local: the page and the documentation load nothing from another host.
"""

from __future__ import annotations

from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

from api.models import LoadedModel
from api.problems import API_RESPONSES, responses
from api.schemas import Domain, Model, ModelList, Status
from api.service import Service
from datagen.notation import WIDTH

STATIC = Path(__file__).parent / "static"
SWAGGER = Path(fastapi_offline.__file__).parent / "static"  # the bundle of Swagger UI
METRICS_EXAMPLE = {
    "schema": {"type": "string"},
    "example": 'calcgpt_answers_total{model="steps",verified="true"} 31.0\n',
}


def router(service: Service) -> APIRouter:
    """Returns the routes of /healthz, /readyz, /metrics and /v1/models."""
    routes = APIRouter()

    @routes.get("/v1/models", tags=["models"], responses=API_RESPONSES)
    async def models() -> ModelList:
        """List the models: their names, the problems they can be given, and their scores."""
        default = service.models.default
        return ModelList(data=[describe(model, model is default) for model in service.models])

    @routes.get("/healthz", tags=["operations"])
    async def healthz() -> Status:
        """Check that the process is alive."""
        default = service.models.default
        return Status(status="ok", model=default.name if default else None)

    @routes.get("/readyz", tags=["operations"], responses=responses(503))
    async def readyz() -> Status:
        """Check that the default model is loaded."""
        return Status(status="ok", model=service.models.find().name)

    @routes.get(
        "/metrics",
        tags=["operations"],
        response_class=Response,
        responses={200: {"content": {"text/plain": METRICS_EXAMPLE}}},
    )
    async def metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        body, media_type = service.metrics.render()
        return Response(body, media_type=media_type)

    return routes


def describe(model: LoadedModel, default: bool) -> Model:
    """Returns the entry of a model in /v1/models."""
    domain = None
    if model.calculator:
        below = model.calculator.domain.below
        domain = Domain(max_characters=WIDTH, below=below, works_in_steps=below is not None)
    scores = model.checkpoint.metrics.get("test")
    names = ("n", "char_accuracy", "exact_match", "by_operation")
    return Model(
        id=model.name,
        default=default,
        description=model.checkpoint.recipe.description,
        parameters=model.checkpoint.model.n_parameters(),
        engine=model.engine,
        domain=domain,
        metrics={name: scores[name] for name in names if name in scores}
        if isinstance(scores, dict)
        else None,
    )


def install(app: FastAPI) -> None:
    """Adds `/`, `/docs` and their files to the application."""
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
