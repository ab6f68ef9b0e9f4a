"""A long run of the service under mixed traffic, while things go wrong.

    python -m tools.soak --minutes 30 --json docs/results/soak.json

Clients calculate, stream, send batches, send nonsense, and hang up. Others read long streams a
little at a time. Another address attacks the service all the time, with each of
`tools.attack_kinds` in turns. Meanwhile the checkpoint on disk is replaced, and workers are killed.
Once a minute, the benchmark measures answers and their latency, and the memory and open files of
the service. An answer is lost if a request gets no response, unless its client hung up or a worker
was killed while it waited. The command ends with exit code 1 if an answer is lost or wrong, if
something grows, or if a worker needs more memory than docs/DEPLOY.md says.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
import torch

from api.app import prepare
from api.settings import Settings
from benchmarks.measure import environment
from calcgpt.base.files import write_json
from calcgpt.registry import resolve
from tools.soak_clients import TIMEOUT, Client, SlowReader, Tally, attack

CLIENTS = 8
SLOW_READERS = 3
WORKERS = 2
START_SECONDS = 60.0
DISTURBANCE_SECONDS = 45.0  # between two
GROWTH = 1.25  # more than that, from the second quarter to the last, is growth
WATCH_SECONDS = 0.2  # between two looks at the memory
MAX_WORKER_MIB = 600.0  # docs/DEPLOY.md


@dataclass
class Minute:
    """What happened in one minute."""

    requests: int
    p50_ms: float
    p99_ms: float
    memory_mib: float
    worker_mib: float  # of the process with the most, as seen every WATCH_SECONDS
    open_files: int
    processes: int


@contextmanager
def serving(
    *flags: str, prefix: Sequence[str] = (), cache: str | None = None, stderr: int | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yields the first process of a service that is ready, and its port. `prefix` is a command that
    runs the service; `cache` is the folder of its cache, if not the usual one."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*prefix, sys.executable, "-m", "calcgpt", "serve", "--port", str(port)]
    command += ["--no-others", "--log-level", "error", *flags]
    variables = {**os.environ, **({"CALCGPT_CACHE": cache} if cache else {})}
    with subprocess.Popen(  # nosec B603  # this Python
        command, stderr=stderr, env=variables
    ) as process:
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


def memory(parent: psutil.Process) -> list[float]:
    """Returns the memory of each process of the service, in MiB."""
    used = []
    for process in [parent, *parent.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            used.append(process.memory_info().rss / 2**20)
    return used


def measure(parent: psutil.Process, tally: Tally, largest_mib: float) -> Minute:
    """Returns the measurements of the minute that ends, and begins the next one."""
    files = 0
    for process in [parent, *parent.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            files += process.num_fds()
    with tally.lock:
        latencies, tally.latencies = tally.latencies, []
    p50, p99 = np.percentile(latencies, [50, 99]) * 1000 if latencies else (0.0, 0.0)
    used = memory(parent)
    return Minute(
        requests=len(latencies),
        p50_ms=round(float(p50), 1),
        p99_ms=round(float(p99), 1),
        memory_mib=round(sum(used), 1),
        worker_mib=round(largest_mib, 1),
        open_files=files,
        processes=len(used),
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
        start, flags = time.monotonic(), ("--workers", str(WORKERS), "--checkpoint", str(folder))
        with serving(*flags, cache=str(Path(scratch) / "cache")) as (process, port):
            start_seconds = time.monotonic() - start
            parent = psutil.Process(process.pid)
            tally, ended = Tally(time.monotonic()), threading.Event()
            clients = [Client(port, seed, tally, ended) for seed in range(CLIENTS)]
            clients += [SlowReader(port, seed, tally, ended) for seed in range(SLOW_READERS)]
            threads = [threading.Thread(target=client.run) for client in clients]
            threads.append(threading.Thread(target=attack, args=(port, tally, ended)))
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
        "attacks": dict(tally.attacks),
        "cut_by_clients": tally.cut,
        "workers_killed": len(tally.kills),
        "broken_by_kill": tally.broken_by_kill,
        "checkpoints_replaced": tally.replaced,
        "lost": tally.lost,
        "wrong": tally.wrong,
        "growth": growth(minutes),
        "worker_mib": max(minute.worker_mib for minute in minutes),
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
    n_disturbed, largest_mib = 0, 0.0
    while (passed := time.monotonic() - tally.started) < seconds:
        if passed >= (n_disturbed + 1) * min(DISTURBANCE_SECONDS, interval):
            disturb(parent, folder, source, tally, n_disturbed)
            n_disturbed += 1
        largest_mib = max(largest_mib, *memory(parent))
        if passed >= (len(minutes) + 1) * interval:
            minutes.append(measure(parent, tally, largest_mib))
            largest_mib = 0.0
            click.echo(f"{passed / 60:5.1f} min  {minutes[-1]}", err=True)
        time.sleep(WATCH_SECONDS)
    minutes.append(measure(parent, tally, largest_mib))
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
    prepare(Settings(log_level="error"))  # more open files, for the attacks
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
    if report["worker_mib"] > MAX_WORKER_MIB:
        grown["worker_mib"] = report["worker_mib"]
    if report["lost"] or report["wrong"] or grown:
        raise click.ClickException(f"lost, wrong or grown: {grown or 'see above'}")


if __name__ == "__main__":
    main()
