"""The service for tests: within this process, or in a separate process."""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import uvicorn
from fastapi.testclient import TestClient
from httpx2 import Response
from server_forks import ForkedProcess
from starlette.types import ASGIApp
from waiting import PATIENCE, wait_for

from api.app import create_app
from api.connections import Connection
from api.service import LoadedModel
from api.settings import Settings

JSON = {"content-type": "application/json"}
# The environment of servers: JSON logs, only one model, and time to answer.
DEFAULTS = {
    "CALCGPT_LOG_FORMAT": "json",
    "CALCGPT_OTHERS": "no",
    "CALCGPT_DEADLINE": str(PATIENCE),
}


# A process gives each port once, and no port of another process of xdist.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_PORTS = secrets.SystemRandom().sample(range(20_000 + _WORKER % 16, 32_000, 16), 750)


def free_port() -> int:
    """Returns a port for a program that cannot choose one itself.

    The port is below 32768. The system gives no such port to a program that leaves the choice to
    it, so the port stays free in the meantime.
    """
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", port := _PORTS.pop())):
            return port


@contextmanager
def client_of(*models: LoadedModel, **settings: Any) -> Iterator[TestClient]:
    """Yields a client of the service with these models loaded; the first is the default."""
    app = create_app(Settings(**{"deadline": PATIENCE, **settings}), lambda: iter(models))
    with TestClient(app, raise_server_exceptions=False) as client:
        wait_for(lambda: len(list(app.state.service.models)) == len(models))
        yield client


def ask(client: TestClient, expression: object, **more: object) -> Response:
    """Returns the response to a request for one calculation."""
    return client.post("/v1/calculate", json={"expression": expression, **more})


def batch(client: TestClient, expressions: list[str], **more: object) -> Response:
    """Returns the response to a request for several calculations."""
    return client.post("/v1/calculate/batch", json={"expressions": expressions, **more})


def items_of(response: Response) -> list[Any]:
    """Returns the items of the response to several calculations."""
    assert response.status_code == 200
    items: list[Any] = response.json()["items"]
    return items


def stream(client: TestClient, expression: str, **more: object) -> Response:
    """Returns the response to a request for one calculation, as events."""
    return client.post("/v1/calculate/stream", json={"expression": expression, **more})


def problem(response: Response, status: int, kind: str | None = None) -> dict[str, Any]:
    """Checks that a response is a problem document, and returns it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    assert document["message"] == document["detail"]  # OpenAI's clients show it
    assert document["type"] == (f"urn:calcgpt:problem:{kind}" if kind else document["type"])
    assert "Traceback" not in response.text
    return document


def events_of(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Returns the events of a stream: name and data."""
    events = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in fields:
            events.append((fields["event"], json.loads(fields["data"])))
    return events


@contextmanager
def in_thread(
    app: ASGIApp, run: Callable[[uvicorn.Server], None] = uvicorn.Server.run, **options: Any
) -> Iterator[uvicorn.Server]:
    """Yields a server of an application, in a thread. It closes no connection too early."""
    usual = {"http": Connection, "ws": "none", "timeout_keep_alive": PATIENCE}
    usual |= {"log_config": None, "access_log": False}
    server = uvicorn.Server(uvicorn.Config(app, port=0, **usual | options))
    thread = Thread(target=run, args=(server,))
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive())
        yield server
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


def url_of(server: uvicorn.Server) -> str:
    """Returns the URL of such a server."""
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


class Server:
    """`calcgpt serve` as a process."""

    def __init__(
        self, process: subprocess.Popen[str] | ForkedProcess, address: str, log: Path
    ) -> None:
        self.process = process
        self.address = address
        self._log = log

    @property
    def log(self) -> str:
        """Its stderr so far."""
        return self._log.read_text("utf-8")

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records of its log so far, without a line that is still being written."""
        return [json.loads(line) for line in self.log.splitlines(True) if line.endswith("\n")]


@contextmanager
def server(
    checkpoint: str | Path, *options: str | int, forked: bool = True, **environment: str
) -> Iterator[Server]:
    """Runs `calcgpt serve` on a free port, with its default model loaded. Kills it at the end.

    Unless options say otherwise, it offers only that model. If `forked` is False, the service and
    each of its workers are new Python processes, which take seconds longer.
    """
    command = ["serve", "--port", "0", "--checkpoint", str(checkpoint), *map(str, options)]
    variables = {**os.environ, **DEFAULTS, **environment}
    announced = re.compile(r"(?:answers|starts?) on (http://127\.0\.0\.1:\d+)")
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        process: subprocess.Popen[str] | ForkedProcess
        if forked:
            process = ForkedProcess(command, variables, log)
        else:
            with log.open("w") as stderr:
                process = subprocess.Popen(
                    [sys.executable, "-m", "calcgpt", *command],
                    stderr=stderr,
                    text=True,
                    env=variables,
                )
        try:
            wait_for(
                lambda: (
                    (log.exists() and announced.search(log.read_text()))
                    or process.poll() is not None
                )
            )
            match = announced.search(log.read_text())
            assert match, log.read_text()
            yield Server(process, match[1], log)
        finally:
            process.kill()
            process.wait(PATIENCE)
