"""Arrays of problems against the functions for one problem."""

import numpy as np
import pytest
from datagen_strategies import problems
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datagen import vectorised
from datagen.arithmetic import Number, Operation, Problem, answer
from datagen.errors import NotationError
from datagen.notation import render
from datagen.vectorised import ProblemArray, answers, render_lines

LARGEST = Number(100 * 9_999_999_999, False)
SMALLEST = Number(-100 * 999_999_999, False)
LARGEST_DECIMAL = Number(9_999_999_990, True)
SMALLEST_DECIMAL = Number(-999_999_990, True)
EXTREMES = [LARGEST, SMALLEST, LARGEST_DECIMAL, SMALLEST_DECIMAL, Number(1, True), Number(0, False)]


def expected(batch: list[Problem]) -> bytes:
    return "".join(f"{render(problem)}\n" for problem in batch).encode()


@given(st.lists(problems, max_size=20))
@example([])
@example([Problem(a, op, b) for a in EXTREMES for op in Operation for b in EXTREMES])
def test_lines_are_those_of_the_scalar_renderer(batch: list[Problem]) -> None:
    assert render_lines(ProblemArray.from_problems(batch)) == expected(batch)


@settings(max_examples=1000)
@given(problems)
def test_one_line_alone(problem: Problem) -> None:
    # Alone, so that no other problem makes it take the way of long lines or large numbers.
    assert render_lines(ProblemArray.from_problems([problem])) == expected([problem])


@given(st.lists(problems, max_size=20))
@example([Problem(LARGEST, Operation.MUL, LARGEST), Problem(LARGEST, Operation.DIV, EXTREMES[-1])])
def test_answers_are_those_of_the_scalar_function(batch: list[Problem]) -> None:
    result = answers(ProblemArray.from_problems(batch))
    columns = zip(result.hundredths, result.point, result.nan, strict=True)
    assert [None if nan else Number(int(h), bool(p)) for h, p, nan in columns] == [
        answer(problem) for problem in batch
    ]


def test_answers_are_64_bit_integers_wherever_they_can_be() -> None:
    small = ProblemArray.from_problems([Problem(LARGEST, Operation.ADD, LARGEST)])
    large = ProblemArray.from_problems([Problem(LARGEST, Operation.MUL, LARGEST)])
    assert answers(small).hundredths.dtype == np.int64
    assert answers(large).hundredths.dtype == object


@given(st.lists(problems, max_size=5))
def test_to_problems_is_the_inverse_of_from_problems(batch: list[Problem]) -> None:
    array = ProblemArray.from_problems(batch)
    assert len(array) == len(batch)
    assert array.to_problems() == batch


def test_every_small_decimal_as_operand_and_as_answer() -> None:
    n = 200_001
    for point in (False, True):
        values = np.arange(-100_000, 100_001) * (1 if point else 100)
        array = ProblemArray(
            a=values,
            a_point=np.full(n, point),
            op=np.zeros(n, np.uint8),
            b=np.zeros(n, np.int64),
            b_point=np.zeros(n, np.bool_),
        )
        assert render_lines(array) == expected(array.to_problems())


def test_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorised, "_CHUNK", 7)
    batch = [Problem(Number(100 * i, False), Operation.MUL, LARGEST) for i in range(100)]
    assert render_lines(ProblemArray.from_problems(batch)) == expected(batch)


@pytest.mark.parametrize(
    "number",
    [
        Number(100 * 10**10, False),
        Number(-100 * 10**9, False),
        Number(10**10, True),
        Number(-(10**9), True),
        Number(100 * 10**16, False),
    ],
)
def test_a_number_too_wide_for_an_operand(number: Number) -> None:
    for problem in (
        Problem(LARGEST, Operation.ADD, number),
        Problem(number, Operation.MUL, number),
    ):
        with pytest.raises(NotationError, match="cannot be written"):
            render_lines(ProblemArray.from_problems([problem]))
