"""Sweeps on a real Ray: one that is killed and continues, and one whose trials pause."""

import json
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from forks import PATIENCE, RAY, TRAINING, Popen
from ray_cluster import RayCluster, named_children, own_lines
from serving import wait_for

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
trials = 2
max_steps = 4
grace_steps = 2
reduction_factor = 2
[space."train.lr"]
type = "choice"
values = [1e-2, 1e-3, 1e-4, 1e-5]
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


def values_in(path: Path) -> dict[str, float]:
    """Returns the values of a trial."""
    values: dict[str, float] = json.loads(path.read_text())
    return values


def test_a_killed_sweep_continues_on_another_cluster(
    tmp_path: Path, data_folder: Path, ray_cluster: RayCluster
) -> None:
    out = tmp_path / "out"
    process = start(ray_cluster, SPACE, out, data_folder, "--concurrent", "1")
    # Until one trial is completed and the next one has a checkpoint.
    second = lambda: [*out.glob("trials/0001/step-*")]  # noqa: E731
    wait_for(lambda: second() or process.poll() is not None)
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
    started = {path: values_in(path) for path in out.glob("trials/*/trial.json")}
    assert len(started) in (2, 3)  # Ray may have prepared the next trial
    assert not (out / "report.md").exists()

    completed = {path: path.stat().st_mtime_ns for path in out.glob("trials/0000/step-*")}
    assert "step-00000120" in {path.name for path in completed}
    flags = ("--address", ray_cluster.address, "--concurrent", "1", "--quiet")
    code, text, err = finish(start(ray_cluster, SPACE, out, data_folder, *flags))
    assert (code, err) == (0, "")
    assert text.count(" completed ") == 3
    assert "3 trials, proposed by optuna, stopped early by none." in (out / "report.md").read_text()
    for trial in out.glob("trials/*"):
        assert validated_steps(trial) == [40, 80, 120]
    assert all(values_in(path) == values for path, values in started.items())
    assert all(path.stat().st_mtime_ns == mtime for path, mtime in completed.items())
    assert not (out / "ray").exists()  # where Ray's pickles were


def test_trials_pause_and_continue(tmp_path: Path, ray_cluster: RayCluster) -> None:
    for name in ("train.txt", "val.txt"):
        (tmp_path / name).write_text("To be, or not to be, that is the question:\n" * 20)
    out = tmp_path / "out"
    address = ("--address", ray_cluster.address, "--quiet")
    code, text, err = finish(start(ray_cluster, TEXT, out, tmp_path, *address))
    assert (code, err) == (0, "")
    assert (text.count(" completed "), text.count(" stopped ")) == (1, 1)
    # HyperBand: both trials pause after a round, and one of them continues.
    assert sorted(map(validated_steps, out.glob("trials/*"))) == [[2], [2, 4]]
    recipe = load_recipe(str(out / "best.toml"))
    assert f"| {recipe.train.lr:.4g} |" in text.splitlines()[2]
    assert (recipe.tokenizer, recipe.train.steps) == ("chars", 200)
    assert (out / "plots" / "parallel-coordinates.png").read_bytes().startswith(b"\x89PNG")
