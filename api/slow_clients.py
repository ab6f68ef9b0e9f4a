"""Bounds for requests that wait for slow clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial


class GivenUpError(TimeoutError):
    """Too many requests wait for their clients, and this one has waited longest."""


class SlowClients:
    """Bounds the requests that wait for their clients: for the rest of a body, or until more of a
    response is read. If there are more than `limit`, or if their bodies have more than `max_bytes`
    together, the request that has waited longest is given up. So slow clients can neither use up
    the memory nor keep out other clients.
    """

    def __init__(
        self,
        limit: int = 768,
        max_bytes: int = 1 << 24,
        on_given_up: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_given_up` is called for each request that is given up."""
        self._limit, self._max_bytes = limit, max_bytes
        self._on_given_up = on_given_up
        self._waiting: dict[asyncio.Timeout, bytearray] = {}  # the oldest first, and their bodies
        self._n_bytes = 0

    @asynccontextmanager
    async def wait(self, seconds: float) -> AsyncIterator[Callable[[bytes], bytearray]]:
        """Yields a function that adds to the body of the request and returns the body so far.

        Raises TimeoutError after `seconds`, and GivenUpError if the request is given up earlier.
        """
        try:
            async with asyncio.timeout(seconds) as timeout:
                self._waiting[timeout] = bytearray()
                self._make_room()
                yield partial(self._add, timeout)
        except TimeoutError:
            if timeout in self._waiting:
                raise
            raise GivenUpError from None
        finally:
            self._n_bytes -= len(self._waiting.pop(timeout, b""))

    def _add(self, timeout: asyncio.Timeout, piece: bytes) -> bytearray:
        if timeout not in self._waiting:
            raise GivenUpError
        body = self._waiting[timeout]
        body += piece
        self._n_bytes += len(piece)
        self._make_room()
        return body

    def _make_room(self) -> None:
        n = len(self._waiting)
        if n > self._limit or (n > 1 and self._n_bytes > self._max_bytes):
            oldest = next(iter(self._waiting))
            body = self._waiting.pop(oldest)
            self._n_bytes -= len(body)
            body.clear()  # frees the memory now: the request may end later
            self._on_given_up()
            oldest.reschedule(asyncio.get_running_loop().time())
