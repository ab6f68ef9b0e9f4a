"""The state that the endpoints share: models, turns, admission and deadlines."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from api.fairness import Admission, Shift, Turns
from api.http import RETRY, ProblemError, charge_for, client_of, internal_problem, stack_of
from api.schemas import Calibration, Domain, Model, Task
from api.settings import Settings
from api.slow_clients import poll
from api.telemetry import Metrics
from calcgpt.base.errors import UserError
from calcgpt.checkpoint import CONFIG, Checkpoint
from calcgpt.inference.browser import scores_on_test
from calcgpt.inference.calculator import BESIDES, Calculator
from calcgpt.inference.decoding import Decoder, Written
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.questions import describe_task, is_of_task
from calcgpt.inference.self_test import check_finite, self_test
from calcgpt.registry import resolve, shipped_checkpoints
from calcgpt.variants import load_plugin

GIVE_WAY_SECONDS = 0.0001  # in which a thread wakes up
LONG_PLANS = 2  # expressions that are planned at a time, in threads
IN_THREAD = 32  # characters that a model writes in a thread before others take their turns
LONG_TEXT = 20_000  # characters; the layout of a longer one is made in a thread
REPORTED, REPORTED_COST = 64, 20  # characters that are reported at once; each is as many others

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Report = Callable[[Written], object]  # takes what was written next


@dataclass(frozen=True)
class LoadedModel:
    """A checkpoint and its decoder."""

    checkpoint: Checkpoint
    decoder: Decoder
    engine: str

    @cached_property
    def calculator(self) -> Calculator:
        """Its calculator. Raises DataError if the model does not calculate."""
        return Calculator(self.checkpoint, self.decoder)

    @cached_property
    def is_of_task(self) -> bool:
        """Whether the model answers the questions of a user's own task."""
        return is_of_task(self.checkpoint)

    @property
    def name(self) -> str:
        """The name of the checkpoint."""
        return self.checkpoint.name

    def describe(self, default: bool) -> Model:
        """Returns the entry of the model in /v1/models."""
        if self.is_of_task:
            domain, task = None, Task.model_validate(describe_task(self.checkpoint))
        else:
            domain, task = Domain.model_validate(self.calculator.limits.describe()), None
        return Model(
            id=self.name,
            default=default,
            description=self.checkpoint.recipe.description,
            parameters=self.checkpoint.n_parameters,
            engine=self.engine,
            domain=domain,
            task=task,
            metrics=scores_on_test(self.checkpoint),
            calibration=_calibration(self.checkpoint.metrics.get("test")),
        )


def _calibration(scores: dict[str, Any] | None) -> Calibration | None:
    """Returns the calibration from the scores of a test, or None if it was not measured."""
    measured = scores and scores.get("confidence")
    if not scores or not measured:
        return None
    threshold = measured["no_error_above"]["whole"]
    return Calibration(
        n=scores["n"],
        file=scores.get("file") or scores["task"],
        file_sha256=scores.get("file_sha256") or scores["task_sha256"],
        expected_calibration_error=measured["reliability"]["expected_calibration_error"],
        no_error_above=threshold["confidence"],
        kept=threshold["kept"],
    )


Loader = Callable[[], Iterator[LoadedModel]]  # yields the default model first; may block


def load_model(checkpoint: Checkpoint, engine: str = "auto") -> LoadedModel:
    """Returns a model ready to answer. Raises UserError if the engine cannot run it, if it neither
    calculates nor answers the questions of a task, or if it fails the self-test."""
    name, decoder = load_decoder(checkpoint, engine, threads=1)
    model = LoadedModel(checkpoint, decoder, name)
    if model.is_of_task:  # nobody knows what is right
        check_finite(checkpoint, decoder)
    else:
        self_test(model.calculator)
    return model


def load_models(reference: str, others: bool, engine: str = "auto") -> Iterator[LoadedModel]:
    """Yields the checkpoint that `reference` means, then, with `others`, the shipped ones.

    Raises UserError if the first checkpoint does not load. Skips others that do not load, with a
    warning in the log.
    """
    first = load_model(Checkpoint.load(resolve(reference)), engine)
    yield first
    names = {first.name}
    folders = sorted(file.parent for file in shipped_checkpoints().glob(f"[!.]*/{CONFIG}"))
    for folder in folders if others else []:
        if folder.name in names:
            continue
        try:
            loaded = load_model(Checkpoint.load(folder), engine)
        except UserError as error:
            log.warning("skipping a checkpoint: %s", error)
            continue
        names.add(loaded.name)
        yield loaded


def loader(settings: Settings) -> Loader:
    """Returns a loader of the models that the settings name, after their plug-in is loaded."""
    if settings.plugin:
        load_plugin(Path(settings.plugin))
    return lambda: load_models(settings.checkpoint, settings.others, settings.engine)


class ModelPool:
    """The loaded models by name. The first is the default."""

    def __init__(self, load: Loader) -> None:
        self._load = load
        self._models: dict[str, LoadedModel] = {}
        self._is_complete = False

    async def load(self, on_ready: Callable[[LoadedModel], Any]) -> None:
        """Loads all models in a thread, one after the other. Calls `on_ready` with the first. Then
        warms them up.

        Raises what the loader raises.
        """
        models = self._load()
        try:
            while (model := await asyncio.to_thread(next, models, None)) is not None:
                self._models[model.name] = model
                if len(self._models) == 1:
                    on_ready(model)
        finally:
            self._is_complete = bool(self._models)
        for model in self:
            for _ in model.decoder.warm_up():
                await asyncio.sleep(0)

    @property
    def default(self) -> LoadedModel | None:
        """The default model; None until it is loaded."""
        return next(iter(self._models.values()), None)

    def __iter__(self) -> Iterator[LoadedModel]:
        return iter(list(self._models.values()))

    def find(self, name: str | None = None) -> LoadedModel:
        """Returns the model of that name, or the default model.

        Raises ProblemError: 503 if the model may still be loading, else 404.
        """
        models = self._models
        model = self.default if name is None else models.get(name)
        if model:
            return model
        if not self._is_complete:
            raise ProblemError(503, "the model is still loading", kind="loading", headers=RETRY)
        names = ", ".join(self._models)
        raise ProblemError(404, f"no model {name!r}; there are: {names}", kind="unknown-model")


class Service:
    """The state of one application."""

    def __init__(self, settings: Settings, models: ModelPool, metrics: Metrics) -> None:
        self.settings = settings
        self.models = models
        self.metrics = metrics
        self.admission = Admission(settings.max_pending, metrics)
        #: Of work in the event loop, of models that write in a thread, of long plans.
        self.turns, self.thread_turns, self.long_plans = Turns(1), Turns(1), Turns(LONG_PLANS)

    def ready(self) -> str:
        """Returns the name of the default model. Raises ProblemError (503) if the service cannot
        answer."""
        return self.models.find().name

    def shift(self, decoder: Decoder, client: str, cost: int) -> Shift:
        """Returns the turns of a client, in which a decoder writes as many characters as `cost`."""
        if decoder.is_fast:
            return Shift(self.turns, client, cost)
        return Shift(self.thread_turns, client, cost, IN_THREAD)

    async def write(
        self,
        model: str,
        decoder: Decoder,
        prompt: str,
        length: int,
        shift: Shift,
        report: Report | None = None,
    ) -> Written:
        """Returns what a model writes after a prompt in turns, about `length` characters. `report`
        is called with each part."""
        if length > LONG_TEXT:
            shift.pause()
            writing = await in_thread(partial(decoder.begin, prompt))
        else:
            writing = decoder.begin(prompt)
        n_written = 0
        while not writing.is_done:
            n = await shift.left()
            n = min(n, REPORTED) if report else n
            write = partial(writing.write, n)
            n = write() if decoder.is_fast else await in_thread(write)
            shift.spend(n * REPORTED_COST if report else n)
            if report:
                report(writing.written(n_written))
            n_written += n
        shift.spend(BESIDES)
        self.metrics.tokens.labels(model).inc(n_written)
        return writing.written()

    def calculator(self, name: str | None) -> Calculator:
        """Returns the calculator of a model, by default of the default model.

        Raises ProblemError if there is no such model, or if it does not calculate.
        """
        model = self.models.find(name)
        if model.is_of_task:
            detail = f"{model.name} does not calculate: POST /v1/ask asks it a question of its task"
            raise ProblemError(422, detail, kind="other-task")
        return model.calculator

    async def admit(self, request: Request, n_operations: int) -> None:
        """Admits the operations of a request until its `stack_of` is closed.

        Raises ProblemError: 422 or 503 as `Admission`, 429 if they exceed the rate of the client.
        """
        admitted = self.admission.enter(client_of(request.scope), n_operations)
        stack_of(request).enter_context(admitted)
        await charge_for(request.scope, n_operations)

    def deadline_passed(self) -> ProblemError:
        """Counts a request that took too long, and returns the error for it."""
        self.metrics.sheds.labels("deadline").inc()
        seconds = self.settings.deadline
        return ProblemError(504, f"not answered within {seconds:g} s", kind="deadline")

    def require_client(self, request: Request) -> None:
        """Raises ClientDisconnect if the client is gone, and counts that."""
        while message := poll(request.receive):
            if message["type"] == "http.disconnect":
                self.metrics.sheds.labels("disconnected").inc()
                raise ClientDisconnect

    async def while_connected(
        self,
        request: Request,
        work: Coroutine[Any, Any, Result],
        has_deadline: bool = True,
    ) -> Result:
        """Returns the result of `work`. The body of the request must have been read.

        Cancels `work` and raises ProblemError (504) at the deadline, or ClientDisconnect if the
        client is gone. Without `has_deadline`, `work` must keep the deadline itself.
        """
        task = asyncio.ensure_future(work)
        disconnected = asyncio.ensure_future(_disconnect(request))
        try:
            await asyncio.wait(
                (task, disconnected),
                timeout=self.settings.deadline if has_deadline else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if task.done():
                return task.result()
            if disconnected.done():
                self.metrics.sheds.labels("disconnected").inc()
                raise ClientDisconnect
            raise self.deadline_passed()
        finally:
            task.cancel()
            disconnected.cancel()

    async def outcome(self, work: Coroutine[Any, Any, Result]) -> Result | ProblemError:
        """Returns the result of `work`, or the problem that ended it: the status of the response is
        already sent. Cancels `work` at the deadline."""
        try:
            async with asyncio.timeout(self.settings.deadline):
                return await work
        except ProblemError as error:
            return error
        except TimeoutError:
            return self.deadline_passed()
        except asyncio.CancelledError:  # the client is gone, or does not read
            self.metrics.sheds.labels("disconnected").inc()
            raise
        except Exception as error:
            log.error("a stream failed", exc_info=error)
            return internal_problem()


async def in_thread(work: Callable[[], Result]) -> Result:
    """Runs `work` in a thread, and returns what it returns. In each of its rounds, the event loop
    gives way to the thread. A busy loop would take Python's lock back after each system call,
    before the thread has woken up."""
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        while not task.done():
            time.sleep(GIVE_WAY_SECONDS)
            await asyncio.sleep(0)
        return task.result()
    finally:
        task.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
