"""How long a request may live: until it is answered, its client goes, or its time is up.

What the routes share: the models, the batcher behind them, and how an expression is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request

from api.batching import Batcher, Job
from api.models import ModelPool
from api.problems import ProblemError
from api.schemas import Answered, Begun, OnWrong, Token
from api.settings import Settings
from api.telemetry import Metrics
from calcgpt.inference.calculator import Calculation, Calculator, Computation, Question

T = TypeVar("T")


class Admission:
    """Bounds how many expressions are being worked on: what is more is refused at once, so that
    what was let in is answered in time."""

    def __init__(self, limit: int, metrics: Metrics) -> None:
        self._limit = limit
        self._metrics = metrics
        self._n = 0

    @contextmanager
    def enter(self, n: int = 1) -> Iterator[None]:
        """Room for `n` expressions. Raises ProblemError, 503, where there is none."""
        if self._n + n > self._limit:
            self._metrics.sheds.labels("full").inc()
            raise ProblemError(
                503, "too much to do; try again", kind="full", headers={"Retry-After": "1"}
            )
        self._n += n
        self._metrics.in_flight.inc(n)
        try:
            yield
        finally:
            self._n -= n
            self._metrics.in_flight.dec(n)


async def while_connected(
    request: Request, work: Coroutine[Any, Any, T], seconds: float, metrics: Metrics
) -> T:
    """What comes of `work`, which is cancelled where its time is up (ProblemError, 504) or the
    client has gone (ClientDisconnect). The body of the request must have been read."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((task, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():
            metrics.sheds.labels("disconnected").inc()
            raise ClientDisconnect
        raise deadline_passed(seconds, metrics)
    finally:
        for future in (task, gone):
            future.cancel()


def deadline_passed(seconds: float, metrics: Metrics) -> ProblemError:
    """To be raised, or sent, where a request takes longer than it may."""
    metrics.sheds.labels("deadline").inc()
    return ProblemError(504, f"not answered within {seconds:g} s", kind="deadline")


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


Listener = Callable[[BaseModel], None]  # told of what happens, as events of the stream


class Service:
    """One for each application. It asks models only after `start`."""

    batcher: Batcher

    def __init__(self, settings: Settings, models: ModelPool, metrics: Metrics) -> None:
        self.settings = settings
        self.models = models
        self.metrics = metrics
        self.admission = Admission(settings.max_pending, metrics)

    def start(self) -> None:
        """Start the model's thread; to be called in the event loop that the requests are in."""
        settings = self.settings
        self.batcher = Batcher(
            self.metrics, settings.max_batch, settings.max_groups, settings.batch_wait
        )

    def close(self) -> None:
        """End it; what is not answered never will be."""
        self.batcher.close()

    def calculator(self, name: str | None) -> Calculator:
        """The calculator of that model, or of the default. Raises ProblemError."""
        model = self.models.find(name)
        if model.calculator is None:
            detail = f"{model.name} is a model of text: it does not calculate"
            raise ProblemError(422, detail, kind="no-calculator")
        return model.calculator

    async def calculate(
        self,
        calculator: Calculator,
        computation: Computation,
        on_wrong: OnWrong,
        listener: Listener | None = None,
    ) -> Calculation:
        """Have all nodes answered, those of one level together. Raises ProblemError where the
        answer is wrong and that is to be an error."""
        while questions := computation.questions():
            asked = (self._ask(calculator, computation, q, listener) for q in questions)
            await asyncio.gather(*asked)
        calculated = computation.calculation()
        self.metrics.answers.labels(calculated.model, str(calculated.verified).lower()).inc()
        if on_wrong == "error" and not calculated.verified:
            raise wrong_answer(calculated)
        return calculated

    async def _ask(
        self,
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
            tell = listener

            def on_token(token: int, probability: float) -> None:
                tell(Token(node=node, text=tokenizer.decode([token]), probability=probability))

            job.on_token = on_token
            tell(Begun(node=node, problem=question.text, prompt=question.prompt))
        written = await self.batcher.complete(job)
        answer = computation.answer(node, tokenizer.decode(written.ids), written.probabilities)
        if listener:
            listener(Answered(node=node, **dict(answer)))


def wrong_answer(calculated: Calculation) -> ProblemError:
    """What a wrong answer is to those who want it to be an error."""
    says = calculated.result or "what is no number"
    return ProblemError(
        422,
        f"{calculated.expression} is {calculated.exact}; {calculated.model} answers {says}",
        kind="wrong-answer",
        calculation=calculated.model_dump(),
    )
