"""The calculator's endpoints: one expression, a batch, or a stream of what the model writes."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request, Response
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.fairness import Shift
from api.http import (
    QUESTION_RESPONSES,
    JsonRoute,
    ProblemError,
    charge_for,
    client_of,
    expression_problem,
    json_response,
    stack_of,
    stream_responses,
)
from api.schemas import (
    AnswerOptions,
    BatchItem,
    BatchRequest,
    BatchResponse,
    CalculateQuery,
    CalculateRequest,
    NodeEnd,
    NodeStart,
    Start,
    Token,
)
from api.service import Service, in_thread
from api.slow_clients import EventStream, Write
from calcgpt.errors import ExpressionError
from calcgpt.inference import spelling
from calcgpt.inference.calculator import USUAL_LENGTH, Computation, Question
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
Listener = Callable[[BaseModel], object]  # is called with the events of the stream
# In a URL, 2+(3) reads `2 (3)`, a product, and so does 2+pi; 12+500 reads `12 500`. A + is a \0.
_NAMES = spelling.longest_first(
    {*spelling.FUNCTIONS, *spelling.CONSTANTS} - {*spelling.OPERATIONS, *spelling.POSTFIXES}
).pattern.replace(" +", "[ \0]+")
_HALVES = "".join(spelling.VULGAR)
_SUM_BY_SPACE = re.compile(rf"[0-9.)%!|{_HALVES}] *\0[ \0]*([0-9.(|{_HALVES}]|{_NAMES})")


class Asking:
    """A request to calculate: who asks which model, and what an answer must meet."""

    def __init__(self, service: Service, options: AnswerOptions, request: Request) -> None:
        """Raises ProblemError if there is no such model, or if it does not calculate."""
        self.service, self.options, self._request = service, options, request
        self.calculator = service.calculator(options.model)
        self.client, self.stack = client_of(request.scope), stack_of(request)
        self._until = asyncio.get_running_loop().time() + service.settings.deadline

    def planning(self, text: str) -> Shift:
        """Returns the turns in which an expression is planned, if it is short. They end at the
        deadline."""
        return Shift(self.service.turns, self.client, len(text), until=self._until)

    async def calculated(self, text: str) -> Calculation:
        """Returns the answer to an expression. A short one is written in the turn in which it is
        planned, by the task that waits for it."""
        async with self.planning(text) as shift:
            inquiry = await self.begin(text, shift)
            if inquiry.fits_in(shift):
                try:
                    with self.stack:
                        return await inquiry.answer(shift=shift)
                except TimeoutError:  # a wrong model wrote more, and waited for another turn
                    raise self.service.deadline_passed() from None
        with self.stack:
            return await self.service.while_connected(self._request, inquiry.answer())

    async def begin(self, text: str, shift: Shift, work: int = MAX_WORK) -> Inquiry:
        """Returns the inquiry about an expression, whose operations are admitted. `work` is the
        most characters that the model writes for it. The turn of `shift` may go on."""
        effort, scope = Effort(), self._request.scope
        try:
            with self.service.admission.enter(self.client, 1):  # until its operations are known
                computation = await self.parsed(text, shift, effort, work)
        except ExpressionError:
            shift.pause()
            await charge_for(scope, n_operations(0, effort.characters))
            raise
        n = n_operations(computation.charge, effort.characters)
        await self.service.admit(self._request, n)
        return Inquiry(self, computation)

    async def parsed(
        self, text: str, shift: Shift, effort: Effort, work: int = MAX_WORK
    ) -> Computation:
        """Returns the computation of an expression, and counts what planning takes on `effort`.
        Plans short sums and products in a turn of `shift`, and others in a thread, so that other
        requests do not wait, and no longer than the client waits. Clients take turns.

        Raises ExpressionError, ClientDisconnect, or ProblemError (504) if it is not the client's
        turn until the end of the shift.
        """
        service, options, turns = self.service, self.options, self.service.long_plans

        def plan() -> Computation:
            with effort.measured():
                return self.calculator.begin(text, options.places, work, options.style)

        is_short = _SHORT.fullmatch(text) is not None
        try:
            if is_short:
                await shift.left()
            else:
                await turns.begin(self.client, len(text), self._until)
        except TimeoutError:
            raise service.deadline_passed() from None
        if is_short:
            service.require_client(self._request)
            shift.spend(len(text))
            return plan()
        try:
            planned = in_thread(plan)
            return await service.while_connected(self._request, planned, has_deadline=False)
        finally:
            turns.end()
            effort.stop()


@dataclass(frozen=True)
class Inquiry:
    """An expression that a client asks about."""

    asking: Asking
    computation: Computation

    def fits_in(self, shift: Shift) -> bool:
        """Returns whether the answer can be written in the turn in which it was planned, and counts
        it there."""
        return self.asking.calculator.decoder.is_fast and shift.extend(self.computation.cost)

    async def answer(
        self, listener: Listener | None = None, shift: Shift | None = None
    ) -> Calculation:
        """Returns the answer. Raises ProblemError if it does not meet the requirements. `shift` is
        one in which it fits, if there is one."""
        service, decoder = self.asking.service, self.asking.calculator.decoder
        if not shift:
            shift = service.shift(decoder, self.asking.client, self.computation.cost)
        async with shift:
            for node in range(len(self.computation.outline)):
                if question := self.computation.question(node):
                    await self._ask(question, shift, listener)
        calculation = self.computation.calculation()
        model, verified = calculation.model, str(calculation.verified).lower()
        service.metrics.answers.labels(model, verified).inc()
        self._check(calculation)
        return calculation

    async def outcome(self, listener: Listener) -> Calculation | ProblemError:
        """Returns the answer, or what ended it, for a response that has begun."""
        with self.asking.stack:
            return await self.asking.service.outcome(self.answer(listener))

    async def _ask(self, question: Question, shift: Shift, listener: Listener | None) -> None:
        calculator, node, prompt = self.asking.calculator, question.node, question.prompt
        report = None
        if listener:

            def report(part: Written) -> None:
                of_each = zip(part.text, part.probabilities.tolist(), strict=True)
                for text, probability in of_each:
                    listener(Token(node=node, text=text, probability=probability))

            listener(NodeStart(node=node, problem=question.text, prompt=prompt))
        name, length = calculator.checkpoint.name, self.computation.lengths[node]
        write = self.asking.service.write
        written = await write(name, calculator.decoder, prompt, length, shift, report)
        result = self.computation.answer(node, *written)
        if listener:
            listener(NodeEnd(node=node, **dict(result)))

    def _check(self, calculation: Calculation) -> None:
        """Raises ProblemError, with the evidence, if the answer does not meet the requirements."""
        options, model = self.asking.options, calculation.model
        confidence = calculation.confidence.whole
        result = calculation.result or "something that is not a number"
        if options.require_verified and not calculation.verified:
            kind = "not-verified"
            detail = f"{calculation.expression} is {calculation.exact}; {model} answers {result}"
        elif not confidence >= options.min_confidence:  # NaN is not enough either
            kind = "not-confident"
            detail = (
                f"the confidence of {model} in {result} is {confidence:.10g}, not at least "
                f"{options.min_confidence:g}"
            )
        else:
            return
        self.asking.service.metrics.abstentions.labels(model, kind).inc()
        raise ProblemError(422, detail, kind=kind, calculation=calculation.model_dump())


def router(service: Service) -> APIRouter:
    """Returns the routes under /v1/calculate."""
    routes = APIRouter(
        prefix="/v1/calculate",
        route_class=JsonRoute,
        tags=["calculator"],
        responses=QUESTION_RESPONSES,
    )

    @routes.post("", response_model=Calculation)
    async def calculate(body: CalculateRequest, request: Request) -> Response:
        """Calculate an expression."""
        return json_response(await Asking(service, body, request).calculated(body.expression))

    @routes.get("", response_model=Calculation)
    async def calculate_by_address(
        query: Annotated[CalculateQuery, Query()], request: Request
    ) -> Response:
        """Calculate an expression given in the URL, where `+` is written as `%2B`."""
        return json_response(await _calculated_query(service, query, request))

    @routes.post("/batch", response_model=BatchResponse)
    async def calculate_batch(body: BatchRequest, request: Request) -> Response:
        """Calculate several expressions at once. Each has a status of its own, so an invalid
        expression does not affect the others, nor does one that is not answered in time."""
        asking = Asking(service, body, request)
        service.admission.require_room(asking.client)
        inquiries, charge = await _begin_all(asking, body.expressions)
        await service.admit(request, n_operations(*charge))
        work = _batch(service, inquiries)
        with asking.stack:
            batch = await service.while_connected(request, work, has_deadline=False)
        return json_response(batch)

    @routes.post(
        "/stream", response_class=EventStream, responses=stream_responses(STREAM, STREAM_EXAMPLE)
    )
    async def calculate_stream(body: CalculateRequest, request: Request) -> EventStream:
        """Calculate an expression and stream each character as the model writes it."""
        asking = Asking(service, body, request)
        async with asking.planning(body.expression) as shift:
            inquiry = await asking.begin(body.expression, shift, MAX_SHOWN_WORK)
        return EventStream(partial(_write_events, inquiry))

    return routes


async def _calculated_query(
    service: Service, query: CalculateQuery, request: Request
) -> Calculation:
    """Returns the answer to an expression in an address."""
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):  # we would use the last one, a proxy perhaps the first
        raise ProblemError(422, "a parameter is given twice", kind="invalid-request")
    typed = unquote(request.scope["query_string"].replace(b"+", b"\0").decode("latin-1"))
    if _SUM_BY_SPACE.search(spelling.normalize(typed)):
        reason = "in a URL, + means a space: write + as %2B, and a space as %20"
        raise ProblemError(422, reason, kind="no-operation", position=0, end=len(query.expression))
    try:
        return await Asking(service, query, request).calculated(query.expression)
    except ExpressionError as error:
        problem = expression_problem(error)
        if problem.kind == "no-operation" and b"+" in request.scope["query_string"]:
            problem.detail += "; in a URL, + means a space: write it as %2B"
        raise problem from None


async def _begin_all(
    asking: Asking, expressions: list[str]
) -> tuple[list[Inquiry | ProblemError], tuple[int, int]]:
    """Returns the inquiry of each expression of a batch, or its problem, and the characters that
    all count for, and those of planning them, also of what is refused.

    Raises ProblemError as soon as there is no room for the work so far.
    """
    inquiries: list[Inquiry | ProblemError] = []
    charge = planning = 0
    for text in expressions:
        effort = Effort()
        try:
            async with asking.planning(text) as shift:
                computation = await asking.parsed(text, shift, effort)
        except ProblemError as error:  # out of time, as all that follow
            inquiries.append(error)
        except ExpressionError as error:
            inquiries.append(expression_problem(error))
        else:
            inquiries.append(Inquiry(asking, computation))
            charge += computation.charge
        planning += effort.characters
        asking.service.admission.require_room(asking.client, n_operations(charge, planning))
    return inquiries, (charge, planning)


def n_operations(charge: int, planning: int = 0) -> int:
    """Returns for how many operations of usual length a number of characters counts, and what
    planning takes beyond that of a usual one."""
    return max(1, math.ceil(charge / USUAL_LENGTH)) + planning // USUAL_LENGTH


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
    return BatchItem(status=200, calculation=calculation)


def _problem_item(error: ProblemError) -> BatchItem:
    return BatchItem.model_validate({"status": error.status, "problem": error.document()})


async def _write_events(inquiry: Inquiry, write: Write) -> None:
    """Writes all events; `result` or `error` is the last."""
    model, computation = inquiry.asking.calculator.checkpoint.name, inquiry.computation
    expression, places, nodes = computation.expression, computation.places, computation.outline
    write(_event(Start(expression=expression, model=model, places=places, nodes=nodes)))
    outcome = await inquiry.outcome(lambda event: write(_event(event)))
    if isinstance(outcome, ProblemError):
        write(format_sse_event(event="error", data_str=json.dumps(outcome.document())))
    else:
        write(_event(outcome))


def _event(data: BaseModel) -> bytes:
    return format_sse_event(event=EVENTS[type(data)], data_str=data.model_dump_json())
