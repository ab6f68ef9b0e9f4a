"""Answers against an independent oracle that computes with fractions, and arrays of them."""

from fractions import Fraction

import numpy as np
import pytest
from datagen_strategies import (
    EXTREMES,
    LARGEST,
    any_numbers,
    any_problems,
    decimal,
    problems,
)
from exact_values import exact
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calcgpt.base.errors import DataError
from datagen.arithmetic import (
    MAX_ASKED_PLACES,
    MAX_PLACES,
    Number,
    Problem,
    ProblemArray,
    answer,
    answers,
    concatenate,
    is_rounded,
)
from datagen.notation import answer_text, number_text
from datagen.operations import ADDITION, DIVISION, MULTIPLICATION, OPERATIONS, SUBTRACTION


def oracle(problem: Problem) -> str:
    """The answer's text, by rational arithmetic alone."""
    if problem.op == "/" and not problem.b.units:
        return "nan"
    # Rounding a Fraction is exact, ties to even.
    rounded = round(exact(problem), problem.places)
    if not problem.places or (problem.op != "/" and not problem.a.point and not problem.b.point):
        assert rounded.denominator == 1
        return str(rounded)
    digits = str(abs(rounded * 10**problem.places)).zfill(problem.places + 1)
    places = digits[-problem.places :].rstrip("0") or "0"
    return f"{'-' if rounded < 0 else ''}{digits[: -problem.places]}.{places}"


@settings(max_examples=500)
@given(problems | any_problems)
@example(Problem(decimal(50), MULTIPLICATION, decimal(1)))  # 0.005: a tie, to 0.0
@example(Problem(decimal(50), MULTIPLICATION, decimal(3)))  # 0.015: a tie, to 0.02
@example(Problem(decimal(-50), MULTIPLICATION, decimal(1)))  # -0.005: to 0.0, not -0.0
@example(Problem(Number(1), DIVISION, Number(8)))  # 0.125: a tie, to 0.12
@example(Problem(Number(3), DIVISION, Number(-8)))  # -0.375: a tie, to -0.38
@example(Problem(Number(0), DIVISION, Number(0)))
@example(Problem(decimal(-1250), DIVISION, decimal(0)))
@example(Problem(Number(5), DIVISION, Number(2), 0))  # a tie, to 2
@example(Problem(Number(7), DIVISION, Number(2), 0))  # a tie, to 4
@example(Problem(decimal(50), ADDITION, Number(0), 0))  # a tie, to 0
@example(Problem(decimal(-50), SUBTRACTION, Number(0), 0))  # to 0, not -0
@example(Problem(decimal(150), MULTIPLICATION, decimal(100), 0))  # a tie, to 2
def test_answer_equals_the_oracle(problem: Problem) -> None:
    assert answer_text(answer(problem)) == oracle(problem)


@settings(max_examples=200)
@given(problems | any_problems)
@example(Problem(Number(1), DIVISION, Number(3)))
@example(Problem(Number(1), DIVISION, Number(0)))
@example(Problem(Number(1, 3), ADDITION, Number(1)))
def test_an_answer_is_rounded_if_it_is_not_the_exact_result(problem: Problem) -> None:
    text = oracle(problem)
    assert is_rounded(problem) == (text != "nan" and Fraction(text) != exact(problem))


def test_a_fraction_needs_a_point() -> None:
    with pytest.raises(ValueError, match="without a point"):
        Number.from_units(1250, 2, point=False)


@pytest.mark.parametrize(("units", "places"), [(50, 2), (0, 2), (1, -1), (1, 10_000), (10, 9_999)])
def test_a_number_is_canonical(units: int, places: int) -> None:
    with pytest.raises(DataError, match=r"zeros|places must be"):
        Number(units, places)


@given(units=st.integers(), places=st.integers(0, MAX_PLACES), point=st.booleans())
def test_from_units_is_exact(units: int, places: int, point: bool) -> None:
    value = Fraction(units, 10**places)
    if not point and value.denominator > 1:
        with pytest.raises(ValueError, match="without a point"):
            Number.from_units(units, places, point)
        return
    number = Number.from_units(units, places, point)
    assert number.point == point
    assert Fraction(number.units, 10**number.places) == value


@given(any_numbers, st.integers(0, MAX_ASKED_PLACES))
def test_scaled_is_exact_or_refused(number: Number, places: int) -> None:
    value = Fraction(number_text(number)) * 10**places
    if value.denominator > 1:
        with pytest.raises(ValueError, match="more than"):
            number.scaled(places)
    else:
        assert number.scaled(places) == value


@pytest.mark.parametrize("places", [-1, 10_000])
def test_an_answer_has_up_to_9999_places(places: int) -> None:
    with pytest.raises(DataError, match="places must be an integer from 0 to 9,999"):
        Problem(Number(1), DIVISION, Number(3), places)


# In hundredths they have 64 bits; what is computed from them may have more.
LONG = [Number(10**n_digits - 1) for n_digits in range(12, 17)]


@given(st.lists(problems, max_size=20) | st.lists(any_problems, max_size=5))
@example([Problem(LARGEST, MULTIPLICATION, LARGEST), Problem(LARGEST, DIVISION, EXTREMES[-1])])
@example([Problem(Number(1), DIVISION, Number(3), places) for places in (2, 9)])
@example(
    [Problem(long, op, Number(b)) for long in LONG for op in OPERATIONS for b in (1, 3, 7_000)]
)
def test_answers_of_arrays_are_those_of_the_scalar_function(batch: list[Problem]) -> None:
    result = answers(ProblemArray.from_problems(batch))
    columns = zip(result.units.tolist(), result.point.tolist(), result.nan.tolist(), strict=True)
    assert [
        None if nan else Number.from_units(units, result.scale, point)
        for units, point, nan in columns
    ] == [answer(problem) for problem in batch]


def test_answers_are_64_bit_integers_if_they_fit() -> None:
    small = ProblemArray.from_problems([Problem(LARGEST, ADDITION, LARGEST)])
    large = ProblemArray.from_problems([Problem(LARGEST, MULTIPLICATION, LARGEST)])
    assert answers(small).units.dtype == np.int64
    assert answers(small.to_scale(5)).units.dtype == np.int64
    assert answers(large).units.dtype == object


batches = st.lists(problems, max_size=5) | st.lists(any_problems, max_size=5)


@given(batches)
def test_to_problems_is_the_inverse_of_from_problems(batch: list[Problem]) -> None:
    array = ProblemArray.from_problems(batch)
    assert len(array) == len(batch)
    assert array.to_problems() == batch


@given(batches, st.integers(2, MAX_ASKED_PLACES))
def test_a_scale_changes_no_problem(batch: list[Problem], scale: int) -> None:
    array = ProblemArray.from_problems(batch)
    if scale < array.scale:
        with pytest.raises(ValueError, match="more places"):
            array.to_scale(scale)
        return
    other = array.to_scale(scale)
    assert other.scale == scale
    assert other.to_problems() == batch
    assert other.to_scale(array.scale).a.dtype == array.a.dtype


@given(st.lists(batches, min_size=1, max_size=4))
def test_arrays_are_concatenated_whatever_their_scales(parts: list[list[Problem]]) -> None:
    whole = concatenate([ProblemArray.from_problems(part) for part in parts])
    assert whole.to_problems() == [problem for part in parts for problem in part]


def test_a_usual_array_has_two_places() -> None:
    array = ProblemArray.from_problems([Problem(Number(1), DIVISION, LARGEST)] * 3)
    same = ProblemArray(array.a, array.a_point, array.op, array.b, array.b_point)
    assert (same.scale, same.places.tolist(), same.a.dtype) == (2, [2, 2, 2], np.int64)
    assert same.take(np.array([0, 2]))[1:].to_problems() == array[:1].to_problems()
    with pytest.raises(ValueError, match="scale must be"):
        array.to_scale(10_000)
    with pytest.raises(ValueError, match="broadcast"):
        ProblemArray(array.a, array.a_point, array.op, array.b, array.b_point, array.places[:2])
