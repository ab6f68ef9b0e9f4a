"""Answers against an independent oracle that computes with fractions, and arrays of them."""

import operator
from fractions import Fraction

import numpy as np
import pytest
from datagen_strategies import EXTREMES, LARGEST, problems
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datagen.arithmetic import (
    Number,
    Operation,
    Problem,
    ProblemArray,
    answer,
    answers,
    divide_half_even,
)
from datagen.notation import answer_text


def oracle(problem: Problem) -> str:
    """The answer's text, by rational arithmetic alone."""
    a, b = (Fraction(operand.hundredths, 100) for operand in (problem.a, problem.b))
    if problem.op == "/" and b == 0:
        return "nan"
    exact = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
    rounded = round(exact[problem.op](a, b), 2)  # of a Fraction: exact, ties to even
    if problem.op != "/" and not problem.a.point and not problem.b.point:
        assert rounded.denominator == 1
        return str(rounded)
    tenths, hundredth = divmod(abs(rounded * 100), 10)
    places = f"{tenths % 10}{hundredth or ''}"
    return f"{'-' if rounded < 0 else ''}{tenths // 10}.{places}"


def whole(value: int) -> Number:
    return Number(100 * value, point=False)


def decimal(hundredths: int) -> Number:
    return Number(hundredths, point=True)


@settings(max_examples=1000)
@given(problems)
@example(Problem(decimal(50), Operation.MUL, decimal(1)))  # 0.005: a tie, to 0.0
@example(Problem(decimal(50), Operation.MUL, decimal(3)))  # 0.015: a tie, to 0.02
@example(Problem(decimal(-50), Operation.MUL, decimal(1)))  # -0.005: to 0.0, not -0.0
@example(Problem(whole(1), Operation.DIV, whole(8)))  # 0.125: a tie, to 0.12
@example(Problem(whole(3), Operation.DIV, whole(-8)))  # -0.375: a tie, to -0.38
@example(Problem(whole(0), Operation.DIV, whole(0)))
@example(Problem(decimal(-1250), Operation.DIV, decimal(0)))
def test_answer_equals_the_oracle(problem: Problem) -> None:
    assert answer_text(answer(problem)) == oracle(problem)


@pytest.mark.parametrize(
    ("a", "op", "b", "text"),
    [
        (whole(782), "+", whole(21), "803"),
        (whole(21), "-", whole(782), "-761"),
        (whole(0), "*", whole(-5), "0"),
        (decimal(0), "+", whole(5), "5.0"),
        (decimal(250), "+", decimal(250), "5.0"),
        (decimal(250), "-", decimal(250), "0.0"),
        (whole(6), "/", whole(3), "2.0"),
        (whole(400), "/", whole(344), "1.16"),
        (whole(1), "/", whole(2), "0.5"),
        (whole(0), "/", whole(-7), "0.0"),
        (whole(-1), "/", whole(1000), "0.0"),
        (decimal(5), "*", decimal(10), "0.0"),  # 0.005
        (decimal(15), "*", decimal(10), "0.02"),  # 0.015
        (decimal(25), "*", decimal(10), "0.02"),  # 0.025
        (whole(7), "/", whole(0), "nan"),
        (whole(0), "/", decimal(0), "nan"),
        (whole(9_999_999_999), "*", whole(9_999_999_999), "99999999980000000001"),
    ],
)
def test_examples(a: Number, op: str, b: Number, text: str) -> None:
    assert answer_text(answer(Problem(a, Operation(op), b))) == text


@pytest.mark.parametrize(
    ("numerator", "denominator", "quotient"),
    [(5, 2, 2), (7, 2, 4), (-5, 2, -2), (-7, 2, -4), (5, -2, -2), (2, 3, 1), (-1, 3, 0), (6, 3, 2)],
)
def test_division_rounds_half_to_even(numerator: int, denominator: int, quotient: int) -> None:
    assert divide_half_even(numerator, denominator) == quotient


def test_a_fraction_needs_a_point() -> None:
    with pytest.raises(ValueError, match="1250 hundredths"):
        Number(1250, point=False)


@given(st.lists(problems, max_size=20))
@example([Problem(LARGEST, Operation.MUL, LARGEST), Problem(LARGEST, Operation.DIV, EXTREMES[-1])])
def test_answers_of_arrays_are_those_of_the_scalar_function(batch: list[Problem]) -> None:
    result = answers(ProblemArray.from_problems(batch))
    columns = zip(result.hundredths, result.point, result.nan, strict=True)
    assert [None if nan else Number(int(h), bool(p)) for h, p, nan in columns] == [
        answer(problem) for problem in batch
    ]


def test_answers_are_64_bit_integers_if_they_fit() -> None:
    small = ProblemArray.from_problems([Problem(LARGEST, Operation.ADD, LARGEST)])
    large = ProblemArray.from_problems([Problem(LARGEST, Operation.MUL, LARGEST)])
    assert answers(small).hundredths.dtype == np.int64
    assert answers(large).hundredths.dtype == object


@given(st.lists(problems, max_size=5))
def test_to_problems_is_the_inverse_of_from_problems(batch: list[Problem]) -> None:
    array = ProblemArray.from_problems(batch)
    assert len(array) == len(batch)
    assert array.to_problems() == batch
