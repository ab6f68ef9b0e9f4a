"""No request blocks the event loop: the largest and worst that clients can send, all at once."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2 as httpx
import pytest
import uvicorn
from fake_decoder import calculator_model
from fastapi import FastAPI
from forks import PATIENCE
from serving import wait_for
from watchdog import Watchdog, watchdog

from api.app import create_app
from api.connections import Connection
from api.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the clock of a thread")

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


@contextmanager
def serving(app: FastAPI, dog: Watchdog) -> Iterator[str]:
    """The address of an application that runs in a thread, watched."""
    options: dict[str, Any] = {"log_config": None, "access_log": False, "ws": "none"}
    # Otherwise an idle connection is closed after five seconds, perhaps while a slow client sends.
    options["timeout_keep_alive"] = PATIENCE
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=Connection, **options))

    def run() -> None:
        dog.watch_this_thread()
        asyncio.run(server.serve())  # not with uvloop, whose callbacks cannot be measured

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive())
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


def send(address: str, path: str, body: Any) -> int:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    method = "GET" if body is None else "POST"
    return httpx.request(
        method, f"{address}{path}", content=content, headers=headers, timeout=PATIENCE
    ).status_code


def test_no_request_blocks_the_event_loop() -> None:
    models = [calculator_model()]
    settings = Settings(max_pending=10_000, deadline=PATIENCE)
    app = create_app(settings, lambda: iter(models))
    with (
        watchdog() as dog,
        serving(app, dog) as address,
        ThreadPoolExecutor(len(REQUESTS)) as pool,
        httpx.Client(base_url=address, timeout=PATIENCE) as client,
    ):
        wait_for(lambda: client.get("/readyz").status_code == 200)
        for _ in range(TRIES):
            dog.begin()  # without imports when something is first used, for example
            sent = [pool.submit(send, address, path, body) for path, body in REQUESTS]
            pages = [client.get(page) for page in ("/", "/openapi.json", "/metrics")]
            assert {page.status_code for page in pages} == {200}
            assert {future.result() for future in sent} == {200, 400, 422}
            if not dog.stalls:
                break
        assert not dog.stalls


def test_what_blocks_is_named() -> None:
    app = create_app(Settings(), lambda: iter([]))
    with watchdog() as dog, serving(app, dog) as address:

        @app.get("/slow")
        async def slow() -> None:
            await asyncio.sleep(0)  # a callback of its own: what leads here may block, too
            gives_up = time.monotonic() + PATIENCE
            while not dog.seen and time.monotonic() < gives_up:
                pass

        assert httpx.get(f"{address}/slow", timeout=2 * PATIENCE).status_code == 200
    assert any("slow" in stall.where and stall.seconds > 0.02 for stall in dog.stalls)
