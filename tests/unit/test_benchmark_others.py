"""The test sets of other papers: how they are read, and what counts as right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks import others
from benchmarks.others import READERS, Answering, Outcome, Task, answered, exact_value, summarize
from calcgpt.errors import DataError

SHIPPED = Path(__file__).parents[2] / "checkpoints" / "scratchpad-small"
LINES = {
    "GSM8K": ["2/3*30=20", "10/3=3.33"],
    "MATH-401": [
        json.dumps({"query": query, "response": response})
        for query, response in (("e^(iπ)+1=", "0"), ("2**3=", "8"), ("2÷3=", "0.6667"))
    ],
    "MathGLM": ["[7--2]*50%=", "1/3*1.12345678951=", "100-10%*2+[3*4-50%]/(7-6)="],
}


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, list[Task]]:
    """The tasks of each set."""
    for name, lines in LINES.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return {name: read(tmp_path / name) for name, read in READERS.items()}


def test_expressions_are_asked_as_they_stand(sets: dict[str, list[Task]]) -> None:
    texts = {name: [task.text for task in tasks] for name, tasks in sets.items()}
    assert texts["GSM8K"] == ["2/3*30", "10/3"]
    assert texts["MATH-401"] == ["e^(iπ)+1=", "2**3=", "2÷3="]
    assert texts["MathGLM"] == LINES["MathGLM"]


def test_values_are_exact(sets: dict[str, list[Task]]) -> None:
    assert [(task.value, task.written) for task in sets["GSM8K"]] == [
        (20, 20),
        (Fraction(10, 3), Fraction("3.33")),
    ]
    assert [task.value for task in sets["MathGLM"]] == [
        Fraction(9, 2),
        Fraction("1.12345678951") / 3,
        Fraction("111.3"),
    ]
    assert exact_value("-(2+3)*.5/+4-1") == Fraction(-13, 8)
    assert [task.value for task in sets["MATH-401"]] == [0, 8, Fraction("0.6667")]


def test_expressions_have_kinds(sets: dict[str, list[Task]]) -> None:
    assert [task.kinds for task in sets["MathGLM"]] == [
        ("percentages", "3 to 5 operations"),
        ("decimals", "0 to 2 operations"),
        ("percentages", "6 to 99 operations"),
    ]
    assert [task.kinds for task in sets["MATH-401"]] == [
        ("Euler's equation",),
        ("+ - of integers to 10",),
        ("+ - of integers to 10",),
    ]


@pytest.mark.parametrize(
    ("name", "result", "judged"),
    [
        ("GSM8K", "3.333333333", (True, False)),
        ("GSM8K", "3.333333334", (False, False)),
        ("GSM8K", "3.33", (False, True)),
        ("MATH-401", "0.666", (True, True)),
        ("MATH-401", "0.6657", (False, False)),
        ("MathGLM", "111.3", (True, True)),
        ("MathGLM", "111.300000001", (False, True)),
        ("MathGLM", "111.31", (False, False)),
        ("MathGLM", "nan", (False, False)),
        ("MathGLM", None, (False, False)),
    ],
)
def test_what_is_right(
    sets: dict[str, list[Task]], name: str, result: str | None, judged: tuple[bool, bool]
) -> None:
    assert sets[name][-1].judge(result, places=9) == judged


def test_what_is_answered_already_is_read(
    sets: dict[str, list[Task]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others, "SHARD", 2)
    monkeypatch.setattr(others, "make_engine", lambda *_: lambda compute, shards: compute(shards))
    tasks = sets["MathGLM"]
    scored: list[str] = []

    class Counting(Answering):
        def __call__(self, shards: Sequence[Sequence[Task]]) -> Iterator[list[Outcome]]:
            for shard in shards:
                scored.extend(task.text for task in shard)
                yield [Outcome(task.text) for task in shard]

    counting = Counting(SHIPPED, "torch", 9)
    first = answered(counting, tasks, None, tmp_path / "shards")
    assert [row.result for row in next(first)] == scored == [task.text for task in tasks[:2]]
    first.close()
    again = [row for rows in answered(counting, tasks, None, tmp_path / "shards") for row in rows]
    assert [row.result for row in again] == scored == [task.text for task in tasks]
    with pytest.raises(DataError, match="differ in tasks"):
        next(answered(counting, tasks[1:], None, tmp_path / "shards"))


def test_the_shipped_model_answers(sets: dict[str, list[Task]]) -> None:
    tasks = [*sets["GSM8K"], *sets["MATH-401"], sets["MathGLM"][0]]
    outcomes = Answering(SHIPPED, "torch", 9)(tasks)
    assert [outcome.right for outcome in outcomes] == [True, True, False, True, True, True]
    assert outcomes[0].result == "20"
    assert outcomes[0].guard_places
    assert outcomes[1].guard_places == 0
    record = summarize(tasks, outcomes)
    assert (record["n"], record["wrong"], record["refused"]) == (6, 1, {"syntax": 1})
    assert record["other_match"] == 4 / 6  # 10/3 is not 3.33
    assert record["by_kind"]["Euler's equation"]["wrong"] == 1
    assert record["wrong_results"] == []
    work = [record[f"{key}_guard_places"] for key in ("with", "without")]
    assert sum(part["n"] for part in work) == sum(record["guard_places"].values()) == 5
    assert all(part["characters"] and part["seconds"] > 0 for part in work)
    wrong = summarize(tasks[:1], [Outcome("20.0000001")])["wrong_results"]
    assert wrong == [{"text": "2/3*30", "result": "20.0000001", "right": 20.0}]
