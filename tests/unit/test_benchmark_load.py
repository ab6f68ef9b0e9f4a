"""The clients of benchmarks/load.py count the responses that they get."""

from __future__ import annotations

import runpy
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOAD = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "load.py"))
REQUESTS = [LOAD["request"]("/a", n=1), LOAD["request"]("/b", n=2)]
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"


@contextmanager
def serving(answer: Callable[[socket.socket, bytes], bool]) -> Iterator[int]:
    """Yields the port of a server of one connection. `answer` returns whether to continue."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while (request := connection.recv(65_536)) and answer(connection, request):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def put(answer: Callable[[socket.socket, bytes], bool], seconds: float = 0.05) -> Any:
    with serving(answer) as port:
        return LOAD["put"](port, REQUESTS, clients=1, seconds=seconds)


def test_responses_are_separated_in_whatever_pieces_they_arrive() -> None:
    requests = []

    def in_pieces(connection: socket.socket, request: bytes) -> bool:
        requests.append(request)
        for byte in ANSWER + b"\r\n\r\n":
            connection.sendall(bytes([byte]))
        return True

    load = put(in_pieces)
    assert not load.errors
    assert len(load.latencies) == len(load.answers) == len(requests)
    assert requests[0] == REQUESTS[0]
    assert all(request == REQUESTS[n % 2] for n, request in enumerate(requests))
    assert load.answers == [(n % 2, 200, b"\r\n\r\n") for n in range(len(requests))]


def test_the_status_is_recorded() -> None:
    def refuse(connection: socket.socket, request: bytes) -> bool:
        connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length:0\r\n\r\n")
        return True

    load = put(refuse)
    assert {status for _, status, _ in load.answers} == {503}
    assert not load.latencies


def test_a_closed_connection_and_a_response_without_a_length_are_errors() -> None:
    load = put(lambda connection, request: False, seconds=60)
    assert len(load.errors) == 1
    assert not load.answers

    def endless(connection: socket.socket, request: bytes) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        return True

    load = put(endless, seconds=60)
    assert load.errors == ["a response without a content-length"]
    assert not load.answers
