"""The calculator's endpoints: one expression, a batch, or a stream of what the model writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, aclosing
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.groups import Job
from api.problems import QUESTION_RESPONSES, ProblemError, expression_problem
from api.routing import EventStream, JsonRoute, RequestStack, stream_responses
from api.schemas.calculator import (
    BatchItem,
    BatchRequest,
    BatchResponse,
    CalculateQuery,
    CalculateRequest,
    CalculateResponse,
    Demands,
    NodeEnd,
    NodeStart,
    Start,
    Token,
)
from api.service import Service
from calcgpt.errors import ExpressionError
from calcgpt.inference.calculator import Calculator, Computation, Question
from calcgpt.inference.results import Calculation

STREAM = (
    "Server-sent events. `start`: the nodes; `node`: the model begins a node; `token`: a character "
    "and its probability; `answer`: a node is finished. The last event is `result`, with the body "
    "that /v1/calculate returns, or `error`, a problem document."
)
STREAM_EXAMPLE = (
    'event: start\ndata: {"expression":"12.5+3","model":"scratchpad-long","places":8,"nodes":'
    '[{"expression":"12.5+3","position":0,"end":6}]}\n\n'
    'event: node\ndata: {"node":0,"problem":"12.5+3","prompt":"$8(00000012.5+0000000003)="}\n\n'
    'event: token\ndata: {"node":0,"text":"+","probability":0.9999}\n\n'
)
EVENTS: dict[type[BaseModel], str] = {
    Start: "start",
    NodeStart: "node",
    Token: "token",
    NodeEnd: "answer",
    Calculation: "result",
}

SHORT = 100  # characters of an expression that is parsed within 3 ms
READ_PER_OPERATION = 8  # characters of a wrong expression that count as much as an operation
Listener = Callable[[BaseModel], None]  # is called with the events of the stream


def router(service: Service) -> APIRouter:
    """Returns the routes under /v1/calculate."""
    routes = APIRouter(
        prefix="/v1/calculate",
        route_class=JsonRoute,
        tags=["calculator"],
        responses=QUESTION_RESPONSES,
    )

    @routes.post("", response_model=CalculateResponse)
    async def calculate(
        body: CalculateRequest, request: Request, stack: RequestStack
    ) -> Calculation:
        """Calculate an expression."""
        calculator, computation = await begin(service, body.expression, body, request, stack)
        work = answer(service, calculator, computation, body)
        return await service.while_connected(request, work)

    @routes.get("", response_model=CalculateResponse)
    async def calculate_by_address(
        query: Annotated[CalculateQuery, Query()], request: Request, stack: RequestStack
    ) -> Calculation:
        """Calculate an expression given in the URL, where `+` is written as `%2B`."""
        calculator, computation = await _begin_query(service, query, request, stack)
        work = answer(service, calculator, computation, query)
        return await service.while_connected(request, work)

    @routes.post("/batch")
    async def calculate_batch(
        body: BatchRequest, request: Request, stack: RequestStack
    ) -> BatchResponse:
        """Calculate several expressions at once. Each has a status of its own, so an invalid
        expression does not affect the others, nor does one that is not answered in time."""
        calculator = service.calculator(body.model)
        n, limit = len(body.expressions), service.settings.max_items
        if n > limit:
            raise ProblemError(422, f"{n} expressions; the limit is {limit}", kind="too-many-items")
        service.admission.require_room()
        computations, n_operations = await _begin_all(service, calculator, body)
        await service.admit(request, stack, max(1, n_operations))
        work = _batch(service, calculator, computations, body)
        return await service.while_connected(request, work, has_deadline=False)

    @routes.post(
        "/stream",
        response_class=EventStream,
        responses=stream_responses(STREAM, STREAM_EXAMPLE),
    )
    async def calculate_stream(
        body: CalculateRequest, request: Request, stack: RequestStack
    ) -> EventStream:
        """Calculate an expression and stream each character as the model writes it."""
        calculator, computation = await begin(service, body.expression, body, request, stack)
        return EventStream(_stream(service, calculator, computation, body))

    return routes


async def begin(
    service: Service, expression: str, demands: Demands, request: Request, stack: ExitStack
) -> tuple[Calculator, Computation]:
    """Returns the calculator and the admitted computation of a request."""
    calculator = service.calculator(demands.model)
    service.admission.require_room()
    computation = await _parsed(calculator, expression, demands)
    await service.admit(request, stack, max(1, computation.n_operations))
    return calculator, computation


async def _begin_query(
    service: Service, query: CalculateQuery, request: Request, stack: ExitStack
) -> tuple[Calculator, Computation]:
    """Does what `begin` does for an expression in an address."""
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):  # we would use the last one, a proxy perhaps the first
        raise ProblemError(422, "a parameter is given twice", kind="invalid-request")
    try:
        return await begin(service, query.expression, query, request, stack)
    except ExpressionError as error:
        problem = expression_problem(error)
        if problem.kind == "no-operation" and b"+" in request.scope["query_string"]:
            problem.detail += "; in a URL, + means a space: write it as %2B"
        raise problem from None


async def _parsed(calculator: Calculator, text: str, demands: Demands) -> Computation:
    """Returns the computation of an expression. Parses a long expression in a thread, so that other
    requests do not wait. Raises ExpressionError."""
    if len(text) <= SHORT:
        return calculator.begin(text, demands.places, demands.unproven)
    return await asyncio.to_thread(calculator.begin, text, demands.places, demands.unproven)


async def answer(
    service: Service,
    calculator: Calculator,
    computation: Computation,
    demands: Demands,
    listener: Listener | None = None,
) -> Calculation:
    """Returns the answer. Asks the model together about all nodes whose operands are ready.

    Raises ProblemError if the answer does not meet the demands.
    """
    while questions := computation.questions():
        await asyncio.gather(
            *(_ask(service, calculator, computation, q, listener) for q in questions)
        )
    calculation = computation.calculation()
    model, verified = calculation.model, str(calculation.verified).lower()
    service.metrics.answers.labels(model, verified).inc()
    _check(service, calculation, demands)
    return calculation


def _check(service: Service, calculation: Calculation, demands: Demands) -> None:
    """Raises ProblemError, with the evidence, if the answer does not meet the demands."""
    model, confidence = calculation.model, calculation.confidence.whole
    result = calculation.result or "something that is not a number"
    if not calculation.verified and (demands.require_verified or demands.on_wrong == "error"):
        kind = "not-verified" if demands.require_verified else "wrong-answer"
        detail = f"{calculation.expression} is {calculation.exact}; {model} answers {result}"
    elif not confidence >= demands.min_confidence:  # NaN is not enough either
        kind = "not-confident"
        detail = (
            f"the confidence of {model} in {result} is {confidence:.10g}, not at least "
            f"{demands.min_confidence:g}"
        )
    else:
        return
    if kind != "wrong-answer":
        service.metrics.abstentions.labels(model, kind).inc()
    raise ProblemError(422, detail, kind=kind, calculation=calculation.model_dump())


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
        drafter=service.drafter(calculator),
    )
    if listener:
        send = listener

        def on_token(token: int, probability: float) -> None:
            send(Token(node=node, text=tokenizer.decode([token]), probability=probability))

        job.on_token = on_token
        send(NodeStart(node=node, problem=question.text, prompt=question.prompt))
    completion = await service.batcher.complete(job)
    output = tokenizer.decode(completion.ids)
    result = computation.answer(node, output, completion.probabilities)
    if listener:
        listener(NodeEnd(node=node, **dict(result)))


async def _begin_all(
    service: Service, calculator: Calculator, body: BatchRequest
) -> tuple[list[Computation | ProblemError], int]:
    """Returns the computation of each expression of a batch, or its problem, and the number of
    operations. Reading an invalid expression up to its error counts as operations, too.

    Raises ProblemError as soon as there is no room for the operations so far.
    """
    computations: list[Computation | ProblemError] = []
    n_operations = 0
    for text in body.expressions:
        await asyncio.sleep(0)  # other requests go on between two expressions
        try:
            computation = await _parsed(calculator, text, body)
        except ExpressionError as error:
            computations.append(expression_problem(error))
            n_operations += error.position // READ_PER_OPERATION
        else:
            computations.append(computation)
            n_operations += computation.n_operations
        service.admission.require_room(n_operations)
    return computations, n_operations


async def _batch(
    service: Service,
    calculator: Calculator,
    computations: list[Computation | ProblemError],
    demands: Demands,
) -> BatchResponse:
    """Returns the answers that are complete at the deadline. The other items are problems."""
    tasks = [asyncio.create_task(_item(service, calculator, c, demands)) for c in computations]
    try:
        _, late = await asyncio.wait(tasks, timeout=service.settings.deadline)
        if late:
            late_item = _problem_item(service.deadline_passed())
        return BatchResponse(items=[late_item if task in late else task.result() for task in tasks])
    finally:
        for task in tasks:
            task.cancel()


async def _item(
    service: Service,
    calculator: Calculator,
    computation: Computation | ProblemError,
    demands: Demands,
) -> BatchItem:
    if isinstance(computation, ProblemError):
        return _problem_item(computation)
    try:
        calculation = await answer(service, calculator, computation, demands)
    except ProblemError as error:
        return _problem_item(error)
    return BatchItem.model_validate({"status": 200, "calculation": calculation})


def _problem_item(error: ProblemError) -> BatchItem:
    return BatchItem.model_validate({"status": error.status, "problem": error.document()})


async def _stream(
    service: Service, calculator: Calculator, computation: Computation, demands: Demands
) -> AsyncIterator[bytes]:
    """Yields all events; `result` or `error` is the last. Closing it early cancels the work."""
    nodes, model = computation.outline, calculator.checkpoint.name
    expression, places = computation.expression, computation.places
    yield _event(Start(expression=expression, model=model, places=places, nodes=nodes))
    work = partial(answer, service, calculator, computation, demands)
    async with aclosing(service.follow(work)) as events:
        async for event in events:
            if isinstance(event, ProblemError):
                yield format_sse_event(event="error", data_str=json.dumps(event.document()))
            else:
                yield _event(event)


def _event(data: BaseModel) -> bytes:
    return format_sse_event(event=EVENTS[type(data)], data_str=data.model_dump_json())
