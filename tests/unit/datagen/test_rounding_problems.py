"""Each kind of problem is as hard to round as its name says."""

from fractions import Fraction

import numpy as np
import pytest
from datagen_strategies import words_of
from exact_values import exact
from hypothesis import given, settings

from datagen.arithmetic import Problem
from datagen.distributions import DISTRIBUTIONS
from datagen.rounding_problems import KINDS
from datagen.sampling import Words, bit_generator
from datagen.tricky_12_problems import KIND_WORDS, WORDS, of_kind

N = 3_000


def in_last_places(problem: Problem) -> Fraction:
    """The exact value in units of the answer's last place, without its sign."""
    return abs(exact(problem)) * 10**problem.places


def from_tie(problem: Problem) -> Fraction:
    """The distance of the exact value from a tie, in units of the answer's last place."""
    return abs(in_last_places(problem) % 1 - Fraction(1, 2))


def rounds_up_to_a_new_digit(problem: Problem) -> bool:
    """Whether the answer is a power of ten above the exact value."""
    value = in_last_places(problem)
    return value < round(value) and set(str(round(value))) <= {"1", "0"}


@pytest.fixture(scope="module")
def samples() -> dict[str, list[Problem]]:
    words = bit_generator(6, 0, 0).random_raw(KIND_WORDS * N).reshape(KIND_WORDS, N)
    return {name: of_kind(kind, words).to_problems() for name, kind in KINDS.items()}


def test_quotients_near_the_middle(samples: dict[str, list[Problem]]) -> None:
    problems = samples["quotients near the middle"]
    distances = [from_tie(problem) for problem in problems]
    assert np.mean([distance < Fraction(1, 100) for distance in distances]) > 0.6
    assert 0.1 < np.mean([distance == 0 for distance in distances]) < 0.5
    lengths = {len(str(abs(problem.b.units))) for problem in problems}
    assert lengths >= set(range(2, 12))


@pytest.mark.parametrize("name", [name for name in KINDS if "new digit" in name])
def test_results_that_round_up_to_a_new_digit(name: str, samples: dict[str, list[Problem]]) -> None:
    share = np.mean([rounds_up_to_a_new_digit(problem) for problem in samples[name]])
    assert 0.5 < share < 0.95  # the others fall short of it
    assert len(set(samples[name])) > 0.9 * N


@settings(max_examples=50)
@given(words_of(WORDS))
def test_any_words_give_a_problem(words: Words) -> None:
    (problem,) = DISTRIBUTIONS["rounding"].problems(words).to_problems()
    assert max(abs(problem.a.units), abs(problem.b.units)) < 10**12
    assert max(problem.a.places, problem.b.places) <= 9
