"""Scores that a real Ray of two CPUs computes."""

import json
import sys
from pathlib import Path

import pytest
from commands import RunCli
from forks import RAY, TRAINING, run
from ray_cluster import RayCluster, own_lines

pytest.importorskip("ray", reason="Ray is not installed: the extra `ray` brings it")


def test_a_cluster_scores_as_one_process_does(
    ray_cluster: RayCluster, tiny_folder: Path, data_folder: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    """It gets the checkpoint, whose folder its machines need not have."""
    data = ("--data", data_folder / "test.txt", "--engine", "torch", "--quiet")
    files = ("--json", tmp_path / "ray.json", "--scored", tmp_path / "ray.jsonl")
    words = ("eval", tiny_folder, *data, "--ray-address", ray_cluster.address, *files)
    command = [sys.executable, "-m", "calcgpt", *words]
    ended = run(command, TRAINING + RAY, env=ray_cluster.environment)
    assert (ended.returncode, own_lines(ended.stderr)) == (0, "")
    files = ("--json", tmp_path / "one.json", "--scored", tmp_path / "one.jsonl")
    assert run_cli("eval", tiny_folder, *data, *files).code == 0
    by_ray, by_one = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("ray", "one")
    )
    names = ("n", "char_accuracy", "exact_match", "by_operation")
    assert [by_ray[name] for name in names] == [by_one[name] for name in names]
    by_ray, by_one = (
        [json.loads(row)["output"] for row in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("ray", "one")
    )
    assert by_ray == by_one
