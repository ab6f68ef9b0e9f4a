"""Comparison of runs: their results, names, differences and curves."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import RunCli

from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.studies.compare import comparison_text, field_differences, names, read_runs
from calcgpt_lab.training.environment import record_start
from calcgpt_lab.training.run_folder import RunFolder

ROWS: list[dict[str, Any]] = [
    {"step": 10, "tokens": 1_000, "seconds": 2.0, "loss": 3.0, "tokens_per_s": 500.0, "lr": 0.1},
    {
        "step": 10,
        "val_loss": 2.0,
        "val_char_accuracy": 0.5,
        "val_exact_match": 0.25,
        "val_exact_match+": 0.5,
        "val_exact_match*": 0.0,
    },
    {"step": 20, "tokens": 2_000, "seconds": 5.0, "loss": 2.5, "tokens_per_s": 333.3, "lr": 0.1},
    {
        "step": 20,
        "val_loss": 1.5,
        "val_char_accuracy": 0.625,
        "val_exact_match": 0.25,
        "val_exact_match+": 0.375,
        "val_exact_match*": 0.125,
    },
    {"step": 30, "tokens": 3_000, "seconds": 3723.4, "loss": 2.0, "tokens_per_s": 200.0, "lr": 0.1},
    {
        "step": 30,
        "val_loss": 1.0,
        "val_char_accuracy": 0.75,
        "val_exact_match": 0.125,
        "val_exact_match+": 0.25,
        "val_exact_match*": 0.0,
    },
]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Creates a run's folder with these rows and, given overrides, a recipe."""

    def run(name: str, *overrides: str, rows: list[dict[str, Any]] = ROWS) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        if overrides:
            record_start(
                RunFolder(folder),
                load_recipe("nano", overrides),
                data_sha256="abc",
                device=torch.device("cpu"),
                step=0,
            )
        return folder

    return run


def test_the_summary_has_the_scores_of_the_best_validation(make: Callable[..., Path]) -> None:
    [run] = read_runs([make("mine")])
    assert run.summary() == {
        "name": "mine",
        "parameters": None,
        "steps": 30,
        "tokens": 3_000,
        "seconds": 3723.4,
        "tokens_per_s": 3_000 / 3723.4,
        "train_loss": 2.0,
        "val_loss": 1.0,
        "val_loss_step": 30,
        "perplexity": math.e,
        "char_accuracy": 0.625,  # of two equal exact matches that with the lower loss
        "exact_match": 0.25,
        "exact_match_step": 20,
        "exact_match+": 0.375,
        "exact_match-": None,
        "exact_match*": 0.125,
        "exact_match/": None,
    }


def test_the_table_leaves_out_what_was_not_measured(make: Callable[..., Path]) -> None:
    [run] = read_runs([make("young", rows=[{"step": 1, "tokens": 5, "loss": 1.0}])])
    measured = {key for key, value in run.summary().items() if value is not None}
    assert measured == {"name", "steps", "tokens", "train_loss"}
    rows = [line.split() for line in comparison_text([run]).split("\n\n")[0].splitlines()]
    assert rows == [["young"], ["steps", "1"], ["tokens", "5"], ["train", "loss", "1.000"]]


def test_parameters_come_from_the_newest_checkpoint_that_is_not_damaged(
    make: Callable[..., Path], tiny_folder: Path
) -> None:
    folder = make("old")
    shutil.copytree(tiny_folder, folder / "step-00000010")
    (folder / "step-00000020").mkdir()  # damaged: the one before it counts
    [run] = read_runs([folder])
    parameters = json.loads((tiny_folder / "metrics.json").read_text())["parameters"]
    assert run.summary()["parameters"] == parameters


def test_only_fields_that_differ_are_shown(make: Callable[..., Path]) -> None:
    data = ("data.format=direct", "data.mixture.blog=1")
    folders = [
        make("a", "train.lr=1e-3", "description=one"),
        make("b", "train.lr=2e-3", "description=two", *data),
        make("c"),
    ]
    runs = read_runs(folders)
    result = field_differences(runs)
    assert result["train.lr"] == [1e-3, 2e-3, None]
    assert result["data.mixture.blog"] == [None, 1, None]
    assert "description" not in result
    assert {name.split(".")[0] for name in result} == {"train", "data"}
    text = comparison_text(runs)
    rows = [line.split() for line in text.partition("recipe fields that differ:\n")[2].splitlines()]
    assert rows[0] == ["a", "b"]  # the third has no recipe
    assert ["train.lr", "0.001", "0.002"] in rows
    assert ["data.mixture.blog", "-", "1.0"] in rows
    assert text.endswith("no recipe could be read for c (one with a plug-in needs --plugin)")
    assert "the recipes are the same" in comparison_text([runs[0], runs[0]])


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["x/a"], ["a"]),
        (["x/a", "x/b"], ["a", "b"]),
        (["x/a", "y/a", "y/b"], ["x/a", "y/a", "y/b"]),
        (["a", "x/a", "b/../c"], ["a", "x/a", "c"]),
        (["x/new\nline"], ["new?line"]),
    ],
)
def test_names_are_the_paths_from_the_folder_of_all(
    tmp_path: Path, paths: list[str], expected: list[str]
) -> None:
    assert names([tmp_path / path for path in paths]) == expected


def test_the_command_prints_and_writes_its_files(
    make: Callable[..., Path], tmp_path: Path, run_cli: RunCli
) -> None:
    pytest.importorskip("matplotlib", reason="the extra `lab` is not installed")
    folders = [make("a", "train.lr=1e-3"), make("b", "train.lr=2e-3")]
    options = ["--out", tmp_path / "out", "--json", tmp_path / "all.json"]
    outcome = run_cli("compare", *folders, *options)
    assert outcome.code == 0, outcome.err
    assert "1:02:03" in outcome.out
    assert outcome.out.splitlines()[-2:] == [
        str(tmp_path / "out" / "compare.png"),
        str(tmp_path / "all.json"),
    ]
    assert (tmp_path / "out" / "compare.png").read_bytes()[1:4] == b"PNG"
    written = json.loads((tmp_path / "all.json").read_text())
    assert [run["name"] for run in written["runs"]] == ["a", "b"]
    assert written["differences"] == {"train.lr": [1e-3, 2e-3]}
