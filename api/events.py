"""A computation as server-sent events: what happens while the model works."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator

from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.lifetime import deadline_passed
from api.problems import ProblemError
from api.schemas import Answered, Begun, CalculateResponse, OnWrong, Start, Token
from api.service import Service
from calcgpt.calculator import Calculator, Computation

log = logging.getLogger(__name__)

EVENTS: dict[type[BaseModel], str] = {
    Start: "start",
    Begun: "node",
    Token: "token",
    Answered: "answer",
    CalculateResponse: "result",
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
    outline = [Start.Part.model_validate(node) for node in computation.outline]
    name = calculator.checkpoint.name
    yield event(Start(expression=outline[-1].expression, model=name, nodes=outline))

    happened: asyncio.Queue[BaseModel | None] = asyncio.Queue()
    seconds = service.settings.deadline
    work = service.calculate(calculator, computation, on_wrong, happened.put_nowait)
    task = asyncio.create_task(asyncio.wait_for(work, seconds))
    task.add_done_callback(lambda _: happened.put_nowait(None))
    try:
        while (data := await happened.get()) is not None:
            yield event(data)
        yield event(task.result())
    except ProblemError as error:
        yield failure(error)
    except TimeoutError:
        yield failure(deadline_passed(seconds, service.metrics))
    except Exception as error:  # the status has gone out: this is all that can be said
        log.error("a stream failed", exc_info=error)
        yield failure(ProblemError(500, "the service has a defect; its log says more"))
    finally:
        if not task.done():
            service.metrics.sheds.labels("disconnected").inc()
            task.cancel()
