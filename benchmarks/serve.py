"""The service under load: problems answered per second, and the latency of an answer.

    python -m benchmarks.serve [--seconds S] [--clients N] [--checkpoint NAME ...] [--workers N]
                               [--json FILE]

Clients in this process send requests over loopback; each sends its next problem when it has the
answer to its last. The servers are `calcgpt serve`, two FastAPI endpoints
(benchmarks/serve_peer.py), of which one answers a constant and the other calls the calculator as
FastAPI calls functions, and LitServe, where it is installed. Each server has processes of its own.
They take turns, with all clients and then with one client, and the medians of the rounds are
compared. The servers share the CPU with the clients, whose part of it is in the results. What is
left of an earlier `calcgpt prove` is used, as always.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import torch

from benchmarks.load import LOOPBACK, Load, put, request
from benchmarks.measure import environment, parser, run, write
from calcgpt.registry import resolve
from calcgpt_lab.tables import text_table
from datagen.distributions import distribution
from datagen.notation import number_text
from datagen.operations import DIVISION
from datagen.sampling import bit_generator

SERVICE = "calcgpt serve"
PEERS = {
    "FastAPI, a constant": ("benchmarks.serve_peer", "constant"),
    "FastAPI, the function": ("benchmarks.serve_peer", "function"),
    "LitServe": ("benchmarks.serve_litserve",),
}
PROBLEMS = 200_000
START_SECONDS = 120.0  # time for a process to load its model
END_SECONDS = 10.0  # time for a process to end
WARM_UP_SECONDS = 5.0
COLUMNS = {
    "requests/s": ("together", "requests_per_second"),
    "p50 ms": ("together", "p50_ms"),
    "p99 ms": ("together", "p99_ms"),
    "max ms": ("together", "max_ms"),
    "errors": ("together", "errors"),
    "CPU us": ("together", "server_cpu_us"),
    "alone: p50": ("alone", "p50_ms"),
    "p99": ("alone", "p99_ms"),
}

Results = dict[str, Any]


def problems() -> list[str]:
    """Returns problems of the blog's distribution as expressions, such as `12.5*3`."""
    drawn = [
        problem
        for block in distribution("blog")(bit_generator(0, 0, 0), PROBLEMS)
        for problem in block.to_problems()
    ]
    return [
        f"{number_text(problem.a)}{problem.op}{number_text(problem.b)}"
        for problem in drawn
        if problem.op != DIVISION or problem.b.units
    ]


@contextmanager
def running(command: Sequence[object], ready: str, n_ready: int = 1) -> Iterator[tuple[int, int]]:
    """Runs a server as a process and yields its port and the process id.

    The server is ready when `ready` is in its log `n_ready` times.
    """
    with (
        NamedTemporaryFile() as log,
        subprocess.Popen(  # nosec B603  # this Python
            [sys.executable, *map(str, command)], stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            deadline = time.monotonic() + START_SECONDS
            while (text := Path(log.name).read_text("utf-8")).count(ready) < n_ready:
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{command} does not serve:\n{text}")
                time.sleep(0.05)
            match = re.search(rf"http://{re.escape(LOOPBACK)}:(\d+)", text)
            assert match
            yield int(match[1]), process.pid
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:  # a peer waits for all that it still generates
                process.kill()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a peer leaves its workers behind


@dataclass
class Contestant:
    """A server of the comparison, and its results."""

    port: int
    pid: int
    about: Results  # its settings
    answers: dict[int, str | None] = field(default_factory=dict)  # by index of the problem
    rounds: list[Results] = field(default_factory=list)
    alone: list[Results] = field(default_factory=list)  # rounds of one client

    def turn(
        self, requests: Sequence[bytes], clients: int, seconds: float, first: int = 0
    ) -> Results:
        """Puts one load on the server and returns its measurements. `first` is the index of the
        first request."""
        cpu = server_seconds(self.pid)
        load = put(self.port, requests, clients, seconds, first)
        cpu = server_seconds(self.pid) - cpu
        errors, verified = self._check(load)
        milliseconds = 1000 * np.array(load.latencies or [np.nan])
        return {
            "requests": len(load.latencies),
            "errors": errors,
            "verified": verified,
            "requests_per_second": round(len(load.latencies) / load.seconds, 1),
            **{f"p{p}_ms": round(float(np.percentile(milliseconds, p)), 2) for p in (50, 90, 99)},
            "max_ms": round(float(milliseconds.max()), 2),
            "clients_cpu": round(load.cpu_seconds / load.seconds, 3),  # of one core
            "server_cpu_us": round(1e6 * cpu / max(1, len(load.latencies)), 1),  # of an answer
        }

    def _check(self, load: Load) -> tuple[int, int]:
        """Returns the number of failed requests and of verified answers."""
        errors, verified = len(load.errors), 0
        for index, status, body in load.answers:
            answer = json.loads(body) if status == 200 else {}
            if "result" not in answer:
                errors += 1
                continue
            self.answers[index] = answer["result"]
            verified += answer.get("verified", False)
        return errors, verified

    def summary(self, first: Contestant) -> Results:
        """Returns the rounds, their medians, sums and maxima, and a comparison with `first`."""
        together, reference = overall(self.rounds), overall(first.rounds)
        shared = self.answers.keys() & first.answers.keys()
        return {
            **self.about,
            "ratio": round(reference["requests_per_second"] / together["requests_per_second"], 2),
            "problems_shared": len(shared),
            "answered_alike": sum(self.answers[n] == first.answers[n] for n in shared),
            "together": together,
            "alone": overall(self.alone),
            "rounds": self.rounds,
            "rounds_alone": self.alone,
        }


def server_seconds(pid: int) -> float:
    """Returns the CPU time of a process and its children, if the system has files that tell."""
    seconds = 0.0
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
        for process in (str(pid), *children):
            fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def overall(rounds: Sequence[Results]) -> Results:
    """Returns the measurements of all rounds together."""
    functions: dict[str, Callable[[list[float]], float]] = {
        **dict.fromkeys(("requests", "errors", "verified"), sum),
        "max_ms": max,
    }
    return {
        name: round(functions.get(name, median)([results[name] for results in rounds]), 3)
        for name in rounds[0]
    }


def get(port: int, path: str) -> str:
    """Returns the body of a response."""
    connection = HTTPConnection(LOOPBACK, port, timeout=START_SECONDS)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def enter(stack: ExitStack, folder: Path, options: Namespace) -> dict[str, Contestant]:
    """Starts all servers and returns them by name."""
    contestants = {}
    for n_worker in sorted({1, options.workers}):
        flags = ["--port", 0, "--checkpoint", folder, "--no-others", "--workers", n_worker]
        command = ["-m", "calcgpt", "serve", *flags]  # CALCGPT_... variables may set others
        ready = " answers on " if n_worker == 1 else " is ready: "
        start = time.perf_counter()
        port, pid = stack.enter_context(running(command, ready, n_worker))
        about = {
            "engine": json.loads(get(port, "/v1/models"))["data"][0]["engine"],
            "ready_seconds": round(time.perf_counter() - start, 1),
            "workers": n_worker,
        }
        name = SERVICE if n_worker == 1 else f"{SERVICE}, {n_worker} workers"
        contestants[name] = Contestant(port, pid, about)
    for name, (module, *words) in PEERS.items():
        if name == "LitServe" and not find_spec("litserve"):
            continue
        command = ["-m", module, folder, *words]
        port, pid = stack.enter_context(running(command, "running on "))
        contestants[name] = Contestant(port, pid, {})
    return contestants


def compare(folder: Path, requests: Sequence[bytes], options: Namespace) -> Results:
    """Returns the measurements of all servers with one checkpoint."""
    with ExitStack() as stack:
        contestants = enter(stack, folder, options)
        for contestant in contestants.values():
            put(contestant.port, requests, options.clients, WARM_UP_SECONDS)
        # Each round has problems of its own: a service remembers parts of those that it answered.
        n_load = 2 * options.runs + 1
        indices = iter(range(0, len(requests), len(requests) // n_load))
        next(indices)  # the first ones are asked to warm up
        for _ in range(options.runs):
            together, alone = next(indices), next(indices)
            for contestant in contestants.values():
                seconds = options.seconds / options.runs
                contestant.rounds.append(
                    contestant.turn(requests, options.clients, seconds, together)
                )
                contestant.alone.append(contestant.turn(requests, 1, options.alone, alone))
    first = contestants[SERVICE]
    return {name: contestant.summary(first) for name, contestant in contestants.items()}


def show(title: str, results: Results) -> None:
    """Prints the table of a checkpoint."""
    rows = []
    for name, measured in results.items():
        values = [measured[part].get(key) for part, key in COLUMNS.values()]
        rows.append([name, *(None if value is None else f"{value:,}" for value in values)])
    print(text_table([f"{title}:", *COLUMNS], rows))
    for name, measured in results.items():
        print(f"  {SERVICE} / {name}: {measured['ratio']}")


def main() -> None:
    """Runs the benchmark and prints its tables."""
    options = parser("Measure the service under load.", runs=3)
    options.add_argument("--seconds", type=float, default=30.0, help="total load on each server")
    options.add_argument(
        "--alone", type=float, default=3.0, help="seconds of load by one client, per round"
    )
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--checkpoint", nargs="+", default=["calculator"])
    options.add_argument("--workers", type=int, default=1, help="above 1: test these too")
    arguments = options.parse_args()
    requests = [request("/v1/calculate", expression=text) for text in problems()]
    results = {
        "environment": environment(torch.device("cpu"), "fastapi", "uvicorn", "uvloop"),
        **{name: getattr(arguments, name) for name in ("runs", "seconds", "alone", "clients")},
    }
    n_errors = 0
    for name in arguments.checkpoint:
        folder = resolve(name)
        compared = compare(folder, requests, arguments)
        show(f"checkpoint {folder.name}", compared)
        results[f"checkpoint {folder.name}"] = compared
        for measured in compared.values():
            n_errors += measured["together"]["errors"] + measured["alone"]["errors"]
    write(arguments.json, results)
    if n_errors:
        sys.exit(f"{n_errors} requests failed")


if __name__ == "__main__":
    run(main)
