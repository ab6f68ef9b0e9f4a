"""The calculator's endpoints: one expression, a batch, or a stream of what the model writes."""

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request, Response
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.access import CHARGE, charge_for, client_of
from api.connections import EventStream
from api.fairness import Shift
from api.http import (
    QUESTION_RESPONSES,
    JsonRoute,
    ProblemError,
    RequestStack,
    expression_problem,
    json_response,
    stream_responses,
)
from api.schemas.calculator import (
    AnswerOptions,
    BatchItem,
    BatchRequest,
    BatchResponse,
    CalculateQuery,
    CalculateRequest,
    CalculateResponse,
    NodeEnd,
    NodeStart,
    Start,
    Token,
)
from api.service import Service
from calcgpt.errors import ExpressionError
from calcgpt.inference import spelling
from calcgpt.inference.calculator import USUAL_LENGTH, Calculator, Computation, Question
from calcgpt.inference.decoding import Written
from calcgpt.inference.effort import Effort
from calcgpt.inference.limits import MAX_SHOWN_WORK, MAX_WORK
from calcgpt.inference.results import Calculation

STREAM = (
    "Server-sent events. `start`: the nodes; `node`: the model begins a node; `token`: a character "
    "and its probability; `answer`: a node is finished. The last event is `result`, with the body "
    "that /v1/calculate returns, or `error`, a problem document."
)
STREAM_EXAMPLE = (
    'event: start\ndata: {"expression":"12.5+3","model":"calculator","places":8,"nodes":'
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

_SHORT = re.compile(r"[-+*/().0-9 ]{0,100}")  # an expression that is planned within a few ms
Listener = Callable[[BaseModel], Awaitable[None]]  # is called with the events of the stream
# In a URL, 2+(3) reads `2 (3)`, a product, and 12+500 reads `12 500`, which is seldom meant.
_HALVES = "".join(spelling.VULGAR)
_SUM_BY_SPACE = re.compile(rf"[0-9.)%!|{_HALVES}] *\0[ \0]*[0-9.(|{_HALVES}]")  # a + is a \0


@dataclass(frozen=True)
class Inquiry:
    """An expression that a client asks about, and what the answer must meet."""

    service: Service
    calculator: Calculator
    computation: Computation
    options: AnswerOptions
    client: str

    def fits_in(self, shift: Shift) -> bool:
        """Returns whether the answer can be written in the turn in which it was planned, and counts
        it there."""
        return self.calculator.decoder.is_fast and shift.extend(self.computation.cost)

    async def answer(
        self, listener: Listener | None = None, shift: Shift | None = None
    ) -> Calculation:
        """Returns the answer. Raises ProblemError if it does not meet the requirements. `shift` is
        one in which it fits, if there is one."""
        decoder, cost = self.calculator.decoder, self.computation.cost
        async with shift or self.service.shift(decoder, self.client, cost) as shift:
            while questions := self.computation.questions():
                for question in questions:
                    await self._ask(question, shift, listener)
        calculation = self.computation.calculation()
        model, verified = calculation.model, str(calculation.verified).lower()
        self.service.metrics.answers.labels(model, verified).inc()
        self._check(calculation)
        return calculation

    async def _ask(self, question: Question, shift: Shift, listener: Listener | None) -> None:
        calculator, node, prompt = self.calculator, question.node, question.prompt
        report = None
        if listener:

            async def report(part: Written) -> None:
                of_each = zip(part.text, part.probabilities.tolist(), strict=True)
                for text, probability in of_each:
                    await listener(Token(node=node, text=text, probability=probability))

            await listener(NodeStart(node=node, problem=question.text, prompt=prompt))
        name, length = calculator.checkpoint.name, self.computation.lengths[node]
        written = await self.service.write(name, calculator.decoder, prompt, length, shift, report)
        result = self.computation.answer(node, *written)
        if listener:
            await listener(NodeEnd(node=node, **dict(result)))

    def _check(self, calculation: Calculation) -> None:
        """Raises ProblemError, with the evidence, if the answer does not meet the requirements."""
        model, confidence = calculation.model, calculation.confidence.whole
        options, result = self.options, calculation.result or "something that is not a number"
        if not calculation.verified and (options.require_verified or options.on_wrong == "error"):
            kind = "not-verified" if options.require_verified else "wrong-answer"
            detail = f"{calculation.expression} is {calculation.exact}; {model} answers {result}"
        elif not confidence >= options.min_confidence:  # NaN is not enough either
            kind = "not-confident"
            detail = (
                f"the confidence of {model} in {result} is {confidence:.10g}, not at least "
                f"{options.min_confidence:g}"
            )
        else:
            return
        if kind != "wrong-answer":
            self.service.metrics.abstentions.labels(model, kind).inc()
        raise ProblemError(422, detail, kind=kind, calculation=calculation.model_dump())


def router(service: Service) -> APIRouter:
    """Returns the routes under /v1/calculate."""
    routes = APIRouter(
        prefix="/v1/calculate",
        route_class=JsonRoute,
        tags=["calculator"],
        responses=QUESTION_RESPONSES,
    )

    @routes.post("", response_model=CalculateResponse)
    async def calculate(body: CalculateRequest, request: Request, stack: RequestStack) -> Response:
        """Calculate an expression."""
        return json_response(await calculated(service, body.expression, body, request, stack))

    @routes.get("", response_model=CalculateResponse)
    async def calculate_by_address(
        query: Annotated[CalculateQuery, Query()], request: Request, stack: RequestStack
    ) -> Response:
        """Calculate an expression given in the URL, where `+` is written as `%2B`."""
        return json_response(await _calculated_query(service, query, request, stack))

    @routes.post("/batch", response_model=BatchResponse)
    async def calculate_batch(
        body: BatchRequest, request: Request, stack: RequestStack
    ) -> Response:
        """Calculate several expressions at once. Each has a status of its own, so an invalid
        expression does not affect the others, nor does one that is not answered in time."""
        calculator = service.calculator(body.model)
        n, limit = len(body.expressions), service.settings.max_items
        if n > limit:
            raise ProblemError(422, f"{n} expressions; the limit is {limit}", kind="too-many-items")
        client = client_of(request.scope)
        service.admission.require_room(client)
        inquiries, cost = await _begin_all(service, calculator, body, request)
        await service.admit(request, stack, n_operations(*cost))
        work = _batch(service, inquiries)
        batch = await service.while_connected(request, stack, work, has_deadline=False)
        return json_response(batch)

    @routes.post(
        "/stream", response_class=EventStream, responses=stream_responses(STREAM, STREAM_EXAMPLE)
    )
    async def calculate_stream(
        body: CalculateRequest, request: Request, stack: RequestStack
    ) -> EventStream:
        """Calculate an expression and stream each character as the model writes it."""
        inquiry = await begin(service, body.expression, body, request, stack, MAX_SHOWN_WORK)
        return EventStream(_stream(inquiry, stack))

    return routes


async def calculated(
    service: Service, expression: str, options: AnswerOptions, request: Request, stack: ExitStack
) -> Calculation:
    """Returns the answer to a request. A short one is written in the turn in which it is planned,
    by the task that waits for it."""
    async with _planning(service, expression, request) as shift:
        inquiry = await begin(service, expression, options, request, stack, shift=shift)
        if inquiry.fits_in(shift):
            try:
                with stack:
                    return await inquiry.answer(shift=shift)
            except TimeoutError:  # a wrong model wrote more, and waited for another turn
                raise service.deadline_passed() from None
    return await service.while_connected(request, stack, inquiry.answer())


async def begin(
    service: Service,
    expression: str,
    options: AnswerOptions,
    request: Request,
    stack: ExitStack,
    work: int = MAX_WORK,
    shift: Shift | None = None,
) -> Inquiry:
    """Returns the inquiry of a request, whose operations are admitted. `work` is the most
    characters that the model writes for it. With `shift`, the turn in which it was planned may go
    on."""
    if not shift:
        async with _planning(service, expression, request) as shift:
            return await begin(service, expression, options, request, stack, work, shift)
    calculator = service.calculator(options.model)
    client = client_of(request.scope)
    effort = Effort()
    try:
        with service.admission.enter(client, 1):  # until its operations are known
            computation = await _parsed(
                service, calculator, expression, options, request, effort, shift, work
            )
        if CHARGE in request.scope["state"]:
            shift.pause()  # the storage of the rates may take long
    except ExpressionError:
        shift.pause()
        await charge_for(request.scope, n_operations(0, effort.characters))
        raise
    n = n_operations(computation.cost, effort.characters)
    await service.admit(request, stack, n)
    return Inquiry(service, calculator, computation, options, client)


async def _calculated_query(
    service: Service, query: CalculateQuery, request: Request, stack: ExitStack
) -> Calculation:
    """Does what `calculated` does for an expression in an address."""
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):  # we would use the last one, a proxy perhaps the first
        raise ProblemError(422, "a parameter is given twice", kind="invalid-request")
    typed = unquote(request.scope["query_string"].replace(b"+", b"\0").decode("latin-1"))
    if _SUM_BY_SPACE.search(spelling.normalize(typed)):
        reason = "in a URL, + means a space: write + as %2B, and a space as %20"
        raise ProblemError(422, reason, kind="no-operation", position=0, end=len(query.expression))
    try:
        return await calculated(service, query.expression, query, request, stack)
    except ExpressionError as error:
        problem = expression_problem(error)
        if problem.kind == "no-operation" and b"+" in request.scope["query_string"]:
            problem.detail += "; in a URL, + means a space: write it as %2B"
        raise problem from None


async def _parsed(
    service: Service,
    calculator: Calculator,
    text: str,
    options: AnswerOptions,
    request: Request,
    effort: Effort,
    shift: Shift,
    work: int = MAX_WORK,
) -> Computation:
    """Returns the computation of an expression, and counts what planning takes on `effort`. Plans
    short sums and products in a turn of `shift`, and others in a thread, so that other requests do
    not wait, and no longer than the client waits. Clients take turns.

    Raises ExpressionError, ClientDisconnect, or ProblemError (504) if it is not the client's turn
    until the end of the shift.
    """

    def plan() -> Computation:
        with effort.measured():
            return calculator.begin(text, options.places, work, options.style)

    is_short = _SHORT.fullmatch(text) is not None
    turns = service.long_plans
    try:
        if is_short:
            await shift.left()
        else:
            await turns.begin(client_of(request.scope), len(text), shift.until)
    except TimeoutError:
        raise service.deadline_passed() from None
    if is_short:
        service.require_client(request)
        shift.spend(len(text))
        return plan()
    try:
        planned = asyncio.to_thread(plan)
        return await service.while_connected(request, ExitStack(), planned, has_deadline=False)
    finally:
        turns.end()
        effort.stop()


def _planning(service: Service, text: str, request: Request, until: float | None = None) -> Shift:
    """Returns the turns in which an expression is planned, if it is short. They end at that time,
    by default at the deadline."""
    until = until or _now() + service.settings.deadline
    return Shift(service.turns, client_of(request.scope), len(text), until=until)


async def _begin_all(
    service: Service, calculator: Calculator, body: BatchRequest, request: Request
) -> tuple[list[Inquiry | ProblemError], tuple[int, int]]:
    """Returns the inquiry of each expression of a batch, or its problem, and the cost of all and of
    planning them, also of what is refused.

    Raises ProblemError as soon as there is no room for the work so far.
    """
    inquiries: list[Inquiry | ProblemError] = []
    client, until = client_of(request.scope), _now() + service.settings.deadline
    cost = planning = 0
    for text in body.expressions:
        effort = Effort()
        try:
            async with _planning(service, text, request, until) as shift:
                computation = await _parsed(service, calculator, text, body, request, effort, shift)
        except ProblemError as error:  # out of time, as all that follow
            inquiries.append(error)
        except ExpressionError as error:
            inquiries.append(expression_problem(error))
        else:
            inquiries.append(Inquiry(service, calculator, computation, body, client))
            cost += computation.cost
        planning += effort.characters
        service.admission.require_room(client, n_operations(cost, planning))
    return inquiries, (cost, planning)


def _now() -> float:
    return asyncio.get_running_loop().time()


def n_operations(cost: int, planning: int = 0) -> int:
    """Returns for how many operations of usual length a number of characters counts, and what
    planning takes beyond that of a usual one."""
    return max(1, math.ceil(cost / USUAL_LENGTH)) + planning // USUAL_LENGTH


async def _batch(service: Service, inquiries: list[Inquiry | ProblemError]) -> BatchResponse:
    """Returns the answers that are complete at the deadline. The other items are problems."""
    tasks = [asyncio.create_task(_item(inquiry)) for inquiry in inquiries]
    try:
        _, late = await asyncio.wait(tasks, timeout=service.settings.deadline)
        if late:
            late_item = _problem_item(service.deadline_passed())
        return BatchResponse(items=[late_item if task in late else task.result() for task in tasks])
    finally:
        for task in tasks:
            task.cancel()


async def _item(inquiry: Inquiry | ProblemError) -> BatchItem:
    if isinstance(inquiry, ProblemError):
        return _problem_item(inquiry)
    try:
        calculation = await inquiry.answer()
    except ProblemError as error:
        return _problem_item(error)
    return BatchItem.model_validate({"status": 200, "calculation": calculation})


def _problem_item(error: ProblemError) -> BatchItem:
    return BatchItem.model_validate({"status": error.status, "problem": error.document()})


async def _stream(inquiry: Inquiry, stack: ExitStack) -> AsyncIterator[bytes]:
    """Yields all events; `result` or `error` is the last. Closing it early cancels the work."""
    computation, model = inquiry.computation, inquiry.calculator.checkpoint.name
    expression, places, nodes = computation.expression, computation.places, computation.outline
    yield _event(Start(expression=expression, model=model, places=places, nodes=nodes))
    async with aclosing(inquiry.service.follow(stack, inquiry.answer)) as events:
        async for event in events:
            if isinstance(event, ProblemError):
                yield format_sse_event(event="error", data_str=json.dumps(event.document()))
            else:
                yield _event(event)


def _event(data: BaseModel) -> bytes:
    return format_sse_event(event=EVENTS[type(data)], data_str=data.model_dump_json())
