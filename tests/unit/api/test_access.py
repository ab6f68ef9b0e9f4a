"""API keys and rate limits."""

import asyncio
import time
from ipaddress import IPv6Network
from typing import Any

import pytest
from asgi import run
from fake_decoder import calculator_model
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import given
from hypothesis import strategies as st
from serving import ask, client_of, problem
from starlette.types import ASGIApp
from waiting import PATIENCE

from api import access
from api.access import ApiKeys, Limiter, RateLimit
from api.middleware import BodyLimit, RequestLog
from api.telemetry import Metrics
from calcgpt.base.errors import ConfigError

KEYS = ["correct-horse-battery", "schlüssel-zwei"]


class Clock:
    """A clock that stands still, unless a test sets the time itself."""

    now, n_look = 3_600_015.0, 0

    def __call__(self) -> float:
        self.n_look += 1
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """No hour ends within a test by itself."""
    monkeypatch.setattr(time, "time", stopped := Clock())
    return stopped


def routes() -> FastAPI:
    """An application without a guard."""
    app = FastAPI(docs_url=None)

    @app.get("/v1/items/{item}")
    @app.get("/healthz")
    async def item(item: str = "") -> str:
        return item

    return app


def send(app: ASGIApp, path: str, host: str, headers: list[tuple[bytes, bytes]]) -> int:
    """Returns the status of a GET with exactly these headers."""
    return int(run(app, path=path, headers=headers, client=(host, 5))[0]["status"])


def locked(**options: Any) -> TestClient:
    """A client of an application that asks for a key."""
    app = routes()
    app.add_middleware(ApiKeys, keys=KEYS)
    app.add_middleware(RequestLog, metrics=Metrics())
    return TestClient(app, **options)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/items/5", {"Authorization": f"Bearer {KEYS[0]}"}, 200),
        ("/v1/items/5", {"Authorization": f"bearer   {KEYS[1]} ".encode()}, 200),
        ("/v1/items/5", [("Authorization", f"Bearer {KEYS[0]}")] * 2, 401),
        ("/v1/items/5", {}, 401),
        ("/v1/items/5", {"Authorization": "Bearer "}, 401),
        ("/v1/items/5", {"Authorization": f"Bearer {KEYS[0][:-1]}"}, 401),
        ("/v1/items/5", {"Authorization": f"Bearer {KEYS[0].upper()}"}, 401),
        ("/v1/items/5", {"Authorization": f"Bearer Bearer {KEYS[0]}"}, 401),
        ("/v1/items/5", {"Authorization": KEYS[0]}, 401),
        ("/v1/items/5", {"Authorization": f"Basic {KEYS[0]}"}, 401),
        ("/v1/items/5", {"Authorization": "Bearer"}, 401),
        ("/v1/items/5", {"Authorization": b"Bearer \x80"}, 401),
        ("/v1/nothing", {}, 401),
        ("/v1/", {}, 401),
        ("/%761/items/5", {}, 401),
        ("/healthz", {}, 200),
        ("/nothing", {}, 404),
    ],
)
def test_every_path_under_v1_needs_a_key(path: str, headers: Any, status: int) -> None:
    response = locked().get(path, headers=headers)
    assert response.status_code == status
    if status == 401:
        problem(response, 401, "unauthorized")
        assert response.headers["WWW-Authenticate"] == "Bearer"


def test_wrong_keys_count_until_all_are_refused() -> None:
    app = locked(client=("192.0.2.7", 5))

    def ask(key: str) -> Response:
        return app.get("/v1/items/5", headers={"Authorization": f"Bearer {key}"})

    assert {ask(f"wrong{n}").status_code for n in range(59)} == {401}
    assert ask(KEYS[0]).status_code == 200
    assert ask("wrong").status_code == 401
    problem(ask(KEYS[0]), 429, "rate-limited")
    assert app.get("/v1/items/5").status_code == 401  # without a key, none is tried


def test_the_prefix_of_a_proxy_does_not_bypass_the_key() -> None:
    ask = locked(root_path="/calculator")
    assert ask.get("/v1/items/5").status_code == 401
    assert ask.get("/calculator/v1/items/5").status_code == 401
    assert ask.get("/calculator/healthz").status_code == 200


def test_a_preflight_needs_no_key() -> None:
    assert locked().options("/v1/items/5").status_code == 405  # CORS, where it is on, answers it


def limited(rate: str, metrics: Metrics | None = None) -> TestClient:
    """A client, with one event loop, of an application with a rate limit."""
    app = routes()
    app.add_middleware(RateLimit, limiter=Limiter(rate), metrics=metrics or Metrics())
    return TestClient(app)


def test_requests_above_the_rate_are_refused() -> None:
    metrics = Metrics()
    with limited("3/hour", metrics) as ask:
        assert [ask.get("/v1/items/5").status_code for _ in range(5)] == [200] * 3 + [429] * 2
        response = ask.get("/v1/items/5")
        assert ask.get("/healthz").status_code == 200
    problem(response, 429, "rate-limited")
    assert 1 <= int(response.headers["Retry-After"]) <= 3600
    assert 'calcgpt_sheds_total{reason="rate"} 3.0' in metrics.render()[0].decode()


@pytest.mark.parametrize("rate", ["10/minute", "10/minute; 50/hour"])
async def test_a_client_that_waits_as_it_is_told_is_served(clock: Clock, rate: str) -> None:
    limiter = Limiter(rate)
    for cost in (8, 8, 3, 10, 1, 7, 9, 8, 8):
        if wait := await limiter.hit("a", cost):
            clock.now += wait - 1
            assert await limiter.hit("a", cost) == 1
            clock.now += 1
            assert await limiter.hit("a", cost) == 0


def test_a_refusal_says_when_all_operations_fit(clock: Clock) -> None:
    with client_of(calculator_model(), rate_limit="5/minute") as client:
        assert ask(client, "1+2+3+4").status_code == 200
        refused = ask(client, "1+2+3+4")  # it has counted as one
        problem(refused, 429, "rate-limited")
        clock.now += int(refused.headers["Retry-After"])
        assert ask(client, "1+2+3+4").status_code == 200


async def test_a_request_does_not_look_at_the_counters_of_all_clients(clock: Clock) -> None:
    limiter = Limiter("600/minute")
    for n in range(1_000):
        await limiter.hit(f"2001:db8:{n:x}::/64")
    clock.n_look = 0  # at the time, for each counter that may be expired
    for _ in range(100):
        await limiter.hit("192.0.2.1")
        await asyncio.sleep(0)
    assert clock.n_look < 5_000


async def test_expired_counters_are_dropped(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "EXPIRY_SECONDS", 0)
    limiter = Limiter("5/minute")
    for n in range(3_000):
        await limiter.hit(f"{n}")
    clock.now += 121
    await limiter.hit("last")
    async with asyncio.timeout(PATIENCE):
        while len(limiter._storage.expirations) > 2:
            await asyncio.sleep(0)


@pytest.mark.parametrize("rate", ["5/minute; 2/second", "2/second; 5/minute"])
async def test_what_one_rate_refuses_uses_up_no_other(clock: Clock, rate: str) -> None:
    clock.now = 3_600_000.0
    limiter = Limiter(rate)
    assert [await limiter.hit("a") for _ in range(4)] == [0, 0, 2, 2]
    clock.now += 2
    assert [await limiter.hit("a") for _ in range(4)] == [0, 0, 2, 2]
    clock.now += 2
    assert [await limiter.hit("a") for _ in range(2)] == [0, 57]


async def test_the_longer_rate_refuses_and_uses_up_nothing_of_the_shorter(clock: Clock) -> None:
    clock.now = 3_600_000.0
    limiter = Limiter("2/minute; 3/hour")
    assert await limiter.hit("a", 2) == 0
    clock.now += 120
    assert await limiter.hit("a", 2) > 0
    assert await limiter.hit("a", 1) == 0


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::1", "::2", True),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("one", "other", False),
        (f"{'x' * 70}1", f"{'x' * 70}2", True),  # not an address: little of it is kept
    ],
)
def test_clients_are_distinguished_by_network(first: str, second: str, same: bool) -> None:
    app = RateLimit(routes(), Limiter("1/hour"), Metrics())
    statuses = [send(app, "/v1/items/5", host, []) for host in (first, second)]
    assert statuses == [200, 429 if same else 200]


@pytest.mark.parametrize(("bits", "allowed"), [(56, 10), (48, 15)])
async def test_networks_of_many_clients_have_limits_that_grow(bits: int, allowed: int) -> None:
    """Clients are networks of 64 bits: one in each 256th of the network around them."""
    limiter = Limiter("5/hour; 50/day")
    networks = IPv6Network(f"2001:db8::/{bits}").subnets(new_prefix=bits + 8)
    clients = [f"{network.network_address}/64" for network in networks]
    assert [await limiter.hit(client) for client in clients].count(0) == allowed
    assert await limiter.check(clients[0]) > 0
    assert await limiter.hit("2001:db8:1::/64") == 0


def test_the_owner_of_a_key_is_one_client_at_any_address() -> None:
    app = ApiKeys(RateLimit(routes(), Limiter("1/hour"), Metrics()), KEYS)

    def status(key: str, host: str) -> int:
        return send(app, "/v1/items/5", host, [(b"authorization", b"Bearer " + key.encode())])

    assert status(KEYS[0], "192.0.2.1") == 200
    assert status(KEYS[0], "192.0.2.2") == 429
    assert status(KEYS[1], "192.0.2.1") == 200


def test_without_keys_a_header_makes_no_new_client() -> None:
    with limited("1/hour") as ask:
        assert ask.get("/v1/items/5", headers={"Authorization": "Bearer a"}).status_code == 200
        assert ask.get("/v1/items/5", headers={"Authorization": "Bearer b"}).status_code == 429


@pytest.mark.parametrize("rate", ["often", "5/fortnight"])
def test_an_invalid_rate_is_refused(rate: str) -> None:
    with pytest.raises(ConfigError, match=f"'{rate}' is not a rate, such as 600/minute"):
        Limiter(rate)


NAMES = st.sampled_from([b"x-request-id", b"authorization", b"content-length", b"origin", b"host"])
VALUES = st.binary(max_size=40) | st.sampled_from(
    [b"Bearer " + KEYS[0].encode(), b"9" * 5000, b"-1", b"Bearer"]
)


ROUTES, METRICS = routes(), Metrics()  # take longer to make than a request


@given(
    headers=st.lists(st.tuples(NAMES, VALUES), max_size=6),
    path=st.text(max_size=20).map(lambda tail: f"/v1/items/{tail}") | st.text(max_size=20),
    host=st.text(max_size=20) | st.ip_addresses().map(str),
)
def test_no_request_causes_an_internal_error(
    headers: list[tuple[bytes, bytes]], path: str, host: str
) -> None:
    app: ASGIApp = RateLimit(ROUTES, Limiter("1000/second"), METRICS)
    app = RequestLog(BodyLimit(ApiKeys(app, KEYS), 100), METRICS)
    assert send(app, path, host, headers) in (200, 307, 401, 404, 413)
