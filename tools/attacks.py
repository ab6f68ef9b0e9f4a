"""The service under attack: are its health checks answered, and does its memory stay bounded?

    python -m tools.attacks [--runs N] [--seconds S] [--connections N] [--only NAME ...]
                                 [--json FILE]

For each kind of attack a service is started, with a port for health checks, and attacked several
times. Meanwhile a process asks `/healthz`, `/readyz` and `/metrics` in turns, on a new connection
each time, another client asks OTHERS in turns, and the memory of all processes of the service is
read, also before the attacks. The service has an empty cache, as on a new machine. Each attack
(`tools.attack_kinds`) is as hard as one client can make it from this machine, whose processors it
shares with the service. `full_disk` mounts a small file system, for which it must run as root.
"""

import json
import os
import socket
import subprocess  # nosec B404  # runs this Python
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
from numpy.typing import NDArray

from benchmarks.load import LOOPBACK, request
from calcgpt.base.files import write_json
from tools.attack_kinds import ATTACKS, TIMEOUT, Attack, flood
from tools.soak import serving, wait_until_ready

PATHS = ("/healthz", "/readyz", "/metrics")
PAUSE = 0.02  # seconds between two rounds of health checks
SETTLE_SECONDS = 2.0  # until a service that is ready is idle, too
OTHER = "127.0.0.2"  # the address of another client
OTHERS = ("1+1", "sqrt(7)+sin(3)")  # what it asks
# Flags of the service under some attacks, and a command that starts it.
FLAGS = {
    "unfair_client": ("--deadline", "300"),
    "unread_log": ("--log-level", "info"),
    "full_disk": ("--workers", "2", "--log-level", "warning"),
}
FULL_DISK = 'mount -t tmpfs -o size=16k tmpfs "$TMPDIR" && exec "$@"'


def probe(port: int, main_port: int, pipe: Connection) -> None:
    """Makes health checks, and calculates as another client, until told to end. Then sends the
    seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in (*PATHS, *OTHERS)}
    pipe.send(None)  # it has started
    ended = threading.Event()
    other = threading.Thread(target=_ask_again_and_again, args=(main_port, seconds, ended))
    other.start()
    while not pipe.poll():
        for path in PATHS:
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            seconds_taken, response = _exchange(port, head, LOOPBACK)
            seconds[path].append(seconds_taken)
            assert response.startswith(b"HTTP/1.1 200 "), response[:200]
        time.sleep(PAUSE)
    ended.set()
    other.join()
    pipe.send(seconds)


def _ask_again_and_again(
    port: int, seconds: dict[str, list[float]], ended: threading.Event
) -> None:
    """Adds the seconds of each answer; NaN for a refusal."""
    for text in cycle(OTHERS):
        ask = request("/v1/calculate", expression=text)
        ask = ask.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        try:
            seconds_taken, response = _exchange(port, ask, OTHER)
        except OSError:  # too many connections
            seconds_taken, response = np.nan, b""
        is_answer = response.startswith(b"HTTP/1.1 200 ")
        seconds[text].append(seconds_taken if is_answer else np.nan)
        if ended.wait(PAUSE):
            return


def _exchange(port: int, sent: bytes, source: str) -> tuple[float, bytes]:
    """Sends a request from an address, and returns the seconds to its response, and that."""
    start = time.perf_counter()
    with socket.create_connection((LOOPBACK, port), TIMEOUT, (source, 0)) as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as file:
            response = file.read()
    return time.perf_counter() - start, response


@contextmanager
def probing(port: int, main_port: int) -> Iterator[dict[str, list[float]]]:
    """Makes health checks within the block, and then fills the dictionary with their seconds."""
    context, seconds = get_context("spawn"), dict[str, list[float]]()
    parent_end, child_end = context.Pipe()
    process = context.Process(target=probe, args=(port, main_port, child_end))
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
def serving_for(attack: str) -> Iterator[tuple[psutil.Process, int, int, float]]:
    """Yields the first process of a service for an attack, its port, the port of its health checks,
    and the seconds until it was ready."""
    with socket.create_server((LOOPBACK, 0)) as free:
        health_port = free.getsockname()[1]
    flags = ("--health-port", str(health_port), *FLAGS.get(attack, ()))
    with tempfile.TemporaryDirectory() as folder:
        prefix: tuple[str, ...] = ()
        if attack == "full_disk":
            command = f'export TMPDIR="{folder}"; {FULL_DISK}'
            prefix = ("unshare", "-m", "sh", "-c", command, "sh")
        stderr = subprocess.PIPE if attack == "unread_log" else None
        start = time.monotonic()
        with serving(*flags, prefix=prefix, cache=folder, stderr=stderr) as (process, port):
            seconds = time.monotonic() - start
            wait_until_ready(health_port, process)
            yield psutil.Process(process.pid), port, health_port, seconds


def measure(
    attack: Attack, service: tuple[psutil.Process, int, int], seconds: float, n: int
) -> dict[str, Any]:
    """Attacks a service, by its first process and its ports, and returns what was seen."""
    process, port, health_port = service
    load = os.getloadavg()[0]
    with probing(health_port, port) as latencies, watching_memory(process) as memory:
        start = time.monotonic()
        seen = attack(port, seconds, n)
        duration = time.monotonic() - start
    assert flood(port, [request("/v1/calculate", expression="1+1")], 1, 0.1)["200"]
    others = {text: np.array(latencies.pop(text)) for text in OTHERS}
    return {
        "seconds": round(duration, 1),
        "load_average": round(load, 1),
        "seen": dict(sorted(seen.items())),
        "peak_mib": round(max(memory), 1),
        "other_client": {text: _summary(of_text) for text, of_text in others.items()},
        "health_ms": {path: percentiles(values) for path, values in latencies.items()},
    }


def _summary(seconds: NDArray[np.float64]) -> dict[str, Any]:
    """Returns how many requests were refused (NaN), and how long the others took."""
    refused = np.isnan(seconds)
    return {
        "refused": int(refused.sum()),
        "ms": None if refused.all() else percentiles(seconds[~refused]),
    }


def percentiles(seconds: Sequence[float] | NDArray[np.float64]) -> dict[str, Any]:
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
        with serving_for(name) as (process, port, health_port, start_seconds):
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
