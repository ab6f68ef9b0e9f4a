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


Flags = list[str]

FRESH = ["--set", "data.format=direct", "--set", "data.mixture.blog=1"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    folder = tmp_path_factory.mktemp("data")
    generate(folder, DatasetPlan(train=2000, val=50, test=50, seed=1), progress=False)
    return ["--data", str(folder)]


def start(data: Flags, out: Path, *flags: str) -> "subprocess.Popen[str]":
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


def finish_uninterrupted(data: Flags, out: Path) -> Path:
    assert finish(start(data, out)) == (0, "")
    return out


@pytest.fixture(scope="module")
def uninterrupted(files: Flags, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish_uninterrupted(files, tmp_path_factory.mktemp("files") / "run")


@pytest.fixture(scope="module")
def uninterrupted_fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish_uninterrupted(FRESH, tmp_path_factory.mktemp("fresh") / "run")


def assert_same_run(a: Path, b: Path) -> None:
    for name in ("model.safetensors", "training.safetensors"):
        ours, theirs = (load_file(run / f"step-{STEPS:08d}" / name) for run in (a, b))
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert torch.equal(ours[key], theirs[key]), key


def steps(run: Path) -> list[int]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_a_killed_and_resumed_run_is_bit_for_bit_the_uninterrupted_run(
    files: Flags, uninterrupted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = start(files, out)
    wait_for_step(process, out, 200)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert finish(start(files, out, "--resume")) == (0, "")
    assert_same_run(out, uninterrupted)
    assert steps(out) == steps(uninterrupted)


def assert_saved_on(signum: signal.Signals, data: Flags, out: Path, uninterrupted: Path) -> None:
    process = start(data, out)
    wait_for_step(process, out, 200)
    os.kill(process.pid, signum)
    code, stderr = finish(process)
    assert code == 128 + signum
    last = int(sorted(out.glob("step-*"))[-1].name[5:])
    assert stderr == f"stopped after step {last}, which is saved; --resume continues\n"
    assert finish(start(data, out, "--resume")) == (0, "")
    assert_same_run(out, uninterrupted)
    # The step at which the run was saved has a row too.
    whole = steps(uninterrupted)
    assert steps(out) == sorted(whole if last in whole else [*whole, last])


def test_sigint_saves_a_run_on_files(files: Flags, uninterrupted: Path, tmp_path: Path) -> None:
    assert_saved_on(signal.SIGINT, files, tmp_path / "run", uninterrupted)


def test_sigterm_saves_a_run_without_files(uninterrupted_fresh: Path, tmp_path: Path) -> None:
    assert_saved_on(signal.SIGTERM, FRESH, tmp_path / "run", uninterrupted_fresh)
