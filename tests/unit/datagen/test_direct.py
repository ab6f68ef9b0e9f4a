"""Lines from arrays against the renderer of one problem."""

import numpy as np
import pytest
from datagen_strategies import EXTREMES, any_problems, decimal, problems
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calcgpt.base.errors import NotationError
from datagen.arithmetic import Number, Problem, ProblemArray
from datagen.direct import render_lines
from datagen.notation import render
from datagen.operations import ADDITION, OPERATIONS

# A NumPy warning, such as an overflow, means other bytes on another machine.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


LONG = [Number(10**10), Number(-(10**9)), decimal(10**10), decimal(-(10**9)), Number(10**16)]


def expected(batch: list[Problem]) -> bytes:
    return "".join(f"{render(problem)}\n" for problem in batch).encode()


@settings(max_examples=200)
@given(st.lists(problems, max_size=20) | st.lists(problems | any_problems, max_size=8))
@example([])
@example([Problem(a, op, b) for a in EXTREMES for op in OPERATIONS for b in EXTREMES])
@example([Problem(a, op, b) for a in LONG for op in OPERATIONS for b in LONG])
def test_lines_are_those_of_the_scalar_renderer(batch: list[Problem]) -> None:
    array = ProblemArray.from_problems(batch)
    assert render_lines(array) == expected(batch)
    assert render_lines(array, chunk=3) == expected(batch)
    for i, problem in enumerate(batch):  # no other one selects the code for long lines
        assert render_lines(array[i : i + 1]) == expected([problem])


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


def test_an_operand_of_too_many_characters() -> None:
    batch = [
        Problem(Number(n), ADDITION, Number(1)) for n in (10**10_099, 10**10_100, -(10**10_099))
    ]
    array = ProblemArray.from_problems(batch)
    assert render_lines(array[:1]) == expected(batch[:1])
    for row in (1, 2):
        with pytest.raises(NotationError, match="cannot be written"):
            render_lines(array[row : row + 1])
