"""The request log and the security headers."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from asgi import request, run, silent
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from serving import problem
from starlette.types import Message, Receive, Scope, Send
from waiting import PATIENCE

from api.middleware import RequestLog
from api.slow_clients import UNSENT_BYTES, SlowClients
from api.telemetry import Metrics, request_id

log = logging.getLogger("service.route")


def routes() -> FastAPI:
    """An application without a guard, with one route of each kind."""
    app = FastAPI(docs_url=None)
    router = APIRouter(prefix="/v1")

    @router.get("/items/{item}")
    async def item(item: str, request: Request) -> dict[str, str]:
        log.info("at work")
        return {"item": item, "request_id": request.state.request_id}

    @router.get("/broken")
    async def broken() -> None:
        raise RuntimeError("a secret of the machine room")

    @router.get("/broken-stream")
    async def broken_stream() -> StreamingResponse:
        async def pieces() -> AsyncIterator[str]:
            yield "first"
            raise RuntimeError("a secret of the machine room")

        return StreamingResponse(pieces())

    @router.get("/own")
    async def own() -> Response:
        headers = {"Cache-Control": "max-age=5", "Content-Security-Policy": "default-src 'none'"}
        return Response("own", headers=headers)

    app.include_router(router)

    @app.get("/healthz")
    @app.get("/docs")
    async def outside() -> str:
        return "ok"

    return app


def access(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """The one access record of the log."""
    (record,) = (r for r in caplog.records if r.name == "api.middleware" and "ms" in r.__dict__)
    return record.__dict__


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def add_request_id(record: logging.LogRecord) -> bool:
    record.request_id = request_id.get()
    return True


@pytest.fixture
def logged(metrics: Metrics, caplog: pytest.LogCaptureFixture) -> Iterator[TestClient]:
    caplog.set_level(logging.DEBUG, "api")
    caplog.set_level(logging.DEBUG, "service")
    caplog.handler.addFilter(add_request_id)
    app = routes()
    app.add_middleware(RequestLog, metrics=metrics)
    yield TestClient(app, client=("192.0.2.7", 5))
    caplog.handler.removeFilter(add_request_id)


@pytest.mark.parametrize("client_id", ["a", "trace-1.2_3", "x" * 64])
def test_a_plain_request_id_is_kept(logged: TestClient, client_id: str) -> None:
    response = logged.get("/v1/items/5", headers={"X-Request-ID": client_id})
    assert response.headers["X-Request-ID"] == response.json()["request_id"] == client_id


@pytest.mark.parametrize("client_id", ["", "x" * 65, "a b", "a\tb", "é", "<script>", "a/b"])
def test_any_other_request_id_is_replaced(logged: TestClient, client_id: str) -> None:
    headers = {"X-Request-ID": client_id.encode("latin-1")}
    found = {logged.get("/v1/items/5", headers=headers).headers["X-Request-ID"] for _ in "12"}
    assert len(found) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", identity) for identity in found)


def test_a_request_is_logged_when_it_ends(
    logged: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    response = logged.get("/v1/items/5?key=private", headers={"X-Request-ID": "mine"})
    record = access(caplog)
    assert record["levelname"] == "INFO"
    assert record["ms"] > 0
    expected = {
        "method": "GET",
        "path": "/v1/items/5",
        "route": "/v1/items/{item}",
        "status": 200,
        "client": "192.0.2.7",
        "bytes": len(response.content),
    }
    assert expected.items() <= record.items()
    assert "disconnected" not in record
    assert "private" not in str(record)
    # What the route logged is of the same request.
    assert {r.request_id for r in caplog.records if r.name.startswith(("api", "service"))} == {
        "mine"
    }


def test_health_checks_are_logged_at_level_debug_and_long_paths_are_cut(
    logged: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    logged.get("/healthz")
    assert access(caplog)["levelname"] == "DEBUG"
    caplog.clear()
    logged.get(f"/v1/items/{'x' * 5_000}")
    assert len(access(caplog)["path"]) == 200
    assert len(access(caplog)["message"]) < 300


@pytest.mark.parametrize(
    ("method", "path", "labels"),
    [
        ("GET", "/v1/items/5", ("/v1/items/{item}", "GET", "200")),
        ("POST", "/v1/items/5", ("/v1/items/{item}", "POST", "405")),
        ("GET", "/nothing/at/all", ("other", "GET", "404")),
        ("BREW", "/healthz", ("/healthz", "other", "405")),
        ("GET", "/v1/broken", ("/v1/broken", "GET", "500")),
    ],
)
def test_requests_are_counted_by_route(
    logged: TestClient, metrics: Metrics, method: str, path: str, labels: tuple[str, ...]
) -> None:
    logged.request(method, path)
    assert metrics.requests.labels(*labels)._value.get() == 1
    line = f'calcgpt_request_seconds_count{{route="{labels[0]}"}} 1.0'
    assert line in metrics.render()[0].decode()


def test_an_internal_error_is_logged_once_and_not_revealed(
    logged: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    response = logged.get("/v1/broken")
    problem(response, 500)
    assert "secret" not in response.text
    assert response.headers["X-Request-ID"]
    (error,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    assert error.exc_info
    assert "a secret of the machine room" in str(error.exc_info[1])
    assert access(caplog)["status"] == 500


def test_a_stream_that_fails_ends_incomplete(
    logged: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    response = logged.get("/v1/broken-stream")
    assert response.content == b"first"
    (error,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    assert error.exc_info
    assert access(caplog)["status"] == 200


async def disconnect() -> Message:
    return {"type": "http.disconnect"}


# What an application does when its client is gone: its steps, then the status and whether the log
# has the disconnect.
START: Message = {"type": "http.response.start", "status": 200}
PIECE: Message = {"type": "http.response.body", "body": b"first", "more_body": True}
END: Message = {"type": "http.response.body", "body": b"last"}


@pytest.mark.parametrize(
    ("steps", "status", "disconnected", "n_bytes"),
    [
        (["receive"], 499, True, 0),
        (["receive", START, END], 499, True, 4),
        ([START, PIECE, "receive"], 200, True, 5),
        ([START, END, "receive"], 200, None, 4),
    ],
)
def test_a_disconnect_is_logged_unless_the_response_is_complete(
    metrics: Metrics,
    caplog: pytest.LogCaptureFixture,
    steps: list[Any],
    status: int,
    disconnected: bool | None,
    n_bytes: int,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for step in steps:
            await (receive() if step == "receive" else send({**step}))

    caplog.set_level(logging.INFO, "api")
    sent = run(RequestLog(app, metrics), disconnect)
    assert len(sent) == len(steps) - 1
    record = access(caplog)
    assert (record["status"], record.get("disconnected")) == (status, disconnected)
    assert record["bytes"] == n_bytes
    assert metrics.requests.labels("other", "GET", str(status))._value.get() == 1


def test_an_application_without_a_response_is_500(metrics: Metrics) -> None:
    async def app(scope: Scope, receive: Any, send: Any) -> None:
        pass

    start, _ = run(RequestLog(app, metrics))
    assert start["status"] == 500


def test_every_response_has_security_headers(logged: TestClient) -> None:
    cached = {"/v1/items/5": "no-store", "/v1/broken": "no-store"}
    cached |= dict.fromkeys(["/", "/docs", "/static/page.css"], "no-cache")
    for path in ("/healthz", "/nothing", *cached):
        headers = logged.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        scripts = "default-src 'self';"  # no inline script anywhere
        assert scripts in headers["Content-Security-Policy"]
        assert ("'unsafe-inline'" in headers["Content-Security-Policy"]) == (path == "/docs")
        assert headers.get("Cache-Control") == cached.get(path)


def test_headers_of_a_route_are_kept(logged: TestClient) -> None:
    headers = logged.get("/v1/own").headers
    assert headers.get_list("Cache-Control") == ["max-age=5"]
    assert headers.get_list("Content-Security-Policy") == ["default-src 'none'"]
    assert headers["X-Frame-Options"] == "DENY"


async def test_a_client_that_does_not_read_its_response_is_disconnected() -> None:
    ended = False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal ended
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        finally:
            ended = True

    async def never(message: Message) -> None:
        await asyncio.Event().wait()

    slow = SlowClients(stall_seconds=0.01)
    await RequestLog(app, Metrics(), slow)(request(), silent, never)
    assert ended


async def test_a_client_that_reads_a_little_at_a_time_is_disconnected_in_the_end() -> None:
    n_sent = 0

    async def slowly(message: Message) -> None:
        nonlocal n_sent
        await asyncio.sleep(0.001)  # the client reads on, so the response never stalls
        n_sent += 1

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    slow = SlowClients(stall_seconds=PATIENCE, delivery_seconds=0.02)
    app = RequestLog(endless, Metrics(), slow)
    await asyncio.wait_for(app(request(), silent, slowly), PATIENCE)
    assert n_sent < 100


def test_a_long_response_is_sent_in_pieces() -> None:
    body = bytes(range(256)) * 1000
    sent = run(RequestLog(Response(body), Metrics()))
    pieces = [message["body"] for message in sent[1:]]
    assert b"".join(pieces) == body
    assert [len(piece) for piece in pieces] == [16_384] * 15 + [10_240, 0]
    assert [message["more_body"] for message in sent[1:]] == [True] * 16 + [False]


@pytest.mark.parametrize(
    ("size", "pieces"), [(UNSENT_BYTES, [UNSENT_BYTES]), (UNSENT_BYTES + 1, [UNSENT_BYTES + 1, 0])]
)
def test_a_response_ends_only_after_its_client_has_read_nearly_all(
    metrics: Metrics, size: int, pieces: list[int]
) -> None:
    sent = run(RequestLog(Response(bytes(size)), metrics))
    assert [len(message["body"]) for message in sent[1:]] == pieces
