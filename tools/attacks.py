"""The service under attack: are its health checks answered, and does its memory stay bounded?

    python -m tools.attacks [--runs N] [--seconds S] [--connections N] [--only NAME ...]
                                 [--json FILE]

For each kind of attack a service is started, with a port for health checks, and attacked several
times. Meanwhile a process asks `/healthz`, `/readyz` and `/metrics` in turns, on a new connection
each time, and the memory of all processes of the service is read, also before the attacks. Each
attack is as hard as one client can make it from this machine, whose processors it shares with the
service.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
import psutil
import uvloop

from benchmarks.load import LOOPBACK, request
from datagen.files import write_json
from tools.soak import serving, wait_until_ready

PATHS = ("/healthz", "/readyz", "/metrics")
PAUSE = 0.02  # seconds between two rounds of health checks
TIMEOUT = 60.0  # seconds for a health check
SETTLE_SECONDS = 2.0  # until a service that is ready is idle, too
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
    head = b"POST /v1/calculate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    return _write(port, seconds, head, b"a:\r\n" * 16_384)


def bodies(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends bodies without end."""
    head = b"POST /v1/calculate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return _write(port, seconds, head, b"10000\r\n" + b" " * 65_536 + b"\r\n")


def pipelines(port: int, seconds: float, n: int) -> Counter[str]:
    """Sends many requests on a connection, and hangs up without reading a response."""
    return _write(
        port, seconds, b"", b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000, n_piece=100
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
    head = b"POST /v1/calculate HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n"
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
            connection.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        time.sleep(seconds)
    return Counter(connections=SLOW_CLIENTS)


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
        long_numbers,
        parsing,
        trailers,
        bodies,
        pipelines,
        slow_writers,
        slow_bodies,
        slow_readers,
    )
}


def probe(port: int, pipe: Connection) -> None:
    """Makes health checks until told to end, then sends their seconds by path."""
    seconds: dict[str, list[float]] = {path: [] for path in PATHS}
    pipe.send(None)  # it has started
    while not pipe.poll():
        for path, measured in seconds.items():
            start = time.perf_counter()
            with socket.create_connection((LOOPBACK, port), timeout=TIMEOUT) as connection:
                connection.sendall(
                    f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
                )
                with connection.makefile("rb") as file:
                    response = file.read()
            measured.append(time.perf_counter() - start)
            assert response.startswith(b"HTTP/1.1 200 "), response[:200]
        time.sleep(PAUSE)
    pipe.send(seconds)


@contextmanager
def probing(port: int) -> Iterator[dict[str, list[float]]]:
    """Makes health checks within the block, and then fills the dictionary with their seconds."""
    context, seconds = get_context("spawn"), dict[str, list[float]]()
    parent_end, child_end = context.Pipe()
    process = context.Process(target=probe, args=(port, child_end))
    process.start()
    child_end.close()
    try:
        parent_end.recv()
        yield seconds
        parent_end.send(None)
        seconds.update(parent_end.recv())
    finally:
        parent_end.close()
        process.join()


@contextmanager
def watching_memory(process: psutil.Process) -> Iterator[list[float]]:
    """Fills the list with the memory of a process and its children, in MiB, within the block."""
    values, ended = [memory_of(process)], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            values.append(memory_of(process))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield values
    finally:
        ended.set()
        thread.join()


def memory_of(parent: psutil.Process) -> float:
    """Returns the resident memory of a process and its children, in MiB."""
    total = 0
    for process in [parent, *parent.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return round(total / 2**20, 1)


@contextmanager
def serving_with_health() -> Iterator[tuple[psutil.Process, int, int, float]]:
    """Yields the first process of a service, its port, the port of its health checks, and the
    seconds until it was ready."""
    with socket.create_server((LOOPBACK, 0)) as free:
        health_port = free.getsockname()[1]
    start = time.monotonic()
    with serving("--health-port", str(health_port)) as (process, port):
        seconds = time.monotonic() - start
        wait_until_ready(health_port, process)
        yield psutil.Process(process.pid), port, health_port, seconds


def measure(
    attack: Attack, service: tuple[psutil.Process, int, int], seconds: float, n: int
) -> dict[str, Any]:
    """Attacks a service, by its first process and its ports, and returns what was seen."""
    process, port, health_port = service
    load = os.getloadavg()[0]
    with probing(health_port) as latencies, watching_memory(process) as memory:
        start = time.monotonic()
        seen = attack(port, seconds, n)
        duration = time.monotonic() - start
    assert flood(port, [request("/v1/calculate", expression="1+1")], 1, 0.1)["200"]
    return {
        "seconds": round(duration, 1),
        "load_average": round(load, 1),
        "seen": dict(sorted(seen.items())),
        "peak_mib": round(max(memory), 1),
        "health_ms": {path: percentiles(values) for path, values in latencies.items()},
    }


def percentiles(seconds: list[float]) -> dict[str, Any]:
    """Returns the number of values, and their median, 99th percentile and maximum in ms."""
    p50, p99, largest = np.percentile(seconds, [50, 99, 100]) * 1000
    quantiles = {"p50": p50, "p99": p99, "max": largest}
    return {
        "n": len(seconds),
        **{name: round(float(value), 1) for name, value in quantiles.items()},
    }


@click.command()
@click.option("--runs", default=1, help="How often each attack is made.")
@click.option("--seconds", default=10.0, help="How long each attack lasts.")
@click.option(
    "--connections", "n", default=10_000, help="Number of connections in the attack with many."
)
@click.option(
    "--only", multiple=True, type=click.Choice([*ATTACKS]), help="Run only this attack. Repeatable."
)
@click.option(
    "--json", "out", type=click.Path(path_type=Path), help="Write the report to this file."
)
def main(runs: int, seconds: float, n: int, only: tuple[str, ...], out: Path | None) -> None:
    """Attack the service, and measure its health checks and its memory meanwhile."""
    import torch

    from api.app import prepare
    from api.settings import Settings
    from benchmarks.measure import environment

    prepare(Settings(log_level="error"))  # more open files
    report: dict[str, Any] = {
        "connections": n,
        **environment(torch.device("cpu"), "uvicorn", "fastapi"),
        "attacks": {},
    }
    for name in only or ATTACKS:
        with serving_with_health() as (process, port, health_port, start_seconds):
            flood(port, [request("/v1/calculate", expression="12.5+3")], 64, 1.0)  # warm up
            time.sleep(SETTLE_SECONDS)
            results: list[dict[str, Any]] = []
            report["attacks"][name] = {
                "start_seconds": round(start_seconds, 1),
                "idle_mib": memory_of(process),
                "runs": results,
            }
            for _ in range(runs):
                results.append(measure(ATTACKS[name], (process, port, health_port), seconds, n))
                click.echo(f"{name}: {json.dumps(results[-1])}", err=True)
                if out:
                    write_json(out, report)  # now, because a run takes minutes


if __name__ == "__main__":
    main()
