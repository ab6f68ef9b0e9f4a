"""Which work is admitted, and which is next, so that no client keeps others waiting.

A client is the owner of an API key or, without keys, an address.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Self

from api.http import ProblemError, full_problem
from api.telemetry import Metrics

MAX_IDLE = 1_000  # clients that are remembered although nothing of theirs waits, about
GREED = 4  # a client may have that many times the room that is left
SLICE = 1_500  # characters: about a millisecond of work in the event loop


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


@dataclass(eq=False)
class _Turn:
    client: str
    cost: int  # of the work, as a number of characters
    begins: asyncio.Future[None] = field(default_factory=asyncio.Future)

    def expire(self) -> None:
        if not self.begins.done():
            self.begins.set_exception(TimeoutError())


class FairQueue:
    """Turns that wait, in an order in which clients follow each other (start-time fair queueing;
    Goyal, Vin and Cheng 1996).

    A turn stands behind the work that its client already waits for, measured in characters. The
    first turn of a client that had none stands beside the first turns of all others.
    """

    def __init__(self) -> None:
        self._turns: list[tuple[float, int, _Turn]] = []  # a heap: start, number, turn
        self._number = count()
        self._now = 0.0  # the start of the last turn that was taken
        self._ends: dict[str, float] = {}  # by client, of its last turn

    def add(self, turn: _Turn) -> None:
        """Adds a turn."""
        start = max(self._now, self._ends.get(turn.client, 0.0))
        self._ends[turn.client] = start + turn.cost
        if len(self._ends) > 2 * len(self._turns) + MAX_IDLE:
            self._ends = {name: end for name, end in self._ends.items() if end > self._now}
        heappush(self._turns, (start, next(self._number), turn))

    def charge(self, client: str, cost: int) -> None:
        """Adds to the work of a client's last turn."""
        self._ends[client] = max(self._now, self._ends.get(client, 0.0)) + cost

    def take(self) -> _Turn:
        """Removes the first turn. There must be one."""
        start, _, turn = heappop(self._turns)
        self._now = max(self._now, start)
        return turn

    def __len__(self) -> int:
        return len(self._turns)


class Turns:
    """Lets at most `n` pieces of work go on at a time. The next is that of the client whose turn it
    is."""

    def __init__(self, n: int) -> None:
        self._n_free = n
        self._waiting = FairQueue()

    async def begin(self, client: str, cost: int, until: float = math.inf) -> None:
        """Waits for a turn of a client, for work that is as much as `cost` characters. It lasts
        until `end`. Raises TimeoutError if it does not begin until that time of the event loop."""
        turn = _Turn(client, cost)
        self._waiting.add(turn)
        self._let_begin()
        if turn.begins.done():
            return
        timer = None
        if until < math.inf:
            timer = asyncio.get_running_loop().call_at(until, turn.expire)
        try:
            await turn.begins
        except asyncio.CancelledError:
            if not turn.begins.cancelled():  # it has begun meanwhile
                self.end()
            raise
        finally:
            if timer:
                timer.cancel()

    def charge(self, client: str, cost: int) -> None:
        """Adds to the work of a client's turn."""
        self._waiting.charge(client, cost)

    def end(self) -> None:
        """Ends a turn. The next begins when the event loop has looked for what has come meanwhile:
        otherwise all that waits could be done before it looks again."""
        asyncio.get_running_loop().call_soon(self._free)

    def _free(self) -> None:
        self._n_free += 1
        self._let_begin()

    def _let_begin(self) -> None:
        while self._n_free and self._waiting:
            turn = self._waiting.take()
            if not turn.begins.done():  # cancelled, or expired
                self._n_free -= 1
                turn.begins.set_result(None)


class Shift:
    """The turns of a long piece of work, one after the other. A turn ends after `size` characters,
    so that others can take theirs, and at the end of the block. None begins after `until`, a time
    of the event loop."""

    def __init__(
        self, turns: Turns, client: str, cost: int, size: int = SLICE, until: float = math.inf
    ) -> None:
        self._turns, self._client, self._cost, self._size = turns, client, cost, size
        self.until = until
        self._left = 0  # characters of the turn
        self._is_on = False

    async def left(self) -> int:
        """Returns how many characters may be written now, at least 1: waits for the next turn
        where the last has ended. Raises what `Turns.begin` raises."""
        if self._is_on and self._left <= 0:
            self.pause()
        if not self._is_on:
            cost = min(self._size, self._cost) if self._cost > 0 else self._size
            await self._turns.begin(self._client, cost, self.until)
            self._is_on, self._left = True, self._size
        return self._left

    def extend(self, cost: int) -> bool:
        """Adds work to one's turn, if there is room for it. Returns whether there is."""
        if not self._is_on or cost > self._left:
            return False
        self._cost += cost
        self._turns.charge(self._client, cost)
        return True

    def spend(self, n: int) -> None:
        """Counts work that is as much as `n` characters."""
        self._left -= n
        self._cost -= n

    def pause(self) -> None:
        """Ends the turn, if it is one's own."""
        if self._is_on:
            self._is_on = False
            self._turns.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.pause()
