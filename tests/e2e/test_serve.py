"""The service as a process of its own."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest


@contextmanager
def serving(checkpoint: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`calcgpt serve` on a free port, its model loaded; the process and its address."""
    command = [sys.executable, "-m", "calcgpt", "serve", "--port", "0", "--checkpoint", checkpoint]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            announced = process.stderr.readline()  # comes when the model is loaded
            found = re.search(r"http://127\.0\.0\.1:\d+", announced)
            assert found, announced + process.stderr.read()
            yield process, found.group()
        finally:
            process.kill()


def test_it_answers_over_http_and_ends_when_told_to(tiny_folder: Path) -> None:
    with serving(tiny_folder) as (process, address):
        assert httpx.get(f"{address}/healthz").status_code == 200
        assert httpx.get(f"{address}/readyz").json() == {"status": "ok", "model": "tiny"}

        response = httpx.post(f"{address}/v1/calculate", json={"expression": "12.5*3"})
        assert response.status_code == 200
        answered = response.json()
        assert (answered["exact"], answered["model"]) == ("37.5", "tiny")
        assert answered["prompt"] == "$(00000012.5*0000000003)="
        assert answered["verified"] == (answered["result"] == "37.5")

        refused = httpx.post(f"{address}/v1/calculate", json={"expression": "12.5*"})
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["position"] == 5

        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=10)
        assert process.returncode == 0
        assert errors == ""


def test_a_port_in_use_is_one_line(run_cli: Callable[..., Any], tiny_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run_cli("serve", "--port", port, "--checkpoint", tiny_folder)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"error: cannot listen on 127.0.0.1:{port}: Address already in use")


def test_the_environment_sets_what_no_flag_says(
    run_cli: Callable[..., Any], tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("CALCGPT_PORT", str(port))
        monkeypatch.setenv("CALCGPT_CHECKPOINT", str(tiny_folder))
        assert f"127.0.0.1:{port}" in run_cli("serve").err
    assert "'absent'" in run_cli("serve", "--checkpoint", "absent").err  # a flag wins
    monkeypatch.setenv("CALCGPT_PORT", "65536")
    outcome = run_cli("serve")
    assert outcome.code == 2
    assert outcome.err.startswith("error: CALCGPT_PORT: ")


def test_an_absent_checkpoint_is_one_line(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    outcome = run_cli("serve", "--port", 0, "--checkpoint", tmp_path / "absent")
    assert outcome.code == 2
    assert re.fullmatch(r"error: no checkpoint .*absent.*\n", outcome.err)


def test_a_checkpoint_that_does_not_load_ends_the_service(tiny_copy: Path) -> None:
    (tiny_copy / "model.safetensors").write_bytes(b"not a model")
    command = [sys.executable, "-m", "calcgpt", "serve", "--port", "0", "--checkpoint", tiny_copy]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert re.fullmatch(r"error: .*model\.safetensors: .*\n", ended.stderr)
    assert ended.stdout == ""
