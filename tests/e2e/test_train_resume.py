"""Training processes that are really killed and interrupted: the result is the uninterrupted run.

The interrupted processes are real. Where only the result matters, training runs in this process.
"""

import json
import signal
from pathlib import Path

import torch
from commands import RunCli
from pausing import start_pausing, wait_until_paused
from safetensors.torch import load_file

STEPS = 60
FRESH = ("--set", "data.format=direct", "--set", "data.mixture.blog=1")


def command(data: tuple[str, ...], out: Path, *flags: str) -> tuple[str, ...]:
    """Returns the arguments of `calcgpt`. Checkpoints are 10 steps apart, training rows 5."""
    options = "train --recipe nano --threads 1 --quiet --device cpu --set model.dropout=0.1"
    fields = f"steps={STEPS} checkpoint_interval=10 log_interval=5 eval_interval=30 eval_batches=1"
    sets = (f"--set=train.{field}" for field in (*fields.split(), "eval_problems=20"))
    return (*options.split(), *data, "--out", str(out), *sets, *flags)


def interrupt(signum: signal.Signals, step: int, arguments: tuple[str, ...], folder: Path) -> str:
    """Runs a command in a process that gets a signal after `step`. Returns its standard error."""
    process = start_pausing(step, folder, *arguments)
    wait_until_paused(process, folder)
    process.send_signal(signum)
    _, stderr = process.communicate()
    assert process.returncode == (-signum if signum == signal.SIGKILL else 128 + signum)
    return stderr


def stopped_after(step: int) -> str:
    return f"stopped after step {step}, which is saved; --resume continues\n"


def steps(run: Path) -> list[int]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def assert_same_run(run: Path, uninterrupted: Path) -> None:
    """Compares all tensors, and the steps that have rows."""
    for name in ("model.safetensors", "training.safetensors"):
        a, b = (load_file(folder / f"step-{STEPS:08d}" / name) for folder in (run, uninterrupted))
        assert a.keys() == b.keys()
        for key in a:
            assert torch.equal(a[key], b[key]), key
    assert steps(run) == steps(uninterrupted)


def test_a_killed_and_interrupted_run_on_files_is_bit_for_bit_the_uninterrupted_run(
    data_folder: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    data, out, uninterrupted = ("--data", str(data_folder)), tmp_path / "run", tmp_path / "whole"
    interrupt(signal.SIGKILL, 25, command(data, out), tmp_path / "killed")
    assert steps(out)[-1] == 25
    assert max(out.glob("step-*")).name == "step-00000020"
    resumed = command(data, out, "--resume")
    stderr = interrupt(signal.SIGINT, 35, resumed, tmp_path / "interrupted")
    assert stderr == stopped_after(35)
    assert run_cli(*resumed)[::2] == (0, "")
    assert run_cli(*command(data, uninterrupted))[::2] == (0, "")
    assert_same_run(out, uninterrupted)


def test_a_terminated_run_without_files_is_bit_for_bit_the_uninterrupted_run(
    tmp_path: Path, run_cli: RunCli
) -> None:
    out, uninterrupted = tmp_path / "run", tmp_path / "whole"
    stderr = interrupt(signal.SIGTERM, 25, command(FRESH, out), tmp_path / "terminated")
    assert stderr == stopped_after(25)
    assert run_cli(*command(FRESH, out, "--resume"))[::2] == (0, "")
    assert run_cli(*command(FRESH, uninterrupted))[::2] == (0, "")
    assert_same_run(out, uninterrupted)
