"""The test sets of other papers: how they are read, and what counts as right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks import others
from benchmarks.others import (
    Answering,
    Outcome,
    Task,
    answered,
    is_right,
    math401_tasks,
    mathglm_tasks,
    summarize,
)
from calcgpt.errors import DataError

SHIPPED = Path(__file__).parents[2] / "checkpoints" / "scratchpad-small"


@pytest.fixture
def mathglm(tmp_path: Path) -> list[Task]:
    file = tmp_path / "test.txt"
    file.write_text("[7--2]*50%=\n1/3*1.12345678951=\n2+3*4-5/(7-6)=\n")
    return mathglm_tasks(file)


@pytest.fixture
def math401(tmp_path: Path) -> list[Task]:
    rows = [("e^(iπ)+1=", "0"), ("2**3=", "8"), ("2÷3=", "0.6667")]
    file = tmp_path / "math401.json"
    file.write_text("\n".join(json.dumps({"query": q, "response": r}) for q, r in rows))
    return math401_tasks(file)


def test_targets_are_exact(mathglm: list[Task], math401: list[Task]) -> None:
    assert [task.target for task in mathglm] == [
        Fraction(9, 2),
        Fraction(1, 3) * Fraction("1.12345679"),
        Fraction(9),
    ]
    assert [task.kinds for task in mathglm] == [
        ("percentages", "3 to 5 operations"),
        ("decimals", "0 to 2 operations"),
        ("whole numbers", "3 to 5 operations"),
    ]
    assert [task.kinds for task in math401] == [
        ("Euler's equation",),
        ("+ - of integers to 10",),
        ("+ - of integers to 10",),
    ]


def test_what_is_answered_already_is_read(
    mathglm: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others, "SHARD", 2)
    monkeypatch.setattr(others, "make_engine", lambda *_: lambda compute, shards: compute(shards))
    scored: list[str] = []

    class Counting(Answering):
        def __call__(self, shards: Sequence[Sequence[Task]]) -> Iterator[list[Outcome]]:
            for shard in shards:
                scored.extend(task.text for task in shard)
                yield [Outcome(True, task.text, None, True) for task in shard]

    counting = Counting(SHIPPED, "torch", 9, None)
    first = answered(counting, mathglm, None, tmp_path / "shards")
    assert [row.answer for row in next(first)] == scored == [task.text for task in mathglm[:2]]
    first.close()
    again = [row for rows in answered(counting, mathglm, None, tmp_path / "shards") for row in rows]
    assert [row.answer for row in again] == scored == [task.text for task in mathglm]
    with pytest.raises(DataError, match="differ in tasks"):
        next(answered(counting, mathglm[1:], None, tmp_path / "shards"))


@pytest.mark.parametrize(
    ("result", "rounded", "right"),
    [("0.666", True, True), ("0.666", False, True), ("0.66", True, False), ("0.665", False, False)],
)
def test_what_is_right(result: str, rounded: bool, right: bool) -> None:
    assert is_right(Task("2/3", (), Fraction(2, 3), rounded), result) == right
    assert not is_right(Task("2/3", (), Fraction(2, 3), rounded), "nan")
    assert not is_right(Task("2/3", (), Fraction(2, 3), rounded), None)


def test_the_shipped_model_answers(mathglm: list[Task], math401: list[Task]) -> None:
    tasks = [*mathglm, *math401]
    outcomes = Answering(SHIPPED, "torch", 9, None)(tasks)
    assert [outcome.right for outcome in outcomes] == [True] * 3 + [False, True, True]
    assert outcomes[0].answer == "4.5"
    record = summarize(tasks, outcomes)
    assert (record["n"], record["wrong"], record["not_asked"], record["reachable"]) == (6, 1, 1, 5)
    assert record["wrong_answers"] == []
    assert len(record["not_asked_because"]) == 1
