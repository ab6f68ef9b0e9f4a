"""HTTP byte by byte, for tests of what a well-behaved client would not do."""

from __future__ import annotations

import json
import socket
from http.client import HTTPResponse
from typing import Any

import httpx2 as httpx
from serving import Server


def address(running: Server) -> tuple[str, int]:
    """Its host and port."""
    host, port = running.address.removeprefix("http://").split(":")
    return host, int(port)


def connect(running: Server) -> socket.socket:
    """A connection of its own."""
    return socket.create_connection(address(running), timeout=60)


def head(path: str, *headers: str, method: str = "POST") -> bytes:
    """The head of a request for JSON."""
    lines = [f"{method} {path} HTTP/1.1", "Host: test", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def request(path: str, body: Any) -> bytes:
    """A whole request; the body is bytes, or what is to be JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(path, f"Content-Length: {len(content)}") + content


def answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a response; raises where it is not complete."""
    response = HTTPResponse(connection)
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return response.status, headers, response.read()


def refusal(connection: socket.socket, status: int, kind: str) -> dict[str, str]:
    """The headers of a response that must be this problem."""
    answered, headers, body = answer(connection)
    document = json.loads(body)
    assert (answered, document["type"]) == (status, f"urn:calcgpt:problem:{kind}")
    assert headers["content-type"] == "application/problem+json"
    return headers


def ask(running: Server, expression: str = "12.5+3") -> dict[str, Any]:
    """What is answered to an expression, which there must be room for."""
    body = {"expression": expression}
    response = httpx.post(f"{running.address}/v1/calculate", json=body, timeout=60)
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


def metric(running: Server, name: str) -> float:
    """The sum of a metric over its labels, or the value of one with labels."""
    with connect(running) as connection:
        connection.sendall(head("/metrics", method="GET"))
        lines = answer(connection)[2].decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
