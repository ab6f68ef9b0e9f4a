"""Scores in shards are those of one evaluation, whoever computes them and however often they were
interrupted."""

import dataclasses
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import RunCli

from calcgpt.base.errors import DataError, UserError
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.results import NOT_CONFIDENT, Confidence
from calcgpt_lab.data.problems import Line, read_problems
from calcgpt_lab.evaluation import shards as module
from calcgpt_lab.evaluation.evaluate import evaluate
from calcgpt_lab.evaluation.shards import (
    MANIFEST,
    ScoredAnswer,
    Scoring,
    evaluate_in_shards,
    read_scored,
    score_shards,
    scored_answers,
    shards_of,
    to_jsonl,
)
from datagen.distributions import distribution
from datagen.formats import renderer
from datagen.sampling import bit_generator


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD_SIZE", 16)


@pytest.fixture
def lines(data_folder: Path) -> list[Line]:
    return read_problems(data_folder / "test.txt")  # 40


def test_processes_score_as_one_does(
    tiny: Checkpoint, tiny_folder: Path, lines: list[Line], tmp_path: Path
) -> None:
    counts: list[int] = []
    scoring = Scoring(tiny_folder, engine="torch", threads=1)
    shared = evaluate_in_shards(scoring, lines, counts.append, workers=2, folder=tmp_path / "kept")
    _, decoder = load_decoder(tiny, "torch", threads=1)
    alone = evaluate(decoder, tiny.tokenizer, lines)
    assert counts == [16, 16, 8]
    assert shared.scores == alone.scores
    assert shared.outputs == alone.outputs
    for one, other in zip(shared.confidences, alone.confidences, strict=True):
        assert one.whole == pytest.approx(other.whole, rel=1e-3)
    names = {"shard-00000.jsonl", "shard-00001.jsonl", "shard-00002.jsonl", MANIFEST}
    assert {file.name for file in (tmp_path / "kept").iterdir()} - {".lock"} == names


def test_a_portable_scoring_needs_no_folder(
    tiny: Checkpoint, tiny_copy: Path, lines: list[Line]
) -> None:
    """Ray sends it to other machines, which do not have the folder."""
    scoring = Scoring(tiny_copy, engine="torch", threads=1)
    expected = scoring(lines)
    module._load.cache_clear()  # as in another process
    sent = pickle.dumps(dataclasses.replace(scoring, loaded=Checkpoint.load(tiny_copy)))
    tiny_copy.rename(tiny_copy.with_name("away"))
    assert pickle.loads(sent)(lines) == expected


def test_after_an_interruption_only_the_rest_is_scored(
    tiny_folder: Path, lines: list[Line], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evaluate_in_shards(Scoring(tiny_folder), lines)

    def interrupt(n: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_in_shards(Scoring(tiny_folder), lines, interrupt, folder=tmp_path)
    assert len(list(tmp_path.glob("shard-*"))) == 1
    scored: list[int] = []

    def spy(model: Any, tokenizer: Any, shard: Any, **options: Any) -> Any:
        scored.append(len(shard))
        return evaluate(model, tokenizer, shard, **options)

    monkeypatch.setattr(module, "evaluate", spy)
    continued = evaluate_in_shards(Scoring(tiny_folder), lines, folder=tmp_path)
    assert scored == [16, 8]
    assert (continued.outputs, continued.confidences) == (whole.outputs, whole.confidences)
    assert not list(tmp_path.glob("*.partial"))
    read = evaluate_in_shards(Scoring(tiny_folder), lines, folder=tmp_path)
    assert (read.outputs, read.problems_per_second) == (whole.outputs, 0)


def test_another_scoring_is_refused_and_nothing_changes(
    tiny_folder: Path, lines: list[Line], tmp_path: Path
) -> None:
    evaluate_in_shards(Scoring(tiny_folder), lines, folder=tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.glob("s*")}
    for scoring, part, name in (
        (Scoring(tiny_folder, engine="auto"), lines, "engine"),
        (Scoring(tiny_folder), lines[:-1], "lines_sha256"),
    ):
        with pytest.raises(DataError, match=f"differ in {name}: choose another folder$"):
            evaluate_in_shards(scoring, part, folder=tmp_path)
    assert before == {file: file.read_bytes() for file in tmp_path.glob("s*")}


@pytest.mark.parametrize("text", ["", "{}\n", '{"prompt": "", "right": true}\n', "x" * 10])
def test_a_damaged_shard_is_named(
    text: str, tiny_folder: Path, lines: list[Line], tmp_path: Path
) -> None:
    evaluate_in_shards(Scoring(tiny_folder), lines, folder=tmp_path)
    (tmp_path / "shard-00001.jsonl").write_text(text)
    with pytest.raises(UserError, match=r"shard-00001\.jsonl"):
        evaluate_in_shards(Scoring(tiny_folder), lines, folder=tmp_path)


def test_shards_of_unknown_origin_are_left_alone(
    tiny_folder: Path, lines: list[Line], tmp_path: Path
) -> None:
    (tmp_path / "shard-00000.jsonl").write_text("mine")
    with pytest.raises(DataError, match=MANIFEST):
        evaluate_in_shards(Scoring(tiny_folder), lines, folder=tmp_path)
    assert (tmp_path / "shard-00000.jsonl").read_text() == "mine"


def test_problems_without_a_file_are_rendered_where_they_are_scored(tiny_folder: Path) -> None:
    [problems] = distribution("blog")(bit_generator(1, 0, 0), 20)
    scored = score_shards(Scoring(tiny_folder), shards_of(problems), {})
    rows = [row for shard in scored for row in shard.rows]
    text = renderer("direct")(problems).decode()
    assert [row.prompt + (row.completion or "") for row in rows] == text.splitlines()


def test_a_confidence_that_is_no_number_is_stored_as_zero(
    tiny: Checkpoint, lines: list[Line], tmp_path: Path
) -> None:
    evaluation = evaluate(tiny.model, tiny.tokenizer, lines)
    nan = Confidence(answer=math.nan, weakest_step=math.nan, whole=math.nan)
    evaluation = dataclasses.replace(evaluation, confidences=[nan] * len(lines))
    path = tmp_path / "shard.jsonl"
    path.write_text(to_jsonl(scored_answers(evaluation)))
    assert {row.confidence for row in read_scored(path)} == {NOT_CONFIDENT}


def test_the_command_writes_scored_answers(
    tiny: Checkpoint, tiny_folder: Path, data_folder: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    file, json_file, data = tmp_path / "a.jsonl", tmp_path / "a.json", data_folder / "test.txt"
    options = ("--shards", tmp_path / "kept", "--scored", file, "--json", json_file, "--quiet")
    outcome = run_cli("eval", tiny_folder, "--data", data, "--device", "cpu", *options)
    assert outcome.code == 0
    rows = list(read_scored(file))
    alone = evaluate(tiny.model, tiny.tokenizer, read_problems(data))
    assert [row.right for row in rows] == alone.right
    assert [row.output for row in rows] == [row.output for row in scored_answers(alone)]
    record = json.loads(json_file.read_text())
    assert record["exact_match"] == np.mean(alone.right)
    sampled = ("eval", tiny_folder, "--data", data, "--temperature", "1", "--workers", "2")
    assert "greedy" in run_cli(*sampled).error


def test_an_answer_with_a_line_separator_stays_on_one_line(tmp_path: Path) -> None:
    confidence = {"answer": 0.5, "weakest_step": 0.5, "whole": 0.5}
    row = ScoredAnswer.model_validate(
        {"prompt": "a=", "right": False, "confidence": confidence, "output": "1\u20282\x853"}
    )
    path = tmp_path / "scored.jsonl"
    path.write_text(to_jsonl([row, row]), "utf-8")
    assert list(read_scored(path)) == [row, row]
