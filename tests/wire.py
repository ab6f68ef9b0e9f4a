"""HTTP byte by byte, for requests that no ordinary client would send."""

import json
import re
import socket
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, Self

from serving import Server
from waiting import PATIENCE


def address(running: Server) -> tuple[str, int]:
    """Returns the host and port of a server."""
    host, port = running.address.removeprefix("http://").split(":")
    return host, int(port)


def connect(running: Server, receive_buffer: int | None = None) -> socket.socket:
    """Returns a new connection. Its timeout leaves time for a busy machine. `receive_buffer` is
    how many bytes the system keeps for it, about."""
    if receive_buffer is None:
        return socket.create_connection(address(running), timeout=PATIENCE)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(PATIENCE)
    connection.connect(address(running))
    return connection


def head(path: str, *headers: str, method: str = "POST") -> bytes:
    """Returns the head of a request with JSON."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def request(path: str, body: Any) -> bytes:
    """Returns a whole request; `body` is bytes or a JSON value."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(path, f"Content-Length: {len(content)}") + content


def answer(connection: "socket.socket | Pipeline") -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and body of a response. Raises if it is incomplete."""
    response = HTTPResponse(connection)  # type: ignore[arg-type]
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return response.status, headers, response.read()


class Pipeline:
    """A connection on which requests do not wait for responses: `answer` reads them in order."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")

    def makefile(self, mode: str) -> Self:
        return self  # HTTPResponse reads more than its own bytes into the buffer of the file

    def close(self) -> None:
        """Does nothing: HTTPResponse closes the file at the end of each response."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def refusal(connection: "socket.socket | Pipeline", status: int, kind: str) -> dict[str, str]:
    """Checks that the response is this problem, and returns its headers."""
    actual, headers, body = answer(connection)
    document = json.loads(body)
    assert (actual, document["type"]) == (status, f"urn:calcgpt:problem:{kind}")
    assert headers["content-type"] == "application/problem+json"
    return headers


def ask(running: Server, expression: str = "12.5+3") -> dict[str, Any]:
    """Calculates an expression and returns the response, which must be 200."""
    with connect(running) as connection:
        connection.sendall(request("/v1/calculate", {"expression": expression}))
        status, _, content = answer(connection)
    assert status == 200, content
    result: dict[str, Any] = json.loads(content)
    return result


def metric(running: Server, name: str) -> float:
    """Returns a metric: the sum over its labels, or the value for the labels in `name`."""
    with connect(running) as connection:
        connection.sendall(head("/metrics", method="GET"))
        lines = answer(connection)[2].decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def memory(running: Server) -> int:
    """Returns the resident memory of the process, in bytes."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match
    return int(match[1]) * 1024
