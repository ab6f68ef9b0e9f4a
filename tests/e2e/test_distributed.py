"""Training by two processes that torchrun starts: the same numbers as by one.

As a program, this file is what torchrun starts for the comparisons: one start for all of them.
"""

import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from forks import PATIENCE, Popen
from safetensors.torch import load_file
from small_runs import FRESH, NO_ANSWERS, rows
from torch import distributed as dist
from torchrun import torchrun

from calcgpt.base.errors import DataError, UserError
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Recipe
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.training.distributed import ProcessGroup, process_group
from calcgpt_lab.training.train import train

BASE = [
    "model.n_layer=1",
    "train.batch_size=8",
    "train.steps=8",
    "train.warmup_steps=4",
    "train.log_interval=1",
    "train.eval_batches=2",
    "train.eval_problems=20",
    "train.eval_interval=4",
    "train.checkpoint_interval=4",
]
RECIPES = {
    "everything": (
        "train.grad_accum=2",
        "train.ema_decay=0.9",
        "train.grad_clip=0.05",  # clips every step
        "train.schedule=cosine",
        "model.tie_embeddings=true",
        "model.n_layer=2",
    ),
    # Rows of different lengths, which also have different numbers of targets; without files.
    "unlike": (*FRESH, NO_ANSWERS),
    "muon": ("train.optimizer=muon", "train.ema_decay=0.9", "train.eval_problems=0"),
    "dropout": ("model.dropout=0.2", "train.eval_problems=0"),
}
N_PROCESSES = 2
LAST = "step-00000008"


def recipe(name: str) -> Recipe:
    return load_recipe("nano", (*BASE, *RECIPES[name]))


def data_of(name: str, data: Path) -> Path | None:
    return None if name == "unlike" else data


def cut_in_the_middle(run: Path, copy: Path) -> Path:
    """A run as it was when half of its steps were done."""
    shutil.copytree(run, copy)
    shutil.rmtree(copy / LAST)
    return copy


def run_by_one(name: str, data: Path, out: Path, resume: bool = False) -> Path:
    train(recipe(name), data_of(name, data), out, resume=resume, device="cpu", progress=False)
    return out


def program(data: Path, by_one: Path, out: Path) -> None:
    """Makes all runs by two processes, and lets them communicate."""
    dist.init_process_group("gloo")
    main = dist.get_rank() == 0
    for name in RECIPES:
        train(recipe(name), data_of(name, data), out / name, device="cpu", progress=False)
    begun = {
        "everything": by_one / "everything",
        "muon": by_one / "muon",
        "dropout": out / "dropout",
    }
    for name, run in begun.items():
        copy = out / "resumed" / name
        if main:
            cut_in_the_middle(run, copy)
        dist.barrier()
        train(recipe(name), data_of(name, data), copy, resume=True, device="cpu", progress=False)
    (out / f"process-{dist.get_rank()}.json").write_text(json.dumps(communicate(out)))
    dist.destroy_process_group()


def communicate(out: Path) -> dict[str, object]:
    """Returns the results of communication in this process."""
    results: dict[str, object] = {}
    with process_group() as group:
        assert isinstance(group, ProcessGroup)
        rank = group.rank
        results["all_reduce_max"] = group.all_reduce_max(15 * rank)
        results["all_reduce_sum"] = group.all_reduce_sum(torch.tensor(1.5 + rank))
        results["broadcast"] = group.broadcast(f"of {rank}")
        before = torch.get_rng_state()
        group.seed_step(7, 3)
        results["stream goes on"] = torch.equal(before, torch.get_rng_state())
        results["first draw"] = torch.rand(()).item()
        group.seed_step(7, 3)
        results["first draw again"] = torch.rand(()).item()
        for case, failing in {"both fail": (0, 1), "second fails": (1,)}.items():
            try:
                with group.share_errors():
                    if rank in failing:
                        raise DataError(f"error of {rank}")
            except UserError as error:
                results[case] = f"{type(error).__name__}: {error}"
    return results


@pytest.fixture(scope="module")
def by_one(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs by a single process."""
    out = tmp_path_factory.mktemp("by-one")
    for name in RECIPES:
        run_by_one(name, data_folder, out / name)
    return out


def finish(process: Popen) -> tuple[int, str]:
    out, err = process.communicate()
    return process.wait(), out + err


@pytest.fixture(scope="module")
def by_two(data_folder: Path, by_one: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs by two processes."""
    out = tmp_path_factory.mktemp("by-two")
    code, output = finish(torchrun(N_PROCESSES, __file__, data_folder, by_one, out))
    assert code == 0, output
    assert "Warning" not in output
    return out


def assert_same_metrics(actual: Path, expected: Path, tolerance: float) -> None:
    a, b = rows(actual), rows(expected)
    assert [row.keys() for row in a] == [row.keys() for row in b]
    assert len(a) == 8 + 2
    for row, other in zip(a, b, strict=True):
        for key in row.keys() - {"seconds", "tokens_per_s", "tokens", "mfu"}:
            assert row[key] == pytest.approx(other[key], abs=tolerance), (row["step"], key)


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "dropout"])
def test_two_processes_have_the_losses_of_one(by_one: Path, by_two: Path, name: str) -> None:
    a, b = by_two / name, by_one / name
    assert_same_metrics(a, b, 1e-5)
    if name != "unlike":  # its tokens are fewer: narrower micro-batches have less padding
        assert [row.get("tokens") for row in rows(a)] == [r.get("tokens") for r in rows(b)]


def test_tokens_are_summed_over_all_processes(by_two: Path) -> None:
    of_one_step = rows(by_two / "unlike")[0]["tokens"]
    assert 8 * 100 < of_one_step < 8 * 256  # of four rows it would be less


def test_the_processes_leave_one_plain_run(by_one: Path, by_two: Path) -> None:
    actual, expected = by_two / "everything", by_one / "everything"
    names = [sorted(p.relative_to(run) for p in run.rglob("*")) for run in (actual, expected)]
    events = re.compile("tfevents")
    plain = [[path for path in paths if not events.search(path.name)] for paths in names]
    assert plain[0] == plain[1]
    assert len(names[0]) == len(names[1])
    for name in ("model.safetensors", "training.safetensors"):
        a, b = load_file(actual / LAST / name), load_file(expected / LAST / name)
        assert a.keys() == b.keys()
        assert {k: (t.shape, t.dtype) for k, t in a.items()} == {
            k: (t.shape, t.dtype) for k, t in b.items()
        }
    assert Checkpoint.load(actual / LAST).model(torch.tensor([[1, 2]])).shape == (1, 2, 21)


@pytest.mark.parametrize("name", ["everything", "muon"])
def test_two_processes_resume_what_one_began(by_one: Path, by_two: Path, name: str) -> None:
    assert_same_metrics(by_two / "resumed" / name, by_one / name, 1e-5)


def test_one_process_resumes_what_two_began(
    data_folder: Path, by_one: Path, by_two: Path, tmp_path: Path
) -> None:
    copy = cut_in_the_middle(by_two / "everything", tmp_path / "run")
    run_by_one("everything", data_folder, copy, resume=True)
    assert_same_metrics(copy, by_one / "everything", 1e-5)


def test_each_process_has_its_own_dropout_and_the_same_on_resume(
    by_one: Path, by_two: Path
) -> None:
    whole, resumed = by_two / "dropout", by_two / "resumed" / "dropout"
    assert_same_metrics(resumed, whole, 1e-6)
    first = [rows(run / "dropout")[0]["loss"] for run in (by_one, by_two)]
    assert abs(first[0] - first[1]) > 1e-3


def test_processes_communicate(by_two: Path) -> None:
    main, other = (json.loads((by_two / f"process-{r}.json").read_text()) for r in range(2))
    for results in (main, other):
        assert results["all_reduce_max"] == 15
        assert results["all_reduce_sum"] == 4.0
        assert results["broadcast"] == "of 0"
    assert main["stream goes on"]
    assert not other["stream goes on"]
    assert other["first draw"] == other["first draw again"] != main["first draw"]
    assert main["first draw"] != main["first draw again"]
    assert main["both fail"] == "DataError: error of 0"
    assert other["both fail"] == "TrainingError: process 0: error of 0"
    assert main["second fails"] == other["second fails"] == "TrainingError: process 1: error of 1"


def command(data: Path, out: Path, *flags: str) -> Popen:
    """`torchrun -m calcgpt train`."""
    options = ["-m", "calcgpt", "train", "--recipe", "nano", "--quiet", "--device", "cpu"]
    sets = (f"--set={value}" for value in BASE)
    return torchrun(N_PROCESSES, *options, "--data", data, "--out", out, *sets, *flags)


def own_lines(output: str) -> list[str]:
    """The lines that are not torchrun's."""
    return re.findall(r"^(?:error|stopped|the run) .*|^error: .*", output, re.MULTILINE)


def exit_codes(output: str) -> list[int]:
    """The exit codes of the processes in torchrun's report."""
    return [int(code) for code in re.findall(r"^ +exitcode +: (-?\d+)", output, re.M)]


LONG = ("--set", "train.steps=100000", "--set", "train.eval_interval=100000")


def start_long_run(data: Path, out: Path, *flags: str) -> tuple[Popen, list[psutil.Process]]:
    """A run that has its first checkpoint, or one more, and its two processes."""
    before = set(out.glob("step-*"))
    launcher = command(data, out, *LONG, "--set", "train.checkpoint_interval=10", *flags)
    deadline = time.monotonic() + PATIENCE
    while not set(out.glob("step-*")) - before:
        assert launcher.poll() is None, launcher.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    processes = psutil.Process(launcher.pid).children()
    assert len(processes) == N_PROCESSES
    return launcher, sorted(processes, key=lambda process: process.pid)


def test_signals_stop_all_processes_and_the_run_resumes(data_folder: Path, tmp_path: Path) -> None:
    """One process is terminated. Then the run is resumed, and interrupted by Ctrl-C at torchrun."""
    out = tmp_path / "run"
    launcher, (_, second) = start_long_run(data_folder, out)
    os.kill(second.pid, signal.SIGTERM)
    code, output = finish(launcher)
    assert code != 0
    last = sorted(out.glob("step-*"))[-1]
    step = int(last.name[5:])
    assert own_lines(output) == [f"stopped after step {step}, which is saved; --resume continues"]
    assert exit_codes(output) == [128 + signal.SIGTERM] * 2
    launcher, _ = start_long_run(data_folder, out, "--resume")
    launcher.send_signal(signal.SIGINT)
    _, output = finish(launcher)
    [line] = own_lines(output)
    last = sorted(out.glob("step-*"))[-1]
    final = int(last.name[5:])
    assert final > step
    assert line.startswith(f"stopped after step {final}, which is saved")
    Checkpoint.load(last)
    assert [r["step"] for r in rows(out) if "loss" in r] == list(range(1, final + 1))


def test_if_one_process_is_killed_the_other_ends(data_folder: Path, tmp_path: Path) -> None:
    launcher, (_, second) = start_long_run(data_folder, tmp_path / "run")
    second.kill()
    code, output = finish(launcher)
    assert code != 0
    assert own_lines(output) in ([], ["error: another process of this run ended too early"])
    assert "calcgpt_lab/training/train.py" not in output  # no traceback but torchrun's


def test_an_error_in_all_processes_is_printed_once(data_folder: Path, tmp_path: Path) -> None:
    code, output = finish(command(data_folder, tmp_path / "run", "--set", "train.batch_size=3"))
    assert code != 0
    message = "batch_size 3 is not divisible by grad_accum 1 times 2 processes"
    assert own_lines(output) == [f"error: {message}"]
    codes = exit_codes(output)
    assert codes
    assert set(codes) <= {2, -signal.SIGTERM}
    assert not list((tmp_path / "run").glob("step-*"))


if __name__ == "__main__":
    program(*map(Path, sys.argv[1:]))
