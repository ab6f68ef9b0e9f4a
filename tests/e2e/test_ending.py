"""How the service ends when told to, and goes on when a part of it is killed: real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from threading import Thread
from typing import Any

import pytest
from serving import Server, server, wait_for
from wire import address, answer, ask, connect, metric, refusal, request

# Each continuation by itself, as they are sampled: seconds of work.
LONG = {"prompt": "x", "max_tokens": 255, "temperature": 1}
workers = pytest.mark.parametrize("workers", [1, 2])


def hammer(running: Server, outcomes: list[Any]) -> None:
    """Ask on and on, until no answer begins any more; note what came of each."""
    connection = HTTPConnection(*address(running), timeout=60)
    body = json.dumps({"expression": "12.5+3"})
    while True:
        try:
            connection.request("POST", "/v1/calculate", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
        except OSError:  # refused, or closed instead of an answer
            outcomes.append("gone")
            return
        try:
            json.loads(response.read())
            outcomes.append(response.status)
        except (OSError, HTTPException, ValueError) as error:
            outcomes.append(error)


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port)).close()
    except ConnectionRefusedError:
        return False
    return True


def ready(running: Server) -> list[int]:
    """The workers that were ready so far."""
    return [int(pid) for pid in re.findall(r"worker (\d+) is ready", running.log)]


@workers
def test_under_load_what_was_accepted_is_answered(workers: int) -> None:
    outcomes: list[Any] = []
    with server("steps", "--workers", workers) as running:
        wait_for(lambda: workers in (1, len(ready(running))), 60)
        clients = [Thread(target=hammer, args=(running, outcomes)) for _ in range(32)]
        for client in clients:
            client.start()
        wait_for(lambda: outcomes.count(200) > 64, 60)
        assert set(outcomes) == {200}
        running.process.terminate()
        for client in clients:
            client.join(60)
        assert running.process.wait(60) == 0
        told = Counter(record["status"] for record in running.records if "status" in record)
    assert set(outcomes) == {200, "gone"}
    assert outcomes.count("gone") == len(clients)
    assert told == {200: outcomes.count(200)}  # as many as the service knows of


@workers
def test_what_is_new_is_refused_while_a_stream_goes_to_its_end(workers: int) -> None:
    with server("steps", "--workers", workers) as running, connect(running) as stream:
        stream.sendall(request("/v1/completions", {**LONG, "n": 20, "stream": True}))
        wait_for(lambda: metric(running, "calcgpt_requests_in_flight") == 20, 60)
        running.process.terminate()
        wait_for(lambda: not listens(*address(running)), 60)
        assert "/v1/completions" not in running.log  # it goes on
        status, _, body = answer(stream)
        assert status == 200
        assert body.endswith(b"data: [DONE]\n\n")
        assert running.process.wait(60) == 0


@workers
def test_who_takes_longer_than_the_drain_is_told_so(workers: int) -> None:
    with server("steps", "--workers", workers, "--drain", 1) as running:
        with connect(running) as connection:
            connection.sendall(request("/v1/completions", {**LONG, "n": 100}))
            wait_for(lambda: metric(running, "calcgpt_requests_in_flight") == 100, 60)
            running.process.terminate()
            assert int(refusal(connection, 503, "ending")["retry-after"]) >= 1
        assert running.process.wait(60) == 0
        assert "Traceback" not in running.log


@workers
def test_it_ends_when_told_to_before_it_is_ready(workers: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
    command = ["-m", "calcgpt", "serve", "--port", str(port), "--workers", str(workers)]
    with subprocess.Popen([sys.executable, *command]) as process:
        try:
            wait_for(lambda: listens(host, port), 60)
            process.terminate()
            assert process.wait(30) in (0, -signal.SIGTERM)
        finally:
            process.kill()


def test_a_worker_that_is_killed_is_replaced() -> None:
    with server("steps", "--workers", 2) as running:
        wait_for(lambda: len(ready(running)) == 2, 60)
        os.kill(ready(running)[0], signal.SIGKILL)
        assert all(ask(running)["verified"] for _ in range(10))  # by the other
        wait_for(lambda: len(ready(running)) == 3, 60)
        assert all(ask(running)["verified"] for _ in range(10))
        running.process.terminate()
        assert running.process.wait(60) == 0


def test_workers_end_with_the_process_that_started_them() -> None:
    with server("steps", "--workers", 2) as running:
        wait_for(lambda: len(ready(running)) == 2, 60)
        pids = ready(running)
        try:
            running.process.kill()
            wait_for(lambda: not listens(*address(running)), 60)
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
