"""For those who run the service: is it alive, is it ready, what does it do."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from api.routes.responses import GUARDED, problems
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
