"""Training processes that are really killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from datagen.dataset import DatasetPlan, generate

STEPS = 600


Data = list[str]  # the flags that name it


@pytest.fixture(scope="module", params=["files", "no files"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Data:
    if request.param == "no files":
        return ["--set", "data.format=direct", "--set", "data.mixture.blog=1"]
    folder = tmp_path_factory.mktemp("data")
    generate(folder, DatasetPlan(train=2000, val=50, test=50, seed=1), progress=False)
    return ["--data", str(folder)]


def start(data: Data, out: Path, *flags: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable, "-m", "calcgpt", "train", "--recipe", "nano", *data,
        "--out", str(out), "--threads", "1", "--quiet", "--device", "cpu",
        "--set", f"train.steps={STEPS}", "--set", "train.checkpoint_interval=100",
        "--set", "train.eval_interval=300", "--set", "train.eval_problems=20",
        "--set", "train.eval_batches=1", "--set", "model.dropout=0.1", *flags,
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, stderr = process.communicate(timeout=120)
    return process.returncode, stderr


def wait_for_step(process: "subprocess.Popen[str]", out: Path, step: int) -> None:
    """Until the checkpoint of `step` stands under its final name."""
    deadline = time.monotonic() + 60
    while not list(out.glob(f"step-{step:08d}")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture(scope="module")
def uninterrupted(data: Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert finish(start(data, out)) == (0, "")
    return out


def assert_same_run(ours: Path, theirs: Path) -> None:
    for name in ("model.safetensors", "training.safetensors"):
        a, b = (load_file(run / f"step-{STEPS:08d}" / name) for run in (ours, theirs))
        assert a.keys() == b.keys()
        for key in a:
            assert torch.equal(a[key], b[key]), key
    steps = [
        [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (ours, theirs)
    ]
    # A run that was stopped by a signal has a row more, of the step at which it was saved.
    assert steps[0] == sorted(steps[0])
    assert set(steps[1]) <= set(steps[0])


def test_killed_and_resumed_is_bit_for_bit_the_uninterrupted_run(
    data: Data, uninterrupted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    for step in (100, 200):  # killed at some moment after these checkpoints
        process = start(data, out, *(["--resume"] if step > 100 else []))
        wait_for_step(process, out, step)
        process.kill()
        assert finish(process)[0] == -signal.SIGKILL
    assert finish(start(data, out, "--resume")) == (0, "")
    assert_same_run(out, uninterrupted)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_runs_save_first(
    data: Data, uninterrupted: Path, tmp_path: Path, signum: signal.Signals
) -> None:
    out = tmp_path / "run"
    process = start(data, out)
    wait_for_step(process, out, 200)
    os.kill(process.pid, signum)
    code, stderr = finish(process)
    assert code == 128 + signum
    assert "--resume continues" in stderr
    assert len(stderr.splitlines()) == 1
    last = sorted(out.glob("step-*"))[-1]
    assert str(int(last.name[5:])) in stderr
    assert finish(start(data, out, "--resume")) == (0, "")
    assert_same_run(out, uninterrupted)
