"""Records name their data and settings; tables show the content of records."""

import dataclasses
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import RunCli

from calcgpt.base.files import sha256
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Recipe
from calcgpt.inference.results import NOT_CONFIDENT
from calcgpt.metrics import Scores
from calcgpt.section import build
from calcgpt_lab.data.problems import Line, split_line
from calcgpt_lab.evaluation.evaluate import Evaluation, score
from calcgpt_lab.evaluation.report import (
    confidence_line,
    evaluation_record,
    score_table,
    wrong_answers,
)
from calcgpt_lab.model.decoding import Sampling
from calcgpt_lab.saving import save
from datagen import work

ADD = "$(0000000782+0000000021)=3080000000$"
DIV = "$(0000000471/0000000299)=85.1000000$"
MUL, SUB = (
    line.decode()
    for line in work.render([b"$(0000000573*0000351.77)=", b"$(0000002.08-0000136.22)="])
)
OTHER = Line("a task's own=", "1000010000$", "+")  # not a question of the notation


def evaluation(outputs: list[str]) -> Evaluation:
    lines = [split_line(MUL), split_line(SUB), OTHER][: len(outputs)]
    return Evaluation(score(lines, outputs), lines, outputs, [NOT_CONFIDENT] * len(lines), 1.0)


@contextmanager
def piped(file: Path, pipe: Path) -> Iterator[Path]:
    """Yields a pipe from which the content of a file can be read once."""
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", 'cat "$0" > "$1"', file, pipe]) as writer:
        yield pipe
        writer.kill()


def test_the_problems_of_a_pipe_are_read_once(
    tiny: Checkpoint, data_folder: Path, tmp_path: Path
) -> None:
    file = data_folder / "test.txt"
    with piped(file, tmp_path / "pipe") as pipe:
        record, _ = evaluation_record(tiny, pipe, Sampling(), 5, progress=False)
    assert (record["n"], record["file_sha256"]) == (5, sha256(file))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=5)])
def test_a_record_says_what_was_scored_and_how(
    tiny: Checkpoint, data_folder: Path, sampling: Sampling
) -> None:
    data = data_folder / "test.txt"
    record, evaluation = evaluation_record(tiny, data, sampling, progress=False)
    assert record.items() >= evaluation.scores.model_dump().items()
    assert record["n"] == 40
    assert (record["temperature"], record["seed"]) == (sampling.temperature, sampling.seed)
    assert record["file"] == "test.txt"
    assert record["file_sha256"] == sha256(data)
    assert record["manifest_sha256"] == sha256(data_folder / "manifest.json")
    assert record["checkpoint"] == "tiny"
    assert record["parameters"] == tiny.model.n_parameters()
    assert json.loads(json.dumps(record)) == record


def test_the_first_wrong_character_of_work_is_listed() -> None:
    output = MUL[25:]
    index = output.index(";") + 3
    damaged = output[:index] + "7" + output[index + 1 : -2] + "9$"
    table = wrong_answers(evaluation([damaged, "", "1$"]), 5, has_work=True)
    found = f"product row {index}: {output[index]!r} expected, '7' found"
    assert [re.split(" {2,}", row) for row in table.splitlines()[1:]] == [
        [MUL[:25], "12.4651020$", "12.4651029$", found],
        [SUB[:25], "41.431-000$", "(none)", "sign 0: '+' expected, the end found"],
        ["a task's own=", "1000010000$", "(none)", "beyond the notation"],
    ]


def with_data(checkpoint: Checkpoint, **data: Any) -> Checkpoint:
    table = {**checkpoint.recipe.model_dump(), "data": {**data, "mixture": {"blog": 1.0}}}
    recipe = build(Recipe, table, "test")
    return dataclasses.replace(checkpoint, recipe=recipe)


def test_eval_shows_confidence_and_errors_and_writes_the_record(
    run_cli: RunCli, tiny: Checkpoint, data_folder: Path, tmp_path: Path
) -> None:
    save(with_data(tiny, format="scratchpad"), tmp_path / "worked")
    ended = run_cli(
        "eval",
        tmp_path / "worked",
        "--data",
        data_folder / "test.txt",
        "--quiet",
        "--errors",
        2,
        "--json",
        tmp_path / "record.json",
    )
    assert (ended.code, ended.err) == (0, "")
    record = json.loads((tmp_path / "record.json").read_text())
    scores = Scores.model_validate(record)
    for text in (score_table(scores), confidence_line(record)):
        assert f"\n{text}\n" in ended.out
    assert ended.out.count(" expected, ") == 2
