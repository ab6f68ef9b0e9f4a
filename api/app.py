"""The ASGI application, made from settings and a loader of models, and its endpoints for operators
and browsers: models, health, metrics, the page and the documentation.

`python -m api.app docs/openapi.json` writes the OpenAPI document.
"""

import asyncio
import ctypes
import gc
import json
import logging
import resource
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import APIRouter, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import Response
from safetensors.numpy import save

from api import calculate, chat, questions
from api.access import ApiKeys, Hosts, Limiter, RateLimit
from api.browsers import Content, Files
from api.connections import ON_FULL
from api.http import API_RESPONSES, ProblemError, install_problems, responses
from api.middleware import BodyLimit, RequestLog
from api.schemas import Model, ModelList, Status
from api.service import LoadedModel, Loader, ModelPool, Service
from api.settings import Settings
from api.slow_clients import SlowClients
from api.telemetry import Metrics, configure_logs, flush_logs, watch_loop
from calcgpt.base.errors import UserError
from calcgpt.base.files import write_json
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.browser import OFF, manifest_of, with_address, with_modules

log = logging.getLogger(__name__)

API_VERSION = "5.0"  # of the document; docs/API.md says what it means
DESCRIPTION = """
A calculator whose answers come from a small GPT trained from scratch. Each answer comes with its
evidence: what the model read and wrote, how sure it was, and whether exact arithmetic agrees. The
exact value never replaces the model's answer.

Every error is a problem document (RFC 9457). Its `type` is `about:blank` if the status says
enough, or else `urn:calcgpt:problem:` and a kind:
`syntax`, `decimal-comma`, `no-operation`, `too-long`, `too-many-places`,
`out-of-range` and `division-by-zero`, each with its position in the expression;
`not-verified` and `not-confident`, each with the answer and its evidence;
`bad-question` and `other-task`, about models of a task of your own;
`invalid-json`, `invalid-request`, `too-many-items`, `unknown-model`, `no-weights`,
`unauthorized`, `too-large`, `too-slow`, `rate-limited`, `full`, `loading`, `ending`, `deadline`.
"""

# Python's default of 5 ms lets a thread that plans or runs torch delay the event loop by as much.
SWITCH_SECONDS = 0.001
GC_THRESHOLDS = 10_000, 50, 1_000  # an answer leaves no cycles: to look for them finds nothing
# Parameters of glibc's mallopt. With an arena for each thread, and with large blocks among small
# ones, much that is free is not given back to the system.
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
MALLOC = {M_MMAP_THRESHOLD: 1 << 16, M_ARENA_MAX: 1}

WEIGHTS = "`model.safetensors` of the checkpoint"
WEIGHTS_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": WEIGHTS,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    304: {"description": "Not modified: `If-None-Match` has the tag of these weights"},
}
MODEL_RESPONSES = responses(401, 404, 422, 429, 503)
MANIFEST: dict[str, Any] = {
    "schema": {"type": "object"},
    "example": {"id": "calculator", "parameters": 41_596, "layers": 3, "heads": 4},
}
MANIFEST_RESPONSES = {
    **MODEL_RESPONSES,
    200: {"description": "A JSON object", "content": {"application/json": MANIFEST}},
}
METRICS_EXAMPLE: dict[str, Any] = {
    "schema": {"type": "string"},
    "example": 'calcgpt_answers_total{model="calculator",verified="true"} 31.0\n',
}
MAX_REQUESTS = 1_024  # at once, beyond `max_pending`
STATIC = Files(directory=Path(__file__).parent / "static")
SWAGGER = Files(directory=Path(fastapi_offline.__file__).parent / "static")  # of Swagger UI
_DOCUMENT_LOCK = threading.Lock()  # FastAPI cannot make it in two threads at once


def prepare(settings: Settings) -> None:
    """Prepares a process to serve: sets up logs, and raises the limit of open files."""
    configure_logs(settings.log_format, settings.log_level)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # clients can cause warnings
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*GC_THRESHOLDS)
    with suppress(AttributeError, OSError):  # another libc
        for parameter, value in MALLOC.items():
            ctypes.CDLL(None).mallopt(parameter, value)
    with suppress(ValueError, OSError):  # some systems do not allow even the hard limit
        _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


class Application(FastAPI):
    """FastAPI whose OpenAPI document says that operations under /v1/ may need a key."""

    def openapi(self) -> dict[str, Any]:
        with _DOCUMENT_LOCK:
            document = super().openapi()
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, operations in document["paths"].items():
            if path.startswith("/v1/"):
                for operation in operations.values():  # a service without keys needs none: {}
                    operation["security"] = [{}, {"key": []}]
        return document


def create_app(
    settings: Settings,
    load: Loader,
    on_ready: Callable[[LoadedModel], Any] = lambda model: None,
    on_failure: Callable[[Exception], Any] = lambda error: None,
) -> FastAPI:
    """Returns the application. It serves at once and loads the models in the background.

    `on_ready` is called with the default model once that is loaded, `on_failure` with the error if
    it cannot be loaded.
    """
    metrics = Metrics()
    service = Service(settings, ModelPool(load), metrics)

    async def load_in_background() -> None:
        try:
            await service.models.load(on_ready)
        except Exception as error:  # otherwise the server would wait for the model forever
            if service.models.default:
                log.error("some models could not be loaded", exc_info=error)
            else:
                on_failure(error)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        tasks = [asyncio.create_task(c) for c in (load_in_background(), watch_loop(metrics))]
        yield {ON_FULL: metrics.sheds.labels("full").inc}
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        flush_logs()  # a worker ends by the signal

    app = Application(
        title="CalcGPT",
        version=API_VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,  # `_add_pages` serves the document, and the pages from local files
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # redirects would use `Host`, which the client chooses
    )
    app.state.service = service
    install_problems(app)

    app.include_router(calculate.router(service))
    app.include_router(chat.router(service))
    app.include_router(questions.router(service))
    app.include_router(_model_routes(service))
    app.include_router(health_routes(service.ready, metrics))
    _add_pages(app, settings.page_address)
    _add_middleware(app, settings, metrics)
    return app


def _model_routes(service: Service) -> APIRouter:
    """Returns the routes under /v1/models."""
    routes = APIRouter()
    files: dict[str, dict[str, Content]] = {}  # by model, once requested
    one_at_a_time = asyncio.Lock()

    @routes.get("/v1/models", tags=["models"], responses=API_RESPONSES)
    async def models() -> ModelList:
        """List the models: their names, the problems they can be given, and their scores."""
        default = service.models.default
        return ModelList(data=[model.describe(model is default) for model in service.models])

    @routes.get("/v1/models/{model}", tags=["models"], responses=MODEL_RESPONSES)
    async def model(model: str) -> Model:
        """Get one model, as it stands in the list."""
        loaded = service.models.find(model)
        return loaded.describe(loaded is service.models.default)

    async def send(model: str, file: str, request: Request) -> Response:
        checkpoint = service.models.find(model).checkpoint
        async with one_at_a_time:
            if model not in files:
                try:
                    files[model] = await asyncio.to_thread(_files_of, checkpoint)
                except UserError as error:  # a model of another form
                    raise ProblemError(404, str(error), kind="no-weights") from None
        response = files[model][file].response(request.scope)
        response.headers["Cache-Control"] = "private, no-cache"
        return response

    @routes.get(
        "/v1/models/{model}/weights",
        tags=["models"],
        response_class=Response,
        responses={**MODEL_RESPONSES, **WEIGHTS_RESPONSES},
    )
    async def weights(model: str, request: Request) -> Response:
        """Get the weights of a model, for the engine in the browser."""
        return await send(model, "weights", request)

    @routes.get("/v1/models/{model}/manifest", tags=["models"], responses=MANIFEST_RESPONSES)
    async def manifest(model: str, request: Request) -> Response:
        """Get what the engine in the browser needs to know of a model besides its weights."""
        return await send(model, "manifest", request)

    return routes


def _files_of(checkpoint: Checkpoint) -> dict[str, Content]:
    """Returns what the page needs of a model. Raises ConfigError if its engine cannot run it."""
    manifest = json.dumps(manifest_of(checkpoint)).encode()
    return {
        "manifest": Content(manifest, "application/json"),
        "weights": Content(save(checkpoint.stored_arrays), "application/octet-stream"),
    }


def health_routes(ready: Callable[[], str], registry: Metrics) -> APIRouter:
    """Returns the routes of /healthz, /readyz and /metrics.

    `ready` returns the name of the default model, or raises ProblemError while the service cannot
    answer.
    """
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz")
    async def healthz() -> Status:
        """Check that the process is alive."""
        try:
            return Status(status="ok", model=ready())
        except ProblemError:  # while it starts, or ends
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


def _add_pages(app: FastAPI, address: str | None) -> None:
    """Adds `/`, `/docs` and their files. All are local: they load nothing from another host.
    `address` is that of `/`, if it is known."""
    routes = APIRouter(include_in_schema=False)
    folder = Path(STATIC.directory or "")
    pages = {
        "/": with_modules((folder / "index.html").read_text("utf-8"), folder),
        f"/{OFF}": (folder / "off.html").read_text("utf-8"),
    }

    def add(path: str, html: str) -> None:
        page = Content((with_address(html, address) if address else html).encode(), "text/html")

        @routes.get(path)
        async def index(request: Request) -> Response:
            return page.response(request.scope)

    for path, html in pages.items():
        add(path, html)

    @routes.get("/docs")
    async def docs(request: Request) -> Response:
        return await STATIC.get_response("docs.html", request.scope)

    @cache
    def document_json() -> Content:
        return Content(json.dumps(app.openapi()).encode(), "application/json")

    @routes.get("/openapi.json")
    def openapi(request: Request) -> Response:  # in a thread: the first makes the document
        return document_json().response(request.scope)

    app.include_router(routes)
    app.mount("/static/swagger", SWAGGER, name="swagger")
    app.mount("/static", STATIC, name="static")


def _add_middleware(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """Adds the middleware, the innermost first."""
    if settings.rate_limit:
        app.add_middleware(RateLimit, limiter=Limiter(settings.rate_limit), metrics=metrics)
    if settings.api_keys:
        keys = [key.get_secret_value() for key in settings.api_keys]
        app.add_middleware(ApiKeys, keys=keys)
    room = max(1 << 24, 2 * settings.max_body)
    slow = SlowClients(max_bytes=room, on_given_up=metrics.sheds.labels("full").inc)
    app.add_middleware(BodyLimit, limit=settings.max_body, slow=slow, seconds=settings.deadline)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],  # OpenAI's client sends many of its own
            expose_headers=["Retry-After", "X-Request-ID"],
        )
    if settings.hosts and "*" not in settings.hosts:
        app.add_middleware(Hosts, hosts=settings.hosts)
    limit = MAX_REQUESTS + settings.max_pending
    app.add_middleware(RequestLog, metrics=metrics, slow=slow, limit=limit)


def document() -> dict[str, Any]:
    """Returns the OpenAPI document."""
    return create_app(Settings(), lambda: iter(())).openapi()


if __name__ == "__main__":
    write_json(Path(sys.argv[1]), document())
