"""Jobs of many requests, a forward pass for all of them at once, in a thread of its own: the event
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
from collections.abc import Callable
from typing import Any, TypeVar

from api.jobs import Group, Job
from api.metrics import Metrics
from calcgpt.generate import Completion

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
