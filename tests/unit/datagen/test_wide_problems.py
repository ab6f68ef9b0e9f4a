"""The wide distributions: numbers of all lengths equally often."""

import numpy as np
import pytest

from datagen.arithmetic import Number, Problem
from datagen.distributions import DISTRIBUTIONS
from datagen.sampling import bit_generator

N = 20_000
LONGEST = {"wide": 20, "wide-12": 12, "wide-16": 16, "wide-40": 40}


@pytest.fixture(scope="module", params=LONGEST)
def sample(request: pytest.FixtureRequest) -> tuple[int, list[Problem]]:
    (problems,) = DISTRIBUTIONS[request.param](bit_generator(1, 0, 0), N)
    return LONGEST[request.param], problems.to_problems()


def operands(problems: list[Problem]) -> tuple[list[Number], list[Number]]:
    return [p.a for p in problems], [p.b for p in problems]


def assert_shares(values: list[int], shares: dict[int, float]) -> None:
    """Each value's share within five standard deviations, and no other values."""
    assert set(values) == set(shares)
    for value, share in shares.items():
        deviation = (N * share * (1 - share)) ** 0.5
        assert abs(values.count(value) - N * share) < 5 * deviation, value


def test_all_lengths_are_equally_frequent(sample: tuple[int, list[Problem]]) -> None:
    longest, problems = sample
    for numbers in operands(problems):
        # `5.0` is the only number with a zero at its end that is written.
        lengths = [len(str(abs(n.units))) for n in numbers]
        assert_shares(lengths, dict.fromkeys(range(1, longest + 1), 1 / longest))


def test_half_are_whole_and_the_others_have_all_places(sample: tuple[int, list[Problem]]) -> None:
    for numbers in operands(sample[1]):
        places = dict.fromkeys(range(1, 10), 1 / 18) | {0: 1 / 2}
        assert_shares([n.places for n in numbers], places)


def test_lengths_places_and_operands_are_independent(sample: tuple[int, list[Problem]]) -> None:
    a, b = operands(sample[1])
    columns = [
        *([len(str(abs(n.units))) for n in numbers] for numbers in (a, b)),
        *([n.places for n in numbers] for numbers in (a, b)),
        *([n.units < 0 for n in numbers] for numbers in (a, b)),
        [p.op in "*/" for p in sample[1]],
        [p.places for p in sample[1]],
    ]
    correlations = np.corrcoef(np.array(columns, float)) - np.eye(len(columns))
    assert np.abs(correlations).max() < 5 / N**0.5


def test_digits_are_uniform(sample: tuple[int, list[Problem]]) -> None:
    longest, problems = sample
    digits = [str(abs(n.units)) for n in operands(problems)[0]]
    long = [text for text in digits if len(text) == longest]
    for position in range(longest - 1):
        count = np.bincount([int(text[position]) for text in long], minlength=10)
        possible = 9 if position == 0 else 10
        expected = len(long) / possible
        assert np.abs(count[-possible:] - expected).max() < 5 * expected**0.5


def test_signs_operations_and_places(sample: tuple[int, list[Problem]]) -> None:
    problems = sample[1]
    for numbers in operands(problems):
        assert_shares([int(n.units < 0) for n in numbers], {0: 3 / 4, 1: 1 / 4})
    assert_shares(["+-*/".index(p.op) for p in problems], dict.fromkeys(range(4), 1 / 4))
    assert_shares([p.places for p in problems], dict.fromkeys(range(1, 10), 1 / 9))
