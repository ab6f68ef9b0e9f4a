"""A long run of the service under mixed traffic, while things go wrong.

    python -m tools.soak --minutes 30 --json docs/results/soak.json

Clients calculate, stream, send batches, send nonsense, and hang up. Others read long streams a
little at a time. Meanwhile the checkpoint on disk is replaced, and workers are killed. Once a
minute, the benchmark measures answers and their latency, and the memory and open files of all
processes of the service. An answer is lost if a request gets no response, unless its client hung
up or a worker was killed while it waited. The command ends with exit code 1 if an answer is lost or
wrong, or if something grows.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
import torch

from benchmarks.measure import environment
from calcgpt.base.files import write_json
from calcgpt.registry import resolve

JSON = {"Content-Type": "application/json"}
CLIENTS = 8
SLOW_READERS = 3
WORKERS = 2
TIMEOUT = 60.0  # seconds for a response
START_SECONDS = 300.0  # for machine code that has to be compiled
DISTURBANCE_SECONDS = 45.0  # between two
GRACE = 10.0  # seconds around the death of a worker in which its connections may break
GROWTH = 1.25  # more than that, from the second quarter to the last, is growth
# The kinds of requests: how many of 100, the path, and the status of the response.
KINDS = {
    "calculate": (78, "/v1/calculate", 200),
    "batch": (8, "/v1/calculate/batch", 200),
    "stream": (8, "/v1/calculate/stream", 200),
    "nonsense": (6, "/v1/calculate", 422),
    "slow": (0, "/v1/calculate/stream", 200),  # of slow readers
}
LONG, LONG_VALUE = "+".join(["7/8"] * 20), "17.5"  # a stream of 150 KB
RECEIVE_BYTES, PIECE, PAUSE = 4_096, 4_096, 0.3  # of a slow reader; seconds between two pieces


@dataclass
class Minute:
    """What happened in one minute."""

    requests: int
    p50_ms: float
    p99_ms: float
    memory_mib: float
    open_files: int
    processes: int


@dataclass
class Tally:
    """What happened so far. Shared by the clients."""

    started: float
    answers: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # by status: 503 under too much load
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    broken_by_kill: int = 0
    cut: int = 0  # connections that a client closed before the response
    kills: list[float] = field(default_factory=list)
    replaced: int = 0
    latencies: list[float] = field(default_factory=list)  # of this minute
    lock: threading.Lock = field(default_factory=threading.Lock)

    def was_killed(self, since: float) -> bool:
        return any(since - GRACE <= kill <= time.monotonic() + 0.1 for kill in self.kills)


class Client:
    """Sends requests, one after the other, until told to end."""

    def __init__(self, port: int, seed: int, tally: Tally, ended: threading.Event) -> None:
        self._port, self._tally, self._ended = port, tally, ended
        self._rng = random.Random(seed)  # nosec B311  # no secret
        self._connection: HTTPConnection | None = None

    def run(self) -> None:
        weights = [weight for weight, _, _ in KINDS.values()]
        while not self._ended.is_set():
            if self._rng.random() < 0.03:
                self._hang_up()
            else:
                self._send(self._rng.choices([*KINDS], weights)[0])

    def _problem(self) -> tuple[str, int | str]:
        a, b = self._rng.randrange(1, 1000), self._rng.randrange(1, 1000)
        sign, value = self._rng.choice([("+", a + b), ("-", a - b), ("*", a * b)])
        return f"{a}{sign}{b}", value

    def _request(self, kind: str) -> tuple[dict[str, Any], Callable[[bytes], bool]]:
        """Returns the body of a request, and whether a response to it is right."""
        if kind == "nonsense":
            text = self._rng.choice(["1+", "x" * 1000, "1/0", "(" * 300, "1,5,2"])
            return {"expression": text}, lambda content: b"urn:calcgpt" in content
        if kind == "batch":
            texts, values = zip(*(self._problem() for _ in range(8)), strict=True)
            return {"expressions": texts}, lambda content: all(
                _is_right(item["calculation"], value)
                for item, value in zip(json.loads(content)["items"], values, strict=True)
            )
        text, value = (LONG, LONG_VALUE) if kind == "slow" else self._problem()
        # A stream ends with the data of the event `result`. Elsewhere, they are the whole response.
        return {"expression": text}, lambda content: _is_right(
            json.loads(content.rpartition(b"event: result\ndata: ")[2]), value
        )

    def _hang_up(self) -> None:
        """Sends a request, half of the times a part of it, and closes the connection before the
        response."""
        body = json.dumps({"expression": self._problem()[0]}).encode()
        lines = ("POST /v1/calculate HTTP/1.1", "Host: localhost", "Content-Type: application/json")
        text = "\r\n".join((*lines, f"Content-Length: {len(body)}", "", "")).encode() + body
        cut = len(text) if self._rng.random() < 0.5 else self._rng.randrange(len(text))
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT) as connection,
        ):
            connection.sendall(text[:cut])
        with self._tally.lock:
            self._tally.cut += 1

    def _send(self, kind: str) -> None:
        _, path, expected = KINDS[kind]
        body, is_right = self._request(kind)
        tally, start = self._tally, time.monotonic()
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.request("POST", path, json.dumps(body), JSON)
            response = self._connection.getresponse()
            status, content = response.status, self._read(response)
        except (OSError, HTTPException) as error:
            if self._connection:
                self._connection.close()
            self._connection = None
            with tally.lock:
                if tally.was_killed(start):
                    tally.broken_by_kill += 1
                else:
                    tally.lost.append(f"{kind}: {error!r}")
            return
        with tally.lock:
            if status in (429, 503):
                tally.refused[str(status)] += 1
            elif status != expected or not is_right(content):
                tally.wrong.append(f"{kind} {json.dumps(body)}: {status} {content[:300]!r}")
            else:
                tally.answers[kind] += 1
                if kind != "slow":
                    tally.latencies.append(time.monotonic() - start)

    def _connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)

    def _read(self, response: HTTPResponse) -> bytes:
        return response.read()


class SlowReader(Client):
    """Asks for long streams, and reads them a little at a time."""

    def run(self) -> None:
        while not self._ended.is_set():
            self._send("slow")
            self._connection = None  # which the service closes while the client still reads

    def _connect(self) -> HTTPConnection:
        connection = super()._connect()
        connection.sock = socket.socket()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        connection.sock.settimeout(TIMEOUT)
        connection.sock.connect((connection.host, connection.port))
        return connection

    def _read(self, response: HTTPResponse) -> bytes:
        content = b""
        while piece := response.read(PIECE):
            content += piece
            self._ended.wait(PAUSE)
        return content


def _is_right(calculation: dict[str, Any], value: int | str) -> bool:
    """Returns whether the model's answer is this value, and the service says so."""
    answers = (calculation["result"], calculation["exact"])
    return answers == (str(value), str(value)) and calculation["verified"]


@contextmanager
def serving(
    *flags: str, prefix: Sequence[str] = (), stderr: int | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yields the first process of a service that is ready, and its port. `prefix` is a command that
    runs the service."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*prefix, sys.executable, "-m", "calcgpt", "serve", "--port", str(port)]
    command += ["--no-others", "--log-level", "error", *flags]
    with subprocess.Popen(command, stderr=stderr) as process:  # nosec B603  # this Python
        try:
            wait_until_ready(port, process)
            yield process, port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT)


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        with suppress(OSError, HTTPException):
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        connection.close()
        time.sleep(0.2)
    raise click.ClickException("the service did not start")


def _workers(parent: psutil.Process) -> list[psutil.Process]:
    """Returns the worker processes: those whose command line is that of multiprocessing's spawn."""
    return [p for p in parent.children() if any("spawn_main" in word for word in p.cmdline())]


def disturb(parent: psutil.Process, folder: Path, source: Path, tally: Tally, n: int) -> None:
    """Kills a worker, or replaces the checkpoint under the service, in turns."""
    if n % 2:
        spare = folder.with_name("spare")
        shutil.copytree(source, spare)
        old = folder.with_name("old")
        folder.rename(old)
        spare.rename(folder)
        shutil.rmtree(old)
        tally.replaced += 1
        return
    workers = _workers(parent)
    if len(workers) == WORKERS:
        victim = workers[n // 2 % WORKERS]
        with tally.lock:
            tally.kills.append(time.monotonic())
        victim.kill()


def measure(parent: psutil.Process, tally: Tally) -> Minute:
    """Returns the measurements of the minute that ends, and begins the next one."""
    processes = [parent, *parent.children(recursive=True)]
    memory = files = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            memory += process.memory_info().rss
            files += process.num_fds()
    with tally.lock:
        latencies, tally.latencies = tally.latencies, []
    p50, p99 = np.percentile(latencies, [50, 99]) * 1000 if latencies else (0.0, 0.0)
    return Minute(
        requests=len(latencies),
        p50_ms=round(float(p50), 1),
        p99_ms=round(float(p99), 1),
        memory_mib=round(memory / 2**20, 1),
        open_files=files,
        processes=len(processes),
    )


def growth(minutes: list[Minute]) -> dict[str, float]:
    """Returns the median of the last quarter as a ratio to that of the second quarter, in which
    all caches are full."""
    n = max(1, len(minutes) // 4)
    early, late = minutes[n : 2 * n], minutes[-n:]
    names = ("memory_mib", "open_files", "p99_ms")
    medians = {
        name: [float(np.median([getattr(m, name) for m in part])) for part in (early, late)]
        for name in names
    }
    return {name: round(late / max(early, 1e-9), 3) for name, (early, late) in medians.items()}


def soak(seconds: float, checkpoint: str, interval: float = 60.0) -> dict[str, Any]:
    """Puts load on a service and returns the report. Measures every `interval` seconds."""
    source = resolve(checkpoint)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / source.name
        shutil.copytree(source, folder)
        start = time.monotonic()
        with serving("--workers", str(WORKERS), "--checkpoint", str(folder)) as (process, port):
            start_seconds = time.monotonic() - start
            parent = psutil.Process(process.pid)
            tally, ended = Tally(time.monotonic()), threading.Event()
            clients = [Client(port, seed, tally, ended) for seed in range(CLIENTS)]
            clients += [SlowReader(port, seed, tally, ended) for seed in range(SLOW_READERS)]
            threads = [threading.Thread(target=client.run) for client in clients]
            for thread in threads:
                thread.start()
            try:
                minutes = _watch(parent, folder, source, tally, seconds, interval)
            finally:
                ended.set()
                for thread in threads:
                    thread.join()
    return {
        "seconds": round(seconds),
        "clients": CLIENTS,
        "slow_readers": SLOW_READERS,
        "workers": WORKERS,
        "checkpoint": source.name,
        "start_seconds": round(start_seconds, 1),
        "answers": dict(tally.answers),
        "refused": dict(tally.refused),
        "cut_by_clients": tally.cut,
        "workers_killed": len(tally.kills),
        "broken_by_kill": tally.broken_by_kill,
        "checkpoints_replaced": tally.replaced,
        "lost": tally.lost,
        "wrong": tally.wrong,
        "growth": growth(minutes),
        "minutes": [asdict(minute) for minute in minutes],
    }


def _watch(
    parent: psutil.Process,
    folder: Path,
    source: Path,
    tally: Tally,
    seconds: float,
    interval: float,
) -> list[Minute]:
    """Disturbs and measures until the time is over."""
    minutes: list[Minute] = []
    n_disturbed = 0
    while (passed := time.monotonic() - tally.started) < seconds:
        if passed >= (n_disturbed + 1) * min(DISTURBANCE_SECONDS, interval):
            disturb(parent, folder, source, tally, n_disturbed)
            n_disturbed += 1
        if passed >= (len(minutes) + 1) * interval:
            minutes.append(measure(parent, tally))
            click.echo(f"{passed / 60:5.1f} min  {minutes[-1]}", err=True)
        time.sleep(0.2)
    minutes.append(measure(parent, tally))
    return minutes


@click.command()
@click.option(
    "--minutes",
    default=30.0,
    type=click.FloatRange(min=4),
    help="How long the traffic lasts. Quarters of it are compared.",
)
@click.option("--checkpoint", default="best", help="The checkpoint to serve.")
@click.option(
    "--json", "out", type=click.Path(path_type=Path), help="Write the report to this file."
)
def main(minutes: float, checkpoint: str, out: Path | None) -> None:
    """Put mixed traffic on the service for a long time, and watch what it needs."""
    load = os.getloadavg()
    report = {
        **soak(minutes * 60, checkpoint),
        **environment(torch.device("cpu"), "uvicorn", "fastapi"),
    }
    report["load_average"] = {"before": list(load), "after": list(os.getloadavg())}
    if out:
        write_json(out, report)
    summary = {key: value for key, value in report.items() if key != "minutes"}
    click.echo(json.dumps(summary, indent=1))
    grown = {n: r for n, r in report["growth"].items() if n != "p99_ms" and r > GROWTH}
    if report["lost"] or report["wrong"] or grown:
        raise click.ClickException(f"lost, wrong or grown: {grown or 'see above'}")


if __name__ == "__main__":
    main()
