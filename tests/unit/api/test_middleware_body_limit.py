"""Bodies that are too large, too slow or never complete, at the wire of a real server too."""

import asyncio
import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Self

import httpx2 as httpx
import pytest
from asgi import request, run
from hypothesis import example, given
from hypothesis import strategies as st
from serving import in_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from waiting import PATIENCE

from api.app import create_app
from api.middleware import BodyLimit
from api.settings import Settings
from api.slow_clients import SlowClients

LIMIT = 1000
HUGE = 20_000_000


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body, then waits for the disconnect."""
    await Response(await Request(scope, receive).body())(scope, receive, send)
    assert (await receive())["type"] == "http.disconnect"


class Exchange:
    """One request to the middleware in front of `echo`, with what was received and sent."""

    def __init__(self, receive: Callable[[], Awaitable[Message]], announced: bytes | None) -> None:
        self._receive = receive
        self._headers = [] if announced is None else [(b"content-length", announced)]

    def run(self, **options: Any) -> Self:
        guard = BodyLimit(echo, LIMIT, **options)
        self.sent = run(guard, self._receive, method="POST", headers=self._headers)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


def coming(*chunks: bytes, ends: bool = True) -> Callable[[], Awaitable[Message]]:
    """Returns the `receive` of a client that sends these chunks. With `ends`, it then ends the
    body, a single chunk at once, and disconnects. Otherwise it stays silent."""
    goes_on = not ends or len(chunks) > 1
    messages: list[Message] = [
        {"type": "http.request", "body": chunk, "more_body": goes_on} for chunk in chunks
    ]
    if ends and len(chunks) != 1:
        messages.append({"type": "http.request"})

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        if not ends:
            await asyncio.get_running_loop().create_future()
        return {"type": "http.disconnect"}

    return receive


def test_a_body_that_is_given_up_with_its_last_piece_is_not_taken_for_an_empty_one() -> None:
    slow = SlowClients(max_bytes=LIMIT // 2)
    assert Exchange(coming(bytes(LIMIT // 2), b"1"), None).run(slow=slow).status == 503


@pytest.mark.parametrize(
    ("slow", "n_left"), [(SlowClients(limit=3), 3), (SlowClients(max_bytes=5 * LIMIT), 5)]
)
async def test_of_many_slow_bodies_those_that_wait_longest_are_given_up(
    slow: SlowClients, n_left: int
) -> None:
    responses: list[list[Message]] = [[] for _ in range(8)]
    guard = BodyLimit(echo, LIMIT, slow)

    async def ask(sent: list[Message]) -> None:
        async def send(message: Message) -> None:
            sent.append(message)

        await guard(request(method="POST"), coming(bytes(LIMIT), ends=False), send)

    tasks = [asyncio.create_task(ask(sent)) for sent in responses]
    await asyncio.wait(tasks[:-n_left])
    for task in tasks[-n_left:]:
        assert not task.done()
        task.cancel()
    for start, body in responses[:-n_left]:
        assert start["status"] == 503
        assert (b"retry-after", b"1") in start["headers"]
        assert json.loads(body["body"])["type"] == "urn:calcgpt:problem:full"
    assert not any(responses[-n_left:])


async def test_bodies_that_no_longer_wait_take_no_room() -> None:
    given_up: list[bool] = []
    slow = SlowClients(max_bytes=3 * LIMIT, on_given_up=lambda: given_up.append(True))
    for _ in range(5):  # one after the other
        exchange = Exchange(coming(bytes(LIMIT)), None)
        assert (await asyncio.to_thread(exchange.run, slow=slow)).status == 200
    async with slow.waiting.wait("192.0.2.1") as one, slow.waiting.wait("192.0.2.1") as other:
        one.add(bytes(LIMIT))
        other.add(bytes(LIMIT))
    assert not given_up


@example(pieces=[bytes(LIMIT)], announces=False)
@example(pieces=[bytes(LIMIT), b"x"], announces=False)
@given(pieces=st.lists(st.binary(max_size=LIMIT), max_size=5), announces=st.booleans())
def test_a_body_passes_unless_it_is_too_large(pieces: list[bytes], announces: bool) -> None:
    body = b"".join(pieces)
    announced = str(len(body)).encode() if announces else None
    exchange = Exchange(coming(*pieces), announced).run()
    if len(body) <= LIMIT:
        assert (exchange.status, exchange.body) == (200, body)
    else:
        assert exchange.status == 413
        assert json.loads(exchange.body)["type"] == "urn:calcgpt:problem:too-large"


def test_a_body_that_does_not_arrive_is_408() -> None:
    exchange = Exchange(coming(b"x", ends=False), b"5").run(seconds=0.01)
    assert exchange.status == 408
    assert json.loads(exchange.body)["type"] == "urn:calcgpt:problem:too-slow"
    assert (b"connection", b"close") in exchange.sent[0]["headers"]


def test_the_service_waits_for_a_body_until_its_deadline() -> None:
    app = create_app(Settings(deadline=0.01), lambda: iter(()))
    sent = run(app, coming(b"{", ends=False), method="POST", path="/v1/calculate")
    assert sent[0]["status"] == 408
    detail = json.loads(sent[1]["body"])["detail"]
    assert detail == "the body did not arrive within 0.01 s"


def test_a_disconnect_before_the_end_of_the_body_gets_no_response() -> None:
    pieces: list[Message] = [
        {"type": "http.request", "body": b"x", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return pieces.pop(0)

    assert Exchange(receive, b"5").run().sent == []


# --- at the wire ---


async def echo_at_once(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(await Request(scope, receive).body())(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a server that answers with the body behind the guard."""
    with in_thread(BodyLimit(echo_at_once, LIMIT), lifespan="off") as server:
        yield server.servers[0].sockets[0].getsockname()[1]


def pieces() -> Iterator[bytes]:
    for _ in range(HUGE // 2**16):
        yield b"x" * 2**16


def by_http_client_in_chunks(port: int) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/", pieces(), encode_chunked=True)
    response = connection.getresponse()
    return response.status, response.read()


def by_urllib(port: int) -> tuple[int, bytes]:
    """Closes the connection after the answer, and writes all before it reads."""
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(f"http://127.0.0.1:{port}", bytes(HUGE), timeout=PATIENCE)
    return refusal.value.code, refusal.value.read()


@pytest.mark.parametrize("post", [by_http_client_in_chunks, by_urllib])
def test_a_client_with_a_huge_body_can_read_the_refusal(
    port: int, post: Callable[[int], tuple[int, bytes]]
) -> None:
    status, body = post(port)
    assert status == 413
    assert json.loads(body)["type"] == "urn:calcgpt:problem:too-large"


def test_the_next_request_is_answered(port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
        assert client.post("/", content=bytes(HUGE)).status_code == 413
        assert client.post("/", content=b"5").content == b"5"


def test_a_client_that_expects_100_continue_is_refused_at_once(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        client.sendall(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        assert client.recv(100).startswith(b"HTTP/1.1 413 ")
