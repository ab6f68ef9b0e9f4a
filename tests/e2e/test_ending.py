"""Shutdown of the service, and what happens when one of its processes is killed."""

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
from wire import address, answer, ask, connect, head, metric, refusal, request

# Sampled continuations share no batch, so this is seconds of work. The limits leave time for it
# on a busy machine.
LONG = {"prompt": "x", "max_tokens": 255, "temperature": 1}
PATIENT = ("--deadline", 250, "--drain", 250)
workers = pytest.mark.parametrize("workers", [1, 2])


def hammer(running: Server, outcomes: list[Any]) -> None:
    """Sends requests until the service closes the connection. Adds the outcome of each."""
    connection = HTTPConnection(*address(running), timeout=60)
    body = json.dumps({"expression": "12.5+3"})
    while True:
        try:
            connection.request("POST", "/v1/calculate", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
        except OSError:  # refused, or closed without a response
            outcomes.append("closed")
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
    """Returns the workers that have been ready so far."""
    return [int(pid) for pid in re.findall(r"worker (\d+) is ready", running.log)]


@workers
def test_accepted_requests_are_answered_under_load(workers: int) -> None:
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
        logged = Counter(record["status"] for record in running.records if "status" in record)
    assert set(outcomes) == {200, "closed"}
    assert outcomes.count("closed") == len(clients)
    assert logged == {200: outcomes.count(200)}


@workers
def test_new_connections_are_refused_while_streams_finish(workers: int) -> None:
    body = json.dumps({"prompt": "x", "max_tokens": 5, "stream": True}).encode()
    headers = (f"Content-Length: {len(body)}", "Expect: 100-continue")
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    with (
        server("steps", "--workers", workers, *PATIENT) as running,
        connect(running) as begun,
        connect(running) as accepted,
    ):
        accepted.sendall(head("/v1/completions", *headers))
        assert accepted.recv(len(interim), socket.MSG_WAITALL) == interim
        begun.sendall(request("/v1/completions", {**LONG, "stream": True}))
        assert begun.recv(1, socket.MSG_PEEK)
        running.process.terminate()
        wait_for(lambda: not listens(*address(running)), 60)
        accepted.sendall(body)  # only now: this stream cannot finish before
        for stream in (begun, accepted):
            status, _, content = answer(stream)
            assert status == 200
            assert content.endswith(b"data: [DONE]\n\n")
        assert running.process.wait(60) == 0


@workers
def test_a_request_that_outlasts_the_drain_is_503(workers: int) -> None:
    with server("steps", "--workers", workers, "--drain", 1) as running:
        with connect(running) as connection:
            connection.sendall(request("/v1/completions", {**LONG, "n": 100}))
            wait_for(lambda: metric(running, "calcgpt_requests_in_flight") == 100, 60)
            running.process.terminate()
            assert int(refusal(connection, 503, "ending")["retry-after"]) >= 1
        assert running.process.wait(60) == 0
        assert "Traceback" not in running.log


@workers
def test_a_signal_before_it_is_ready_ends_it(workers: int) -> None:
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


def test_a_killed_worker_is_replaced_and_all_end_with_a_killed_supervisor() -> None:
    with server("steps", "--workers", 2) as running:
        wait_for(lambda: len(ready(running)) == 2, 60)
        killed, *_ = ready(running)
        os.kill(killed, signal.SIGKILL)
        assert all(ask(running)["verified"] for _ in range(10))  # by the other
        wait_for(lambda: len(ready(running)) == 3, 60)
        assert all(ask(running)["verified"] for _ in range(10))
        try:
            running.process.kill()
            wait_for(lambda: not listens(*address(running)), 60)
        finally:
            for pid in ready(running):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
