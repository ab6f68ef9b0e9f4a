"""The calculator: one expression, several, or one as it is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from api.problems import ProblemError, of_expression
from api.responses import ASKED
from api.schemas import BatchItem, BatchRequest, BatchResponse, CalculateRequest, CalculateResponse
from api.schemas import Problem as ProblemDocument
from api.service import Service, while_connected
from api.streaming import EVENT, EventStream, stream
from calcgpt.errors import ExpressionError
from calcgpt.inference.calculator import Calculation, Calculator


async def held_places() -> AsyncIterator[ExitStack]:
    """What a request holds until its response has gone out, or its client."""
    with ExitStack() as stack:
        yield stack


Held = Annotated[ExitStack, Depends(held_places)]


def router(service: Service) -> APIRouter:
    """The endpoints under /v1/calculate."""
    routes = APIRouter(prefix="/v1/calculate", tags=["calculator"], responses=ASKED)
    seconds, metrics = service.settings.deadline, service.metrics

    @routes.post("", response_model=CalculateResponse)
    async def calculate(asked: CalculateRequest, request: Request, held: Held) -> Calculation:
        """Calculate an expression."""
        calculator = service.calculator(asked.model)
        computation = calculator.begin(asked.expression)
        held.enter_context(service.admission.enter())
        work = service.calculate(calculator, computation, asked.on_wrong)
        return await while_connected(request, work, seconds, metrics)

    @routes.post("/batch")
    async def calculate_batch(asked: BatchRequest, request: Request, held: Held) -> BatchResponse:
        """Calculate several expressions at once. One that cannot be taken does not spoil the
        others: each has a status of its own."""
        calculator = service.calculator(asked.model)
        n, limit = len(asked.expressions), service.settings.max_items
        if n > limit:
            raise ProblemError(422, f"{n} expressions; at most {limit}", kind="too-many-items")
        held.enter_context(service.admission.enter(n))
        work = _items(service, calculator, asked)
        return BatchResponse(items=await while_connected(request, work, seconds, metrics))

    @routes.post(
        "/stream",
        response_class=EventStream,
        responses={200: {"description": STREAM, "content": {"text/event-stream": EXAMPLE}}},
    )
    async def calculate_stream(asked: CalculateRequest, held: Held) -> EventStream:
        """Calculate an expression, and see each character as the model writes it."""
        calculator = service.calculator(asked.model)
        computation = calculator.begin(asked.expression)
        held.enter_context(service.admission.enter())
        return EventStream(stream(service, calculator, computation, asked.on_wrong))

    return routes


STREAM = (
    "Server-sent events: `start` with the nodes; `node` where the model begins one; `token`, a "
    "character and its probability; `answer`, a node that is done; and at last `result`, as "
    "/v1/calculate answers, or `error`, a problem document."
)
EXAMPLE = {
    "schema": EVENT,
    "example": (
        'event: start\ndata: {"expression":"12.5+3","model":"steps","nodes":'
        '[{"expression":"12.5+3","position":0,"end":6}]}\n\n'
        'event: node\ndata: {"node":0,"problem":"12.5+3","prompt":"$(00000012.5+0000000003)="}\n\n'
        'event: token\ndata: {"node":0,"text":"x","probability":0.9999}\n\n'
    ),
}


async def _items(service: Service, calculator: Calculator, asked: BatchRequest) -> list[BatchItem]:
    items = (_item(service, calculator, text, asked) for text in asked.expressions)
    return await asyncio.gather(*items)


async def _item(
    service: Service, calculator: Calculator, text: str, asked: BatchRequest
) -> BatchItem:
    try:
        computation = calculator.begin(text)
        calculation = await service.calculate(calculator, computation, asked.on_wrong)
    except ExpressionError as error:
        refused = of_expression(error)
    except ProblemError as error:
        refused = error
    else:
        return BatchItem.model_validate({"status": 200, "calculation": calculation})
    document = ProblemDocument.model_validate(refused.document())
    return BatchItem(status=refused.status, problem=document)
