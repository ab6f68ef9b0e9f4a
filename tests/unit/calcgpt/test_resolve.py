"""`resolve` finds the folder of a reference, `best` the best checkpoint."""

import hashlib
import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

import calcgpt
from calcgpt.errors import CheckpointError
from calcgpt.registry import best, resolve, shipped_checkpoints

CONFIG, METRICS = "config.json", "metrics.json"


def scores(exact_match: float) -> dict[str, Any]:
    return {"n": 4, "char_accuracy": 1.0, "exact_match": exact_match, "by_operation": {}}


def entry(root: Path, name: str, exact_match: float | None, parameters: int = 1) -> Path:
    """A folder with the files of a checkpoint that `best` reads."""
    folder = root / name
    folder.mkdir(parents=True)
    configure(folder, {})
    metrics: dict[str, Any] = {"parameters": parameters}
    if exact_match is not None:
        metrics["validation"] = scores(exact_match)
    (folder / METRICS).write_text(json.dumps(metrics))
    return folder


def configure(folder: Path, content: dict[str, Any]) -> None:
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (folder / CONFIG).write_text(json.dumps({**content, "sha256": {CONFIG: digest}}))


@pytest.mark.parametrize(
    ("entries", "chosen"),
    [  # exact match, parameters, validation loss
        ([(0.5,), (0.75,), (0.7,)], 1),
        ([(None,), (0.0, 10**9)], 1),  # without validation: the last
        ([(0.5, 3), (0.5, 1), (0.5, 2), (0.5, 1)], 1),  # the first
        ([(1.0, 2, 0.1), (1.0, 1, 0.3), (1.0, 1, 0.2), (1.0, 1)], 2),
    ],
)
def test_best_has_the_highest_exact_match_then_size_then_loss(
    entries: list[tuple[Any, ...]], chosen: int, tmp_path: Path
) -> None:
    for index, values in enumerate(entries):
        exact_match, parameters, loss = (*values, *(None, 1, None)[len(values) :])
        folder = entry(tmp_path, f"{index}", exact_match, parameters)
        if loss is not None:
            metrics = json.loads((folder / METRICS).read_text())
            (folder / METRICS).write_text(json.dumps({**metrics, "val_loss": loss}))
    assert best(tmp_path) == tmp_path / f"{chosen}"


def test_what_was_right_in_every_case_is_best_whatever_its_scores(tmp_path: Path) -> None:
    counts = {
        "certain": {"n": 9, "wrong": 0, "least_margin": 2.0},
        "surer": {"n": 9, "wrong": 0, "least_margin": 3.0},
        "wrong": {"n": 9, "wrong": 1, "least_margin": -1.0},
        "half": {"n": 9, "wrong": 0, "least_margin": 9.0, "held_out": 4, "held_out_wrong": 0},
        "sums": {"n": 9, "wrong": 0, "least_margin": 9.0},
    }
    for name, cases in counts.items():
        folder = entry(tmp_path, name, 0.5)
        metrics = json.loads((folder / METRICS).read_text())
        (folder / METRICS).write_text(json.dumps({**metrics, "cases": cases}))
    entry(tmp_path, "scored", 1.0)
    configure(tmp_path / "sums", {"data": {"operations": {"+": 1.0, "*": 0.0}}})
    assert best(tmp_path) == tmp_path / "surer"


@pytest.mark.parametrize(
    ("name", "reason"), [("a" * 5_000, "File name too long"), ("", "is empty")]
)
def test_a_name_that_no_file_can_have_is_refused(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=reason):
        resolve(name, tmp_path)


def test_a_run_without_a_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "environment.jsonl").write_text("{}\n")
    with pytest.raises(CheckpointError, match="this run has saved no checkpoint yet"):
        resolve(str(tmp_path))


def test_a_folder_that_stands_for_no_checkpoint_is_described(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is a folder, but holds no checkpoint and no run"):
        resolve(str(tmp_path), tmp_path / "root")
    entry(tmp_path / "b", "step-00000100", 0.3)
    for name in ("b", "a"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "environment.jsonl").touch()
    with pytest.raises(CheckpointError) as caught:
        resolve(str(tmp_path), tmp_path / "root")
    expected = f"'{tmp_path}' is a folder of runs: name one of them, such as {tmp_path / 'a'}"
    assert str(caught.value) == expected


def test_best_is_chosen_on_validation_never_on_test(tmp_path: Path) -> None:
    entry(tmp_path, "a", 0.5)
    file = entry(tmp_path, "b", 0.4) / METRICS
    metrics = json.loads(file.read_text())
    file.write_text(json.dumps({**metrics, "test": scores(1.0)}))
    assert best(tmp_path) == tmp_path / "a"


def test_scores_over_different_data_are_not_compared(tmp_path: Path) -> None:
    on = {"a": ("usual", 0.5), "b": ("easy", 1.0), "c": ("usual", 0.75), "d": ("other", 0.9)}
    for name, (data, exact_match) in on.items():
        file = entry(tmp_path, name, exact_match) / METRICS
        metrics = json.loads(file.read_text())
        metrics["validation"]["file_sha256"] = data
        file.write_text(json.dumps(metrics))
    assert best(tmp_path) == tmp_path / "c"


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"validation": {"exact_match": "high"}, "parameters": 1}',
        json.dumps({"validation": scores(1.0), "parameters": 1, "val_loss": math.nan}),
        json.dumps({"validation": scores(1.0), "parameters": 1, "val_loss": 10**400}),
        '{"validation": [1], "parameters": 1}',
        json.dumps({"validation": scores(1.0)}),
    ],
)
def test_damaged_metrics_are_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    (entry(tmp_path, "a", 1.0) / METRICS).write_text(damage)
    entry(tmp_path, "b", 0.1)
    with caplog.at_level(logging.WARNING):
        assert best(tmp_path) == tmp_path / "b"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(tmp_path / "a") in record.getMessage()


def test_hidden_and_half_written_folders_are_not_chosen(tmp_path: Path) -> None:
    entry(tmp_path, ".a.half", 1.0)
    (entry(tmp_path, "b", 1.0) / CONFIG).unlink()
    entry(tmp_path, "c", 0.1)
    assert best(tmp_path) == tmp_path / "c"


def test_a_root_without_checkpoints_has_no_best(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CheckpointError, match="no checkpoint in"):
            best(root)


def test_a_reference_is_a_folder_a_name_or_best(tmp_path: Path) -> None:
    root = tmp_path / "root"
    worse, better = entry(root, "worse", 0.1), entry(root, "better", 0.2)
    elsewhere = entry(tmp_path, "elsewhere", 0.0)
    assert resolve("worse", root) == worse
    assert resolve("best", root) == better
    assert resolve(str(elsewhere), root) == elsewhere


def test_a_folder_of_checkpoints_resolves_to_its_best(tmp_path: Path) -> None:
    run = tmp_path / "run"
    entry(run, "step-00000100", 0.3)
    expected = entry(run, "step-00000200", 0.6)
    entry(run, "step-00000300", 0.5)
    assert resolve(str(run), tmp_path / "root") == expected
    assert resolve("run", tmp_path) == expected


def test_an_unknown_reference_lists_the_valid_names(tmp_path: Path) -> None:
    entry(tmp_path, "blog", 0.1)
    entry(tmp_path, "answer", 0.1)
    with pytest.raises(CheckpointError) as caught:
        resolve("blogg", tmp_path)
    assert "'blogg'" in str(caught.value)
    assert str(caught.value).endswith("answer, blog; did you mean 'blog'?")
    with pytest.raises(CheckpointError, match=r"there are: none$"):
        resolve("blog", tmp_path / "absent")


def test_a_shipped_checkpoint_comes_before_a_folder_of_its_name(here: Path) -> None:
    mine, hidden = entry(here / "checkpoints", "mine", 0.1), entry(here, "direct", 0.1)
    shipped = Path(calcgpt.__file__).parents[1] / "checkpoints"
    assert shipped_checkpoints() == shipped
    assert resolve("direct") == shipped / "direct"
    assert resolve("./direct").resolve() == hidden
    assert resolve("checkpoints/mine").resolve() == mine
    assert resolve("checkpoints").resolve() == mine
