"""What the routes share: the models, the batcher behind them, and how an expression is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pydantic import BaseModel

from api.batching import Batcher
from api.jobs import Job
from api.lifetime import Admission
from api.metrics import Metrics
from api.models import ModelPool
from api.problems import ProblemError
from api.schemas import Answered, Begun, CalculateResponse, OnWrong, Token
from api.settings import Settings
from calcgpt.calculator import Calculator, Computation, Question

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
    ) -> CalculateResponse:
        """Have all nodes answered, those of one level together. Raises ProblemError where the
        answer is wrong and that is to be an error."""
        while questions := computation.questions():
            asked = (self._ask(calculator, computation, q, listener) for q in questions)
            await asyncio.gather(*asked)
        calculated = CalculateResponse.of(computation.calculation())
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
            listener(Answered.model_validate({"node": node, **vars(answer)}))


def wrong_answer(calculated: CalculateResponse) -> ProblemError:
    """What a wrong answer is to those who want it to be an error."""
    says = calculated.result or "what is no number"
    return ProblemError(
        422,
        f"{calculated.expression} is {calculated.exact}; {calculated.model} answers {says}",
        kind="wrong-answer",
        calculation=calculated.model_dump(),
    )
