"""A computation as server-sent events: what happens while the model works."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial

from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.problems import ProblemError
from api.schemas import Answered, Begun, CalculateResponse, OnWrong, Start, Token
from api.service import Service
from api.streaming import follow
from calcgpt.calculator import Calculator, Computation

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
    work = partial(service.calculate, calculator, computation, on_wrong)
    async with aclosing(follow(service, work)) as happened:
        async for data in happened:
            yield failure(data) if isinstance(data, ProblemError) else event(data)
