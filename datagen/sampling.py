"""Which problems to draw.

Only `random_raw` of NumPy's bit generators is used: its output is the same in every version of
NumPy, which the output of `Generator`'s methods is not.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import BitGenerator, Philox, SeedSequence
from numpy.typing import NDArray

from datagen.errors import DatasetError
from datagen.vectorised import ProblemArray

Distribution = Callable[[BitGenerator, int], ProblemArray]

_LOW_32 = np.uint64(2**32 - 1)
_SCALED_PROBABILITY = np.uint64(2 * 2**31 // 5)  # 0.4 of 31 bits


def bit_generator(seed: int, stream: int, block: int) -> BitGenerator:
    """An independent source of bits for each block of each stream of a seed (all >= 0)."""
    return Philox(SeedSequence(seed, spawn_key=(stream, block)))


def blog(bits: BitGenerator, count: int) -> ProblemArray:
    """`count` problems of the blog's distribution.

    Each operand is uniform over 1..1000; with probability 0.4 it is multiplied by a uniform factor
    in [0, 1) and rounded to two places, ties to even; the operation is uniform.
    """
    # A word for each operand (32 bits integer, 32 bits factor) and one for the decisions.
    a_word, b_word, choices = bits.random_raw(3 * count).reshape(3, count)
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
    whole = 100 * (1 + ((words >> np.uint64(32)) * np.uint64(1000) >> np.uint64(32)))
    product = whole * (words & _LOW_32)  # hundredths times 2**32: below 2**49
    # Adding just under a half, or a half where the quotient is odd, rounds ties to even.
    half = np.uint64(2**31 - 1) + (product >> np.uint64(32) & np.uint64(1))
    return np.where(scaled, product + half >> np.uint64(32), whole).astype(np.int64)


DISTRIBUTIONS: dict[str, Distribution] = {"blog": blog}


def distribution(name: str) -> Distribution:
    """The distribution of that name; DatasetError, listing the names, if there is none."""
    try:
        return DISTRIBUTIONS[name]
    except KeyError:
        known = ", ".join(sorted(DISTRIBUTIONS))
        raise DatasetError(f"unknown distribution {name!r}: choose one of {known}") from None
