"""Work that tells what happens while it is done, as a stream.

A computation as server-sent events: what happens while the model works.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.problems import ProblemError
from api.schemas import Answered, Begun, OnWrong, Start, Token
from api.service import Service, deadline_passed
from calcgpt.inference.calculator import Calculation, Calculator, Computation

log = logging.getLogger(__name__)

EVENT: dict[str, Any] = {  # the schema of each
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
Told = TypeVar("Told")
Result = TypeVar("Result")
Work = Callable[[Callable[[Told], None]], Coroutine[Any, Any, Result]]  # is given whom to tell


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], status_code: int = 200) -> None:
        headers = {"X-Accel-Buffering": "no"}  # a proxy must not hold it back
        super().__init__(events, status_code, headers)


async def follow(
    service: Service, work: Work[Told, Result]
) -> AsyncGenerator[Told | Result | ProblemError]:
    """All that the work tells, and last its result, or the problem that it ended in: the status has
    gone out, so nothing is raised. The work has a deadline; closing this early cancels it."""
    end = object()
    happened: asyncio.Queue[Any] = asyncio.Queue()
    seconds = service.settings.deadline
    task = asyncio.create_task(asyncio.wait_for(work(happened.put_nowait), seconds))
    task.add_done_callback(lambda _: happened.put_nowait(end))
    try:
        while (told := await happened.get()) is not end:
            yield told
        yield task.result()
    except ProblemError as error:
        yield error
    except TimeoutError:
        yield deadline_passed(seconds, service.metrics)
    except Exception as error:
        log.error("a stream failed", exc_info=error)
        yield ProblemError(500, "the service has a defect; its log says more")
    finally:
        if not task.done():
            service.metrics.sheds.labels("disconnected").inc()
            task.cancel()


EVENTS: dict[type[BaseModel], str] = {
    Start: "start",
    Begun: "node",
    Token: "token",
    Answered: "answer",
    Calculation: "result",
}


def event(data: BaseModel) -> bytes:
    """One event as it goes over the wire."""
    return format_sse_event(event=EVENTS[type(data)], data_str=data.model_dump_json())


def failure(error: ProblemError) -> bytes:
    """The event that ends a stream which has no result."""
    return format_sse_event(event="error", data_str=json.dumps(error.document()))


async def stream(
    service: Service, calculator: Calculator, computation: Computation, on_wrong: OnWrong
) -> AsyncIterator[bytes]:
    """All events, `result` or `error` the last. Closing it early gives its place up."""
    nodes, name = computation.outline, calculator.checkpoint.name
    yield event(Start(expression=nodes[-1].expression, model=name, nodes=nodes))
    work = partial(service.calculate, calculator, computation, on_wrong)
    async with aclosing(follow(service, work)) as happened:
        async for data in happened:
            yield failure(data) if isinstance(data, ProblemError) else event(data)
