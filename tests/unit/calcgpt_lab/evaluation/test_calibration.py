"""Calibration and thresholds against their definitions."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calcgpt.inference.results import confidence
from calcgpt_lab.evaluation.calibration import (
    EDGES,
    N_BINS,
    confidence_record,
    reliability,
    threshold_without_error,
)

# Often the edges of bins and their neighbours, otherwise any share.
neighbours = [math.nextafter(edge, side) for edge in EDGES for side in (0.0, 1.0)]
shares = st.sampled_from(EDGES + neighbours) | st.floats(0, 1)
answers = st.lists(st.tuples(shares, st.booleans()), min_size=1)


@given(answers)
@example([(0.3, True), (0.3 - 5e-17, False), (1.0, True), (0.0, False)])
def test_bins_and_calibration_error_are_as_defined(rows: list[tuple[float, bool]]) -> None:
    result = reliability([value for value, _ in rows], [right for _, right in rows])
    error = Fraction(0)
    assert len(result["bins"]) == N_BINS
    for index, bin_ in enumerate(result["bins"]):
        assert (bin_["low"], bin_["high"]) == (index / N_BINS, (index + 1) / N_BINS)
        last = index == N_BINS - 1
        inside = [(v, ok) for v, ok in rows if bin_["low"] <= v and (v < bin_["high"] or last)]
        assert bin_["n"] == len(inside)
        if not inside:
            assert bin_["confidence"] is bin_["accuracy"] is None
            continue
        mean = sum(Fraction(value) for value, _ in inside) / len(inside)
        accuracy = Fraction(sum(ok for _, ok in inside), len(inside))
        assert bin_["confidence"] == pytest.approx(float(mean))
        assert bin_["accuracy"] == pytest.approx(float(accuracy))
        error += Fraction(len(inside), len(rows)) * abs(mean - accuracy)
    assert sum(bin_["n"] for bin_ in result["bins"]) == len(rows)
    assert result["expected_calibration_error"] == pytest.approx(float(error), abs=1e-12)


@given(answers)
def test_the_threshold_is_the_least_above_which_nothing_is_wrong(
    rows: list[tuple[float, bool]],
) -> None:
    confidences, right = [value for value, _ in rows], [ok for _, ok in rows]
    threshold = threshold_without_error(confidences, right)
    clean = [c for c in (0.0, *confidences) if all(ok for value, ok in rows if value > c)]
    assert threshold["confidence"] == min(clean)
    above = [ok for value, ok in rows if value > threshold["confidence"]]
    assert all(above)
    assert threshold["kept"] == (1.0 if all(right) else len(above) / len(rows))


def test_a_record_has_the_reliability_of_the_whole_and_every_threshold() -> None:
    outputs = ["x=1$", "x=2$", "x=3$", "x"]
    probabilities = [[0.9, 1, 1, 1], [1, 1, 0.6, 1], [0.7, 1, 0.8, 1], [1]]
    right = [True, True, False, False]
    rows = zip(outputs, probabilities, strict=True)
    values = [confidence("$(0000000001+0000000001)=", output, chances) for output, chances in rows]
    record = confidence_record(values, right)
    assert record["no_error_above"] == {
        "answer": {"confidence": 0.8, "kept": 0.25},
        "weakest_step": {"confidence": 0.7, "kept": 0.5},
        "whole": {"confidence": 0.7 * 0.8, "kept": 0.5},
    }
    assert record["reliability"] == reliability([0.9, 0.6, 0.7 * 0.8, 0.0], right)
    assert json.loads(json.dumps(record)) == record
