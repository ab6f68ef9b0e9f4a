"""The attacks of `tools.attacks`: what one client can do to a service."""

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import cycle
from random import Random
from typing import cast

import uvloop

from benchmarks.load import LOOPBACK, request

TIMEOUT = 60.0  # seconds for a connection or a health check
SLOW_CLIENTS = 1_000
LONGEST = "+".join("1" * 1_001)  # 1,000 operations

#: Takes a port, seconds, and a number of connections. Returns how often each status came.
Attack = Callable[[int, float, int], Counter[str]]


class Flood(asyncio.Protocol):
    """A connection that sends the next request when a response begins."""

    def __init__(self, requests: Iterator[bytes], until: float, statuses: Counter[str]) -> None:
        self._requests, self._until, self._statuses = requests, until, statuses
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 "):
            self._statuses[data[9:12].decode()] += 1
            if time.monotonic() > self._until:
                self._transport.close()
            else:
                self._transport.write(next(self._requests))

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set_result(None)


def flood(port: int, requests: list[bytes], n: int, seconds: float) -> Counter[str]:
    """Sends requests on `n` connections, and on new ones when they are closed."""
    statuses, endless, until = Counter[str](), cycle(requests), time.monotonic() + seconds

    async def keep_connected() -> None:
        loop = asyncio.get_running_loop()
        while time.monotonic() < until:
            try:
                transport, client = await loop.create_connection(
                    lambda: Flood(endless, until, statuses), LOOPBACK, port
                )
            except OSError:
                statuses["not connected"] += 1
                await asyncio.sleep(1)
                continue
            await asyncio.wait([client.ended], timeout=until - time.monotonic() + TIMEOUT)
            transport.close()

    async def keep_all_connected() -> None:
        await asyncio.gather(*(keep_connected() for _ in range(n)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(keep_all_connected())
    return statuses


def connections(port: int, seconds: float, n: int) -> Counter[str]:
    """Calculates on many connections, each as fast as it is answered or refused."""
    return flood(port, [request("/v1/calculate", expression="12.5+3")], n, seconds)


def operations(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends batches of the longest expressions: more than are allowed, and as many as are."""
    too_many = request("/v1/calculate/batch", expressions=[LONGEST] * 30)
    allowed = request("/v1/calculate/batch", expressions=[LONGEST])
    return flood(port, [too_many, allowed], 64, seconds)


def problems(port: int, seconds: float, n: int) -> Counter[str]:
    """Calculates different problems on 64 connections."""
    asked = [request("/v1/calculate", expression=f"{i}.25*{i + 7}") for i in range(2_000)]
    return flood(port, asked, 64, seconds)


def functions(port: int, seconds: float, n: int) -> Counter[str]:
    """Calculates functions on 64 connections. Each has many operations, one after the other."""
    texts = [f"sqrt({i})+sin({i})" for i in range(2, 40)]
    return flood(port, [request("/v1/calculate", expression=text) for text in texts], 64, seconds)


def plans(port: int, seconds: float, n: int) -> Counter[str]:
    """Asks on eight connections for what takes long to plan."""
    medians = "median(" + ",".join(f"sin({i})" for i in range(300)) + ")"
    texts = ["-" * 9_999 + "1", medians, "sqrt(" * 200 + "2" + ")" * 200, "2^(2^(2^0.5))"]
    return flood(port, [request("/v1/calculate", expression=text) for text in texts], 8, seconds)


def products(port: int, seconds: float, n: int) -> Counter[str]:
    """Asks on 64 connections for the largest products that are answered, and for smaller ones."""
    draw = Random(0)  # nosec B311  # no secret
    sizes = (1_000, 300, 100)
    factors = [[draw.randrange(10 ** (n - 1), 10**n) for _ in range(16)] for n in sizes]
    texts = [f"{a}*{a + 2}" for group in zip(*factors, strict=True) for a in group]
    return flood(port, [request("/v1/calculate", expression=text) for text in texts], 64, seconds)


def long_numbers(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends batches of products and quotients whose work fills the model's context, all of
    different shapes."""
    a, b = "1234567890" * 4, "9876543219" * 4
    points = [(i, j) for i in range(32, 40) for j in range(32, 40)]
    long = [f"{a[:i]}.{a[i:]}{op}{b[:j]}.{b[j:]}" for op in "*/" for i, j in points]
    requests = [
        request("/v1/calculate/batch", expressions=long[first : first + 32], places=places)
        for first in range(0, len(long), 32)
        for places in range(1, 9)
    ]
    return flood(port, requests, 64, seconds)


def parsing(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends large requests that are refused."""
    bodies = [
        request("/v1/calculate", expression="x" * 65_000),
        request("/v1/calculate/batch", expressions=["("] * 12_000),
        request("/v1/calculate", **{f"{i:x}": 1 for i in range(6_000)}),
        request("/v1/chat/completions", messages=[{"role": "user", "content": "1"}] * 1_500),
    ]
    return flood(port, bodies, 64, seconds)


def trailers(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends trailers without end."""
    head = (
        b"POST /v1/calculate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    )
    return _write(port, seconds, head, b"a:\r\n" * 16_384)


def bodies(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends bodies without end."""
    head = b"POST /v1/calculate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    return _write(port, seconds, head, b"10000\r\n" + b" " * 65_536 + b"\r\n")


def pipelines(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends many requests on a connection, and hangs up without reading a response."""
    return _write(
        port,
        seconds,
        b"",
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000,
        n_piece=100,
    )


def slow_writers(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends requests one byte at a time."""
    with ExitStack() as stack:
        sockets = [_connected(port, stack) for _ in range(SLOW_CLIENTS)]
        text, until = request("/v1/calculate", expression="12.5+3"), time.monotonic() + seconds
        for i in range(10**9):
            for connection in sockets:
                with suppress(OSError):
                    connection.send(text[i % len(text) :][:1])
            if time.monotonic() > until:
                break
    return Counter(connections=len(sockets))


def slow_bodies(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends the largest bodies that are allowed, except for their last byte."""
    head = b"POST /v1/calculate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536\r\n\r\n"
    with ExitStack() as stack:
        sockets = [_connected(port, stack) for _ in range(3 * SLOW_CLIENTS)]
        for connection in sockets:
            connection.setblocking(False)
        text, until = head + b" " * 65_535, time.monotonic() + seconds
        n_sent = dict.fromkeys(sockets, 0)
        while time.monotonic() < until:
            for connection in sockets:
                with suppress(OSError):
                    n_sent[connection] += connection.send(text[n_sent[connection] :])
            time.sleep(0.1)
    return Counter(connections=len(sockets))


def slow_readers(port: int, seconds: float, n: int) -> Counter[str]:
    """Asks for the largest responses, and reads nothing."""
    model = "calculator"
    with ExitStack() as stack:
        for i in range(SLOW_CLIENTS):
            path = ("/openapi.json", f"/v1/models/{model}/weights")[i % 2]
            connection = _connected(port, stack, receive_buffer=4_096)
            connection.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(seconds)
    return Counter(connections=SLOW_CLIENTS)


def trickling_readers(port: int, seconds: float, n: int) -> Counter[str]:
    """Asks for long streams, and reads a little of each, all the time."""
    body = request("/v1/calculate/stream", expression="+".join(["7/8"] * 80))
    seen, until = Counter[str](), time.monotonic() + seconds
    with ExitStack() as stack:
        sockets = [_connected(port, stack, receive_buffer=4_096) for _ in range(64)]
        for connection in sockets:
            connection.sendall(body)
            connection.setblocking(False)
        while time.monotonic() < until:
            for connection in sockets:
                with suppress(OSError):
                    seen["bytes"] += len(connection.recv(256))
            time.sleep(0.5)
    return seen


def unfair_client(port: int, seconds: float, n: int) -> Counter[str]:
    """Asks for as many streams as it gets, and reads them."""
    streams = [request("/v1/calculate/stream", expression="7/8*9") for _ in range(500)]
    return flood(port, streams, len(streams), seconds)


def forged_headers(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends addresses that it has made up, long ones too, and many keys at once."""
    ask = request("/v1/calculate", expression="12.5+3")
    forged = [f"X-Forwarded-For: 192.0.2.{i}, 198.51.100.{i}" for i in range(200)]
    forged += [f"X-Forwarded-For: {i}{'x' * 12_000}" for i in range(200)]
    keys = "\r\n".join(f"Authorization: Bearer guess{i}" for i in range(95))
    heads = [f"{line}\r\n{keys}\r\n\r\n".encode() for line in forged]
    return flood(port, [ask.replace(b"\r\n\r\n", b"\r\n" + head, 1) for head in heads], 64, seconds)


def largest_file(port: int, seconds: float, n: int) -> Counter[str]:
    """Asks for the largest file of the page, compressed."""
    path = "/static/swagger/swagger-ui-bundle.js"
    ask = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n".encode()
    return flood(port, [ask], 16, seconds)


def unread_log(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends requests to a service whose log nobody reads."""
    return flood(port, [request("/v1/calculate", expression="1+1")], 8, seconds)


def full_disk(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends requests to workers whose temporary folder is full."""
    return unread_log(port, seconds, n)


def _connected(port: int, stack: ExitStack, receive_buffer: int | None = None) -> socket.socket:
    connection = stack.enter_context(socket.socket())
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(TIMEOUT)
    connection.connect((LOOPBACK, port))
    return connection


def _write(
    port: int, seconds: float, head: bytes, piece: bytes, n_piece: int = 10**9
) -> Counter[str]:
    """Writes a head and then a piece again and again, on eight connections at once, on new ones
    when they are closed."""
    connected, until = Counter[str](), time.monotonic() + seconds

    def write() -> None:
        while time.monotonic() < until:
            with suppress(OSError), ExitStack() as stack:
                connection = _connected(port, stack)
                connected["connections"] += 1
                connection.settimeout(max(0.1, until - time.monotonic()))
                connection.sendall(head)
                for _ in range(n_piece):
                    connection.sendall(piece)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return connected


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        connections,
        operations,
        problems,
        functions,
        plans,
        products,
        long_numbers,
        parsing,
        trailers,
        bodies,
        pipelines,
        slow_writers,
        slow_bodies,
        slow_readers,
        trickling_readers,
        unfair_client,
        forged_headers,
        largest_file,
        unread_log,
        full_disk,
    )
}
