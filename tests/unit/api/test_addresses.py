"""Who asks and how the service is reached: clients behind proxies, hosts, and open files."""

import asyncio

import pytest
import uvicorn
from asgi import request, silent
from fastapi.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from api import server
from api.app import create_app
from api.settings import Settings
from calcgpt.base.errors import UserError

CLIENT, PROXY = "203.0.113.7", "10.0.0.1"


@pytest.mark.parametrize(
    ("peer", "forwarded", "seen"),
    [
        (PROXY, CLIENT, (CLIENT, "https")),
        (PROXY, f"192.0.2.1, {CLIENT}, 10.0.0.2", (CLIENT, "https")),  # it wrote the first itself
        (CLIENT, "192.0.2.1", (CLIENT, "http")),  # it is no proxy
    ],
)
def test_only_proxies_that_are_trusted_say_who_asks(
    peer: str, forwarded: str, seen: tuple[str, str]
) -> None:
    found = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append((scope["client"][0], scope["scheme"]))

    async def ignore(message: Message) -> None:
        pass

    options = server._options(Settings(trusted_proxies="10.0.0.0/8"))
    config = uvicorn.Config(app, **options)
    config.load()
    headers = [(b"x-forwarded-for", forwarded.encode()), (b"x-forwarded-proto", b"https")]
    scope = request(client=(peer, 5), headers=headers)
    asyncio.run(config.loaded_app(scope, silent, ignore))
    assert found == [seen]


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
