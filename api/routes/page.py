"""What a browser shows: the calculator, and the documentation. No file comes from elsewhere."""

from __future__ import annotations

from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

STATIC = Path(__file__).parents[1] / "static"
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
