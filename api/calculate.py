"""The calculator's endpoints: one expression, a batch, or a stream of what the model writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial

from fastapi import APIRouter, Request
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.batching import Job
from api.problems import QUESTION_RESPONSES, ProblemError, of_expression
from api.schemas import (
    BatchItem,
    BatchRequest,
    BatchResponse,
    CalculateRequest,
    CalculateResponse,
    NodeEnd,
    NodeStart,
    OnWrong,
    Start,
    Token,
)
from api.service import EVENT_SCHEMA, EventStream, RequestStack, Service
from calcgpt.errors import ExpressionError
from calcgpt.inference.calculator import Calculator, Computation, Question
from calcgpt.inference.results import Calculation

STREAM = (
    "Server-sent events. `start`: the nodes; `node`: the model begins a node; `token`: a character "
    "and its probability; `answer`: a node is finished. The last event is `result`, with the body "
    "that /v1/calculate returns, or `error`, a problem document."
)
STREAM_EXAMPLE = {
    "schema": EVENT_SCHEMA,
    "example": (
        'event: start\ndata: {"expression":"12.5+3","model":"steps","places":2,"nodes":'
        '[{"expression":"12.5+3","position":0,"end":6}]}\n\n'
        'event: node\ndata: {"node":0,"problem":"12.5+3","prompt":"$(00000012.5+0000000003)="}\n\n'
        'event: token\ndata: {"node":0,"text":"x","probability":0.9999}\n\n'
    ),
}
EVENTS: dict[type[BaseModel], str] = {
    Start: "start",
    NodeStart: "node",
    Token: "token",
    NodeEnd: "answer",
    Calculation: "result",
}

Listener = Callable[[BaseModel], None]  # is called with the events of the stream


def router(service: Service) -> APIRouter:
    """Returns the routes under /v1/calculate."""
    routes = APIRouter(prefix="/v1/calculate", tags=["calculator"], responses=QUESTION_RESPONSES)

    @routes.post("", response_model=CalculateResponse)
    async def calculate(
        body: CalculateRequest, request: Request, stack: RequestStack
    ) -> Calculation:
        """Calculate an expression."""
        calculator = service.calculator(body.model)
        computation = calculator.begin(body.expression, body.places, body.unproven)
        stack.enter_context(service.admission.enter())
        work = answer(service, calculator, computation, body.on_wrong)
        return await service.while_connected(request, work)

    @routes.post("/batch")
    async def calculate_batch(
        body: BatchRequest, request: Request, stack: RequestStack
    ) -> BatchResponse:
        """Calculate several expressions at once. Each has a status of its own, so an invalid
        expression does not affect the others."""
        calculator = service.calculator(body.model)
        n, limit = len(body.expressions), service.settings.max_items
        if n > limit:
            raise ProblemError(422, f"{n} expressions; the limit is {limit}", kind="too-many-items")
        stack.enter_context(service.admission.enter(n))
        work = _batch(service, calculator, body)
        return await service.while_connected(request, work)

    @routes.post(
        "/stream",
        response_class=EventStream,
        responses={200: {"description": STREAM, "content": {"text/event-stream": STREAM_EXAMPLE}}},
    )
    async def calculate_stream(body: CalculateRequest, stack: RequestStack) -> EventStream:
        """Calculate an expression and stream each character as the model writes it."""
        calculator = service.calculator(body.model)
        computation = calculator.begin(body.expression, body.places, body.unproven)
        stack.enter_context(service.admission.enter())
        return EventStream(_stream(service, calculator, computation, body.on_wrong))

    return routes


async def answer(
    service: Service,
    calculator: Calculator,
    computation: Computation,
    on_wrong: OnWrong,
    listener: Listener | None = None,
) -> Calculation:
    """Answers all nodes; nodes whose operands are ready are asked together.

    Raises ProblemError if the answer is wrong and `on_wrong` is "error".
    """
    while questions := computation.questions():
        await asyncio.gather(
            *(_ask(service, calculator, computation, q, listener) for q in questions)
        )
    calculation = computation.calculation()
    model, verified = calculation.model, str(calculation.verified).lower()
    service.metrics.answers.labels(model, verified).inc()
    if on_wrong == "error" and not calculation.verified:
        result = calculation.result or "something that is not a number"
        raise ProblemError(
            422,
            f"{calculation.expression} is {calculation.exact}; {model} answers {result}",
            kind="wrong-answer",
            calculation=calculation.model_dump(),
        )
    return calculation


async def _ask(
    service: Service,
    calculator: Calculator,
    computation: Computation,
    question: Question,
    listener: Listener | None,
) -> None:
    tokenizer, node = calculator.checkpoint.tokenizer, question.node
    job = Job(
        calculator.checkpoint.name,
        calculator.decoder,
        tokenizer.encode(question.prompt).tolist(),
        calculator.stop,
    )
    if listener:
        send = listener

        def on_token(token: int, probability: float) -> None:
            send(Token(node=node, text=tokenizer.decode([token]), probability=probability))

        job.on_token = on_token
        send(NodeStart(node=node, problem=question.text, prompt=question.prompt))
    completion = await service.batcher.complete(job)
    output = tokenizer.decode(completion.ids)
    answered = computation.answer(node, output, completion.probabilities)
    if listener:
        listener(NodeEnd(node=node, **dict(answered)))


async def _batch(service: Service, calculator: Calculator, body: BatchRequest) -> BatchResponse:
    items = (_item(service, calculator, text, body) for text in body.expressions)
    return BatchResponse(items=await asyncio.gather(*items))


async def _item(
    service: Service, calculator: Calculator, text: str, body: BatchRequest
) -> BatchItem:
    try:
        computation = calculator.begin(text, body.places, body.unproven)
        calculation = await answer(service, calculator, computation, body.on_wrong)
    except ExpressionError as error:
        problem = of_expression(error)
    except ProblemError as error:
        problem = error
    else:
        return BatchItem.model_validate({"status": 200, "calculation": calculation})
    return BatchItem.model_validate({"status": problem.status, "problem": problem.document()})


async def _stream(
    service: Service, calculator: Calculator, computation: Computation, on_wrong: OnWrong
) -> AsyncIterator[bytes]:
    """Yields all events; `result` or `error` is the last. Closing it early cancels the work."""
    nodes, model = computation.outline, calculator.checkpoint.name
    expression, places = nodes[-1].expression, computation.places
    yield _event(Start(expression=expression, model=model, places=places, nodes=nodes))
    work = partial(answer, service, calculator, computation, on_wrong)
    async with aclosing(service.follow(work)) as events:
        async for event in events:
            if isinstance(event, ProblemError):
                yield format_sse_event(event="error", data_str=json.dumps(event.document()))
            else:
                yield _event(event)


def _event(data: BaseModel) -> bytes:
    return format_sse_event(event=EVENTS[type(data)], data_str=data.model_dump_json())
