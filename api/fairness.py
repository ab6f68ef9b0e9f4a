"""Which work is admitted, and which is next, so that no client keeps others waiting.

A client is the owner of an API key or, without keys, an address.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from api.problems import ProblemError, full_problem
from api.telemetry import Metrics

MAX_IDLE = 1_000  # clients that are remembered although nothing of theirs waits, about
GREED = 4  # a client may have that many times the room that is left


class Admission:
    """Limits how many operations are in progress at a time.

    More are refused at once, so that admitted operations are answered in time. A client may have at
    most `limit`, and at most GREED times what it leaves to others (dynamic thresholds; Choudhury
    and Hahne 1998). So there is always room for one more client, and all together have at most
    `limit` * (1 + 1 / GREED).
    """

    def __init__(self, limit: int, metrics: Metrics) -> None:
        self._limit = limit
        self._metrics = metrics
        self._n = 0
        self._by_client: Counter[str] = Counter()

    def require_room(self, client: str, n: int = 1) -> None:
        """Raises ProblemError unless there is room for `n` operations of a client: 422 if `n`
        exceeds the limit, else 503. Call it before counting the operations of a request, which
        takes time."""
        if n > self._limit:
            detail = f"{n:,} operations; the limit is {self._limit:,}"
            raise ProblemError(422, detail, kind="too-many-items")
        left = self._limit * (GREED + 1) - (self._n + n) * GREED  # GREED times what would be left
        if self._by_client[client] + n > left:
            self._metrics.sheds.labels("full").inc()
            raise full_problem("requests")

    @contextmanager
    def enter(self, client: str, n: int) -> Iterator[None]:
        """Admits `n` operations. Raises what `require_room` raises."""
        self.require_room(client, n)
        self._count(client, n)
        try:
            yield
        finally:
            self._count(client, -n)

    def _count(self, client: str, n: int) -> None:
        self._n += n
        self._by_client[client] += n
        if not self._by_client[client]:
            del self._by_client[client]
        self._metrics.in_flight.inc(n)


class Queued(Protocol):
    """What can wait in a `FairQueue`."""

    client: str
    start: float  # its place in the queue

    @property
    def cost(self) -> int:
        """The work, as a number of characters."""


Q = TypeVar("Q", bound=Queued)


class FairQueue(Generic[Q]):
    """Jobs that wait, in an order in which clients take turns (start-time fair queueing; Goyal,
    Vin and Cheng 1996).

    A job stands behind the work that its client already waits for, measured in characters. The
    first job of a client that had none stands beside the first jobs of all others.
    """

    def __init__(self) -> None:
        self._jobs: list[Q] = []  # sorted by `start`
        self._now = 0.0  # the `start` of the last job that was taken when it was first
        self._ends: dict[str, float] = {}  # by client, of its last job

    def add(self, job: Q) -> None:
        """Adds a job."""
        job.start = max(self._now, self._ends.get(job.client, 0.0))
        self._ends[job.client] = job.start + job.cost
        if len(self._ends) > 2 * len(self._jobs) + MAX_IDLE:
            self._ends = {name: end for name, end in self._ends.items() if end > self._now}
        insort(self._jobs, job, key=lambda other: other.start)

    def take(self, job: Q) -> None:
        """Removes a job."""
        if job is self._jobs[0]:
            self._now = max(self._now, job.start)
        self._jobs.remove(job)

    def clear(self) -> None:
        """Removes all jobs."""
        self._jobs.clear()

    def __iter__(self) -> Iterator[Q]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)


@dataclass(eq=False)
class _Turn:
    client: str
    cost: int
    start: float = 0.0
    begins: asyncio.Future[None] = field(default_factory=asyncio.Future)


class Turns:
    """Lets at most `n` pieces of work go on at a time. The next is that of the client whose turn it
    is."""

    def __init__(self, n: int) -> None:
        self._n_free = n
        self._waiting: FairQueue[_Turn] = FairQueue()

    @asynccontextmanager
    async def take(self, client: str, cost: int, until: float) -> AsyncIterator[None]:
        """Waits for a turn of a client, for work that is as much as `cost` characters. Raises
        TimeoutError if it does not come until that time of the event loop."""
        turn = _Turn(client, cost)
        self._waiting.add(turn)
        self._begin()
        try:
            if not turn.begins.done():
                async with asyncio.timeout_at(until):
                    await turn.begins
            yield
        finally:
            if not turn.begins.cancelled():  # else it has not begun
                self._n_free += 1
                self._begin()

    def _begin(self) -> None:
        while self._n_free and (turn := next(iter(self._waiting), None)):
            self._waiting.take(turn)
            if not turn.begins.cancelled():
                self._n_free -= 1
                turn.begins.set_result(None)
