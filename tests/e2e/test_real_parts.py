"""The service with the programs that stand beside it: nginx and Prometheus, if installed."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import httpx2 as httpx
import pytest
from serving import events_of, free_port, problem, server
from waiting import PATIENCE, wait_for

from api.telemetry import Metrics

ROOT = Path(__file__).parents[2]
HSTS = "strict-transport-security"


def program(name: str, package: str) -> str:
    """The path of a program; skips the test if there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: Debian's package {package} has it")
    return path


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


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate for 127.0.0.1 and its key, as the configuration names them."""
    openssl = program("openssl", "openssl")
    folder = tmp_path_factory.mktemp("tls")
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"]
    subprocess.run(
        [openssl, *options.split(), *names, *files], check=True, stderr=subprocess.DEVNULL
    )
    return folder


@contextmanager
def nginx(
    service: str, folder: Path, certificate: Path, changes: Mapping[str, str] | None = None
) -> Iterator[httpx.Client]:
    """Yields a client of nginx with the shipped configuration, in front of the service at that URL.

    Addresses, ports and paths are others, and what `changes` says.
    """
    path = program("nginx", "nginx-light")
    http, https = free_port(), free_port()
    text = (ROOT / "deploy" / "nginx.conf").read_text("utf-8")
    for old, new in {
        "listen 80;": f"listen 127.0.0.1:{http};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{https} ssl http2;",
        "    listen [::]:80;\n": "",
        "    listen [::]:443 ssl http2;\n": "",
        "127.0.0.1:8000": service.removeprefix("http://"),
        "/etc/ssl/calcgpt": str(certificate),
        **(changes or {}),
    }.items():
        assert old in text
        text = text.replace(old, new)
    paths = "".join(
        f"{name}_temp_path {folder};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/errors;\nevents {{}}\n"
        f"http {{ access_log off; {paths}\n{text}}}\n"
    )
    command = [path, "-p", str(folder), "-c", str(configuration), "-e", str(folder / "errors")]
    trusted = ssl.create_default_context(cafile=str(certificate / "fullchain.pem"))
    with (
        running(command, https),
        httpx.Client(
            base_url=f"https://127.0.0.1:{https}", verify=trusted, timeout=PATIENCE
        ) as client,
    ):
        yield client


def test_nginx_passes_answers_on_and_refuses_what_it_should(
    tiny_folder: Path, tmp_path: Path, certificate: Path
) -> None:
    body = {"expression": "12.5+3"}
    with server(tiny_folder) as service, nginx(service.address, tmp_path, certificate) as client:
        answer = client.post("/v1/calculate", json=body, headers={"X-Forwarded-For": "203.0.113.7"})
        assert answer.json()["exact"] == "15.5"
        direct = httpx.post(f"{service.address}/v1/calculate/stream", json=body, timeout=PATIENCE)
        assert direct.headers["x-accel-buffering"] == "no"
        streamed = client.post("/v1/calculate/stream", json=body)
        assert events_of(streamed.text)[-1][0] == "result"
        assert answer.headers[HSTS]
        wait_for(lambda: any(r.get("route") == "/v1/calculate" for r in service.records))
        clients = {r["client"] for r in service.records if r.get("route") == "/v1/calculate"}
        assert clients == {"127.0.0.1"}  # as nginx says, not as the client claims

        too_large = client.post("/v1/calculate", json={"expression": "1" * 70_000})
        problem(too_large, 413)
        assert too_large.headers[HSTS]
        assert client.get("/metrics").status_code == 404
        assert client.get("/readyz").status_code == 200

        service.process.kill()
        service.process.wait(PATIENCE)
        unavailable = client.get("/readyz")
        problem(unavailable, 503)
        assert unavailable.headers[HSTS]


def test_nginx_limits_the_connections_and_requests_of_an_address(
    tiny_folder: Path, tmp_path: Path, certificate: Path
) -> None:
    """With a rate so low that time does not matter."""
    slow = {"rate=50r/s": "rate=1r/m", "client_body_timeout 10s": "client_body_timeout 600s"}
    with (
        server(tiny_folder) as service,
        nginx(service.address, tmp_path, certificate, slow) as client,
        ExitStack() as connections,
    ):
        context = ssl.create_default_context(cafile=str(certificate / "fullchain.pem"))
        incomplete = b"POST /v1/calculate HTTP/1.1\r\nHost: calc\r\nContent-Length: 9\r\n\r\n1"
        host, port = client.base_url.host, client.base_url.port
        for _ in range(33):
            plain = socket.create_connection((host, port), PATIENCE)
            connection = connections.enter_context(context.wrap_socket(plain, server_hostname=host))
            connection.sendall(incomplete)
        assert b" 429 " in connection.recv(100)  # the last one
        connections.close()

        wait_for(lambda: client.get("/readyz").status_code == 200)
        files = [client.get("/static/page.css").status_code for _ in range(200)]
        assert files == [200] * 200  # a page needs many, and several visitors may share an address
        answers = [client.get("/healthz") for _ in range(110)]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert 0 < len(refused) < 110
        assert all(problem(answer, 429, "rate-limited") for answer in refused)
        assert refused[0].headers["retry-after"] == "1"
        assert refused[0].headers[HSTS]


class SlowEvents(BaseHTTPRequestHandler):
    """Sends an event, and the next one when the client has that."""

    arrived = Event()
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("X-Accel-Buffering", "no")  # as the service does
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"7\r\nfirst\n\n\r\n")
        if self.arrived.wait(PATIENCE):
            self.wfile.write(b"6\r\nlast\n\n\r\n0\r\n\r\n")


def test_nginx_passes_events_on_as_they_come(tmp_path: Path, certificate: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowEvents) as upstream:
        Thread(target=upstream.serve_forever).start()
        address = f"http://127.0.0.1:{upstream.server_port}"
        try:
            with (
                nginx(address, tmp_path, certificate) as client,
                client.stream("GET", "/v1/calculate/stream") as response,
            ):
                pieces = response.iter_bytes()
                assert next(pieces) == b"first\n\n"
                SlowEvents.arrived.set()
                assert next(pieces) == b"last\n\n"
        finally:
            upstream.shutdown()


def test_prometheus_takes_configuration_metrics_and_rules(tmp_path: Path) -> None:
    promtool = program("promtool", "prometheus")
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(ROOT / "deploy" / name, tmp_path)
    shutil.copy(ROOT / "tests" / "alerts_cases.yml", tmp_path)
    metrics = Metrics()
    metrics.requests.labels("/v1/calculate", "POST", "200").inc()
    metrics.request_seconds.labels("/v1/calculate").observe(0.01)
    page = metrics.render()[0].decode()
    for words in (
        "check rules alerts.yml",
        "check config prometheus.yml",
        "test rules alerts_cases.yml",
        "check metrics",
    ):
        checked = subprocess.run(
            [promtool, *words.split()], input=page, cwd=tmp_path, capture_output=True, text=True
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
