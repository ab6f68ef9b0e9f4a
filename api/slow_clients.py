"""Clients that write or read slowly: how many may wait, and what is kept for them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from starlette.types import Message, Receive

UNREAD = "unread"  # the key of `Unread` in the state of a request


def poll(receive: Receive) -> Message | None:
    """Returns the next message if it is there already, else None."""
    steps = receive().__await__()
    try:
        next(steps)
    except StopIteration as end:
        message: Message = end.value
        return message
    steps.close()
    return None


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
        max_unread: int = 1 << 26,
    ) -> None:
        """`on_given_up` is called for each request that is given up, and for each response of those
        that are `unread`, which have at most `max_unread` bytes together."""
        self.unread = Unread(max_unread, on_given_up)
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


class Outbox:
    """What a stream has written and its client has not read yet."""

    def __init__(self, timeout: asyncio.Timeout, unread: "Unread") -> None:
        self.n_bytes = 0  # that are kept
        self.is_given_up = False
        self._timeout, self._unread = timeout, unread
        self._data, self._changed, self._ended = bytearray(), asyncio.Event(), False

    async def fill(self, pieces: AsyncIterator[bytes]) -> None:
        """Adds pieces until they end. Raises what they raise."""
        try:
            async for piece in pieces:
                self._data += piece
                self._changed.set()
                self._unread.count(self, len(piece))
        finally:
            self._ended = True
            self._changed.set()

    async def take(self) -> bytes:
        """Waits for more, and returns all that is there. It is empty only at the end."""
        if not self._data and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._data)
        self._data.clear()
        self._unread.count(self, -len(data))
        return data

    def give_up(self) -> None:
        """Frees the memory now: the request may end later."""
        self.is_given_up = True
        self._data.clear()
        self._timeout.reschedule(asyncio.get_running_loop().time())


class Unread:
    """Bounds what is kept of responses until their clients read it. If that is more than
    `max_bytes`, the response of which most is kept is given up. The work for a response does not
    wait for its client, so that a slow reader keeps nobody else out."""

    def __init__(self, max_bytes: int, on_given_up: Callable[[], None]) -> None:
        self._max_bytes, self._on_given_up = max_bytes, on_given_up
        self._open: set[Outbox] = set()
        self._n_bytes = 0

    @asynccontextmanager
    async def response(self, n_bytes: int = 0) -> AsyncIterator[Outbox]:
        """Yields the outbox of a response, of which `n_bytes` are kept elsewhere.

        Raises GivenUpError if the response is given up.
        """
        timeout = asyncio.timeout(None)
        outbox = Outbox(timeout, self)
        try:
            async with timeout:
                self._open.add(outbox)
                self.count(outbox, n_bytes)
                yield outbox
        except TimeoutError:
            if not outbox.is_given_up:
                raise
            raise GivenUpError from None
        finally:
            self._remove(outbox)

    def count(self, outbox: Outbox, n_bytes: int) -> None:
        """Notes that `n_bytes` more are kept of a response, or fewer."""
        if outbox in self._open:
            outbox.n_bytes += n_bytes
            self._n_bytes += n_bytes
        while self._n_bytes > self._max_bytes:
            largest = max(self._open, key=lambda other: other.n_bytes)
            self._remove(largest)
            self._on_given_up()
            largest.give_up()

    def _remove(self, outbox: Outbox) -> None:
        if outbox in self._open:
            self._open.remove(outbox)
            self._n_bytes -= outbox.n_bytes
