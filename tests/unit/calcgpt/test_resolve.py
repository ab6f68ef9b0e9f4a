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


def scores(exact_match: float, **others: Any) -> dict[str, Any]:
    return {"n": 4, "char_accuracy": 1.0, "exact_match": exact_match, "by_operation": {}, **others}


def scored(exact_match: float, data: str = "", **others: Any) -> dict[str, Any]:
    """The metrics of a checkpoint with this score on the validation file of that hash."""
    hashed = {"file_sha256": data} if data else {}
    return {"parameters": 1, "validation": scores(exact_match, **hashed), **others}


def entry(root: Path, name: str, metrics: float | dict[str, Any], **config: Any) -> Path:
    """A folder with the files of a checkpoint that `best` reads. A number is a score."""
    folder = root / name
    folder.mkdir(parents=True)
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
    (folder / CONFIG).write_text(json.dumps({**config, "sha256": {CONFIG: digest}}))
    content = metrics if isinstance(metrics, dict) else scored(metrics)
    (folder / METRICS).write_text(json.dumps(content))
    return folder


def tried(least_margin: float, wrong: int = 0, **others: Any) -> dict[str, Any]:
    """The metrics of a checkpoint that was tried in all cases of its rules."""
    return scored(0.5, cases={"n": 9, "wrong": wrong, "least_margin": least_margin, **others})


@pytest.mark.parametrize(
    ("entries", "chosen"),
    [
        ([scored(0.5), scored(0.75), scored(0.7)], 1),
        ([{"parameters": 1}, scored(0.0, parameters=10**9)], 1),  # without validation: the last
        ([scored(0.5, parameters=n) for n in (3, 1, 2, 1)], 1),  # the first of equals
        (
            [
                scored(1.0, parameters=2, val_loss=0.1),
                *(scored(1.0, **loss) for loss in ({"val_loss": 0.3}, {"val_loss": 0.2}, {})),
            ],
            2,
        ),
        ([scored(0.5), scored(0.4, test=scores(1.0))], 0),  # never on test
        # Only scores on the most common data are compared.
        ([scored(0.5, "a"), scored(1.0, "easy"), scored(0.75, "a"), scored(0.9, "other")], 2),
        # What was right in every case is best, whatever its scores.
        (
            [
                *(scored(1.0), tried(2.0), tried(3.0), tried(-1.0, wrong=1)),
                tried(9.0, held_out=4, held_out_wrong=0),
            ],
            2,
        ),
    ],
)
def test_best_is_certain_or_has_the_highest_exact_match_then_size_then_loss(
    entries: list[dict[str, Any]], chosen: int, tmp_path: Path
) -> None:
    for index, metrics in enumerate(entries):
        entry(tmp_path, f"{index}", metrics)
    some = {"operations": {"+": 1.0, "*": 0.0}}
    # Certain of some operations alone, and the worst by all else.
    entry(tmp_path, "sums", tried(9.0) | scored(0.0, parameters=10**10), data=some)
    assert best(tmp_path) == tmp_path / f"{chosen}"


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
