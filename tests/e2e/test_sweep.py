"""Sweeps on a real Ray: one that is killed and continues, and one whose trials pause."""

import json
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from forks import RAY, TRAINING, Popen
from ray_cluster import RayCluster, named_children, own_lines
from waiting import PATIENCE, wait_for

from calcgpt_lab.recipe import load_recipe

pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` installs it")
pytest.importorskip("optuna")
import psutil

SPACE = """
recipe = "nano"
[fixed.train]
eval_batches = 1
eval_problems = 0
[search]
scheduler = "none"
trials = 3
max_steps = 120
grace_steps = 40
[space]
"train.lr" = { loguniform = [1e-4, 1e-2] }
"model.n_layer" = { randint = [1, 3] }
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
trials = 2
max_steps = 4
grace_steps = 2
reduction_factor = 2
[space]
"train.lr" = { choice = [1e-2, 1e-3, 1e-4, 1e-5] }
"""


def start(cluster: RayCluster, space: str, out: Path, data: Path, *flags: str) -> Popen:
    path = out.with_suffix(".toml")
    path.write_text(space)
    command = [sys.executable, "-m", "calcgpt", "sweep", path, "--out", out, "--data", data]
    return Popen(
        [*command, *flags], TRAINING + RAY, env=cluster.environment, start_new_session=True
    )


def finish(process: Popen) -> tuple[int, str, str]:
    out, err = process.communicate()
    return process.wait(0), out, own_lines(err)


def validated_steps(trial: Path) -> list[int]:
    """Returns the steps of a trial's validations in the order in which they were written."""
    rows = [json.loads(line) for line in (trial / "metrics.jsonl").read_text().splitlines()]
    return [row["step"] for row in rows if "val_loss" in row]


def test_a_killed_sweep_continues_on_another_cluster(
    tmp_path: Path, data_folder: Path, ray_cluster: RayCluster
) -> None:
    out = tmp_path / "out"
    process = start(ray_cluster, SPACE, out, data_folder, "--concurrent", "1", "--quiet")
    # Until one trial is completed and the next one has a checkpoint.
    checkpoints = lambda: {*out.glob("trials/*/step-*")}  # noqa: E731
    wait_for(lambda: len({p.parent for p in checkpoints()}) > 1 or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    children = named_children(process.pid)
    trainers = [child for child, name in children.items() if "ray::ImplicitFunc" in name]
    assert trainers
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert psutil.wait_procs(trainers, timeout=PATIENCE)[1] == []  # they end by themselves
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()  # parts of Ray that would notice after a minute
    assert not (out / "report.md").exists()

    completed = {path: path.stat().st_mtime_ns for path in out.glob("trials/*/step-00000120")}
    assert completed
    flags = ("--address", ray_cluster.address, "--concurrent", "1", "--quiet")
    code, text, err = finish(start(ray_cluster, SPACE, out, data_folder, *flags))
    assert (code, err) == (0, "")
    assert text.count(" | 120 | ") == 3
    assert "3 trials, proposed by optuna, stopped early by none." in (out / "report.md").read_text()
    trials = {line.split()[1] for line in text.splitlines() if " | 120 | " in line}
    for trial in trials:
        assert validated_steps(out / "trials" / trial) == [40, 80, 120]
    assert {path.parent.name for path in completed} <= trials
    assert all(path.stat().st_mtime_ns == mtime for path, mtime in completed.items())


def test_trials_pause_and_continue(tmp_path: Path, ray_cluster: RayCluster) -> None:
    for name in ("train.txt", "val.txt"):
        (tmp_path / name).write_text("To be, or not to be, that is the question:\n" * 20)
    out = tmp_path / "out"
    address = ("--address", ray_cluster.address)
    code, text, err = finish(start(ray_cluster, TEXT, out, tmp_path, *address))
    assert (code, err.count("trial "), err.count("\n")) == (0, 2, 2)
    assert (text.count(" | 4 | "), text.count(" | 2 | 2 | ")) == (1, 1)
    # HyperBand: both trials pause after a round, and one of them continues.
    assert sorted(map(validated_steps, out.glob("trials/*"))) == [[2], [2, 4]]
    recipe = load_recipe(str(out / "best.toml"))
    assert f"| {recipe.train.lr:.4g} |" in text.splitlines()[2]
    assert (recipe.tokenizer, recipe.train.steps) == ("chars", 200)
