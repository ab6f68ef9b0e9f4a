"""Hypothesis strategies: every number that ten characters can hold, and problems of them."""

from functools import cache

from hypothesis import strategies as st

from datagen.arithmetic import Number, Operation, Problem
from datagen.notation import WIDTH, number_text

LARGEST = Number(100 * 9_999_999_999, False)
SMALLEST = Number(-100 * 999_999_999, False)
LARGEST_DECIMAL = Number(9_999_999_990, True)
SMALLEST_DECIMAL = Number(-999_999_990, True)
EXTREMES = [LARGEST, SMALLEST, LARGEST_DECIMAL, SMALLEST_DECIMAL, Number(1, True), Number(0, False)]


def fits(number: Number) -> bool:
    """Whether the number can be an operand."""
    return len(number_text(number)) <= WIDTH


def _whole(magnitude: int) -> st.SearchStrategy[Number]:
    return st.integers(-magnitude, magnitude).map(lambda n: Number(100 * n, False))


def _decimal(magnitude: int) -> st.SearchStrategy[Number]:
    return st.integers(-magnitude, magnitude).map(lambda n: Number(n, True))


# Some small numbers often: they make zeros, ties and equal operands. Then all lengths.
_magnitudes = [10**digits for digits in range(1, 11)]
numbers = st.one_of(
    st.sampled_from([Number(h, p) for h in (0, 100, -100, 500) for p in (False, True)]),
    *[_whole(magnitude - 1) for magnitude in _magnitudes],
    *[_decimal(magnitude - 1) for magnitude in _magnitudes],
).filter(fits)

problems = st.builds(Problem, numbers, st.sampled_from(Operation), numbers)


@cache  # building a strategy takes longer than an example
def problems_of(digits: int) -> st.SearchStrategy[Problem]:
    """Problems whose operands have at most `digits` digits in hundredths, of all lengths."""
    lengths = [10**length - 1 for length in range(1, digits + 1)]
    operands = st.one_of(
        st.sampled_from([Number(h, p) for h in (0, 100, -100, 200, 800) for p in (False, True)]),
        st.just(Number(10**digits - 1, True)),
        *[_whole(length // 100) for length in lengths],
        *[_decimal(length) for length in lengths],
    ).filter(fits)
    equal = st.builds(lambda x, op: Problem(x, op, x), operands, st.sampled_from(Operation))
    return st.one_of(st.builds(Problem, operands, st.sampled_from(Operation), operands), equal)


digits_and_problem = st.integers(3, 9).flatmap(
    lambda digits: st.tuples(st.just(digits), problems_of(digits))
)
