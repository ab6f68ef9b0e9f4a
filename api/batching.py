"""Decodes the prompts of many requests in shared batches, in one thread for all models.

So the event loop never waits for a model, and forward passes do not compete for the CPU.

Clients take turns in the queue (`api.fairness`). Jobs of one kind (`Job.kind`) form a group
(`api.groups`), which is decoded as one batch. Groups take turns, so that a short answer does not
wait for a long one (iteration-level scheduling; Yu et al. 2022, Orca).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable
from functools import partial
from itertools import chain

from api.fairness import FairQueue
from api.groups import Job, Lockstep, Pool
from api.telemetry import Metrics
from calcgpt.inference.generate import Completion

MAX_UNREPORTED = 128  # tokens that the event loop has not taken yet, about

log = logging.getLogger(__name__)


class Batcher:
    """Runs jobs. Create and use it in a running event loop."""

    def __init__(
        self, metrics: Metrics, max_batch: int = 32, max_groups: int = 2, wait: float = 0.002
    ) -> None:
        """`max_batch` is the maximum number of rows of a batch. A row of long text counts as
        several, but a text of any length may have a batch to itself. While the model is idle, the
        first job waits `wait` seconds for others, unless the previous job was alone."""
        self._metrics = metrics
        self._max_batch, self._max_groups, self._wait = max_batch, max_groups, wait
        self._loop = asyncio.get_running_loop()
        self._waiting: FairQueue[Job] = FairQueue()
        self._groups: list[Lockstep | Pool] = []
        self._unfinished: set[asyncio.Future[None]] = set()
        self._closed = False
        self._expects_others = True
        self._is_gathering = False  # whether the thread waits for as many jobs as are enough
        self._changed = threading.Condition()  # guards all the above
        self._reports: deque[tuple[list[tuple[Job, int, float]], list[Job]]] = deque()
        self._is_reporting = self._waits_for_loop = False
        self._n_written = self._n_reported = 0  # tokens of reports
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)
        self._thread.start()

    async def complete(self, job: Job) -> Completion:
        """Runs a job to its end. If the call is cancelled, drops the job at the next token."""
        with self._changed:
            job.done = self._loop.create_future()
            self._unfinished.add(job.done)
            job.done.add_done_callback(self._unfinished.discard)
            self._waiting.add(job)
            self._metrics.queue_depth.set(len(self._waiting))
            if self._is_enough() or not self._is_gathering:  # waking a thread takes time
                self._changed.notify()
        try:
            await job.done
        except asyncio.CancelledError:
            job.cancelled = True
            raise
        return job.completion

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs, so that jobs will be done."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Ends the thread. Unfinished jobs are abandoned."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    # The methods below run in the model's thread.

    def _work(self) -> None:
        while not self._closed:
            try:
                self._take_turns()
            except Exception as error:  # the thread must survive any error
                log.exception("the jobs in progress are given up")
                self._give_up(error)

    def _take_turns(self) -> None:
        """Waits for work, then lets each group take a turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._groups or self._closed)
            if self._closed:
                return
            if self._expects_others and not self._groups:
                self._is_gathering = True
                self._changed.wait_for(self._is_enough, self._wait)
                self._is_gathering = False
            batches = self._admit()
        for jobs in batches:
            self._begin(jobs)
        turns = [group for group in self._groups if not (group.is_reported and self._is_ahead())]
        for group in turns:
            self._step(group)
        self._groups = [group for group in self._groups if group.jobs]
        if self._groups and not turns:
            with self._changed:
                self._waits_for_loop = True  # first: the loop looks at it last
                if self._is_ahead():
                    self._changed.wait()
                self._waits_for_loop = False

    def _is_ahead(self) -> bool:
        """Returns whether the event loop has much to report already. More would come before all
        else that waits there, such as new connections."""
        return self._n_written - self._n_reported >= MAX_UNREPORTED

    def _give_up(self, error: Exception) -> None:
        """Ends all jobs with an error: one of them may have caused it."""
        with self._changed:
            self._waiting.clear()
            self._groups = []
            unfinished = list(self._unfinished)
        for future in unfinished:
            self._in_loop(partial(_settle, future, error=error))

    def _is_enough(self) -> bool:
        return len(self._waiting) >= self._max_batch or self._closed

    def _admit(self) -> list[list[Job]]:
        """Lets waiting jobs join pools, and returns the jobs of new groups, up to the limits.

        Jobs are considered in the order of the queue: none joins a pool while an earlier one waits.
        A client of whom no group has a job may have one more group.
        """
        batches: dict[Hashable, list[Job]] = {}
        if self._waiting:
            self._expects_others = len(self._waiting) > 1
        while job := next(iter(self._waiting), None):
            if job.cancelled:
                self._waiting.take(job)
            elif pool := self._pool_for(job):
                if pool.is_full:
                    break
                self._waiting.take(job)
                pool.join(job)
            elif job.kind not in batches and self._may_begin(job, batches.values()):
                if batch := self._take(job):  # it may be cancelled by now
                    batches[job.kind] = batch
            else:
                break
        self._metrics.queue_depth.set(len(self._waiting))
        return list(batches.values())

    def _may_begin(self, job: Job, begun: Collection[list[Job]]) -> bool:
        """Returns whether a job may have a new group, beside those that begin now."""
        n = len(self._groups) + len(begun)
        if n != self._max_groups:
            return n < self._max_groups
        served = chain.from_iterable((*(group.jobs for group in self._groups), *begun))
        return all(other.client != job.client for other in served)

    def _pool_for(self, job: Job) -> Pool | None:
        """Returns the pool of a job's kind that has room for its weight, even if it is full."""
        pools = (group for group in self._groups if isinstance(group, Pool))
        same_kind = (pool for pool in pools if pool.kind == job.kind)
        return next((pool for pool in same_kind if job.fits(pool.jobs, self._max_batch)), None)

    def _take(self, first: Job) -> list[Job]:
        """Takes the first waiting job and others of its kind, as many as fit in a batch."""
        kind, batch = first.kind, list[Job]()
        max_rows = writer.at_once if (writer := first.writer) else self._max_batch
        for job in list(self._waiting):
            if len(batch) >= max_rows:
                break
            if job.cancelled:
                self._waiting.take(job)
            elif job.kind == kind and job.fits(batch, self._max_batch):
                self._waiting.take(job)
                batch.append(job)
        return batch

    def _begin(self, jobs: list[Job]) -> None:
        """Makes a group of these jobs."""
        make = Pool if jobs[0].writer else Lockstep
        try:
            group = make(jobs)
        except Exception as error:
            self._fail(jobs, error)
            return
        if group.jobs:
            self._groups.append(group)
        else:  # the prompt fills the model's context
            self._report([], jobs)

    def _step(self, group: Lockstep | Pool) -> None:
        if cancelled := {job for job in group.jobs if job.cancelled}:
            group.drop(cancelled)
        jobs = group.jobs
        if not jobs:
            return
        try:
            turn = group.turn()
        except Exception as error:  # the thread must survive any error
            self._fail(jobs, error)
            group.drop(jobs)
            return
        model = jobs[0].model
        batch_size = self._metrics.batch_size.labels(model)
        for size, n in Counter(turn.sizes).items():
            batch_size.observe_many(size, n)
        self._metrics.tokens.labels(model).inc(turn.n_token)
        if turn.written or turn.ended:
            self._report(turn.written, turn.ended)

    def _report(self, written: list[tuple[Job, int, float]], ended: list[Job]) -> None:
        self._reports.append((written, ended))
        self._n_written += len(written)
        if not self._is_reporting:  # else it comes together with earlier ones
            self._is_reporting = True
            self._in_loop(self._take_reports)

    def _fail(self, jobs: list[Job], error: Exception) -> None:
        for job in jobs:
            self._in_loop(partial(_settle, job.done, error=error))

    def _in_loop(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed
            log.debug("a job ended after the event loop")

    # This one runs in the event loop.

    def _take_reports(self) -> None:
        self._is_reporting = False  # first: the model's thread may report meanwhile
        while self._reports:
            written, ended = self._reports.popleft()
            self._n_reported += len(written)
            for job, token, probability in written:
                if job.on_token and not job.cancelled:
                    job.on_token(token, probability)
            for job in ended:
                _settle(job.done)
        if self._waits_for_loop:
            with self._changed:
                self._changed.notify()


def _settle(future: asyncio.Future[None], error: Exception | None = None) -> None:
    """Sets the result of a future, or its error. Does nothing if it is cancelled."""
    if future.done():
        return
    if error:
        future.set_exception(error)
    else:
        future.set_result(None)
