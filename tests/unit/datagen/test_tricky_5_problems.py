"""Each kind of tricky-5 problem is what its name says."""

import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from datagen_strategies import random_words, share_is, words_of
from hypothesis import given, settings
from hypothesis import strategies as st

from datagen.arithmetic import Number, Problem, ProblemArray, answer, answers
from datagen.notation import number_text
from datagen.operations import OPERATIONS, Operation
from datagen.tricky_5_problems import KIND_WORDS, KINDS, WORDS, of_kind, tricky_5

N = 20_000
ADD, SUB, MUL, DIV = OPERATIONS


@pytest.fixture(scope="module")
def samples() -> dict[str, ProblemArray]:
    words = random_words(KIND_WORDS, N, seed=4)
    return {name: of_kind(kind, words) for name, kind in KINDS.items()}


def without_signs(problem: Problem) -> tuple[int, Operation, int]:
    """The operands' magnitudes in hundredths, and the operation whose answer with these has the
    same magnitude as the problem's: a + -b is a - b."""
    a, op, b = problem.a.scaled(2), problem.op, problem.b.scaled(2)
    if op in (ADD, SUB) and (a < 0) != (b < 0):
        op = SUB if op == ADD else ADD
    return abs(a), op, abs(b)


def carries_in_a_row(a: int, b: int) -> bool:
    """Whether the last digits that are not both zero add to 10 or more, those before them to 9."""
    while a % 10 == b % 10 == 0:
        a, b = a // 10, b // 10
    return a % 10 + b % 10 >= 10 and a // 10 % 10 + b // 10 % 10 == 9


def shows_zeros(hundredths: int) -> bool:
    """Whether there are zeros inside the number as it is written, or two at its end."""
    text = number_text(Number.from_units(hundredths, 2, hundredths % 100 > 0)).replace(".", "")
    return re.search("[1-9]0+[1-9]|00$", text) is not None


def is_beside_a_tie(a: int, b: int) -> bool:
    """Whether a / b is not a tie, but changing a by a hundredth reaches or passes one."""
    quotient = Fraction(100 * a, b)
    distance = abs(quotient - (quotient // 1 + Fraction(1, 2)))
    return 0 < distance <= Fraction(100, b) <= Fraction(1, 10)


UNITS = {1, 10, 50, 100, 200, 1000, 10_000}

# Of operands without signs: what makes a problem one of a kind.
PROPERTIES: dict[str, Callable[[int, Operation, int], bool]] = {
    "product ties": lambda a, op, b: op == MUL and a * b % 100 == 50,
    "quotient ties": lambda a, op, b: op == DIV and Fraction(100 * a, b) % 1 == Fraction(1, 2),
    "quotients beside ties": lambda a, op, b: op == DIV and is_beside_a_tie(a, b),
    "quotients beside wholes": lambda a, op, b: op == DIV and min(a % b, -a % b) <= 1,
    "small quotients": lambda a, op, b: op == DIV and 0 < Fraction(a, b) <= Fraction(1, 100),
    "carries": lambda a, op, b: op == ADD and carries_in_a_row(a, b),
    "borrows": lambda a, op, b: op == SUB and a > b and carries_in_a_row(a - b, b),
    "inner zeros": lambda a, op, b: shows_zeros(a) and shows_zeros(b),
    "equal": lambda a, op, b: a == b != 0,
    "zero": lambda a, op, b: 0 in (a, b),
    "units": lambda a, op, b: bool(UNITS & {a, b}),
    "thousand": lambda a, op, b: 100_000 in (a, b),
    "round sums": lambda a, op, b: (
        a % 10 > 0 < b % 10 and {ADD: a + b, SUB: a - b}.get(op, 1) % 10 == 0
    ),
    "round products": lambda a, op, b: op == MUL and a % 100 > 0 < b % 100 and a * b % 1000 == 0,
    "unlike lengths": lambda a, op, b: (
        max(a, b) >= 10_000 and min(a, b) <= 900 and len(str(min(a, b)).rstrip("0")) == 1
    ),
}


def test_every_kind_has_its_property() -> None:
    assert PROPERTIES.keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=100)
@given(data=st.data())
def test_a_kind_is_what_its_name_says(name: str, data: st.DataObject) -> None:
    words = data.draw(words_of(KIND_WORDS))  # often the ends of what is drawn
    (problem,) = of_kind(KINDS[name], words).to_problems()
    assert PROPERTIES[name](*without_signs(problem))
    largest = max(abs(problem.a.scaled(2)), abs(problem.b.scaled(2)))
    assert largest < 10**7
    if words[0, 0] >> np.uint64(63):  # the half that keeps to the blog's bounds
        assert largest <= 100_000
        assert min(problem.a.scaled(2), problem.b.scaled(2)) >= 0


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_what_its_name_says_thousands_of_times(
    name: str, samples: dict[str, ProblemArray]
) -> None:
    problems = samples[name].take(np.arange(4_000)).to_problems()
    assert all(PROPERTIES[name](*without_signs(problem)) for problem in problems)
    assert len(set(problems)) > 4_000 / 20  # and it is not always the same


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"zero"}))
def test_signs_and_sizes(name: str, samples: dict[str, ProblemArray]) -> None:
    a, b = samples[name].a, samples[name].b
    assert share_is(a < 0, 1 / 8)
    assert share_is(b < 0, 1 / 8)
    assert share_is((a < 0) & (b < 0), 1 / 32)  # in the same half of the problems
    largest = np.maximum(np.abs(a), np.abs(b))
    # As large as it gets, whatever the kind; with many beyond the blog's bounds, but at most half.
    assert largest.max() > 5_000_000
    assert 0.1 < (largest > 100_000).mean() < 0.5
    assert 0.5 < (np.minimum(a, b) >= 0).mean() < 0.8


@pytest.mark.parametrize("name", KINDS)
def test_an_answer_without_signs_is_as_large(name: str, samples: dict[str, ProblemArray]) -> None:
    for problem in samples[name].take(np.arange(500)).to_problems():
        a, op, b = without_signs(problem)
        plain_a = Number.from_units(a, 2, problem.a.point)
        plain_b = Number.from_units(b, 2, problem.b.point)
        plain = answer(Problem(plain_a, op, plain_b))
        actual = answer(problem)
        assert (actual is None) == (plain is None)
        if actual and plain:
            assert abs(actual.units) == abs(plain.units)


@pytest.mark.parametrize("name", ["inner zeros", "equal", "zero", "units", "unlike lengths"])
def test_operations_are_uniform_where_any_will_do(
    name: str, samples: dict[str, ProblemArray]
) -> None:
    for op in range(4):
        assert share_is(samples[name].op == op, 1 / 4)


@pytest.mark.parametrize("name", ["product ties", "quotient ties"])
def test_ties_go_either_way(name: str, samples: dict[str, ProblemArray]) -> None:
    a, b = np.abs(samples[name].a), np.abs(samples[name].b)
    floor = a * b // 100 if name == "product ties" else 100 * a // b
    assert 0.4 < (floor % 2).mean() < 0.6


def test_quotients_are_beside_ties_and_wholes_on_either_side(
    samples: dict[str, ProblemArray],
) -> None:
    beside_ties, beside_wholes = (
        samples[f"quotients beside {what}"] for what in ("ties", "wholes")
    )
    a, b = np.abs(beside_ties.a), np.abs(beside_ties.b)
    assert share_is(2 * (100 * a % b) > b, 1 / 2)
    a, b = np.abs(beside_wholes.a), np.abs(beside_wholes.b)
    long = b >= 1000  # so that the remainders differ
    for remainder in (b - 1, 0 * b, 0 * b + 1):
        assert share_is((a % b == remainder)[long], 1 / 3)


def test_small_quotients_are_rounded_either_way(samples: dict[str, ProblemArray]) -> None:
    rounded = np.abs(answers(samples["small quotients"]).units)
    assert set(rounded) == {0, 1}
    assert 0.4 < rounded.mean() < 0.6


@pytest.mark.parametrize("name", ["zero", "units", "thousand", "unlike lengths", "carries"])
def test_either_operand_may_be_the_larger(name: str, samples: dict[str, ProblemArray]) -> None:
    a, b = np.abs(samples[name].a), np.abs(samples[name].b)
    assert share_is((a > b)[a != b], 1 / 2)


def test_chains_of_all_lengths(samples: dict[str, ProblemArray]) -> None:
    assert 0.01 < (samples["borrows"].a == 1000_00).mean() < 0.05  # the blog's largest, too
    for name in ("carries", "borrows"):
        a, b = np.abs(samples[name].a), np.abs(samples[name].b)
        total = a + b if name == "carries" else a
        for zeros in range(1, 6):  # inner ones, or those at the end
            pattern = re.compile(rf"[1-9]0{{{zeros}}}(?:[1-9]|$)")
            count = sum(pattern.search(str(value)) is not None for value in total.tolist())
            assert count > N / 50


def test_round_sums_lose_one_place_or_both(samples: dict[str, ProblemArray]) -> None:
    hundredths = answers(samples["round sums"]).units
    assert not (hundredths % 10).any()
    # Half are made to be whole, and a tenth of the others happen to be.
    assert share_is(hundredths % 100 == 0, 1 / 2 + 1 / 20)


def test_whole_operands_have_a_point_now_and_then(samples: dict[str, ProblemArray]) -> None:
    thousand = samples["thousand"]
    for operand, point in ((thousand.a, thousand.a_point), (thousand.b, thousand.b_point)):
        assert share_is(point[operand % 100 == 0], 1 / 8)


def test_all_kinds_are_equally_frequent_and_few_divide_by_zero() -> None:
    words = random_words(WORDS, N, seed=4)
    mixed = tricky_5(words)
    kinds = ((words[0] >> np.uint64(32)) * np.uint64(len(KINDS)) >> np.uint64(32)).astype(int)
    for index, kind in enumerate(KINDS.values()):
        rows = np.flatnonzero(kinds == index)
        assert share_is(kinds == index, 1 / len(KINDS))
        assert mixed.take(rows).to_problems() == of_kind(kind, words[1:, rows]).to_problems()
    nan = answers(mixed).nan.mean()
    assert 0.005 < nan < 0.02
