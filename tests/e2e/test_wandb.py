"""Weights & Biases itself: offline, without an account, and with a terminal for its questions."""

import os
import pty
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from forks import TRAINING, Popen
from waiting import PATIENCE

pytest.importorskip("wandb", reason="the extra `wandb` is not installed")

OVERRIDES = [
    "data.format=direct",
    "data.mixture.blog=1",
    "train.schedule=constant",  # may be resumed with more steps
    "train.warmup_steps=0",
    "train.checkpoint_interval=10",
    "train.log_interval=2",
    "train.eval_interval=10",
    "train.eval_problems=10",
    "train.eval_batches=1",
]


def start(
    out: Path, steps: int, resume: str = "no", mode: str = "offline", **options: Any
) -> Popen:
    """Starts a training process with an empty home folder, so that nobody is logged in."""
    home = str(out.parent)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_")}
    environment |= {"HOME": home, "NETRC": f"{home}/netrc", "WANDB_MODE": mode}
    # W&B gives its own process 30 seconds to start, and a run 90.
    environment |= dict.fromkeys(("WANDB__SERVICE_WAIT", "WANDB_INIT_TIMEOUT"), str(PATIENCE))
    words = "-m calcgpt train --recipe nano --device cpu --quiet --wandb mine --out"
    command = [sys.executable, *words.split(), str(out)]
    command += [f"--set={override}" for override in (*OVERRIDES, f"train.steps={steps}")]
    if resume == "yes":
        command.append("--resume")
    return Popen(command, TRAINING, env=environment, **options)


def offline_runs(out: Path) -> list[Path]:
    return sorted(out.glob("wandb/offline-run-*/*.wandb"))


def test_offline_a_run_and_its_resumption_are_one_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    for steps, resume in ((10, "no"), (20, "yes")):
        process = start(out, steps, resume)
        output, errors = process.communicate()
        assert output.startswith("the run is complete; ")
        assert output.count("\n") == 1
        assert (process.returncode, errors) == (0, "")
    first, second = offline_runs(out)
    assert first.name == second.name
    sent = {path.name for path in out.glob("wandb/offline-run-*/files/*")}
    assert sent <= {"requirements.txt", "wandb-metadata.json"}  # no code, no differences to it


def test_without_a_login_there_is_an_error_and_no_prompt(tmp_path: Path) -> None:
    our_side, run_side = pty.openpty()  # where W&B would ask for a key
    process = start(tmp_path / "run", 10, mode="online", files=(run_side,) * 3)
    try:
        assert process.wait() == 2
        output = click.unstyle(os.read(our_side, 10_000).decode())  # may end in a reset of colours
    finally:
        process.kill()
        os.close(our_side)
        os.close(run_side)
    assert output.startswith("error: --wandb: not logged in")
    assert len(output.splitlines()) == 1
    assert not (tmp_path / "run").exists()
