"""Problems that are made to break a model: valid, the same for a seed, and what a class says."""

from fractions import Fraction

import pytest
from exact_values import exact

from datagen.notation import parse_prompt, render_prompt
from datagen.operations import OPERATIONS
from tools.adversarial import CLASSES, one_digit_repeated, problems_of_class


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_draws_different_problems_that_depend_on_the_seed_alone(name: str) -> None:
    problems = problems_of_class(name, 60, seed=1).to_problems()
    assert problems == problems_of_class(name, 60, seed=1).to_problems()
    assert len(set(problems)) > 40
    assert not set(problems) <= set(problems_of_class(name, 60, seed=2).to_problems())
    assert [parse_prompt(render_prompt(problem)) for problem in problems] == problems


@pytest.mark.parametrize("name", ["sum ties", "product ties", "quotient ties"])
def test_ties_are_ties(name: str) -> None:
    # Signs turn some sums into differences.
    parts = [
        abs(exact(problem)) * 10**problem.places % 1
        for problem in problems_of_class(name, 200, seed=0).to_problems()
    ]
    assert sum(part == Fraction(1, 2) for part in parts) > 80


def test_every_digit_is_repeated_in_every_length_and_operation() -> None:
    seen = {
        (problem.op, text[0], len(text))
        for problem in one_digit_repeated(seed=0).to_problems()
        for text in (str(abs(problem.a.units)), str(abs(problem.b.units)))
        if len(set(text)) == 1
    }
    expected = {(op, d, n) for op in OPERATIONS for d in "123456789" for n in range(1, 41)}
    assert expected <= seen
