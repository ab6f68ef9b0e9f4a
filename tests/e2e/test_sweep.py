"""Sweeps on a real Ray: one that is killed and goes on, and one on a cluster by its address."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calcgpt.recipe import load_recipe

pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` brings it")
pytest.importorskip("optuna")
import psutil

CLUSTER = """
import sys
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
"""
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(__file__).parents[2]),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # it listens for this machine alone
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),  # or it writes one to the home folder
}
SPACE = """
recipe = "nano"
[fixed.train]
eval_batches = 1
eval_problems = 0
[search]
scheduler = "none"
trials = 3
max_steps = 240
grace_steps = 40
[space."train.lr"]
type = "loguniform"
low = 1e-4
high = 1e-2
[space."model.n_layer"]
type = "int"
low = 1
high = 2
"""
TEXT = """
recipe = "nano"
[fixed]
tokenizer = "chars"
[fixed.train]
batches = "stream"
eval_batches = 1
[search]
scheduler = "bohb"
trials = 3
max_steps = 6
grace_steps = 2
[space."train.lr"]
type = "choice"
values = [1e-2, 1e-3, 1e-4, 1e-5]
"""


def start(space: Path, out: Path, data: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "calcgpt", "sweep", str(space), "--out", str(out)]
    return subprocess.Popen(
        [*command, "--data", str(data), *flags], env=ENVIRONMENT, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def wait_for(process: subprocess.Popen[str], condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def steps_of(trial: Path) -> list[int]:
    """The steps of its validations, in the order in which they were written."""
    rows = [json.loads(line) for line in (trial / "metrics.jsonl").read_text().splitlines()]
    return [row["step"] for row in rows if "val_loss" in row]


def test_a_sweep_that_is_killed_goes_on(tmp_path: Path, data_folder: Path) -> None:
    space, out = tmp_path / "space.toml", tmp_path / "out"
    space.write_text(SPACE)
    flags = ("--concurrent", "2")

    process = start(space, out, data_folder, *flags)
    wait_for(process, lambda: [*out.glob("trials/*/step-*")])
    ours = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    for other in psutil.wait_procs(ours, timeout=5)[1]:
        other.kill()  # two of Ray's own, which would look after a minute whether they are alone
    begun = {path: path.read_bytes() for path in out.glob("trials/*/params.json")}
    assert begun
    assert not (out / "report.md").exists()

    done = {path: path.stat().st_mtime_ns for path in out.glob("trials/*/step-00000240")}
    code, text, err = finish(start(space, out, data_folder, *flags, "--quiet"))
    assert (code, err) == (0, "")
    assert text.startswith("3 trials: 3 completed. Proposed by optuna, ended early by none.\n")
    for trial in out.glob("trials/*"):
        assert steps_of(trial) == [40, 80, 120, 160, 200, 240]
    assert all(path.read_bytes() == content for path, content in begun.items())
    assert all(path.stat().st_mtime_ns == when for path, when in done.items())
    assert not (out / "ray").exists()  # where Ray's pickles were
    starts = json.loads((out / "sweep.json").read_text())["starts"]
    assert [each["known_trials"] for each in starts] == [0, len(begun)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], env=ENVIRONMENT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout
        yield process.stdout.readline().strip()
        process.communicate(timeout=60)  # ends its stdin
    assert process.returncode == 0


def test_trials_wait_and_go_on_on_a_cluster(tmp_path: Path, address: str) -> None:
    for name in ("train.txt", "val.txt"):
        (tmp_path / name).write_text("To be, or not to be, that is the question:\n" * 20)
    space, out = tmp_path / "space.toml", tmp_path / "out"
    space.write_text(TEXT)
    code, text, err = finish(start(space, out, tmp_path, "--address", address, "--quiet"))
    assert (code, err) == (0, "")
    assert text.startswith("3 trials: 1 completed, 2 stopped. BOHB")
    # HyperBand: all wait after a round, and one of three goes on from there.
    assert sorted(steps_of(trial) for trial in out.glob("trials/*")) == [[2], [2], [2, 4, 6]]
    best = json.loads((out / "report.json").read_text())["trials"][0]
    recipe = load_recipe(str(out / "best.toml"))
    assert recipe.train.lr == best["values"]["train.lr"]
    assert (recipe.tokenizer, recipe.train.steps) == ("chars", 200)
    assert (out / "plots" / "parallel-coordinates.png").read_bytes().startswith(b"\x89PNG")
