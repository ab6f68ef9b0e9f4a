"""The application: routes, and the model behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from api import problems
from api.schemas import CalculateRequest, CalculateResponse, Problem, Status
from calcgpt.calculator import Calculator

PROBLEM: dict[str, Any] = {
    "model": Problem,
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


class Model:
    """The calculator in a thread of its own: the event loop never waits for it, and forward
    passes do not compete for the cores."""

    def __init__(self, load: Callable[[], Calculator]) -> None:
        self._load = load
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._calculator: Calculator | None = None

    async def load(self) -> None:
        """Load the checkpoint; what `load` raises comes out of here."""
        self._calculator = await asyncio.get_running_loop().run_in_executor(
            self._thread, self._load
        )

    @property
    def name(self) -> str | None:
        """The checkpoint's name; None until it is loaded."""
        return self._calculator.checkpoint.name if self._calculator else None

    async def calculate(self, expression: str) -> CalculateResponse:
        """Raises ExpressionError, and HTTPException (503) until the model is loaded."""
        if self._calculator is None:
            raise HTTPException(503, "the model is still loading", {"Retry-After": "1"})
        answer = await asyncio.get_running_loop().run_in_executor(
            self._thread, self._calculator.calculate, expression
        )
        return CalculateResponse(**asdict(answer))

    def close(self) -> None:
        """Let the thread end; what it is doing is finished first."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def create_app(
    load: Callable[[], Calculator],
    on_ready: Callable[[str], Any] = lambda name: None,
    on_failure: Callable[[Exception], Any] = lambda error: None,
) -> FastAPI:
    """The application. It serves at once; `load` runs in the background, and one of `on_ready`,
    with the model's name, and `on_failure` is called when it ends."""
    model = Model(load)

    async def load_in_background() -> None:
        try:
            await model.load()
        except Exception as error:  # whatever it is, the server must not wait forever
            on_failure(error)
        else:
            on_ready(str(model.name))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(load_in_background())
        yield
        loading.cancel()
        model.close()

    app = FastAPI(
        title="CalcGPT",
        summary="A calculator whose answers come from a small GPT trained from scratch.",
        lifespan=lifespan,
    )
    problems.install(app)

    @app.get("/", include_in_schema=False)
    async def index() -> RedirectResponse:
        return RedirectResponse("/docs")

    @app.post("/v1/calculate", responses={422: PROBLEM, 503: PROBLEM})
    async def calculate(request: CalculateRequest) -> CalculateResponse:
        """Answer one operation on two numbers."""
        return await model.calculate(request.expression)

    @app.get("/healthz")
    async def healthz() -> Status:
        """Whether the process is alive."""
        return Status(status="ok")

    @app.get("/readyz", responses={503: PROBLEM})
    async def readyz() -> Status:
        """Whether the model is loaded."""
        if model.name is None:
            raise HTTPException(503, "the model is still loading", {"Retry-After": "1"})
        return Status(status="ok", model=model.name)

    return app
