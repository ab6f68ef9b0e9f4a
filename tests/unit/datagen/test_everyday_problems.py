"""The everyday distribution: problems as people type them."""

from collections import Counter
from collections.abc import Callable

import pytest
from datagen_strategies import random_words, share_is, words_of
from exact_values import value
from hypothesis import given, settings
from hypothesis import strategies as st

from datagen.arithmetic import Number, Problem
from datagen.everyday_problems import CONSTANTS, KIND_WORDS, KINDS, WORDS, Kind, everyday, of_kind
from datagen.notation import number_text
from datagen.operations import OPERATIONS

N = 40_000
ADD, SUB, MUL, DIV = OPERATIONS


@pytest.fixture(scope="module")
def sample() -> list[Problem]:
    return everyday(random_words(WORDS, N, seed=5)).to_problems()


def without_signs(problem: Problem) -> Problem:
    a, b = (Number(abs(n.units), n.places) for n in (problem.a, problem.b))
    return Problem(a, problem.op, b, problem.places)


def is_round(number: Number) -> bool:
    return (
        number.places == 0
        and 100 <= number.units <= 10**9
        and len(str(number.units).rstrip("0")) <= 2
    )


# Name of a kind -> whether a problem is of that kind.
PROPERTIES: dict[str, Callable[[Problem], bool]] = {
    "any": lambda p: max(p.a.units, p.b.units) < 10**9 and max(p.a.places, p.b.places) <= 6,
    "prices": lambda p: p.a.places in (1, 2) and (p.b.places > 0) == (p.op in (ADD, SUB)),
    "percentages": lambda p: any(0 < value(n) < 2 and 1 <= n.places <= 4 for n in (p.a, p.b)),
    "small_factors": lambda p: (
        p.op in (MUL, DIV) and any(0 < value(n) < 1 and n.places <= 2 for n in (p.a, p.b))
    ),
    "constants": lambda p: bool({number_text(p.a), number_text(p.b)} & set(CONSTANTS)),
    "fractions": lambda p: p.op == DIV and p.a.places == p.b.places == 0 < p.b.units < 10_000,
    "round": lambda p: is_round(p.a) or is_round(p.b),
    "results": lambda p: p.a.places > 0 or p.b.places > 0,
}


def name_of(kind: Kind) -> str:
    return kind.__name__.strip("_")


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS), ids=name_of)
@settings(max_examples=100)
@given(data=st.data())
def test_a_kind_is_what_its_name_says(kind: Kind, data: st.DataObject) -> None:
    (problem,) = of_kind(kind, data.draw(words_of(KIND_WORDS))).to_problems()
    assert PROPERTIES[name_of(kind)](without_signs(problem)), problem


def test_every_kind_has_its_property() -> None:
    assert {name_of(kind) for kind in KINDS} == PROPERTIES.keys()


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("1 / 3", 3),
        ("0.33333333", 2),
        ("3.14159265", 10),
        ("2.54", 10),
        ("0.453592", 10),
        ("1.19", 10),
        ("365", 10),
        ("1000", 50),
        ("1000000000", 50),
    ],
)
def test_what_people_type_is_there(text: str, times: int, sample: list[Problem]) -> None:
    texts = Counter(
        text
        for p in sample
        for text in (number_text(p.a), number_text(p.b), f"{number_text(p.a)} {p.op} {p.b.units}")
    )
    assert texts[text] >= times


def test_signs_and_places(sample: list[Problem]) -> None:
    nonzero = [p for p in sample if p.a.units and p.b.units]
    assert len(nonzero) > 0.99 * N
    for flags in ([p.a.units < 0 for p in nonzero], [p.b.units < 0 for p in nonzero]):
        assert share_is(flags, 1 / 4)
    for places in range(1, 10):
        expected = 1 / 4 / 9 + 3 / 8 * (places in (2, 8))
        assert share_is([p.places == places for p in sample], expected)


def test_all_lengths_and_places_are_frequent(sample: list[Problem]) -> None:
    for numbers in ([p.a for p in sample], [p.b for p in sample]):
        lengths = Counter(len(str(abs(n.units))) for n in numbers)
        places = Counter(n.places for n in numbers)
        assert all(lengths[digits] > N / 100 for digits in range(1, 10))
        assert all(places[count] > N / 50 for count in range(7))
        assert places[8] > N / 100


def test_some_divide_by_zero(sample: list[Problem]) -> None:
    assert any(p.op == DIV and not p.b.units for p in sample)
