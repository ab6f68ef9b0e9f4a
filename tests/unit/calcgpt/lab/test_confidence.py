"""What scored problems say about a model's confidence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.cli import cli
from calcgpt.lab.confidence import (
    ConfidenceReport,
    conformal,
    high_probability,
)
from calcgpt.statistics import binomial_cdf, upper_bound

TARGETS = (0.5, 0.1, 0.03, 0.001)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("choose", [conformal, high_probability])
def test_one_problem_less_than_needed_gives_no_threshold(choose: type, target: float) -> None:
    needs = choose(np.ones(1), np.ones(1, bool), target).needs
    enough, fewer = (choose(np.ones(n), np.ones(n, bool), target) for n in (needs, needs - 1))
    assert (enough.threshold, enough.kept) == (0.0, 1.0)
    assert fewer.threshold is None


@given(st.integers(1, 300), st.sampled_from(TARGETS))
def test_one_more_wrong_answer_would_break_the_guarantee(n: int, target: float) -> None:
    wrong = np.linspace(0, 0.5, n)  # none is equal to another
    kept = high_probability(wrong, np.zeros(n, bool), target)
    if kept.threshold is None:
        assert binomial_cdf(0, n, target) > 0.05
    else:
        assert binomial_cdf(kept.wrong, n, target) <= 0.05
        assert kept.wrong == n or binomial_cdf(kept.wrong + 1, n, target) > 0.05


def test_the_guarantees_hold() -> None:
    """An answer of confidence c is wrong with probability 1 - c: above t, (1 - t)^2 / 2 of all."""
    n, target = 200, 0.05
    rng = np.random.Generator(np.random.PCG64(7))
    risks: dict[str, list[float]] = {"conformal": [], "high_probability": []}
    for _ in range(800):
        confidence = rng.random(n)
        right = rng.random(n) < confidence
        for choose in (conformal, high_probability):
            threshold = choose(confidence, right, target).threshold
            assert threshold is not None
            risks[choose.__name__].append((1 - threshold) ** 2 / 2)
    # The mean of the first is at most the target; the error of this mean of 800 is 2% of it.
    assert 0.8 * target < np.mean(risks["conformal"]) <= 1.05 * target
    failed = np.mean(np.array(risks["high_probability"]) > target)
    assert 0.01 < failed < 0.06


def test_a_curve_and_its_decades() -> None:
    confidence = np.array([0.9999, 0.95, 0.5, 0.3])
    report = ConfidenceReport("mine", confidence, np.array([True, True, False, True]), [])
    assert [point[:2] for point in report.curve()] == [
        (0.25, 0.0),
        (0.5, 0.0),
        (0.75, pytest.approx(1 / 3)),
        (1.0, 0.25),
    ]
    decades = {row.name: (row.n, row.wrong) for row in report.decades()}
    assert decades == {"1 to 0.1": (2, 1), "0.1 to 0.01": (1, 0), "0.0001 to 1e-05": (1, 0)}
    assert sum(row.expected for row in report.decades()) == pytest.approx(1.2501)


def test_files_of_scored_problems(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    rows = [
        ("$(0000000012+0000000003)=", True, 0.999),
        ("$(0000012345+0000000003)=", False, 0.4),
        ("$8(0000000001/0000000003)=", True, 0.99),
    ]
    file.write_text(
        "".join(
            json.dumps(
                {
                    "prompt": prompt,
                    "right": right,
                    "confidence": {"answer": 1.0, "weakest_step": 1.0, "whole": whole},
                }
            )
            + "\n"
            for prompt, right, whole in rows
        )
    )
    options = ["--target", "0.4", "--target", "0.01", "--out", str(tmp_path / "plots")]
    numbers = tmp_path / "numbers.json"
    result = CliRunner().invoke(cli, ["confidence", str(file), *options, "--json", str(numbers)])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "plots" / "confidence.png").is_file()
    record = json.loads(numbers.read_text())["mine"]
    assert (record["n"], record["wrong"]) == (3, 1)
    loose, strict = record["guarantees"]
    assert loose["conformal"]["threshold"] == 0.4
    assert loose["conformal"]["kept"] == pytest.approx(2 / 3)
    assert (strict["conformal"]["threshold"], strict["conformal"]["needs"]) == (None, 99)
    assert {row["name"]: row["wrong"] for row in record["classes"]} == {
        "+ 1 to 3 digits": 0,
        "+ 4 to 7 digits": 1,
        "/ 1 to 3 digits": 0,
    }


@pytest.mark.parametrize("whole", ["1.5", "-0.1", "NaN", "Infinity", '"x"', "null"])
def test_a_line_without_probabilities_is_named(whole: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    numbers = f'{{"answer": 1.0, "weakest_step": 1.0, "whole": {whole}}}'
    line = '{"prompt": "$(0000000012+0000000003)=", "right": true, "confidence": %s}\n'
    file.write_text(line % numbers.replace(whole, "0.5") + line % numbers)
    result = CliRunner().invoke(cli, ["confidence", str(file)])
    assert (result.exit_code, "line 2" in result.output) == (2, True)


def test_a_threshold_is_tested_on_the_other_half() -> None:
    right = np.ones(200, bool)
    right[1::2] = False
    [row] = ConfidenceReport("mine", np.full(200, 0.9), right, []).guarantees([0.05])
    assert (row["held_out"]["n"], row["held_out"]["wrong"]) == (100, 100)


def test_the_last_decade_and_the_bounds_of_a_curve() -> None:
    report = ConfidenceReport(
        "mine", np.array([1 - 1e-7, 1.0, 1 - 3e-6]), np.array([False, True, True]), []
    )
    assert {row.name: row.n for row in report.decades()} == {"1e-05 to 1e-06": 1, "below 1e-06": 2}
    bounds = [upper_bound(wrong, n) for wrong, n in ((0, 1), (1, 2), (1, 3))]
    assert [point[2] for point in report.curve()] == pytest.approx(bounds)
