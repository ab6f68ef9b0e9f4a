"""Records say what they were taken from; tables show what the records say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError, DataError
from calcgpt.evaluate import Evaluation, score, split_line
from calcgpt.generate import Sampling
from calcgpt.model_card import model_card
from calcgpt.report import (
    comparison_table,
    error_table,
    evaluation_record,
    publish,
    score_table,
)
from datagen.files import sha256

ADD = "$(0000000782+0000000021)=3080000000$"
DIV = "$(0000000471/0000000299)=85.1000000$"


def evaluation(outputs: list[str]) -> Evaluation:
    lines = [split_line(ADD), split_line(DIV)]
    return Evaluation(score(lines, outputs), lines, outputs, 1.0)


def scores(share: float) -> dict[str, Any]:
    numbers = {"n": 1234, "char_accuracy": share, "exact_match": share / 2}
    return {**numbers, "by_operation": dict.fromkeys("+-*/", numbers)}


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=5)])
def test_a_record_says_what_was_scored_and_how(
    tiny: Checkpoint, data_folder: Path, sampling: Sampling
) -> None:
    data = data_folder / "test.txt"
    record, evaluation = evaluation_record(tiny, data, sampling, progress=False)
    assert record.items() >= evaluation.scores.items()
    assert record["n"] == 40
    assert (record["temperature"], record["seed"]) == (sampling.temperature, sampling.seed)
    assert record["file"] == "test.txt"
    assert record["file_sha256"] == sha256(data)
    assert record["manifest_sha256"] == sha256(data_folder / "manifest.json")
    assert record["checkpoint"] == "tiny"
    assert record["parameters"] == tiny.model.n_parameters()
    assert json.loads(json.dumps(record)) == record


def test_a_record_of_the_first_problems_counts_them(tiny: Checkpoint, data_folder: Path) -> None:
    record, _ = evaluation_record(tiny, data_folder / "test.txt", Sampling(), 3, progress=False)
    assert record["n"] == 3


def test_a_file_without_a_manifest_has_none_in_its_record(tiny: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text(f"{ADD}\n")
    record, _ = evaluation_record(tiny, tmp_path / "mine.txt", Sampling(), progress=False)
    assert record["manifest_sha256"] is None


def test_the_score_table_has_a_row_for_all_and_one_an_operation() -> None:
    table = score_table(evaluation(["3080000000$", ""]).scores)
    rows = [line.split() for line in table.splitlines()[1:]]
    assert rows == [
        ["all", "2", "0.5000", "0.5000"],
        ["+", "1", "1.0000", "1.0000"],
        ["/", "1", "0.0000", "0.0000"],
    ]


def test_wrong_answers_stand_beside_the_right_ones() -> None:
    table = error_table(evaluation(["3080000000$", "95.1000000$"]), 5).splitlines()
    assert len(table) == 2
    assert table[1].split() == ["$(0000000471/0000000299)=", "85.1000000$", "95.1000000$"]


def test_no_more_wrong_answers_are_shown_than_asked_for() -> None:
    table = error_table(evaluation(["1", "2"]), 1)
    assert table.splitlines()[1].split() == ["$(0000000782+0000000021)=", "3080000000$", "1"]
    assert len(table.splitlines()) == 2


def test_where_nothing_is_wrong_the_error_table_says_so() -> None:
    assert error_table(evaluation(["3080000000$", "85.1000000$"]), 5) == "no wrong answers"


def test_publishing_scores_validation_and_test_and_drops_the_training_state(
    tiny: Checkpoint, data_folder: Path, tmp_path: Path
) -> None:
    before = dict(tiny.metrics)
    publish(tiny, data_folder, tmp_path / "mine", progress=False)
    published = Checkpoint.load(tmp_path / "mine")
    assert published.name == "mine"
    for split, file, temperature in (
        ("validation", "val.txt", 0.0),
        ("test", "test.txt", 0.0),
        ("test_sampled", "test.txt", 1.0),
    ):
        record = published.metrics[split]
        assert (record["file"], record["temperature"], record["n"]) == (file, temperature, 40)
        assert record["file_sha256"] == sha256(data_folder / file)
    assert published.metrics["parameters"] == tiny.model.n_parameters()
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {
        "README.md", "config.json", "metrics.json", "model.safetensors", "tokenizer.json",
    }  # fmt: skip
    assert tiny.metrics == before


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_publishing_leaves_alone_what_is_no_checkpoint(
    tiny: Checkpoint, data_folder: Path, tmp_path: Path, kind: str, force: bool
) -> None:
    out = tmp_path / "mine"
    if kind == "folder":
        out.mkdir()
    kept = out / "work.txt" if kind == "folder" else out
    kept.write_text("of a year")
    with pytest.raises(CheckpointError, match="mine exists and is no checkpoint"):
        publish(tiny, data_folder, out, force, progress=False)
    assert kept.read_text() == "of a year"


def test_publishing_over_a_checkpoint_needs_force(
    tiny: Checkpoint, data_folder: Path, tiny_copy: Path
) -> None:
    with pytest.raises(CheckpointError, match="--force replaces it"):
        publish(tiny, data_folder, tiny_copy, progress=False)
    assert "test" not in Checkpoint.load(tiny_copy).metrics
    publish(tiny, data_folder, tiny_copy, force=True, progress=False)
    assert Checkpoint.load(tiny_copy).metrics["test"]["n"] == 40


def test_the_comparison_table_shows_the_scores_of_metrics_json(tmp_path: Path) -> None:
    for name, share in (("one", 0.5), ("two", 0.125)):
        (tmp_path / name).mkdir()
        metrics = {"parameters": 12345, "test": scores(share), "test_sampled": scores(share / 2)}
        (tmp_path / name / "metrics.json").write_text(json.dumps(metrics))
    header, rule, *rows = comparison_table([tmp_path / "one", tmp_path / "two"]).splitlines()
    assert [row.strip("| ").split(" | ") for row in rows] == [
        ["one", "12,345", "1,234", "0.5000", "0.2500", "0.2500", "0.1250", *["0.2500"] * 4],
        ["two", "12,345", "1,234", "0.1250", "0.0625", "0.0625", "0.0312", *["0.0625"] * 4],
    ]
    assert header.count("|") == rule.count("|") == rows[0].count("|")


def test_a_checkpoint_that_is_not_published_is_named(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"tiny: metrics\.json is not that of a published checkpoint"
    ):
        comparison_table([tiny_folder])
    with pytest.raises(CheckpointError, match=r"absent/metrics\.json"):
        comparison_table([tmp_path / "absent"])


def test_the_model_card_is_made_from_recipe_and_metrics(tiny: Checkpoint) -> None:
    metrics = {"parameters": 12345, "step": 500, "test": scores(0.5), "validation": scores(0.25)}
    card = model_card("mine", tiny.recipe, metrics)
    assert card.startswith("# mine\n")
    assert "12,345 parameters: 1 layers, 16 dimensions" in card
    assert "trained for 500 steps" in card
    assert "| test, greedy | 1,234 | 0.5000 | 0.2500 |" in card
    assert "| validation, greedy | 1,234 | 0.2500 | 0.1250 |" in card
    assert "sampled" not in card
