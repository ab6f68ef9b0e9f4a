"""Formats by name."""

import numpy as np
import pytest
from datagen_strategies import any_problems, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from datagen import notation, steps, work
from datagen.arithmetic import Problem, ProblemArray
from datagen.errors import DataError
from datagen.formats import DEFAULT_DIGITS, FORMATS, line_format
from datagen.splits import problem_hash


@settings(max_examples=40)
@given(st.lists(problems, max_size=20) | st.lists(problems | any_problems, max_size=5))
@pytest.mark.parametrize("name", FORMATS)
def test_what_fits_is_written_as_one_at_a_time(name: str, some: list[Problem]) -> None:
    chosen = line_format(name)
    columns = ProblemArray.from_problems(some)
    fits = chosen.fits(columns)
    assert fits.shape == (len(some),)
    written = chosen.render_lines(columns.take(np.flatnonzero(fits)))
    fitting = [problem for problem, fits_one in zip(some, fits, strict=True) if fits_one]
    assert written.decode("ascii").splitlines() == [one_line(name, problem) for problem in fitting]
    limit = 10**DEFAULT_DIGITS
    for problem, fits_one in zip(some, fits, strict=True):
        operands = (problem.a, problem.b)
        small = problem.places == 2 and all(
            x.places <= 2 and abs(x.scaled(2)) < limit for x in operands
        )
        assert fits_one == (small or name not in ("steps", "loose-steps"))


def one_line(name: str, problem: Problem) -> str:
    if name == "direct":
        return notation.render(problem)
    if name in ("scratchpad", "loose-scratchpad"):
        choices = np.array([problem_hash(problem)], np.uint64)
        prompt = notation.render_prompt(problem).encode()
        return work.render([prompt], choices if name == "loose-scratchpad" else None)[0].decode()
    choose = steps.loose_digits(problem) if name == "loose-steps" else steps.nearest_digit
    return steps.render(problem, DEFAULT_DIGITS, choose)


def test_an_unknown_format_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(
        DataError,
        match="unknown format 'stps': choose one of direct, scratchpad, loose-scratchpad, steps",
    ):
        line_format("stps")


def test_digits_are_chosen_for_steps_alone() -> None:
    for name in ("steps", "loose-steps"):
        assert line_format(name).digits == DEFAULT_DIGITS
        assert line_format(name, 5).digits == 5
    assert line_format("direct").digits is None
    with pytest.raises(DataError, match="has no steps"):
        line_format("direct", 7)
    for name in ("scratchpad", "loose-scratchpad"):
        assert line_format(name).digits is None
        with pytest.raises(DataError, match="as wide as the problem"):
            line_format(name, 7)
    with pytest.raises(DataError, match="digits must be from"):
        line_format("steps", 99)
