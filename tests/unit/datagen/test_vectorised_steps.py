"""Lines with steps by the thousand against those made one at a time."""

import numpy as np
import pytest
from datagen_strategies import decimal, problems_of
from hypothesis import given, settings
from hypothesis import strategies as st

from datagen import steps, vectorised_steps
from datagen.arithmetic import Operation, Problem, ProblemArray
from datagen.distributions import distribution
from datagen.drawing import bit_generator
from datagen.errors import DataError, NotationError

# A NumPy warning, such as an overflow, means other bytes on another machine.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

batches = st.integers(3, 9).flatmap(
    lambda digits: st.tuples(st.just(digits), st.lists(problems_of(digits), max_size=12))
)


def one_line(problem: Problem, digits: int, loose: bool) -> str:
    choose = steps.loose_digits(problem) if loose else steps.nearest_digit
    return steps.render(problem, digits, choose)


@settings(max_examples=100)
@given(batches, st.booleans())
def test_lines_are_those_of_the_scalar_renderer(
    case: tuple[int, list[Problem]], loose: bool
) -> None:
    digits, batch = case
    expected = "".join(f"{one_line(problem, digits, loose)}\n" for problem in batch).encode()
    columns = ProblemArray.from_problems(batch)
    assert vectorised_steps.render_lines(columns, digits, loose) == expected


@pytest.mark.parametrize("loose", [False, True])
def test_many_lines_are_those_of_the_scalar_renderer(loose: bool) -> None:
    for problems in distribution("blog")(bit_generator(0, 0, 0), 10_000):
        lines = vectorised_steps.render_lines(problems, 7, loose).decode().splitlines()
        assert lines == [one_line(problem, 7, loose) for problem in problems.to_problems()]


@given(st.lists(problems_of(9), max_size=12), st.integers(3, 9))
def test_fits_tells_what_can_be_rendered(batch: list[Problem], digits: int) -> None:
    array = ProblemArray.from_problems(batch)
    fitting = vectorised_steps.fits(array, digits)
    rows = np.flatnonzero(fitting)
    assert vectorised_steps.render_lines(array.take(rows), digits).count(b"\n") == len(rows)
    if not fitting.all():
        with pytest.raises(NotationError, match=f"more than {digits} digits"):
            vectorised_steps.render_lines(array, digits)


def test_digits_are_bounded() -> None:
    one = ProblemArray.from_problems([Problem(decimal(1), Operation.ADD, decimal(1))])
    with pytest.raises(DataError, match="from 3 to 9"):
        vectorised_steps.render_lines(one, 10)
