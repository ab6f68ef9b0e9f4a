"""The service on a Ray cluster of this machine alone."""

import asyncio
import os
import re
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import httpx2 as httpx
import pytest
import yaml
from forks import PATIENCE
from serving import events_of, free_port, problem, wait_for

from api.settings import Settings
from calcgpt.base.errors import ConfigError
from calcgpt.errors import CheckpointError
from calcgpt_lab.ray_cluster import connected

pytest.importorskip("ray.serve", reason="Ray is not installed: the extra `ray` brings it")
import psutil
from ray import serve
from ray.serve._private import api as private_api
from ray.serve.schema import ServeDeploySchema

from api.ray_app import Replica, app, replica_app

N_REPLICAS = 2
N_CLIENTS = 4
KEY = "of-the-test"
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).parents[1]),
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # as there: Ray listens for this machine alone
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),  # or it writes one to the home folder
    # Ray ends a proxy that takes 15 seconds to start, and on a busy machine it does.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": str(PATIENCE),
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": str(PATIENCE),
    "CALCGPT_OTHERS": "no",
    "CALCGPT_LOG_FORMAT": "json",
    "CALCGPT_API_KEYS": KEY,
    "CALCGPT_DEADLINE": str(PATIENCE),
}


def run_cluster(checkpoint: str, port: str, folder: str) -> None:
    """Runs a cluster that serves until stdin ends. As a program, this file does this."""
    local = {"object_store_memory": 80 * 2**20, "_temp_dir": folder}
    environment = {"worker_process_setup_hook": stay_on_this_machine}
    private_api.HTTP_PROXY_TIMEOUT = PATIENCE
    with connected(None, N_REPLICAS, local=local, runtime_env=environment):
        serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
        serve.run(app({"checkpoint": checkpoint, "workers": N_REPLICAS}))
        print("ready", flush=True)
        sys.stdin.read()
        serve.shutdown()


def stay_on_this_machine() -> None:
    """Makes a replica listen on the loopback alone. By default it opens a port for other replicas
    to all addresses."""
    from grpc.aio._server import Server

    listen = Server.add_insecure_port
    Server.add_insecure_port = lambda self, address: listen(
        self, address.replace("[::]", "127.0.0.1")
    )


class Cluster:
    """A process of `run_cluster`, and a client of its service."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, address: str) -> None:
        self._process = psutil.Process(process.pid)
        self._folder = folder
        headers = {"Authorization": f"Bearer {KEY}"}
        self.client = httpx.Client(base_url=address, headers=headers, timeout=PATIENCE)

    def processes(self) -> list[Any]:
        """All processes of the cluster."""
        return [self._process, *self._process.children(recursive=True)]

    def replicas(self) -> list[Any]:
        """The processes that have a model."""
        return [process for process in self.processes() if _is_replica(process)]

    def n_replicas_that_wrote(self, text: str) -> int:
        """The number of replicas that have this text in their log."""
        logs = self._folder.glob("session_latest/logs/worker-*.err")
        return sum(text in log.read_text("utf-8") for log in logs)

    def calculate(self, expression: str) -> httpx.Response:
        """Calculates an expression."""
        return self.client.post("/v1/calculate", json={"expression": expression})


def _is_replica(process: Any) -> bool:
    try:
        return any("ServeReplica" in word for word in process.cmdline())
    except psutil.NoSuchProcess:  # it has ended since
        return False


@pytest.fixture(scope="module")
def cluster(tiny_folder: Path) -> Iterator[Cluster]:
    port = free_port()
    # Not pytest's folder: the paths of sockets must be short.
    with (
        TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, __file__, tiny_folder, str(port), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        ) as process,
    ):
        running = Cluster(process, Path(folder), f"http://127.0.0.1:{port}")
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield running
        finally:
            running.client.close()
            processes = running.processes()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=PATIENCE)  # ends its stdin
            _, left = psutil.wait_procs(processes, timeout=PATIENCE)
            for other in left:
                other.kill()
        assert not left
        assert process.returncode == 0


def test_it_answers_like_a_single_server(cluster: Cluster) -> None:
    assert cluster.client.get("/readyz").json() == {"status": "ok", "model": "tiny"}

    answer = cluster.calculate("12.5*3")
    assert answer.status_code == 200, answer.text
    assert (answer.json()["exact"], answer.json()["model"]) == ("37.5", "tiny")

    assert problem(cluster.calculate("12.5*"), 422, "syntax")["position"] == 5
    cluster.client.get("/v1/models").raise_for_status()
    problem(cluster.client.get("/v1/models", headers={"Authorization": ""}), 401, "unauthorized")


def test_a_stream_arrives_in_pieces(cluster: Cluster) -> None:
    body = {"expression": "1+2"}
    with cluster.client.stream("POST", "/v1/calculate/stream", json=body) as response:
        pieces = list(response.iter_raw())
    assert len(pieces) > 2
    events = events_of(b"".join(pieces).decode())
    assert [name for name, _ in events[:2]] == ["start", "node"]
    assert events[-1][0] == "result"
    assert events[-1][1]["exact"] == "3"


def test_it_listens_only_on_this_machine(cluster: Cluster) -> None:
    connections = []
    for process in cluster.processes():
        with suppress(psutil.NoSuchProcess):  # Ray ends those that it does not need
            connections += process.net_connections("inet")
    listening = {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    assert listening
    assert listening <= LOOPBACK


def test_every_replica_answers_and_one_killed_under_load_is_replaced(cluster: Cluster) -> None:
    """No request stays without an answer. Those in the killed replica may fail."""
    ended = Event()

    def ask(seed: int) -> Counter[int]:
        statuses: Counter[int] = Counter()
        while not ended.is_set():
            try:
                answer = cluster.calculate(f"{seed}+2*3.5-1")
            except httpx.RemoteProtocolError:  # its replica was killed after it sent the headers
                statuses[500] += 1
            else:
                statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    assert answer.json()["exact"] == f"{seed + 6}"
            ended.wait(0.1)  # leaves the processor to the replica that starts
        return statuses

    def n_answered() -> int:
        return cluster.n_replicas_that_wrote('"route": "/v1/calculate"')

    with ThreadPoolExecutor(N_CLIENTS) as pool:
        clients = [pool.submit(ask, seed) for seed in range(N_CLIENTS)]
        try:
            wait_for(lambda: n_answered() >= N_REPLICAS)
            cluster.replicas()[0].kill()
            wait_for(lambda: n_answered() > N_REPLICAS)
        finally:
            ended.set()
    statuses = sum((client.result() for client in clients), Counter())
    assert 200 in statuses
    assert statuses.keys() <= {200, 500, 503}, statuses


def default_of(settings: Settings) -> str:
    """The name of a replica's default model, once the replica is healthy."""

    async def ask() -> str:
        replica = Replica()
        replica.app = replica_app(settings)
        async with replica.app.router.lifespan_context(replica.app):
            await replica.check_health()
            return replica.app.state.service.models.default.name

    return asyncio.run(ask())


def test_a_replica_is_healthy_once_its_model_is_loaded(tiny_folder: Path) -> None:
    settings = Settings(checkpoint=str(tiny_folder), others=False, engine="torch")
    assert default_of(settings) == "tiny"
    with pytest.raises(CheckpointError, match="no checkpoint 'nowhere'"):
        default_of(Settings(checkpoint="nowhere"))


def test_arguments_are_settings() -> None:
    with pytest.raises(ConfigError, match=r"^--workers: [^\n]*$"):
        app({"workers": "many"})


def test_the_documented_deployment_is_valid() -> None:
    text = (Path(__file__).parents[2] / "docs" / "DEPLOY.md").read_text("utf-8")
    (sample,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (application,) = ServeDeploySchema.model_validate(yaml.safe_load(sample)).applications
    assert application.import_path == "api.ray_app:app"
    assert app(application.args)


if __name__ == "__main__":
    run_cluster(*sys.argv[1:])
