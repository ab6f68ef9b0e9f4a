"""Hypothesis strategies: every number that ten characters can hold, numbers of any length, and
problems of them."""

import numpy as np
from hypothesis import strategies as st

from datagen.arithmetic import MAX_ASKED_PLACES, Number, Problem
from datagen.notation import WIDTH, number_text, render_prompt
from datagen.operations import OPERATIONS
from datagen.sampling import Words, bit_generator


def decimal(hundredths: int) -> Number:
    """Returns `hundredths` / 100, with a point."""
    return Number.from_units(hundredths, 2, point=True)


LARGEST, SMALLEST = Number(9_999_999_999), Number(-999_999_999)
LARGEST_DECIMAL, SMALLEST_DECIMAL = decimal(9_999_999_990), decimal(-999_999_990)
EXTREMES = [LARGEST, SMALLEST, LARGEST_DECIMAL, SMALLEST_DECIMAL, decimal(1), Number(0)]
_COMMON = [make(h) for h in (0, 1, -1, 2, 5, 8) for make in (Number, lambda h: decimal(100 * h))]


def fits(number: Number) -> bool:
    """Whether ten characters can hold the number."""
    return len(number_text(number)) <= WIDTH


def _whole(magnitude: int) -> st.SearchStrategy[Number]:
    return st.integers(-magnitude, magnitude).map(Number)


def _decimal(magnitude: int) -> st.SearchStrategy[Number]:
    return st.integers(-magnitude, magnitude).map(decimal)


# Some small numbers often: they make zeros, ties and equal operands. Then all lengths.
_magnitudes = [10**digits for digits in range(1, 11)]
numbers = st.one_of(
    st.sampled_from(_COMMON),
    *[_whole(magnitude - 1) for magnitude in _magnitudes],
    *[_decimal(magnitude - 1) for magnitude in _magnitudes],
).filter(fits)

problems = st.builds(Problem, numbers, st.sampled_from(OPERATIONS), numbers)


# Numbers of any length, and answers to any number of places, few of them often.
_units = st.one_of(*[st.integers(-limit, limit) for limit in (1, 1000, 10**12, 10**20, 10**40)])
_places = st.integers(0, 3) | st.integers(0, 9) | st.integers(0, MAX_ASKED_PLACES)
any_numbers = numbers | st.builds(
    lambda units, places: Number.from_units(units, places, places > 0), _units, _places
)


def problems_of(operations: str) -> st.SearchStrategy[Problem]:
    """Problems of some operations, often with equal operands."""
    op = st.sampled_from([op for op in OPERATIONS if op in operations])
    equal = st.builds(lambda x, op, n: Problem(x, op, x, n), any_numbers, op, _places)
    return st.builds(Problem, any_numbers, op, any_numbers, _places) | equal


any_problems = problems_of("+-*/")


def prompts(operations: str = "+-*/") -> st.SearchStrategy[str]:
    """The prompts of such problems."""
    return problems_of(operations).map(render_prompt)


def random_words(words: int, n: int, seed: int) -> Words:
    """The words of n problems, (words, n)."""
    return bit_generator(seed, 0, 0).random_raw(words * n).reshape(words, n)


def share_is(flags: np.ndarray | list[bool], expected: float) -> bool:
    """Whether the share of True is the expected one, within five standard deviations."""
    return abs(np.mean(flags) - expected) < 5 * (expected * (1 - expected) / len(flags)) ** 0.5


def words_of(n: int) -> st.SearchStrategy[Words]:
    """The words of one problem of a distribution, (n, 1). Halves of words are often extreme."""
    half = st.sampled_from([0, 2**32 - 1]) | st.integers(0, 2**32 - 1)

    def joined(halves: list[int]) -> Words:
        high, low = np.array(halves, np.uint64).reshape(n, 2, 1).swapaxes(0, 1)
        words: Words = high << np.uint64(32) | low
        return words

    return st.lists(half, min_size=2 * n, max_size=2 * n).map(joined)
