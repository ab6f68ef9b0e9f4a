"""Scores in shards are those of one evaluation, whoever computes them."""

import json
from pathlib import Path

import pytest
from commands import RunCli

from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.engines import load_decoder
from calcgpt_lab.data.problems import Line, read_problems
from calcgpt_lab.evaluation import scoring as module
from calcgpt_lab.evaluation.evaluate import evaluate
from calcgpt_lab.evaluation.scoring import Scoring, evaluate_in_shards


@pytest.fixture
def lines(data_folder: Path) -> list[Line]:
    return read_problems(data_folder / "test.txt")  # 40


def test_processes_score_as_one_does(
    tiny: Checkpoint, tiny_folder: Path, lines: list[Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARD_SIZE", 16)
    counts: list[int] = []
    scoring = Scoring(tiny_folder, engine="torch")
    shared = evaluate_in_shards(scoring, lines, counts.append, workers=2)
    _, decoder = load_decoder(tiny, "torch", threads=1)
    alone = evaluate(decoder, tiny.tokenizer, lines)
    assert counts == [16, 16, 8]
    assert (shared.scores, shared.outputs) == (alone.scores, alone.outputs)
    for one, other in zip(shared.confidences, alone.confidences, strict=True):
        assert one.whole == pytest.approx(other.whole, rel=1e-3)


def test_the_command_writes_scored_answers(
    tiny: Checkpoint, tiny_folder: Path, data_folder: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    file, data = tmp_path / "a.jsonl", data_folder / "test.txt"
    options = ("--workers", "2", "--scored", file, "--device", "cpu", "--quiet")
    assert run_cli("eval", tiny_folder, "--data", data, *options).code == 0
    rows = [json.loads(row) for row in file.read_text().splitlines()]
    alone = evaluate(tiny.model, tiny.tokenizer, read_problems(data))
    assert [row["right"] for row in rows] == alone.right
    for row, line, output in zip(rows, alone.lines, alone.outputs, strict=True):
        assert (row["prompt"], row["output"]) == (line.prompt, output)
        assert row.get("completion", output) == line.completion
        assert row["confidence"].keys() == {"answer", "weakest_step", "whole"}
