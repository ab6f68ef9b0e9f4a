"""What the endpoints share: models, the model's thread, admission, deadlines and streams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from api.batching import Batcher
from api.models import ModelPool
from api.problems import ProblemError
from api.settings import Settings
from api.telemetry import Metrics
from calcgpt.inference.calculator import Calculator

log = logging.getLogger(__name__)

Event = TypeVar("Event")
Result = TypeVar("Result")
Work = Callable[[Callable[[Event], None]], Coroutine[Any, Any, Result]]  # takes a listener


class Admission:
    """Bounds how many expressions are worked on at a time.

    More than that are refused at once, so that those admitted are answered in time.
    """

    def __init__(self, limit: int, metrics: Metrics) -> None:
        self._limit = limit
        self._metrics = metrics
        self._n = 0

    @contextmanager
    def enter(self, n: int = 1) -> Iterator[None]:
        """Admits `n` expressions. Raises ProblemError (503) if there is no room for them."""
        if self._n + n > self._limit:
            self._metrics.sheds.labels("full").inc()
            raise ProblemError(
                503, "too many requests at once; try again", kind="full", headers=RETRY
            )
        self._n += n
        self._metrics.in_flight.inc(n)
        try:
            yield
        finally:
            self._n -= n
            self._metrics.in_flight.dec(n)


RETRY = {"Retry-After": "1"}


async def _request_stack() -> AsyncIterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


RequestStack = Annotated[ExitStack, Depends(_request_stack)]
"""Closed once the response is sent, or its client is gone."""


class Service:
    """The state of one application. Models can run only between `start` and `close`."""

    batcher: Batcher

    def __init__(self, settings: Settings, models: ModelPool, metrics: Metrics) -> None:
        self.settings = settings
        self.models = models
        self.metrics = metrics
        self.admission = Admission(settings.max_pending, metrics)

    def start(self) -> None:
        """Starts the model's thread. Call it in the event loop that serves the requests."""
        settings = self.settings
        self.batcher = Batcher(
            self.metrics, settings.max_batch, settings.max_groups, settings.batch_wait
        )

    def close(self) -> None:
        """Ends the model's thread. Unfinished requests stay unanswered."""
        self.batcher.close()

    def calculator(self, name: str | None) -> Calculator:
        """Returns the calculator of a model, by default of the default model.

        Raises ProblemError if there is no such model, or if it does not calculate.
        """
        model = self.models.find(name)
        if model.calculator is None:
            detail = f"{model.name} is a model of plain text: it does not calculate"
            raise ProblemError(422, detail, kind="no-calculator")
        return model.calculator

    def deadline_passed(self) -> ProblemError:
        """Counts a request that took too long, and returns the error for it."""
        self.metrics.sheds.labels("deadline").inc()
        seconds = self.settings.deadline
        return ProblemError(504, f"not answered within {seconds:g} s", kind="deadline")

    async def while_connected(self, request: Request, work: Coroutine[Any, Any, Result]) -> Result:
        """Returns the result of `work`. The body of the request must have been read.

        Cancels `work` and raises ProblemError (504) at the deadline, ClientDisconnect if the
        client is gone.
        """
        task = asyncio.ensure_future(work)
        disconnected = asyncio.ensure_future(_disconnect(request))
        try:
            await asyncio.wait(
                (task, disconnected),
                timeout=self.settings.deadline,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if task.done():
                return task.result()
            if disconnected.done():
                self.metrics.sheds.labels("disconnected").inc()
                raise ClientDisconnect
            raise self.deadline_passed()
        finally:
            task.cancel()
            disconnected.cancel()

    async def follow(
        self, work: Work[Event, Result]
    ) -> AsyncGenerator[Event | Result | ProblemError]:
        """Yields the events that `work` reports, then its result.

        Nothing is raised, because the status of the response is already sent: a ProblemError is
        yielded instead of the result. `work` is cancelled at the deadline, or if this generator is
        closed early.
        """
        end = object()
        events: asyncio.Queue[Any] = asyncio.Queue()
        task = asyncio.create_task(
            asyncio.wait_for(work(events.put_nowait), self.settings.deadline)
        )
        task.add_done_callback(lambda _: events.put_nowait(end))
        try:
            while (event := await events.get()) is not end:
                yield event
            yield task.result()
        except ProblemError as error:
            yield error
        except TimeoutError:
            yield self.deadline_passed()
        except Exception as error:
            log.error("a stream failed", exc_info=error)
            yield ProblemError(500, "internal error; the log of the service has the details")
        finally:
            if not task.done():
                self.metrics.sheds.labels("disconnected").inc()
                task.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}


class EventStream(StreamingResponse):
    """A response of server-sent events."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], status_code: int = 200) -> None:
        super().__init__(events, status_code, {"X-Accel-Buffering": "no"})  # for proxies
