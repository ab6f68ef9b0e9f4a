"""No request blocks the event loop: the largest and worst that clients can send, all at once."""

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2 as httpx
import pytest
import uvicorn
from fake_decoder import calculator_model
from serving import in_thread, url_of
from waiting import PATIENCE, wait_for

from api.app import create_app
from api.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the clock of a thread")

LIMIT = 0.02  # seconds of CPU time that a callback may take
USUAL_SECONDS = 0.02  # of CPU time for a loop, or less, on the machines of the tests
TRIES = 6  # code that blocks does so in each try; a busy machine delays some of them
SUM = "(" + "+".join("1" * 19) + ")"
LONGEST = "+".join([SUM] * 9)  # 170 operations, no more than 40 each on the result of another
PARAMETERS = "&".join(f"{i:x}=" for i in range(2_500))  # as many as a head has room for
REQUESTS: list[tuple[str, Any]] = [
    ("/v1/calculate", {"expression": LONGEST}),
    ("/v1/calculate", {"expression": "x" * 65_000}),
    ("/v1/calculate", {"expression": "1+1", "x": [0.1] * 13_000}),
    ("/v1/calculate", {f"{i:x}": 1 for i in range(6_000)}),
    ("/v1/calculate", b"[" * 65_000),
    ("/v1/calculate/stream", {"expression": LONGEST}),
    ("/v1/calculate/batch", {"expressions": [LONGEST, *["7/8"] * 20]}),
    ("/v1/calculate/batch", {"expressions": [f"{LONGEST}/0"] * 100}),
    ("/v1/calculate/batch", {"expressions": ["("] * 12_000}),
    ("/v1/calculate/batch", {"expressions": [1] * 15_000}),
    (f"/v1/calculate?expression=1%2B1&{PARAMETERS}", None),
    (f"/v1/models?{PARAMETERS}", None),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONGEST}], "stream": True}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "1"}] * 1_800}),
    ("/v1/chat/completions", {"messages": [{"role": "x"}] * 4_000}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{}] * 12_000}]}),
    ("/v1/chat/completions", {"messages": [], "logit_bias": {f"{i:x}": 1 for i in range(5_000)}}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [1] * 15_000}]}),
]


class Watchdog:
    """Measures the CPU time of the callbacks of one thread's event loop, so that other processes of
    a busy machine do not matter. On a machine that is several times as slow as usual, the limit is
    as many times as high."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.begin()

    def run(self, server: uvicorn.Server) -> None:
        """Runs a server, and watches its event loop."""
        self.thread = threading.get_ident()
        asyncio.run(server.serve())  # not with uvloop, whose callbacks cannot be measured

    def begin(self) -> None:
        """Forgets the stalls so far, and measures how slow the machine is now."""
        began = time.thread_time()
        sum(index * index for index in range(300_000))
        self.limit = LIMIT * max(1.0, (time.thread_time() - began) / USUAL_SECONDS)
        self.stalls: list[str] = []

    def call(self, run: Callable[[asyncio.Handle], None], handle: asyncio.Handle) -> None:
        """Runs a callback and measures it."""
        began = time.thread_time()
        run(handle)
        seconds = time.thread_time() - began
        if seconds > self.limit and threading.get_ident() == self.thread:
            self.stalls.append(f"{seconds:.3f} s: {handle!r}")


@pytest.fixture
def dog(monkeypatch: pytest.MonkeyPatch) -> Watchdog:
    dog, run = Watchdog(), asyncio.Handle._run  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()  # the collector skips the objects of the test runner: a service has none
    monkeypatch.setattr(asyncio.Handle, "_run", lambda handle: dog.call(run, handle))
    return dog


def send(address: str, path: str, body: Any) -> int:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    method = "GET" if body is None else "POST"
    return httpx.request(
        method, f"{address}{path}", content=content, headers=headers, timeout=PATIENCE
    ).status_code


def test_no_request_blocks_the_event_loop(dog: Watchdog) -> None:
    models = [calculator_model()]
    settings = Settings(max_pending=10_000, deadline=PATIENCE)
    app = create_app(settings, lambda: iter(models))
    with (
        in_thread(app, dog.run) as server,
        ThreadPoolExecutor(len(REQUESTS)) as pool,
        httpx.Client(base_url=url_of(server), timeout=PATIENCE) as client,
    ):
        wait_for(lambda: client.get("/readyz").status_code == 200)
        for _ in range(TRIES):
            dog.begin()  # without imports when something is first used, for example
            sent = [pool.submit(send, url_of(server), path, body) for path, body in REQUESTS]
            pages = [client.get(page) for page in ("/", "/openapi.json", "/metrics")]
            assert {page.status_code for page in pages} == {200}
            assert {future.result() for future in sent} == {200, 400, 422}
            if not dog.stalls:
                break
        assert not dog.stalls


def test_what_blocks_is_noticed(dog: Watchdog) -> None:
    app = create_app(Settings(), lambda: iter([]))

    @app.get("/slow")
    async def slow() -> None:
        end = time.thread_time() + 2 * dog.limit
        while time.thread_time() < end:
            pass

    with in_thread(app, dog.run) as server:
        assert httpx.get(f"{url_of(server)}/slow", timeout=PATIENCE).status_code == 200
    assert dog.stalls
