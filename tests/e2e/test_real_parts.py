"""The service with the programs that stand beside it: Redis, nginx and Prometheus, if installed."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest
from forks import PATIENCE
from serving import events_of, server, wait_for

from api.access import Limiter

ROOT = Path(__file__).parents[2]


def program(name: str, package: str) -> str:
    """The path of a program; skips the test if there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: Debian's package {package} has it")
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """Runs a program until the end of the block. It listens on the port first."""

    def listens() -> bool:
        with socket.socket() as client:
            return process.poll() is not None or client.connect_ex(("127.0.0.1", port)) == 0

    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(listens)
            assert process.poll() is None
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


def test_workers_share_their_rates_in_redis_and_go_on_without_it(tmp_path: Path) -> None:
    redis = program("redis-server", "redis-server")
    pytest.importorskip("redis", reason="redis is not installed: the extra `redis` has it")
    port = free_port()
    command = [redis, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", tmp_path]

    def workers() -> list[Limiter]:
        uri = f"async+redis://127.0.0.1:{port}"
        return [Limiter("5/hour", uri, timeout=PATIENCE) for _ in range(2)]

    async def count() -> list[bool]:
        pair = workers()
        return [await pair[n % 2].seconds_to_wait("a client") == 0 for n in range(8)]

    async def other_client() -> int:
        return await workers()[0].seconds_to_wait("another", cost=5)

    with running([str(word) for word in command], port):
        assert asyncio.run(count()) == [True] * 5 + [False] * 3
        assert asyncio.run(other_client()) == 0
    assert asyncio.run(count()) == [True] * 8  # Redis is gone: nobody is refused


def test_nginx_passes_answers_and_streams_on(tiny_folder: Path, tmp_path: Path) -> None:
    nginx = program("nginx", "nginx-light")
    (location,) = re.findall(r"```nginx\n(.*?)```", (ROOT / "docs" / "DEPLOY.md").read_text(), re.S)
    port = free_port()
    with server(tiny_folder) as service:
        location = location.replace("http://127.0.0.1:8000", service.address)
        paths = "\n".join(
            f"{name}_temp_path {tmp_path};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; error_log stderr;\nevents {{}}\n"
            f"http {{ access_log off; {paths}\n"
            f"server {{ listen 127.0.0.1:{port}; {location} }} }}\n"
        )
        options = ["-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-e", "stderr"]
        with (
            running([nginx, *options], port),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client,
        ):
            body = {"expression": "12.5+3"}
            headers = {"X-Forwarded-For": "203.0.113.7"}
            assert client.post("/v1/calculate", json=body).json()["exact"] == "15.5"
            streamed = client.post("/v1/calculate/stream", json=body, headers=headers)
            assert [name for name, _ in events_of(streamed.text)][0::1000] == ["start"]
            assert events_of(streamed.text)[-1][0] == "result"
            assert client.get("/readyz").status_code == 200
        wait_for(lambda: any(r.get("route") == "/v1/calculate/stream" for r in service.records))
        clients = {r["client"] for r in service.records if r.get("route") == "/v1/calculate/stream"}
        assert clients == {"127.0.0.1"}  # as nginx says, not as the client claims


def test_prometheus_takes_the_rules_and_the_configuration(tmp_path: Path) -> None:
    promtool = program("promtool", "prometheus")
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(ROOT / "deploy" / name, tmp_path)
    for words in (["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"]):
        checked = subprocess.run(
            [promtool, *words], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
