"""How often a mixture draws each class of problems, and how exact a model is in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calcgpt.config import DataConfig
from calcgpt.data.problems import FreshProblems
from calcgpt.errors import UserError
from calcgpt.lab.coverage import (
    BLOCK,
    RARE,
    Coverage,
    Scored,
    count_scored,
    draw_coverage,
    measure,
)
from calcgpt.recipe import load_recipe
from calcgpt.statistics import wilson_interval
from datagen.problem_classes import TABLES, count_classes

DIRECT = DataConfig(format="direct", mixture={"blog": 1.0, "everyday": 1.0})
FEW = ["signs", "carries"]  # that are drawn: all take long
PROMPTS = {
    "$(0000000012+0000000003)=": True,
    "$(0000000012+0000000004)=": False,
    "$(0000000099+0000000004)=": True,
    "$8(0000000001/0000000003)=": True,
    "$(0000000001/0000000000)=": False,
    "$(123456789012*000000-3.5)=": True,
}


def write_scored(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    rows = [{"prompt": prompt, "right": right, "also": 1} for prompt, right in PROMPTS.items()]
    return write_scored(tmp_path / "scored.jsonl", rows)


@pytest.fixture
def few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {name: TABLES[name] for name in FEW}
    monkeypatch.setattr("calcgpt.lab.coverage.TABLES", tables)


@pytest.fixture
def coverage(scored: Path) -> Coverage:
    return measure("mine", DIRECT, 300, 1, scored=scored)


def test_the_problems_are_those_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calcgpt.lab.coverage.BLOCK", 200)
    seen: list[int] = []
    drawn = measure("mine", DIRECT, 500, 3, progress=seen.append).drawn
    assert seen == [200, 200, 100]
    fresh = FreshProblems(DIRECT, 3)
    problems = [p for index in range(3) for p in fresh.block(index, 200).to_problems()][:500]
    for name, counts in count_classes(problems).items():
        assert (drawn[name] == counts).all()
    assert BLOCK > 200


def test_long_operands_are_not_counted(scored: Path) -> None:
    coverage = measure("mine", DIRECT, 300, 1, most_digits=3, scored=scored)
    assert coverage.n == 300
    assert 0 < coverage.drawn["lengths"].sum() == coverage.drawn["lengths"][:, :3, :3].sum() < 300
    assert coverage.scored
    assert coverage.scored.n["lengths"].sum() == 5


def test_right_answers_by_class(coverage: Coverage) -> None:
    scores = coverage.scored
    assert scores
    lengths = TABLES["lengths"]
    assert lengths.rows.labels[1] == lengths.columns.labels[0].replace("1", "2") == "2"
    assert (scores.n["lengths"][0, 1, 0], scores.right["lengths"][0, 1, 0]) == (3, 2)
    assert (scores.n["lengths"][3, 0, 0], scores.right["lengths"][3, 0, 0]) == (2, 1)
    assert (scores.n["lengths"][2, 11, 1], scores.right["lengths"][2, 11, 1]) == (1, 1)


def test_the_record(coverage: Coverage) -> None:
    record = json.loads(json.dumps(coverage.record()))
    assert record["mixture"] == {"blog": 1.0, "everyday": 1.0}
    assert (record["drawn"], record["seed"], record["scored"]) == (300, 1, "scored.jsonl")
    assert record["tables"].keys() == TABLES.keys()
    signs = record["tables"]["signs"]
    assert signs["rows"] == {"name": "sign of A", "labels": ["-", "0", "+"]}
    assert sum(sum(map(sum, signs[op]["drawn"])) for op in "+-*/") == 300
    assert signs["+"]["scored"][2][2] == 3
    assert signs["+"]["interval"][2][2] == pytest.approx(wilson_interval(2 / 3, 3), abs=1e-6)
    assert signs["+"]["interval"][0][0] is None


def test_without_scores_there_are_no_shares(tmp_path: Path, few_tables: None) -> None:
    coverage = measure("mine", DIRECT, 100, 1)
    assert coverage.record()["scored"] is None
    assert coverage.record()["tables"]["signs"]["+"].keys() == {"drawn"}
    assert "right" not in coverage.table()
    files = draw_coverage(tmp_path / "plots", coverage)
    assert [file.name for file in files] == [f"drawn-{name}.png" for name in FEW]


def test_the_table_names_the_weakest_class(coverage: Coverage) -> None:
    lines = {line.split()[0]: line for line in coverage.table().splitlines()[1:]}
    assert lines.keys() == TABLES.keys()
    assert "/ nan, +" in lines["answers"]
    assert "0 of 1" in lines["answers"]


def test_rare_classes_and_the_one_with_the_lowest_interval() -> None:
    drawn, n, right = (
        {name: np.zeros(table.shape, np.int64) for name, table in TABLES.items()} for _ in range(3)
    )
    drawn["signs"][0, 0, :2] = 1, 2
    n["signs"][0, 0, :2], right["signs"][0, 0, :2] = (1, 100), (0, 50)
    coverage = Coverage("mine", DIRECT, 1, 2 * RARE, None, drawn, Scored("file", n, right))
    assert "+ -, -" in coverage.rare("signs")
    assert "+ -, 0" not in coverage.rare("signs")
    [line] = [line for line in coverage.table().splitlines() if line.startswith("signs")]
    assert "50 of 100" in line  # its interval ends lower than that of 0 of 1


def test_a_heat_map_is_written_for_each_table(
    coverage: Coverage, tmp_path: Path, few_tables: None
) -> None:
    files = draw_coverage(tmp_path / "plots", coverage)
    names = {f"{what}-{name}.png" for what in ("drawn", "right") for name in FEW}
    assert {file.name for file in files} == names
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("{", "line 1: not JSON"),
        ('{"prompt": "$(1+1)=", "right": true}', "line 1: not in the notation"),
        ('{"prompt": "$(0000000001+0000000001)="}', "line 1 is not a scored problem"),
        ('{"prompt": "$(0000000001+0000000001)=", "right": 1}', "line 1 is not a scored problem"),
        ('{"prompt": "' + 1000 * "1" + '", "right": true}', "line 1 is not a scored problem"),
        ("[" * 100_000, "line 1: not JSON"),
    ],
)
def test_a_bad_file_of_scores(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        count_scored(file)


def test_the_command(run_cli: Callable[..., Any], scored: Path, tmp_path: Path) -> None:
    json_file = tmp_path / "coverage.json"
    options = ("--n", "200", "--digits", "7", "--scored", scored, "--json", json_file, "--quiet")
    outcome = run_cli("coverage", "scratchpad", *options)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[0].split()[:3] == ["classes", "rare", "never"]
    assert outcome.out.splitlines()[-1] == str(json_file)
    assert json.loads(json_file.read_text())["most_digits"] == 7


def test_a_recipe_without_data(run_cli: Callable[..., Any]) -> None:
    outcome = run_cli("coverage", "blog")
    assert outcome.code == 2
    assert outcome.err == "error: the recipe blog has no [data] section: it draws no problems\n"


# Up to 7 digits, these are the classes that occur without being sought: not the sum of 15 digits.
USUAL: dict[str, dict[str, tuple[int, int]]] = {
    "lengths": dict.fromkeys("+-*/", (7, 7)),
    "places": dict.fromkeys("+-*/", (10, 10)),
    "signs": dict.fromkeys("+-*/", (3, 3)),
    "answer-places": dict.fromkeys("+-*/", (10, 1)),
    "carries": {"+": (10, 1), "-": (10, 1), "*": (13, 1), "/": (13, 1)},
    "powers": dict.fromkeys("+-*/", (5, 3)),
    "zeros": dict.fromkeys("+-*/", (5, 3)),
    "nines": dict.fromkeys("+-*/", (5, 3)),
    "answers": {"+": (14, 2), "-": (14, 2), "*": (16, 2), "/": (18, 2)},
}


def is_impossible(name: str, operation: str, label: str) -> bool:
    """Only a quotient is nan, neither nan nor 0 is negative, and nothing drawn has 0 places."""
    is_nan = label == "nan, +" and operation != "/"
    return is_nan or label in ("nan, -", "0, -") or (name, label) == ("answer-places", "0, ")


def test_no_class_of_up_to_seven_digits_is_rare() -> None:
    data = load_recipe("scratchpad").data
    assert data
    coverage = measure("scratchpad", data, 120_000, 0, most_digits=7)
    rare = [
        f"{name}: {operation} {label}"
        for name, shapes in USUAL.items()
        for code, (operation, (n_rows, n_columns)) in enumerate(shapes.items())
        for (row, column), count in np.ndenumerate(coverage.drawn[name][code, :n_rows, :n_columns])
        for label in [f"{TABLES[name].rows.labels[row]}, {TABLES[name].columns.labels[column]}"]
        if count * RARE < coverage.n and not is_impossible(name, operation, label)
    ]
    assert rare == []


def test_a_limit_that_leaves_no_scored_problem_is_named(tmp_path: Path) -> None:
    row = {"prompt": "$(0000000123+0000000003)=", "right": True}
    file = write_scored(tmp_path / "scored.jsonl", [row])
    with pytest.raises(
        UserError, match=r"no scored problems whose operands have at most 2 digits$"
    ):
        count_scored(file, 2)
    assert count_scored(file, 3).file == "scored.jsonl"
