"""How long a request may live: until it is answered, its client goes, or its time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from api.metrics import Metrics
from api.problems import ProblemError

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
