"""Confidence, calibration and thresholds against their definitions, taken literally."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from datagen_strategies import problems_of
from hypothesis import example, given
from hypothesis import strategies as st

from calcgpt.inference.confidence import (
    N_BINS,
    NOT_CONFIDENT,
    Confidence,
    Threshold,
    confidence,
    confidence_record,
    reliability,
    threshold_without_error,
)
from datagen.arithmetic import Problem
from datagen.steps import StepKind, quotient_digits, work_steps

# The bins' edges and their neighbours often, and any other share.
edges = [index / N_BINS for index in range(N_BINS + 1)]
near = [math.nextafter(edge, side) for edge in edges for side in (0.0, 1.0)]
shares = st.sampled_from(edges + near) | st.floats(0, 1)
answers = st.lists(st.tuples(shares, st.booleans()), min_size=1)


def test_the_three_numbers_by_hand() -> None:
    written, probabilities = "x1=5.0$", [0.5, 0.25, 0.8, 0.5, 1.0, 1.0, 0.5]
    assert confidence(written, probabilities) == Confidence(
        answer=0.25, weakest_step=0.25, whole=0.5 * 0.25 * 0.8 * 0.5 * 0.5
    )


def test_an_answer_at_once_has_no_step() -> None:
    assert confidence("5$", [0.5, 0.5]) == Confidence(answer=0.25, weakest_step=1.0, whole=0.25)


def test_a_quotient_digit_is_a_choice_and_no_claim() -> None:
    output = "y1a+3:=5$"
    probabilities = [1.0, 0.5, 1.0, 1.0, 0.1, 1.0, 1.0, 0.5, 0.5]
    assert confidence(output, probabilities) == Confidence(
        answer=0.25, weakest_step=0.5, whole=0.125
    )
    assert confidence(f"x{output[1:]}", probabilities).weakest_step == 0.1  # in no other work


@given(problems_of(7))
def test_the_choices_are_where_the_notation_leaves_one(problem: Problem) -> None:
    choices, work = set(), ""
    for step in work_steps(problem, 7):
        choices |= {len(work)} if step.kind == StepKind.QUOTIENT else set()
        work += step.text
    assert quotient_digits(work) == choices


@pytest.mark.parametrize("output", ["", "x1=", "x1=5.0", "$x"])
def test_what_is_not_closed_is_no_answer_to_be_sure_of(output: str) -> None:
    assert confidence(output, [1.0] * len(output)) == NOT_CONFIDENT


@given(st.text("x0=", max_size=30), st.data())
def test_no_part_is_less_probable_than_the_whole(work: str, data: st.DataObject) -> None:
    output = work + "$"
    probabilities = data.draw(st.lists(shares, min_size=len(output), max_size=len(output)))
    of = confidence(output, probabilities)
    assert 0 <= of.whole <= min(of.answer, of.weakest_step)
    assert max(of.answer, of.weakest_step) <= 1


@given(answers)
@example([(0.3, True), (0.3 - 5e-17, False), (1.0, True), (0.0, False)])
def test_bins_and_calibration_error_are_as_defined(rows: list[tuple[float, bool]]) -> None:
    result = reliability([value for value, _ in rows], [right for _, right in rows])
    error = Fraction(0)
    assert len(result["bins"]) == N_BINS
    for index, found in enumerate(result["bins"]):
        assert (found["low"], found["high"]) == (index / N_BINS, (index + 1) / N_BINS)
        last = index == N_BINS - 1
        inside = [(v, ok) for v, ok in rows if found["low"] <= v and (v < found["high"] or last)]
        assert found["n"] == len(inside)
        if not inside:
            assert found["confidence"] is found["accuracy"] is None
            continue
        mean = sum(Fraction(value) for value, _ in inside) / len(inside)
        accuracy = Fraction(sum(ok for _, ok in inside), len(inside))
        assert found["confidence"] == pytest.approx(float(mean))
        assert found["accuracy"] == pytest.approx(float(accuracy))
        error += Fraction(len(inside), len(rows)) * abs(mean - accuracy)
    assert sum(found["n"] for found in result["bins"]) == len(rows)
    assert result["expected_calibration_error"] == pytest.approx(float(error), abs=1e-12)


def test_a_coin_that_knows_it_is_calibrated() -> None:
    result = reliability([0.5] * 4, [True, False, True, False])
    assert result["expected_calibration_error"] == 0
    assert reliability([0.9, 0.9], [False, False])["expected_calibration_error"] == 0.9


@given(answers)
def test_the_threshold_is_the_least_above_which_nothing_is_wrong(
    rows: list[tuple[float, bool]],
) -> None:
    confidences, right = [value for value, _ in rows], [ok for _, ok in rows]
    found = threshold_without_error(confidences, right)
    clean = [c for c in (0.0, *confidences) if all(ok for value, ok in rows if value > c)]
    assert found.confidence == min(clean)
    above = [ok for value, ok in rows if value > found.confidence]
    assert all(above)
    assert found.kept == (1.0 if all(right) else len(above) / len(rows))


def test_the_threshold_is_strict_and_keeps_all_where_nothing_is_wrong() -> None:
    tied = threshold_without_error([0.7, 0.7, 0.8, 0.2], [True, False, True, True])
    assert tied == Threshold(0.7, 0.25)
    assert threshold_without_error([0.0, 0.5], [True, True]) == Threshold(0.0, 1.0)
    assert threshold_without_error([0.0, 0.5], [False, True]) == Threshold(0.0, 0.5)
    assert threshold_without_error([1.0, 1.0], [False, True]) == Threshold(1.0, 0.0)


def test_a_record_judges_the_whole_and_gives_every_threshold() -> None:
    outputs = ["x=1$", "x=2$", "x=3$", "x"]
    probabilities = [[0.9, 1, 1, 1], [1, 1, 0.6, 1], [0.7, 1, 0.8, 1], [1]]
    right = [True, True, False, False]
    record = confidence_record(outputs, probabilities, right)
    assert record["no_error_above"] == {
        "answer": {"confidence": 0.8, "kept": 0.25},
        "weakest_step": {"confidence": 0.7, "kept": 0.5},
        "whole": {"confidence": 0.7 * 0.8, "kept": 0.5},
    }
    assert record["reliability"] == reliability([0.9, 0.6, 0.7 * 0.8, 0.0], right)
    assert json.loads(json.dumps(record)) == record
