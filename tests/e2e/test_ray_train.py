"""Training in processes of Ray Train."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("ray.train", reason="Ray is not installed: the extra `ray` installs it")

from forks import RAY, TRAINING, Popen
from ray_cluster import RayCluster, own_lines
from serving import wait_for

from calcgpt.recipe import load_recipe
from calcgpt.training.train import train
from datagen.extras import install_line

SETTINGS = (
    "model.n_layer=1",
    "train.batch_size=8",
    "train.steps=6",
    "train.warmup_steps=2",
    "train.log_interval=1",
    "train.eval_batches=1",
    "train.eval_problems=10",
)


def start(cluster: RayCluster, data: Path, out: Path, *flags: str) -> Popen:
    """Starts `calcgpt train --engine ray` on a cluster, in the parent folder of `out`."""
    command = [
        sys.executable,
        "-m",
        "calcgpt",
        "train",
        "--engine",
        "ray",
        "--ray-address",
        cluster.address,
        "--recipe",
        "nano",
        "--data",
        data,
        "--out",
        out.name,
        "--device",
        "cpu",
        "--threads",
        "1",
        *(word for value in SETTINGS for word in ("--set", value)),
        *flags,
    ]
    return Popen(command, TRAINING + RAY, cwd=out.parent, env=cluster.environment)


def train_on_ray(
    cluster: RayCluster, data: Path, out: Path, *flags: str
) -> subprocess.CompletedProcess[str]:
    """Runs the same command to its end."""
    process = start(cluster, data, out, *flags)
    output, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.wait(0), output, errors)


def losses(out: Path) -> list[float]:
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [row.get("loss", row.get("val_loss")) for row in rows]


def test_two_workers_have_the_losses_of_one_process(
    ray_cluster: RayCluster, data_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "by-ray"
    ended = train_on_ray(ray_cluster, data_folder, out, "--num-workers", "2")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"the run is complete; its last checkpoint is {out.name}/step-00000006\n"
    assert "6/6" in ended.stderr  # the progress bar
    assert f"loss {losses(out)[5]:.4f}" in ended.stderr
    recipe = load_recipe("nano", SETTINGS)
    train(recipe, data_folder, tmp_path / "by-one", device="cpu", progress=False)
    assert losses(out) == pytest.approx(losses(tmp_path / "by-one"), abs=1e-5)
    assert len(losses(out)) == 6 + 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["by-one", "by-ray"]


def test_an_error_in_a_worker_of_a_cluster_is_one_line(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    flags = ("--num-workers", "1", "--quiet")
    ended = train_on_ray(ray_cluster, Path("nowhere"), tmp_path / "run", *flags)
    assert ended.returncode == 2
    reason = f"cannot read {tmp_path}/nowhere/train.txt: No such file or directory"
    assert own_lines(ended.stderr) == f"error: {reason}\n"
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_run(ray_cluster: RayCluster, data_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ("--set", "train.steps=100000", "--set", "train.checkpoint_interval=10", "--quiet")
    process = start(ray_cluster, data_folder, out, *flags)
    wait_for(lambda: [*out.glob("step-*")] or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.wait(0), own_lines(errors)) == (128 + signal.SIGINT, "\ninterrupted\n")
    assert list(tmp_path.iterdir()) == [out]


def refusal(run_cli: Callable[..., object], data: Path, out: Path, *flags: str) -> str:
    """Returns the one line of the error of a command."""
    outcome = run_cli("train", "--recipe", "nano", "--data", data, "--out", out, "--quiet", *flags)
    assert outcome.code == 2
    assert not out.exists()
    [line] = outcome.err.splitlines()
    return line


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "no Ray at 127.0.0.1:1: .*refused"),
        ("nonsense", "no Ray at nonsense: "),
        ("ray://localhost:1", "no Ray at ray://localhost:1: .*refused"),
        ("localhost:99999", "no Ray at localhost:99999: "),
    ],
)
def test_an_address_without_a_cluster_is_named(
    run_cli: Callable[..., object], data_folder: Path, tmp_path: Path, address: str, reason: str
) -> None:
    flags = ("--engine", "ray", "--ray-address", address)
    line = refusal(run_cli, data_folder, tmp_path / "run", *flags)
    assert re.match(f"error: {reason}", line), line


def test_without_ray_the_extra_is_named(
    run_cli: Callable[..., object],
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray.train.torch", None)
    line = refusal(run_cli, data_folder, tmp_path / "run", "--engine", "ray")
    assert line == f"error: --engine ray needs Ray Train: {install_line('ray')}"
