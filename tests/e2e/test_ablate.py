"""An ablation in real processes: complete, interrupted and continued, extended, with failures."""

import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner
from commands import RunCli
from forks import Popen
from pausing import start_pausing, wait_until_paused
from waiting import PATIENCE

from calcgpt.cli import cli

SUITE = """
recipe = "nano"
seeds = [1, 2]
[score]
batches = 2
contexts = [1, 2]
problems = 4
[tasks.sums]
problems = { train = 500, val = 50, test = 50 }
[tasks.sums.train]
batches = "stream"
steps = 60
checkpoint_interval = 25
log_interval = 10
eval_interval = 30
eval_batches = 2
eval_problems = 0
[variants.rope]
[variants.learned]
model = { position = "learned" }
"""


def command(suite: Path, out: Path, *flags: str) -> tuple[str, ...]:
    return ("ablate", "--suite", str(suite), "--out", str(out), "--device", "cpu", *flags)


def finish(process: Popen) -> tuple[int, str, str]:
    """Waits for the process and its children, which hold its pipes open."""
    stdout, stderr = process.communicate()
    return process.wait(0), stdout, stderr


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("suite") / "sums.toml"
    file.write_text(SUITE, "utf-8")
    return file


@pytest.fixture(scope="module")
def complete(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an ablation that was never interrupted."""
    out = tmp_path_factory.mktemp("complete") / "out"
    ended = CliRunner().invoke(cli, command(suite, out))
    assert ended.exit_code == 0, ended.stderr
    assert str(out / "report.md") in ended.stdout.splitlines()
    assert "sums learned seed 2: done" in ended.stderr
    assert re.search(r"^4 runs, \d at a time: about 0:00:\d\d if all are ", ended.stderr, re.M)
    return out


def scores(out: Path) -> list[Path]:
    return list(out.glob("runs/*/*/*/score.json"))


def weights(out: Path) -> dict[str, bytes]:
    files = out.glob("runs/*/*/*/step-00000060/model.safetensors")
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def reported(out: Path) -> dict[str, Any]:
    record = json.loads((out / "report.json").read_text("utf-8"))
    tables: dict[str, Any] = record["tasks"]["sums"]["variants"]
    return tables


def test_the_report_has_every_run(complete: Path) -> None:
    assert len(scores(complete)) == len(weights(complete)) == 4
    assert list(reported(complete)) == ["rope", "learned"]
    for name, variant in reported(complete).items():
        assert variant["seeds"] == [1, 2]
        assert len(set(variant["val_loss"]["values"])) == 2
        assert (variant["val_loss_at_context"]["128"] is None) == (name == "learned")
        assert all(run["answers"][0]["n"] == 4 for run in variant["runs"])
    assert len(list((complete / "plots").glob("*.png"))) == 1


def test_runs_of_other_settings_are_refused(complete: Path, suite: Path, run_cli: RunCli) -> None:
    outcome = run_cli("ablate", "--suite", suite, "--out", complete, "--set", "train.steps=20")
    assert "train.steps = 60, not 20" in outcome.error


def test_what_does_not_fit_to_earlier_runs_is_refused_before_any_run(
    complete: Path, suite: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    """The report would have the runs of both calls."""
    out, other = tmp_path / "out", tmp_path / "other"
    shutil.copytree(complete, out)
    shutil.rmtree(out / "runs/sums/learned")
    shutil.copytree(out / "data/sums", other)
    with (other / "manifest.json").open("a", encoding="utf-8") as manifest:
        manifest.write(" ")
    for reason, flags in {
        "a run with train.lr": ("--set", "train.lr=0.5"),
        "a run on other data": ("--data", f"sums={other}"),
    }.items():
        outcome = run_cli(*command(suite, out, "--only", "sums/learned", *flags))
        assert f"{out}/runs/sums/rope/seed-1 holds {reason}" in outcome.error
        assert not list(out.glob("runs/sums/learned/*/metrics.jsonl"))


def test_interrupted_and_continued_it_ends_with_the_same_weights(
    suite: Path, complete: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    """It is killed and interrupted by Ctrl-C, and continued each time.

    One run is there already and is not repeated, one is compared, and one has a new seed.
    """
    out = tmp_path / "out"
    shutil.copytree(complete, out)
    shutil.rmtree(out / "runs/sums/rope/seed-2")
    flags = ("--jobs", "2", "--only", "sums/rope", "--seed", "3", "--seed", "1", "--seed", "2")
    before = {f: f.stat().st_mtime_ns for f in out.glob("runs/*/*/*/*") if f.name != ".lock"}
    for step, signum in ((20, signal.SIGKILL), (40, signal.SIGINT)):
        folder = tmp_path / signum.name
        process = start_pausing(step, folder, *command(suite, out, *flags))
        workers = [psutil.Process(pid) for pid in wait_until_paused(process, folder, count=2)]
        process.send_signal(signum)
        code, _, stderr = finish(process)
        assert code == (130 if signum == signal.SIGINT else -signum), stderr
        assert "Traceback" not in stderr
        assert "died" not in stderr
        _, alive = psutil.wait_procs(workers, timeout=PATIENCE)
        assert not alive
        # A run stops after the step in which the signal comes.
        assert len(list(out.glob(f"runs/*/*/*/step-{step:08d}"))) == 2
        assert len(scores(out)) == 3
    code, _, stderr = run_cli(*command(suite, out, *flags))
    assert code == 0, stderr
    continued, uninterrupted = weights(out), weights(complete)
    assert len(continued) == 5
    assert continued | uninterrupted == continued
    assert {f: f.stat().st_mtime_ns for f in before} == before
    seeds = {name: variant["seeds"] for name, variant in reported(out).items()}
    assert seeds == {"rope": [1, 2, 3], "learned": [1, 2]}


def test_runs_that_fail_or_are_killed_stop_no_other(tmp_path: Path) -> None:
    suite, out = tmp_path / "suite.toml", tmp_path / "out"
    tables = SUITE.replace("seeds = [1, 2]", "seeds = [1]").partition("[variants.rope]")[0]
    variants = """
        [variants.rope]
        [variants.wild]
        train = { lr = 1e30 }
        [variants.killed]
        train = { log_interval = 7 }  # it alone has a row at step 7
    """
    suite.write_text(tables + variants, "utf-8")
    process = start_pausing(7, tmp_path / "paused", *command(suite, out, "--jobs", "2"))
    [worker] = wait_until_paused(process, tmp_path / "paused")
    os.kill(worker, signal.SIGKILL)
    code, _, stderr = finish(process)
    assert code == 2
    assert "sums killed seed 1: its process died (out of memory?)" in stderr
    last = stderr.splitlines()[-1]
    assert last.startswith("error: 2 of 3 runs failed; sums wild seed 1: the loss is nan")
    assert "Traceback" not in stderr
    assert list(reported(out)) == ["rope"]


def test_a_damaged_score_is_refused(complete: Path, suite: Path, run_cli: RunCli) -> None:
    file = complete / "runs/sums/rope/seed-1/score.json"
    content = file.read_bytes()
    file.write_bytes(content[:40])
    outcome = run_cli("ablate", "--suite", suite, "--out", complete)
    file.write_bytes(content)
    assert outcome.error.startswith(f"{file}: not JSON")
