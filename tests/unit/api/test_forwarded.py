"""The address of a client behind proxies: no client can choose it."""

import asyncio

import pytest
from fastapi.testclient import TestClient
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from api import server
from api.app import create_app
from api.forwarded import Forwarded
from api.settings import Settings
from calcgpt.base.errors import UserError

CLIENT, PROXY, OTHER_PROXY = "203.0.113.7", "10.0.0.1", "10.0.0.2"


def seen(
    peer: str, *forwarded: str, trusted: str = "10.0.0.0/8", n_proxies: int = 1, proto: str = "http"
) -> tuple[str, str]:
    """The address and the scheme of a request that comes from `peer` with these headers."""
    found: list[tuple[str, str]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append((scope["client"][0], scope["scheme"]))

    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    headers.append((b"x-forwarded-proto", proto.encode()))
    scope = {"type": "http", "scheme": "http", "client": (peer, 5), "headers": headers}
    asyncio.run(Forwarded(app, trusted, n_proxies)(scope, None, None))  # type: ignore[arg-type]
    return found[0]


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ([CLIENT], CLIENT),
        ([f"192.0.2.1, {CLIENT}"], CLIENT),  # the client wrote the first itself
        (["192.0.2.1", CLIENT], CLIENT),
        ([f"192.0.2.1,{CLIENT} , {OTHER_PROXY}"], CLIENT),
        ([f"{OTHER_PROXY}, {OTHER_PROXY}"], OTHER_PROXY),
        ([f"{CLIENT}, unknown"], PROXY),
        ([f"{CLIENT}:80"], CLIENT),
        (["[2001:DB8::1]:80"], "2001:db8::1"),
        (["2001:db8::1"], "2001:db8::1"),
        ([""], PROXY),
        ([], PROXY),
        (["x" * 60_000], PROXY),
        ([f"fe80::1%{'x' * 1_000}"], PROXY),
        ([",".join([OTHER_PROXY] * 40 + [CLIENT])], CLIENT),
    ],
)
def test_the_client_is_the_first_from_the_right_that_is_no_proxy(
    forwarded: list[str], client: str
) -> None:
    assert seen(PROXY, *forwarded) == (client, "http")


def test_who_is_no_proxy_is_not_believed() -> None:
    assert seen(CLIENT, "192.0.2.1", proto="https") == (CLIENT, "http")
    assert seen(PROXY, CLIENT, proto="https") == (CLIENT, "https")
    assert seen(PROXY, CLIENT, proto="javascript") == (CLIENT, "http")


@given(forged=st.text(st.sampled_from("0123456789.:,[] x"), max_size=40), n=st.integers(1, 3))
@example(forged="192.0.2.1", n=1)
def test_no_client_chooses_its_address_if_all_are_trusted(forged: str, n: int) -> None:
    appended = ", ".join([CLIENT, "198.51.100.1", "198.51.100.2"][:n])
    assert seen("192.0.2.9", f"{forged}, {appended}", trusted="*", n_proxies=n)[0] == CLIENT


@pytest.mark.parametrize(
    ("hosts", "host", "path", "status"),
    [
        ("calc.example", "calc.example", "/", 200),
        ("calc.example", "CALC.example:8443", "/", 200),
        ("calc.example", "evil.example", "/", 421),
        ("calc.example", "evil.example", "/v1/models", 421),
        ("calc.example", "evil.example:80", "/static/page.css", 421),
        ("calc.example", "10.0.0.7:8000", "/healthz", 200),
        ("calc.example", "10.0.0.7:8000", "/", 421),
        ("local", "localhost:8000", "/", 200),
        ("local", "calc.localhost", "/", 200),
        ("local", "10.0.0.7:8000", "/", 200),
        ("local", "[::1]:8000", "/", 200),
        ("local", "", "/", 200),
        ("local", "localhost.evil.example:8000", "/v1/models", 421),
        ("local", "127.0.0.1.evil.example", "/", 421),
        ("local,calc.example", "calc.example", "/", 200),
        ("*", "evil.example", "/", 200),
    ],
)
def test_only_the_hosts_that_are_set_are_served(
    hosts: str, host: str, path: str, status: int
) -> None:
    app = create_app(Settings(hosts=hosts), lambda: iter(()))  # type: ignore[arg-type]
    with TestClient(app) as client:
        answer = client.get(path, headers={"Host": host})
    assert answer.status_code == status
    assert status == 200 or "CALCGPT_HOSTS" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        ("127.0.0.1", "local"),
        ("127.0.1.1", "local"),
        ("::1", "local"),
        ("localhost", "local"),
        ("0.0.0.0", "*"),
        ("10.0.0.7", "*"),
        ("machine", "*"),
    ],
)
def test_a_service_for_this_machine_alone_is_served_under_no_other_name(
    address: str, hosts: str
) -> None:
    """The page of an attacker, whose name points to this machine, cannot ask it."""
    assert Settings(host=address).with_hosts().hosts == (hosts,)
    chosen = Settings(host=address, hosts="calc.example")  # type: ignore[arg-type]
    assert chosen.with_hosts() == chosen


@pytest.mark.parametrize(
    ("n_files", "n_connections"), [(1_024, 739), (102, 1), (-1, 10_000), (1 << 20, 10_000)]
)
def test_no_more_connections_than_open_files(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    n_files: int,
    n_connections: int,
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda kind: (n_files, n_files))
    assert server._max_connections(Settings()) == n_connections
    assert ("files may be open" in caplog.text) == (n_connections < 10_000)


def test_a_process_that_may_open_hardly_any_files_does_not_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda kind: (40, 40))
    with pytest.raises(UserError, match=r"^only 40 files may be open: serve needs 102"):
        server._max_connections(Settings())
