"""Clients that write or read slowly, or hang up: what waits for them has bounds."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl

from api.http import client_of

# Most unsent bytes of a connection while its response goes on. With uvloop's default of 64 KiB
# thousands of clients that read nothing would keep hundreds of megabytes.
UNSENT_BYTES = 4_096
SENT_PIECE = 16_384  # bytes of a response that are sent at a time
UNREAD = "unread"  # the key of `SlowClients.unread` in the state of a request


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
    """The client is too slow, or too much is kept for slow clients: this request is given up."""


Write = Callable[[bytes], object]
Producer = Callable[[Write], Awaitable[None]]  # writes the events of a stream


class Kept:
    """What is kept for a request that waits for its `client`: its body so far, or what the client
    has not read yet of the response."""

    def __init__(self, room: WaitingRoom, client: str, timeout: asyncio.Timeout) -> None:
        self.client, self.n_bytes = client, 0
        self.is_given_up = False
        self._room, self._timeout = room, timeout
        self._data, self._changed, self._ended = bytearray(), asyncio.Event(), False

    def add(self, piece: bytes) -> bytearray:
        """Adds a piece. Returns all so far."""
        self._data += piece
        self._changed.set()
        self._room.count(self, len(piece))
        return self._data

    async def fill(self, produce: Producer) -> None:
        """Adds what `produce` writes. Raises what it raises."""
        try:
            await produce(self.add)
        finally:
            self._ended = True
            self._changed.set()

    async def take(self) -> bytes:
        """Waits for more, and returns all that is there. It is empty only at the end. Raises
        GivenUpError."""
        if not self._data and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if self.is_given_up:
            raise GivenUpError
        data = bytes(self._data)
        self._data.clear()
        self._room.count(self, -len(data))
        return data

    def give_up(self) -> None:
        """Frees the memory now: the request may end later."""
        self.is_given_up = True
        self._data.clear()
        if not self._timeout.expired():  # one that expires ends by itself
            self._timeout.reschedule(asyncio.get_running_loop().time())


class WaitingRoom:
    """Requests that wait for their clients. If there are more than `limit`, or if more than
    `max_bytes` are kept for them, one is given up, of the client who has most of them: that for
    which most is kept, if `largest`, else the one that has waited longest. So slow clients can
    neither use up the memory nor keep out other clients.
    """

    def __init__(
        self,
        on_given_up: Callable[[], None],
        max_bytes: int,
        limit: float = math.inf,
        largest: bool = False,
    ) -> None:
        self._on_given_up, self._largest = on_given_up, largest
        self._limit, self._max_bytes = limit, max_bytes
        self._waiting: dict[Kept, None] = {}  # the oldest first
        self._n_bytes = 0

    @asynccontextmanager
    async def wait(
        self, client: str, seconds: float | None = None, n_bytes: int = 0
    ) -> AsyncIterator[Kept]:
        """Yields what is kept for a request of a client. `n_bytes` more are kept elsewhere.

        Raises TimeoutError after `seconds`, and GivenUpError if the request is given up earlier.
        """
        timeout = asyncio.timeout(seconds)
        kept = Kept(self, client, timeout)
        try:
            async with timeout:
                self._waiting[kept] = None
                self.count(kept, n_bytes)
                yield kept
        except TimeoutError:
            if not kept.is_given_up:
                raise
            raise GivenUpError from None
        finally:
            self._remove(kept)

    def count(self, kept: Kept, n_bytes: int) -> None:
        """Notes that `n_bytes` more are kept for a request, or fewer."""
        if kept in self._waiting:
            kept.n_bytes += n_bytes
            self._n_bytes += n_bytes
        while len(self._waiting) > self._limit or self._n_bytes > self._max_bytes:
            given_up = self._next_given_up()
            self._remove(given_up)
            self._on_given_up()
            given_up.give_up()

    def _next_given_up(self) -> Kept:
        are_many, by_client = len(self._waiting) > self._limit, Counter[str]()
        sizes = {kept: 1 if are_many else kept.n_bytes for kept in self._waiting}
        for kept, size in sizes.items():
            by_client[kept.client] += size
        client = max(by_client, key=by_client.__getitem__)
        of_client = [kept for kept, size in sizes.items() if size and kept.client == client]
        return max(of_client, key=lambda kept: kept.n_bytes) if self._largest else of_client[0]

    def _remove(self, kept: Kept) -> None:
        if kept in self._waiting:
            del self._waiting[kept]
            self._n_bytes -= kept.n_bytes


class SlowClients:
    """The requests that wait for the rest of a body, or until more of a response is read, and the
    responses that are `unread`. The work for a response does not wait for its client, so that a
    slow reader keeps nobody else out."""

    def __init__(
        self,
        limit: int = 768,
        max_bytes: int = 1 << 24,
        on_given_up: Callable[[], None] = lambda: None,
        max_unread: int = 1 << 26,
        stall_seconds: float = 30.0,
        delivery_seconds: float = 120.0,
    ) -> None:
        """`on_given_up` is called for each request that is given up. `max_bytes` is for bodies, and
        at least as long as the longest. A client may read nothing for `stall_seconds`, and a
        response may wait for it for `delivery_seconds` in all."""
        self.waiting = WaitingRoom(on_given_up, max_bytes, limit)
        self.unread = WaitingRoom(on_given_up, max_unread, largest=True)
        self.stall_seconds, self.delivery_seconds = stall_seconds, delivery_seconds


class Delivery:
    """Sends a response as its client reads it. Raises TimeoutError if that takes too long. `flow`
    tells, if the server does, whether sending would wait."""

    def __init__(
        self, send: Send, client: str, slow: SlowClients, flow: FlowControl | None
    ) -> None:
        self._send, self._client, self._slow, self._flow = send, client, slow, flow
        self._rest = slow.delivery_seconds
        self.is_shared = False  # whether the body is a file, which is in memory only once

    async def send(self, message: Message) -> None:
        n_bytes = len(message.get("body", b""))
        if n_bytes <= UNSENT_BYTES and self._flow and not self._flow.write_paused:
            await self._send(message)
        elif n_bytes <= UNSENT_BYTES or self.is_shared:
            await self._send_all(message)
        else:
            async with self._slow.unread.wait(self._client, n_bytes=n_bytes):
                await self._send_all(message)

    async def _send_all(self, message: Message) -> None:
        clock = asyncio.get_running_loop().time
        for piece in _pieces(message):
            begun, seconds = clock(), min(self._slow.stall_seconds, self._rest)
            async with self._slow.waiting.wait(self._client, seconds):
                await self._send(piece)
            self._rest -= clock() - begun


def _pieces(message: Message) -> Iterator[Message]:
    """Yields the parts of a long message. The server sends a part only when the client has read
    nearly all earlier parts, so a client that reads nothing does not keep the message in memory.
    The last part is empty, so the response ends only when nearly all of it has been read."""
    body = message.get("body", b"")
    if len(body) <= UNSENT_BYTES:
        yield message
        return
    for start in range(0, len(body), SENT_PIECE):
        yield {**message, "body": body[start : start + SENT_PIECE], "more_body": True}
    if not message.get("more_body", False):
        yield {**message, "body": b"", "more_body": False}


class EventStream(StreamingResponse):
    """A response of server-sent events. HTTP/1.0 has no chunks: there, they come all at once.

    The events do not wait for the client, so that the work for them ends, however slowly it reads.
    What it has not read yet is `Kept`. If it is gone, what writes them is cancelled.
    """

    media_type = "text/event-stream"

    # FastAPI reads the default of `status_code` for the OpenAPI document.
    def __init__(self, produce: Producer, status_code: int = 200) -> None:
        super().__init__((), status_code, {"X-Accel-Buffering": "no"})  # for proxies
        self._produce = produce
        self._is_whole = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._is_whole = scope.get("http_version") == "1.0"
        self._unread: WaitingRoom = scope["state"][UNREAD]
        self._client = client_of(scope)
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async with self._unread.wait(self._client) as outbox:
            writing = asyncio.create_task(outbox.fill(self._produce))
            try:
                if self._is_whole:
                    await writing
                    self.headers["Content-Length"] = str(outbox.n_bytes)
                start = {"type": "http.response.start", "status": self.status_code}
                await send({**start, "headers": self.raw_headers})
                while piece := await outbox.take():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await writing  # raises what it raises
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                writing.cancel()
