"""Each kind of hard problem has the steps that its name says."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from datagen_strategies import words_of
from exact_values import exact
from hypothesis import given, settings

from datagen.arithmetic import Problem
from datagen.hard_problems import KINDS, WORDS, hard
from datagen.operations import DIVISION
from datagen.sampling import Words, bit_generator
from datagen.tricky_12_problems import KIND_WORDS, of_kind

N = 3_000


def from_tie(problem: Problem) -> Fraction:
    """Returns the distance of the exact value from a tie, in units of the answer's last place."""
    return abs(abs(exact(problem)) * 10**problem.places % 1 - Fraction(1, 2))


@pytest.fixture(scope="module")
def samples() -> dict[str, list[Problem]]:
    words = bit_generator(6, 0, 0).random_raw(KIND_WORDS * N).reshape(KIND_WORDS, N)
    return {name: of_kind(kind, words).to_problems() for name, kind in KINDS.items()}


@pytest.mark.parametrize("name", ["sum ties", "product ties", "quotient ties"])
def test_ties_and_their_neighbours(name: str, samples: dict[str, list[Problem]]) -> None:
    distances = [from_tie(p) for p in samples[name] if p.places < 9]
    is_tie = [distance == 0 for distance in distances]
    assert 0.1 < np.mean(is_tie) < 0.8
    assert np.mean([distance < Fraction(1, 5) for distance in distances]) > 0.75


def test_first_digits_of_quotients(samples: dict[str, list[Problem]]) -> None:
    firsts: Counter[str] = Counter()
    for problem in samples["large quotient digits"]:
        assert problem.op == DIVISION
        firsts[f"{float(abs(exact(problem))):e}"[0]] += 1
    assert set(firsts) <= set("56789")
    assert min(firsts[digit] for digit in "6789") > N / 10
    assert len(set(samples["large quotient digits"])) > N / 2


@settings(max_examples=50)
@given(words_of(WORDS))
def test_any_words_give_a_problem(words: Words) -> None:
    (problem,) = hard(words).to_problems()
    assert max(abs(problem.a.units), abs(problem.b.units)) < 10**12
    assert max(problem.a.places, problem.b.places) <= 9
