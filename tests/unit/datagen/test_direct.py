"""Lines from arrays against the renderer of one problem."""

import numpy as np
import pytest
from datagen_strategies import EXTREMES, LARGEST, any_problems, decimal, problems, whole
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calcgpt.base.errors import NotationError
from datagen.arithmetic import Number, Problem, ProblemArray
from datagen.direct import render_lines
from datagen.notation import render
from datagen.operations import ADDITION, MULTIPLICATION, OPERATIONS

# A NumPy warning, such as an overflow, means other bytes on another machine.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def expected(batch: list[Problem]) -> bytes:
    return "".join(f"{render(problem)}\n" for problem in batch).encode()


@settings(max_examples=300)
@given(st.lists(problems, max_size=20) | st.lists(problems | any_problems, max_size=8))
@example([])
@example([Problem(a, op, b) for a in EXTREMES for op in OPERATIONS for b in EXTREMES])
def test_lines_are_those_of_the_scalar_renderer(batch: list[Problem]) -> None:
    assert render_lines(ProblemArray.from_problems(batch)) == expected(batch)


@settings(max_examples=300)
@given(problems)
def test_one_line_alone(problem: Problem) -> None:
    # Alone, so that no other problem selects the code for long lines or large numbers.
    assert render_lines(ProblemArray.from_problems([problem])) == expected([problem])


@pytest.mark.parametrize("point", [False, True])
@pytest.mark.parametrize("signs", [(1,), (1, -1)])  # without negative ones, a table is used
def test_small_decimals_as_operand_and_as_answer(point: bool, signs: tuple[int, ...]) -> None:
    powers = [10**n + offset for n in range(6) for offset in (-1, 0, 1)]
    magnitudes = {*range(2_100), *range(0, 100_001, 89), *powers, 99_999, 100_000}
    values = [sign * value for value in sorted(magnitudes) for sign in signs]
    a = np.array(values) * (1 if point else 100)
    n = len(a)
    zeros = np.zeros(n, np.int64)
    array = ProblemArray(a, np.full(n, point), np.zeros(n, np.uint8), zeros, np.zeros(n, np.bool_))
    assert render_lines(array) == expected(array.to_problems())


def test_many_chunks() -> None:
    batch = [Problem(whole(i), MULTIPLICATION, LARGEST) for i in range(100)]
    assert render_lines(ProblemArray.from_problems(batch), chunk=7) == expected(batch)


@pytest.mark.parametrize(
    "number", [whole(10**10), whole(-(10**9)), decimal(10**10), decimal(-(10**9)), whole(10**16)]
)
def test_a_number_longer_than_the_field(number: Number) -> None:
    batch = [
        Problem(LARGEST, ADDITION, number),
        Problem(number, MULTIPLICATION, number),
        Problem(whole(1), ADDITION, LARGEST),
    ]
    for some in (batch, batch[:1], batch[1:]):
        assert render_lines(ProblemArray.from_problems(some)) == expected(some)


def test_an_operand_of_too_many_characters() -> None:
    batch = [Problem(whole(n), ADDITION, whole(1)) for n in (10**10_099, 10**10_100, -(10**10_099))]
    array = ProblemArray.from_problems(batch)
    assert render_lines(array[:1]) == expected(batch[:1])
    for row in (1, 2):
        with pytest.raises(NotationError, match="cannot be written"):
            render_lines(array[row : row + 1])
