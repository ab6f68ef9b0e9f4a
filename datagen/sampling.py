"""Which problems to draw.

Only `random_raw` of NumPy's bit generators is used: its output is the same in every version of
NumPy, which the output of `Generator`'s methods is not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import BitGenerator, Philox, SeedSequence
from numpy.typing import NDArray

from datagen.errors import DatasetError
from datagen.vectorised import ProblemArray

PIECE = 24_576  # problems at a time: few enough for their columns to stay in the cache

_32 = np.uint64(32)
_ONE = np.uint64(2**32)
_LOW_32 = np.uint64(2**32 - 1)
_SCALED_PROBABILITY = np.uint64(2 * 2**31 // 5)  # 0.4 of 31 bits


def bit_generator(seed: int, stream: int, block: int) -> BitGenerator:
    """An independent source of bits for each block of each stream of a seed (all >= 0)."""
    return Philox(SeedSequence(seed, spawn_key=(stream, block)))


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


def blog(words: NDArray[np.uint64]) -> ProblemArray:
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


def _blog_operand(words: NDArray[np.uint64], scaled: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Operands in hundredths from one word each; (n,)."""
    whole = ((words >> _32) * np.uint64(1000) >> _32) + np.uint64(1)
    # The factor times 2**32; 1 times 2**32 where not scaled (`where` would be slower).
    factor = _ONE - (_ONE - (words & _LOW_32)) * scaled
    product = whole * np.uint64(100) * factor  # hundredths times 2**32: below 2**49
    # Adding just under a half, or a half where the quotient is odd, rounds ties to even.
    half = (product >> _32 & np.uint64(1)) + np.uint64(2**31 - 1)
    hundredths: NDArray[np.uint64] = product + half >> _32
    return hundredths.view(np.int64)


DISTRIBUTIONS: dict[str, Distribution] = {"blog": Distribution(3, blog)}


def distribution(name: str) -> Distribution:
    """The distribution of that name; DatasetError, listing the names, if there is none."""
    try:
        return DISTRIBUTIONS[name]
    except KeyError:
        known = ", ".join(sorted(DISTRIBUTIONS))
        raise DatasetError(f"unknown distribution {name!r}: choose one of {known}") from None
