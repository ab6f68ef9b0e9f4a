"""The environment of a run is detected, written and read again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from calcgpt.config import Recipe
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.training import environment
from calcgpt_lab.training.environment import (
    git_state,
    read_starts,
    record_start,
)
from calcgpt_lab.training.run_folder import RunFolder

CPU = torch.device("cpu")


def start(folder: Path, step: int, *overrides: str) -> None:
    record_start(
        RunFolder(folder),
        load_recipe("nano", overrides),
        data_sha256="abc",
        device=CPU,
        step=step,
    )


def steps(folder: Path) -> list[int]:
    return [start["step"] for start in read_starts(folder)]


def test_a_start_records_what_a_repetition_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    start(tmp_path, 0, "train.seed=7", "train.precision=bf16")
    [written] = read_starts(tmp_path)
    expected = {"step": 0, "seed": 7, "precision": "bf16", "device": "cpu"}
    expected |= {"data_sha256": "abc", "threads": torch.get_num_threads()}
    assert written.items() >= expected.items()
    assert written["versions"]["torch"] == torch.__version__
    assert written["cores"] >= 1
    assert written["time"].endswith("+00:00")
    assert written["deterministic"] == {
        "algorithms": False,
        "cudnn": True,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "float32_matmul": torch.get_float32_matmul_precision(),
    }
    overrides = ("train.seed=7", "train.precision=bf16")
    assert Recipe.model_validate(written["recipe"]) == load_recipe("nano", overrides)


def test_a_start_removes_the_lines_of_later_steps(tmp_path: Path) -> None:
    for step in (0, 50, 100):
        start(tmp_path, step)
    assert steps(tmp_path) == [0, 50, 100]
    start(tmp_path, 50)  # the checkpoint of 100 was damaged, or the start at 50 failed
    assert steps(tmp_path) == [0, 50]
    start(tmp_path, 0)  # anew
    assert steps(tmp_path) == [0]


@pytest.mark.parametrize("torn", ["", "{", '{"step": 10, "time"', "[1]", '{"step": "x"}', "null"])
def test_a_line_that_is_not_whole_is_dropped(tmp_path: Path, torn: str) -> None:
    start(tmp_path, 0)
    file = tmp_path / "environment.jsonl"
    file.write_text(file.read_text() + torn)
    assert steps(tmp_path) == [0]
    start(tmp_path, 50)
    assert steps(tmp_path) == [0, 50]
    assert all(isinstance(json.loads(line), dict) for line in file.read_text().splitlines())


def git(folder: Path, *args: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}  # not the user's
    command = ["git", "-C", folder, *identity, *args]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | own)


def test_git_state_is_that_of_the_folder_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert git_state(tmp_path) is None
    git(tmp_path, "init")
    assert git_state(tmp_path) is None  # no commit yet
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "one")
    monkeypatch.setenv("GIT_DIR", "/elsewhere")  # as where a hook of another repository runs us
    clean = git_state(tmp_path)
    assert clean is not None
    assert len(clean["commit"]) == 40
    (tmp_path / "new").write_text("not tracked")
    assert git_state(tmp_path) == clean
    assert not clean["dirty"]
    (tmp_path / "file").write_text("two")
    changed = git_state(tmp_path)
    assert changed is not None
    assert changed["dirty"]
    (tmp_path / "within").mkdir()  # as an installed package is, in a virtual environment
    assert git_state(tmp_path / "within") is None


def test_without_git_a_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init")
    monkeypatch.setattr(environment, "PACKAGE", tmp_path / "calcgpt")
    monkeypatch.setenv("PATH", "")
    start(tmp_path, 0)
    assert read_starts(tmp_path)[0]["git"] is None


def test_environment_variables_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush-hush")
    monkeypatch.setattr(sys, "argv", ["/home/someone/bin/calcgpt", "train"])
    start(tmp_path, 0)
    text = (tmp_path / "environment.jsonl").read_text()
    assert "hush-hush" not in text
    assert "someone" not in text
