"""`calcgpt serve` starts, answers, logs and ends. An error is one line."""

import json
import re
import signal
import socket
from pathlib import Path

import httpx2 as httpx
import pytest
from commands import RunCli
from serving import problem, server
from waiting import PATIENCE, wait_for
from wire import ask


def test_it_answers_over_http_and_ends_at_sigterm(tiny_folder: Path) -> None:
    with (
        server(tiny_folder, forked=False) as running,
        httpx.Client(base_url=running.address, timeout=PATIENCE) as client,
    ):
        address = running.address
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").json() == {"status": "ok", "model": "tiny"}

        answered = ask(running, "12.5*3")
        assert (answered["exact"], answered["model"]) == ("37.5", "tiny")
        assert answered["nodes"][0]["prompt"] == "$(00000012.5*0000000003)="
        assert answered["verified"] == (answered["result"] == "37.5")

        refused = client.post("/v1/calculate", json={"expression": "12.5*"})
        assert problem(refused, 422, "syntax")["position"] == 5
        problem(client.get("/v1/models", headers={"Host": "evil.example"}), 421)

        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 0
        by_torch, first, *others, last = running.records
    assert by_torch["message"].startswith("tiny is run by torch: ")
    assert first["message"].startswith(f"tiny answers on {address}, documented at {address}/docs")
    requests = [(record["path"], record["status"]) for record in others]  # none of health checks
    assert requests == [("/v1/calculate", 200), ("/v1/calculate", 422), ("/v1/models", 421)]
    assert last["message"] == "the service has ended"


def test_health_has_a_port_of_its_own() -> None:
    with server("calculator", "--health-port", 0, forked=False) as running:  # it has threads
        match = re.search(r"health and metrics are on (http://127\.0\.0\.1:\d+)", running.log)
        assert match
        ask(running, "1+1")
        wait_for(lambda: httpx.get(f"{match[1]}/readyz", timeout=PATIENCE).status_code == 200)
        for path in ("/healthz", "/readyz"):
            response = httpx.get(f"{match[1]}{path}", timeout=PATIENCE)
            assert response.json() == {"status": "ok", "model": "calculator"}
            without = httpx.head(f"{match[1]}{path}", timeout=PATIENCE)
            assert (without.status_code, without.content) == (200, b"")
        metrics = httpx.get(f"{match[1]}/metrics", timeout=PATIENCE).text
        assert "calcgpt_answers_total{" in metrics
        problem(httpx.get(f"{match[1]}/v1/models", timeout=PATIENCE), 404)


def test_no_secret_is_logged(tiny_folder: Path) -> None:
    environment = {
        "CALCGPT_API_KEYS": "open-sesame,other-sesame",
        "CALCGPT_RATE_LIMIT": "2/year",  # an hour may end in between
        "CALCGPT_LOG_LEVEL": "debug",
    }
    with server(tiny_folder, **environment) as running:

        def status(**headers: str) -> int:
            url = f"{running.address}/v1/models"
            return httpx.get(url, headers=headers, timeout=PATIENCE).status_code

        assert status(authorization="Bearer open-sesame") == 200
        other = "Bearer other-sesame"
        assert [status(authorization=other) for _ in range(3)] == [200, 200, 429]
        assert status(authorization="Bearer a-guess") == status() == 401
        wait_for(lambda: sum("status" in record for record in running.records) == 6)
        assert "sesame" not in running.log
        assert "guess" not in running.log


def test_the_settings_are_shown_without_secrets(
    run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALCGPT_API_KEYS", "open-sesame,other-sesame")
    outcome = run_cli("serve", "--show-config", "--port", 1234, "--no-others")
    assert outcome.code == 0
    settings = json.loads(outcome.out)
    assert (settings["port"], settings["others"], settings["deadline"]) == (1234, False, 30.0)
    assert settings["api_keys"] == ["**********", "**********"]
    assert "sesame" not in outcome.out + outcome.err


def test_settings_that_the_service_refuses_are_not_shown(run_cli: RunCli) -> None:
    for refused in (["--checkpoint", "absent"], ["--engine", "steam"], ["--drain", "inf"]):
        assert run_cli("serve", "--show-config", *refused).error


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_in_use_is_one_line(tiny_folder: Path, workers: int, serve_here: RunCli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve_here("--port", port, "--checkpoint", tiny_folder, "--workers", workers)
    assert ended.error == f"cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--workers many", "'--workers'"),
        ("--nosuch", "--nosuch"),
        ("--host no.such.host.invalid", "cannot listen on no.such.host.invalid:0: "),
        ("--checkpoint absent", "no checkpoint 'absent'"),
        ("--rate-limit nonsense --workers 2", "'nonsense'"),
    ],
)
def test_a_wrong_setting_is_one_line(
    tiny_folder: Path, options: str, message: str, serve_here: RunCli
) -> None:
    ended = serve_here("--port", 0, "--checkpoint", tiny_folder, *options.split())
    assert message in ended.error


@pytest.mark.parametrize("workers", [1, 2])
def test_a_checkpoint_that_does_not_load_ends_the_service(
    tiny_copy: Path, workers: int, serve_here: RunCli
) -> None:
    (tiny_copy / "model.safetensors").write_bytes(b"not a model")
    ended = serve_here("--port", 0, "--checkpoint", tiny_copy, "--workers", workers)
    assert "model.safetensors: " in ended.error
