"""What a model is asked to do: a prompt to continue, alone or in a group.

Jobs of many requests, a forward pass for all of them at once, in a thread of its own: the event
loop never waits for the model, and forward passes do not compete for the cores.

Jobs that wait together and are alike (`Job.kind`) form a group, which is decoded as one batch. What
arrives while groups are being decoded forms the next group; groups take turns, a token each, so a
short answer does not wait for the end of a long one (iteration-level scheduling; Yu et al. 2022,
Orca).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from api.telemetry import Metrics
from calcgpt.inference.generate import Completion, Decoder, Generation, Sampling, Step

GREEDY = Sampling()


@dataclass(eq=False)
class Job:
    """A prompt to continue, and what has become of it."""

    model: str  # for the metrics
    decoder: Decoder
    prompt: list[int]
    stop_token: int
    max_new_tokens: int | None = None
    sampling: Sampling = GREEDY
    #: Whether what was written so far is enough; called in the model's thread.
    ends: Callable[[list[int]], bool] = lambda ids: False
    #: Told of each token and its probability, in the event loop.
    on_token: Callable[[int, float], None] | None = None
    #: As many of the most probable tokens are kept at each place, with their log-probabilities.
    n_top: int = 0

    completion: Completion = field(default_factory=Completion)
    top: list[dict[int, float]] = field(default_factory=list)
    cancelled: bool = False
    done: asyncio.Future[None] | None = None

    @property
    def kind(self) -> Hashable:
        """Jobs of the same kind can share a batch. One that is sampled shares with none: what comes
        of its seed must not depend on who else is there."""
        if self.sampling.temperature > 0:
            return id(self)
        return id(self.decoder), len(self.prompt), self.stop_token

    def add(self, step: Step, place: int) -> None:
        """Note the token that a step wrote in this place of its batch."""
        self.completion.ids.append(step.ids[place])
        self.completion.probabilities.append(step.probabilities[place])
        if self.n_top:
            logits_V = step.logits_BV[place]
            best = logits_V.log_softmax(dim=-1).topk(min(self.n_top, len(logits_V)))
            self.top.append(dict(zip(best.indices.tolist(), best.values.tolist(), strict=True)))

    @property
    def is_full(self) -> bool:
        """Whether it wants no more tokens, whether or not the model has stopped."""
        written = self.completion.ids
        limit = self.max_new_tokens
        return (limit is not None and len(written) >= limit) or self.ends(written)


class Group:
    """Jobs of one kind that are decoded together."""

    def __init__(self, jobs: list[Job]) -> None:
        first = jobs[0]
        self.jobs = jobs
        self.generation = Generation(
            first.decoder,
            torch.tensor([job.prompt for job in jobs]),
            first.stop_token,
            sampling=first.sampling,
        )

    def step(self) -> tuple[Step, list[Job]]:
        """A token for every job; which of them ended with it."""
        step = self.generation.step()
        for place, row in enumerate(step.rows):
            self.jobs[row].add(step, place)
        self.generation.drop({row for row in step.rows if self.jobs[row].is_full})
        still = set(self.generation.rows)
        return step, [self.jobs[row] for row in step.rows if row not in still]

    def drop_cancelled(self) -> None:
        """Give the places of those back for which nobody waits any more."""
        self.generation.drop({row for row in self.generation.rows if self.jobs[row].cancelled})


log = logging.getLogger(__name__)
T = TypeVar("T")


class Batcher:
    """Runs jobs. To be made and used in a running event loop."""

    def __init__(
        self, metrics: Metrics, max_batch: int = 32, max_groups: int = 2, wait: float = 0.002
    ) -> None:
        """`wait`: seconds that the first job waits for company when the model is idle."""
        self._metrics = metrics
        self._max_batch, self._max_groups, self._wait = max_batch, max_groups, wait
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Job] = deque()
        self._calls: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._groups: list[Group] = []
        self._closed = False
        self._changed = threading.Condition()  # guards the four above
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)
        self._thread.start()

    async def complete(self, job: Job) -> Completion:
        """Run a job to its end. Cancelling this gives its place back at the next token."""
        job.done = self._loop.create_future()
        with self._changed:
            self._waiting.append(job)
            self._metrics.queue_depth.set(len(self._waiting))
            self._changed.notify()
        try:
            await job.done
        except asyncio.CancelledError:
            job.cancelled = True
            raise
        return job.completion

    async def call(self, function: Callable[[], T]) -> T:
        """The result of a function that uses a model, called in the model's thread."""
        future: asyncio.Future[T] = self._loop.create_future()
        with self._changed:
            self._calls.append((function, future))
            self._changed.notify()
        return await future

    def close(self) -> None:
        """End the thread; jobs that are not done are abandoned."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    # All below runs in the thread.

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._waiting or self._groups or self._calls or self._closed
                )
                if self._closed:
                    return
                if not self._groups and not self._calls and len(self._waiting) < self._max_batch:
                    self._changed.wait_for(self._is_enough, self._wait)
                calls, self._calls = self._calls, deque()
                batches = self._admit()
            for function, future in calls:
                self._call(function, future)
            for jobs in batches:
                self._begin(jobs)
            for group in self._groups:
                self._step(group)
            self._groups = [group for group in self._groups if group.generation.rows]

    def _is_enough(self) -> bool:
        return len(self._waiting) >= self._max_batch or bool(self._calls) or self._closed

    def _admit(self) -> list[list[Job]]:
        """Take waiting jobs into as many groups as there may be, the longest waiting first."""
        batches: list[list[Job]] = []
        while self._waiting and len(self._groups) + len(batches) < self._max_groups:
            kind, batch, others = self._waiting[0].kind, list[Job](), deque[Job]()
            for job in self._waiting:
                if job.cancelled:
                    continue
                fits = job.kind == kind and len(batch) < self._max_batch
                (batch if fits else others).append(job)
            self._waiting = others
            if batch:
                batches.append(batch)
        self._metrics.queue_depth.set(len(self._waiting))
        return batches

    def _begin(self, jobs: list[Job]) -> None:
        try:
            group = Group(jobs)
        except Exception as error:
            self._fail(jobs, error)
            return
        if group.generation.rows:
            self._groups.append(group)
        else:  # the model's context has no room after the prompt
            self._tell([], jobs)

    def _step(self, group: Group) -> None:
        group.drop_cancelled()
        if not group.generation.rows:
            return
        try:
            step, ended = group.step()
        except Exception as error:  # a defect, or damaged weights: the thread must live on
            rows = group.generation.rows
            self._fail([group.jobs[row] for row in rows], error)
            group.generation.drop(set(rows))
            return
        model = group.jobs[0].model
        self._metrics.batch_size.labels(model).observe(len(step.rows))
        self._metrics.tokens.labels(model).inc(len(step.rows))
        written = [
            (job, step.ids[place], step.probabilities[place])
            for place, row in enumerate(step.rows)
            if (job := group.jobs[row]).on_token
        ]
        if written or ended:
            self._tell(written, ended)

    def _tell(self, written: list[tuple[Job, int, float]], ended: list[Job]) -> None:
        def tell() -> None:
            for job, token, probability in written:
                if job.on_token and not job.cancelled:
                    job.on_token(token, probability)
            for job in ended:
                if job.done and not job.done.done():
                    job.done.set_result(None)

        self._in_loop(tell)

    def _fail(self, jobs: list[Job], error: Exception) -> None:
        def tell() -> None:
            for job in jobs:
                if job.done and not job.done.done():
                    job.done.set_exception(error)

        self._in_loop(tell)

    def _call(self, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        try:
            result, failure = function(), None
        except Exception as error:
            result, failure = None, error

        def tell() -> None:
            if future.done():  # cancelled
                return
            if failure:
                future.set_exception(failure)
            else:
                future.set_result(result)

        self._in_loop(tell)

    def _in_loop(self, tell: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            log.debug("an answer came after the end of the event loop")
