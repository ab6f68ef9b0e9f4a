"""Formats by name."""

import numpy as np
import pytest
from datagen_strategies import any_problems, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from datagen import notation, work
from datagen.arithmetic import Problem, ProblemArray
from datagen.formats import FORMATS
from datagen.splits import problem_hash


@settings(max_examples=40)
@given(st.lists(problems, max_size=20) | st.lists(problems | any_problems, max_size=5))
@pytest.mark.parametrize("name", FORMATS)
def test_many_problems_are_written_as_one_at_a_time(name: str, some: list[Problem]) -> None:
    columns = ProblemArray.from_problems(some)
    written = FORMATS[name](columns)
    assert written.decode("ascii").splitlines() == [one_line(name, problem) for problem in some]


def one_line(name: str, problem: Problem) -> str:
    if name == "direct":
        return notation.render(problem)
    choices = np.array([problem_hash(problem)], np.uint64)
    prompt = notation.render_prompt(problem).encode()
    return work.render([prompt], choices if name == "scratchpad-second-choices" else None)[
        0
    ].decode()
