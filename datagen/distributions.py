"""The problems of the blog post: two operands up to 1000, two in five of them decimals.

What a person types into a calculator: numbers of all lengths below 100,000, some negative.

Which problems to draw.

Only `random_raw` of NumPy's bit generators is used: its output is the same in every version of
NumPy, which the output of `Generator`'s methods is not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import BitGenerator
from numpy.typing import NDArray

from datagen import edge_problems
from datagen.arithmetic import ProblemArray
from datagen.drawing import Draws, Flags, Integers, Words, mixture
from datagen.errors import DataError

BLOG_WORDS = 3

_32 = np.uint64(32)
_ONE = np.uint64(2**32)
_LOW_32 = np.uint64(2**32 - 1)
_SCALED_PROBABILITY = np.uint64(2 * 2**31 // 5)  # 0.4 of 31 bits


def blog(words: Words) -> ProblemArray:
    """n problems of the blog's distribution from words of shape (3, n).

    Each operand is uniform over 1..1000; with probability 0.4 it is multiplied by a uniform factor
    in [0, 1) and rounded to two places, ties to even; the operation is uniform.
    """
    # A word for each operand (32 bits integer, 32 bits factor) and one for the decisions.
    a_word, b_word, choices = words
    a_point = (choices >> np.uint64(2) & np.uint64(2**31 - 1)) < _SCALED_PROBABILITY
    b_point = (choices >> np.uint64(33)) < _SCALED_PROBABILITY
    return ProblemArray(
        a=_blog_operand(a_word, a_point),
        a_point=a_point,
        op=(choices & np.uint64(3)).astype(np.uint8),
        b=_blog_operand(b_word, b_point),
        b_point=b_point,
    )


def _blog_operand(words: Words, scaled: Flags) -> Integers:
    """Operands in hundredths from one word each; (n,)."""
    whole = ((words >> _32) * np.uint64(1000) >> _32) + np.uint64(1)
    # The factor times 2**32; 1 times 2**32 where not scaled (`where` would be slower).
    factor = _ONE - (_ONE - (words & _LOW_32)) * scaled
    product = whole * np.uint64(100) * factor  # hundredths times 2**32: below 2**49
    # Adding just under a half, or a half where the quotient is odd, rounds ties to even.
    half = (product >> _32 & np.uint64(1)) + np.uint64(2**31 - 1)
    hundredths: Words = product + half >> _32
    return hundredths.view(np.int64)


CALCULATOR_WORDS = 5  # one chooses the part, the blog's takes 3 and the other 4

# The 15 shapes of an operand: 1 to 5 digits before the point, 0 to 2 places after it. An operand is
# an integer times a step (in hundredths), and its shape says how many digits the integer has.
_WHOLE_DIGITS, _PLACES = np.divmod(np.arange(15), 3) + np.array([[1], [0]])
_STEP = 10 ** (2 - _PLACES)
_SMALLEST = 10 ** (_WHOLE_DIGITS - 1 + _PLACES) * (_WHOLE_DIGITS > 1)  # 0 has one digit, too
_COUNT = 10 ** (_WHOLE_DIGITS + _PLACES) - _SMALLEST


def calculator(words: Words) -> ProblemArray:
    """n problems, a quarter of them the blog's, the rest balanced; words: (CALCULATOR_WORDS, n)."""
    return mixture(words, (_blog_part, balanced, balanced, balanced))


def balanced(words: Words) -> ProblemArray:
    """n problems whose operands have all shapes equally often, from words of shape (4, n).

    An operand is uniform among those of its shape, `5.0` among those of one place, and negative
    with probability 1/4; the operation is uniform.
    """
    draws = Draws(words)
    a, a_point = _operand(draws)
    b, b_point = _operand(draws)
    return ProblemArray(a, a_point, draws.below(4).astype(np.uint8), b, b_point)


def _operand(draws: Draws) -> tuple[Integers, Flags]:
    """Operands in hundredths, and whether they have a point; each of shape (n,)."""
    shape = draws.below(len(_STEP))
    magnitude = (_SMALLEST.take(shape) + draws.below(_COUNT.take(shape))) * _STEP.take(shape)
    return magnitude * (1 - 2 * draws.once_in(4)), (_PLACES > 0).take(shape)


def _blog_part(words: Words) -> ProblemArray:
    return blog(words[:BLOG_WORDS])


PIECE = 24_576  # problems at a time: few enough for their columns to stay in the cache


@dataclass(frozen=True)
class Distribution:
    """A function from random words to problems, and how many 64-bit words a problem takes.

    `problems` turns words of shape (words, n) into n problems, each out of its own column.
    """

    words: int
    problems: Callable[[NDArray[np.uint64]], ProblemArray]

    def __call__(self, bits: BitGenerator, count: int) -> Iterator[ProblemArray]:
        """Draw `count` problems; they come in pieces of at most PIECE."""
        words = bits.random_raw(self.words * count).reshape(self.words, count)
        for start in range(0, count, PIECE):
            yield self.problems(words[:, start : start + PIECE])


DISTRIBUTIONS: dict[str, Distribution] = {
    "blog": Distribution(BLOG_WORDS, blog),
    "calculator": Distribution(CALCULATOR_WORDS, calculator),
    "edge": Distribution(edge_problems.WORDS, edge_problems.edge),
}


def distribution(name: str) -> Distribution:
    """The distribution of that name; DataError, listing the names, if there is none."""
    try:
        return DISTRIBUTIONS[name]
    except KeyError:
        known = ", ".join(sorted(DISTRIBUTIONS))
        raise DataError(f"unknown distribution {name!r}: choose one of {known}") from None
