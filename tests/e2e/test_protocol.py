"""The service refuses what is not HTTP, and limits the data that it keeps of a connection: a real
process of the service, over raw sockets on loopback."""

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest
import uvicorn
from serving import Server, events_of, in_thread, server
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from waiting import PATIENCE, wait_for
from wire import Pipeline, answer, connect, head, memory, metric, refusal

from api.app import create_app
from api.connections import LocalConnection
from api.middleware import RequestLog
from api.settings import Settings
from api.slow_clients import SlowClients
from api.telemetry import Metrics

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MIB = 1 << 20
CHUNKED = head("/v1/calculate", "Transfer-Encoding: chunked")
HEALTH = head("/healthz", method="GET")


@pytest.fixture(scope="module")
def running(tiny_folder: Path) -> Iterator[Server]:
    """A server that requires a key: none of the attacks has one."""
    with server(tiny_folder, CALCGPT_API_KEYS="open-sesame") as running:
        yield running


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # TLS
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/calculate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        CHUNKED + b"xyz\r\n",
        CHUNKED + b"1\r\n1\r\n" * 2_000,
        head("/v1/calculate", "Transfer-Encoding: gzip, chunked"),
        head("/healthz", *["a: b"] * 40_000, method="GET"),
        head("/healthz", "a: " + "b" * 16_384, method="GET"),
        CHUNKED + b"1\r\n1\r\n0\r\n" + b"a: b\r\n" * 40_000,
    ],
    ids=lambda value: value[-30:],
)
def test_what_is_not_http_is_refused_and_closed(running: Server, garbage: bytes) -> None:
    with connect(running) as connection:
        connection.sendall(HEALTH)
        assert answer(connection)[0] == 200
        with suppress(OSError):  # it is closed while more comes
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            rest = connection.makefile("rb").read()
            assert rest.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 "))
            assert rest.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "smuggled",
    [
        head("/v1/calculate", "Content-Length: 5", "Transfer-Encoding: chunked"),
        b"CONNECT test HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_two_servers_could_read_differently_ends_the_connection(
    running: Server, smuggled: bytes
) -> None:
    with connect(running) as connection:
        connection.sendall(smuggled + b"0\r\n\r\n" + HEALTH)
        connection.shutdown(socket.SHUT_WR)
        content = b""
        with suppress(ConnectionError):
            content = connection.makefile("rb").read()
        assert b"HTTP/1.1 200" not in content


def test_http_1_0_needs_no_host_and_an_upgrade_is_not_mentioned(running: Server) -> None:
    with connect(running) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert answer(connection)[0] == 200
    with connect(running) as connection:
        upgrade = ("Connection: Upgrade", "Upgrade: websocket")
        connection.sendall(head("/healthz", *upgrade, method="GET"))
        assert answer(connection)[0] == 200
    assert "upgrade" not in running.log.lower()


def test_http_1_0_has_no_chunks(running: Server) -> None:
    with connect(running) as connection:
        connection.sendall(CHUNKED.replace(b"1.1", b"1.0") + b"0\r\n\r\n" + HEALTH)
        content = connection.makefile("rb").read()
        assert content.startswith(b"HTTP/1.1 400 ")
        assert content.count(b"HTTP/1.1") == 1


UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
KEY = "Authorization: Bearer open-sesame"


@pytest.mark.parametrize("in_chunks", [False, True])
def test_a_request_that_offers_an_upgrade_keeps_its_body(running: Server, in_chunks: bool) -> None:
    """As the HttpClient of Java sends it."""
    body = b'{"expression": "1+1"}'
    framing = "Transfer-Encoding: chunked" if in_chunks else f"Content-Length: {len(body)}"
    if in_chunks:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    with connect(running) as connection:
        connection.sendall(head("/v1/calculate", *UPGRADE, KEY, framing) + body + HEALTH)
        responses = Pipeline(connection)
        status, _, content = answer(responses)
        assert (status, json.loads(content)["exact"]) == (200, "2")
        assert answer(responses)[0] == 200  # the request that follows
        connection.shutdown(socket.SHUT_WR)
        assert responses.read() == b""


def test_the_body_of_an_offered_upgrade_is_no_request(running: Server) -> None:
    with connect(running) as connection:
        framing = (f"Content-Length: {len(HEALTH)}", "Expect: 100-continue")
        connection.sendall(head("/v1/calculate", *UPGRADE, KEY, *framing))
        interim = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert connection.recv(len(interim), socket.MSG_WAITALL) == interim
        connection.sendall(HEALTH)
        responses = Pipeline(connection)
        refusal(responses, 400, "invalid-json")
        connection.shutdown(socket.SHUT_WR)
        assert responses.read() == b""


def test_requests_after_an_offered_upgrade_are_answered(running: Server) -> None:
    with connect(running) as connection:
        connection.sendall(head("/healthz", *UPGRADE, method="GET") * 2 + HEALTH)
        responses = Pipeline(connection)
        assert [answer(responses)[0] for _ in range(3)] == [200, 200, 200]


def test_a_stream_of_http_1_0_has_no_chunks(running: Server) -> None:
    body = b'{"expression": "1+1"}'
    framing = f"Content-Length: {len(body)}"
    request = head("/v1/calculate/stream", KEY, framing).replace(b"HTTP/1.1", b"HTTP/1.0")
    with connect(running) as connection:
        connection.sendall(request + body)
        status, headers, content = answer(connection)
        assert (status, int(headers["content-length"])) == (200, len(content))
        assert "transfer-encoding" not in headers
        assert [name for name, _ in events_of(content.decode())][-1] == "result"
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (HEALTH.removesuffix(b"\r\n"), b"a" * MIB),
        (HEALTH.removesuffix(b"\r\n"), b"a: b\r\n" * (MIB // 6)),
        (CHUNKED + b"0\r\n", b"a:\r\n" * (MIB // 4)),
        (CHUNKED + b"0\r\n", b"a" * MIB),
        (CHUNKED + b"1;", b"a" * MIB),
        (CHUNKED + b"1;", b"a=b;" * (MIB // 4)),
    ],
    ids=["header", "headers", "trailers", "trailer", "extension", "extensions"],
)
def test_what_has_no_end_is_not_kept(running: Server, start: bytes, more: bytes) -> None:
    before = peak = memory(running)

    def flood(connection: socket.socket) -> None:
        nonlocal peak
        for _ in range(100):
            connection.sendall(more)
            peak = max(peak, memory(running))

    with connect(running) as connection:
        connection.sendall(start)
        with pytest.raises(ConnectionError):
            flood(connection)
    assert peak - before < 20 * MIB


def test_a_trailer_is_no_header(running: Server) -> None:
    with connect(running) as connection:
        body = b"2\r\n{}\r\n0\r\n%b\r\nX-Request-ID: trailer\r\n\r\n" % KEY.encode()
        connection.sendall(CHUNKED + body + HEALTH)
        responses = Pipeline(connection)
        assert refusal(responses, 401, "unauthorized")["x-request-id"] != "trailer"
        assert answer(responses)[0] == 200


def test_requests_in_one_piece_are_begun_one_after_the_other(running: Server) -> None:
    n = 500
    before = memory(running)
    with connect(running) as connection:
        sender = Thread(target=connection.sendall, args=(HEALTH * n,))
        sender.start()
        responses = Pipeline(connection)
        assert {answer(responses)[0] for _ in range(n)} == {200}
        sender.join()
    with connect(running) as gone:
        gone.sendall(HEALTH * n)
        gone.recv(1)
    with connect(running) as connection:
        connection.sendall(head("/v1/models", KEY, method="GET"))
        assert answer(connection)[0] == 200
    assert memory(running) - before < 20 * MIB
    assert "Traceback" not in running.log


def connect_to(service: uvicorn.Server) -> socket.socket:
    """Returns a new connection to such a server."""
    return socket.create_connection(service.servers[0].sockets[0].getsockname(), PATIENCE)


def test_a_connection_without_a_complete_head_is_closed() -> None:
    with in_thread(create_app(Settings(), lambda: iter(())), http=LocalConnection) as service:
        again, silent, slow = (connect_to(service) for _ in range(3))
        with again, silent, slow:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
            with suppress(ConnectionError):  # the machine was slow
                again.sendall(HEALTH)
                assert answer(again)[0] == 200
                again.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
            for connection in (silent, slow, again):
                with suppress(ConnectionResetError):
                    assert connection.recv(1) == b""


def test_a_closed_connection_does_not_wait_for_a_client_that_reads_nothing() -> None:
    answered, n_open = Event(), 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal n_open
        await PlainTextResponse(b"x" * 20 * MIB)(scope, receive, send)
        n_open = len(service.server_state.connections)
        answered.set()

    with (
        in_thread(app, http=LocalConnection, lifespan="off", timeout_keep_alive=1) as service,
        connect_to(service) as connection,
    ):
        connection.sendall(HEALTH)
        assert answered.wait(PATIENCE)
        assert n_open == 1
        wait_for(lambda: not service.server_state.connections)


def test_requests_beyond_the_limit_are_refused_and_no_response_is_lost() -> None:
    release = Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.to_thread(release.wait, PATIENCE)
        await PlainTextResponse("answered")(scope, receive, send)

    metrics = Metrics()
    with (
        in_thread(RequestLog(app, metrics, limit=2), lifespan="off") as service,
        ExitStack() as stack,
    ):
        first, second, third = (stack.enter_context(connect_to(service)) for _ in range(3))
        first.sendall(HEALTH)
        second.sendall(HEALTH)
        wait_for(lambda: len(service.server_state.tasks) == 2)
        third.sendall(HEALTH)
        assert refusal(third, 503, "full")["retry-after"] == "1"
        assert third.recv(1) == b""
        release.set()
        for connection in (first, second):
            assert answer(connection)[2] == b"answered"
    assert 'calcgpt_sheds_total{reason="full"} 1.0' in metrics.render()[0].decode()


def test_what_is_refused_before_it_begins_is_counted(tiny_folder: Path) -> None:
    with server(tiny_folder, "--max-connections", 1) as running:
        with connect(running), connect(running) as second:
            second.sendall(HEALTH)
            refusal(second, 503, "full")
        wait_for(lambda: metric(running, 'calcgpt_sheds_total{reason="full"}') >= 1)


def test_a_body_that_is_given_up_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.app.SlowClients", partial(SlowClients, limit=1))
    incomplete = head("/v1/calculate", "Content-Length: 9") + b"1"
    with in_thread(create_app(Settings(), lambda: iter(()))) as service:
        with connect_to(service) as first:
            first.sendall(incomplete)
            wait_for(lambda: service.server_state.tasks)  # it is the first to wait
            with connect_to(service) as second:
                second.sendall(incomplete)
                refusal(first, 503, "full")
        with connect_to(service) as third:
            third.sendall(head("/metrics", method="GET"))
            assert 'calcgpt_sheds_total{reason="full"} 0.0' not in answer(third)[2].decode()
