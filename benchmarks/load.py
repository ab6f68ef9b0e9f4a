"""Puts load on an HTTP service from one process with little CPU time.

Connections are kept open, requests are encoded beforehand, and each connection sends its next
request when the response is there.
"""

import asyncio
import json
import re
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import cast

import uvloop

LOOPBACK = "127.0.0.1"
MAX_REQUESTS = 2_000_000  # of one load
TIMEOUT = 30.0  # seconds for connections, and for the last responses

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


@dataclass
class Load:
    """The results of a load."""

    seconds: float = 0.0  # from the first request to the last response
    cpu_seconds: float = 0.0  # of this process
    latencies: list[float] = field(default_factory=list)  # seconds, of answered requests
    #: Index of the request, status, body.
    answers: list[tuple[int, int, bytes]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # one for each failed connection


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, load: Load, requests: Iterator[tuple[int, bytes]]) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self._load, self._requests = load, requests
        self._until = 0.0
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def begin(self, until: float) -> None:
        """Sends requests until that time, by `time.perf_counter`, then closes the connection."""
        self._until = until
        self._send_next()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        length = _LENGTH.search(head + b"\r\n")
        if not length:
            return self._end("a response without a content-length")
        if len(body) < int(length[1]):
            return
        self._received = b""
        status = int(head[9:12])
        if status == 200:  # refusals are faster, and would lower the latencies
            self._load.latencies.append(now - self._started)
        self._load.answers.append((self._index, status, body))
        self._send_next()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"connection closed: {error}")

    def _send_next(self) -> None:
        self._started = time.perf_counter()
        request = next(self._requests, None) if self._started < self._until else None
        if request is None:
            return self._end()
        self._index, text = request
        self._transport.write(text)

    def _end(self, error: str | None = None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
            self._transport.close()
            if error:
                self._load.errors.append(error)


def request(path: str, **body: object) -> bytes:
    """Returns the bytes of a POST of JSON."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def _put(
    port: int, requests: Sequence[bytes], clients: int, seconds: float, first: int
) -> Load:
    load = Load()
    endless = islice(cycle(enumerate(requests)), first, first + MAX_REQUESTS)
    loop = asyncio.get_running_loop()
    connecting = [
        loop.create_connection(lambda: Client(load, endless), LOOPBACK, port)
        for _ in range(clients)
    ]
    async with asyncio.timeout(TIMEOUT):
        connected = [client for _, client in await asyncio.gather(*connecting)]
    cpu, start = _cpu_seconds(), time.perf_counter()
    for client in connected:
        client.begin(start + seconds)
    _, waiting = await asyncio.wait([c.ended for c in connected], timeout=seconds + TIMEOUT)
    load.seconds, load.cpu_seconds = time.perf_counter() - start, _cpu_seconds() - cpu
    load.errors += ["no answer"] * len(waiting)
    return load


def put(port: int, requests: Sequence[bytes], clients: int, seconds: float, first: int = 0) -> Load:
    """Puts load on the service at a port of this machine, from `clients` connections for `seconds`.

    The connections take turns with the requests, from the index `first` on. Raises OSError if the
    service cannot be reached.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_put(port, requests, clients, seconds, first))


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
