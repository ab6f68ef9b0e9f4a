"""Each kind of tricky-12 problem is what its name says."""

import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from datagen_strategies import random_words, words_of
from exact_values import exact, value
from hypothesis import given, settings
from hypothesis import strategies as st

from datagen.arithmetic import Number, Problem, answer
from datagen.operations import OPERATIONS
from datagen.sampling import Integers, Sampler, problem_array
from datagen.tricky_5_problems import KINDS as SHORT_KINDS
from datagen.tricky_5_problems import Unsigned
from datagen.tricky_12_problems import (
    KIND_WORDS,
    KINDS,
    MAX_DIGITS,
    WORDS,
    _moved,
    of_kind,
    tricky_12,
)

N = 3_000
ADD, SUB, MUL, DIV = OPERATIONS
OWN = [name for name in KINDS if name not in SHORT_KINDS]


@pytest.fixture(scope="module")
def samples() -> dict[str, list[Problem]]:
    words = random_words(KIND_WORDS, N, seed=6)
    return {
        name: [without_signs(p) for p in of_kind(kind, words).to_problems()]
        for name, kind in KINDS.items()
    }


def without_signs(problem: Problem) -> Problem:
    """The problem of the operands' magnitudes whose answer has the same magnitude."""
    op = problem.op
    if op in (ADD, SUB) and (problem.a.units < 0) != (problem.b.units < 0):
        op = SUB if op == ADD else ADD
    a, b = (Number(abs(n.units), n.places) for n in (problem.a, problem.b))
    return Problem(without_point(a), op, without_point(b), problem.places)


def without_point(number: Number) -> Number:
    """The number, without a point if it is whole."""
    return Number.from_units(number.units, number.places, number.units % 10**number.places > 0)


def significant(number: Number) -> int:
    """Returns the number of significant digits."""
    return len(str(number.units).rstrip("0"))


def is_beside_a_power(number: Number) -> bool:
    """Whether a number is at most 10 units of some place from a power of ten, or small itself."""
    return any(
        abs(number.units * 10**zeros - 10**k) <= 10 for zeros in range(12) for k in range(13)
    )


def is_made_of_runs(units: int) -> bool:
    """A digit and zeros, plus or minus two powers of ten."""
    powers = [0, *(10**k for k in range(13))]
    signed = [*powers, *(-p for p in powers)]
    rests = {units - p - q for p in signed for q in signed}
    return any(re.fullmatch("[1-9]0*", str(abs(rest))) for rest in rests)


def last_places(problem: Problem) -> int:
    """The greatest number of places that an operand has."""
    return max(problem.a.places, problem.b.places)


PROPERTIES: dict[str, Callable[[Problem], bool]] = {
    "beside powers of ten": lambda p: is_beside_a_power(p.a) or is_beside_a_power(p.b),
    "run sums": lambda p: (
        p.op in (ADD, SUB) and is_made_of_runs(int(exact(p) * 10 ** last_places(p)))
    ),
    "run products": lambda p: p.op in (MUL, DIV),
    "sum ties": lambda p: (
        p.op in (ADD, SUB)
        and (p.places == 9 or abs(exact(p) * 10 ** (p.places + 1)) % 10 in (4, 5, 6))
    ),
    "one digit": lambda p: p.op in (MUL, DIV) and 1 in (significant(p.a), significant(p.b)),
    "long quotients": lambda p: p.op == DIV and value(p.a) >= 100 and significant(p.b) <= 3,
    "negative": lambda p: p.op == SUB and exact(p) < 0,
    "nearly equal": lambda p: abs(value(p.a) - value(p.b)) * 10 ** last_places(p) <= 90,
    "small factors": lambda p: (
        p.op == MUL and any(0 < value(n) < 1 and n.places <= 2 for n in (p.a, p.b))
    ),
    "unlike places": lambda p: max(p.a.units, p.b.units) < 10**7,
}


def test_every_kind_of_its_own_has_its_property() -> None:
    assert PROPERTIES.keys() == set(OWN)
    assert KINDS.keys() == PROPERTIES.keys() | SHORT_KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=30)
@given(data=st.data())
def test_any_words_give_a_problem_of_the_kind(name: str, data: st.DataObject) -> None:
    (problem,) = of_kind(KINDS[name], data.draw(words_of(KIND_WORDS))).to_problems()
    assert max(abs(problem.a.units), abs(problem.b.units)) < 10 ** (MAX_DIGITS + 1)
    if name in OWN:
        assert PROPERTIES[name](without_signs(problem)), problem


@pytest.mark.parametrize("name", OWN)
def test_a_kind_is_what_its_name_says(name: str, samples: dict[str, list[Problem]]) -> None:
    assert all(PROPERTIES[name](problem) for problem in samples[name])
    assert len(set(samples[name])) > N / 3


@given(
    st.integers(1, 10**9),
    st.sampled_from(range(4)),
    st.integers(1, 10**9),
    st.integers(1, 9),
    st.integers(0, 2**64 - 1),
)
def test_a_moved_point_keeps_the_digits_of_the_answer(
    a: int, code: int, b: int, places: int, word: int
) -> None:
    def short_kind(sampler: Sampler, bound: Integers) -> Unsigned:
        assert bound.item() in {10**k for k in range(5, 10)}
        return np.array([a]), code, np.array([b])

    sampler = Sampler(np.array([[word]], np.uint64))
    first, op, second = _moved(short_kind)(sampler, np.array([places]))
    assert op == code
    (moved,) = problem_array(first, op, second, np.array([places])).to_problems()
    if OPERATIONS[code] in (ADD, SUB):
        scale = first.places.item()
        assert scale == second.places.item()
        assert (moved.a.scaled(scale), moved.b.scaled(scale)) == (a, b)
    else:
        in_hundredths = Problem(
            Number.from_units(a, 2, True), moved.op, Number.from_units(b, 2, True)
        )
        assert exact(moved) * 10**places == exact(in_hundredths) * 100


def test_the_point_is_anywhere(samples: dict[str, list[Problem]]) -> None:
    pairs = Counter((p.a.places, p.b.places) for name in SHORT_KINDS for p in samples[name])
    assert all(pairs[a, b] for a in range(10) for b in range(10) if a + b <= 11)


@pytest.mark.parametrize("name", ["product ties", "quotient ties"])
def test_ties_are_ties_at_every_number_of_places(
    name: str, samples: dict[str, list[Problem]]
) -> None:
    assert {p.places for p in samples[name]} == set(range(1, 10))
    assert all(exact(p) * 10**p.places % 1 == Fraction(1, 2) for p in samples[name])


def test_chains_of_carries_at_every_scale(samples: dict[str, list[Problem]]) -> None:
    for p in samples["carries"]:
        scale = last_places(p)
        a, b = p.a.scaled(scale), p.b.scaled(scale)
        while a % 10 == b % 10 == 0:
            a, b = a // 10, b // 10
        assert a % 10 + b % 10 >= 10
        assert a // 10 % 10 + b // 10 % 10 == 9
    assert {last_places(p) for p in samples["carries"]} == set(range(10))


def test_lengths_of_quotients_and_of_negative_answers(samples: dict[str, list[Problem]]) -> None:
    quotients = Counter(len(str(int(exact(p)))) for p in samples["long quotients"])
    assert all(quotients[digits] > N / 200 for digits in range(6, 19))
    differences = Counter(
        len(str(int(-exact(p) * 10 ** last_places(p)))) for p in samples["negative"]
    )
    assert all(differences[digits] > N / 30 for digits in range(1, MAX_DIGITS))


def test_unlike_places_are_uniform(samples: dict[str, list[Problem]]) -> None:
    pairs = Counter((p.a.places, p.b.places) for p in samples["unlike places"])
    assert all(pairs[a, b] > N / 400 for a in range(10) for b in range(10))


def test_signs_and_points() -> None:
    problems = tricky_12(random_words(WORDS, N, seed=6)).to_problems()
    nonzero = [p for p in problems if p.a.units and p.b.units]
    for numbers in ([p.a for p in nonzero], [p.b for p in nonzero]):
        assert abs(np.mean([n.units < 0 for n in numbers]) - 1 / 4) < 0.04
        whole = [n for n in numbers if value(n).denominator == 1]
        assert 0.05 < np.mean([n.point for n in whole]) < 0.2
    assert {answer(p) is None for p in problems} == {True, False}
