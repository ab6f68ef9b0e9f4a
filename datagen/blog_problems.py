"""The problems of the blog post: two operands up to 1000, two in five of them decimals."""

import numpy as np

from datagen.draws import Flags, Integers, Words
from datagen.vectorised import ProblemArray

WORDS = 3

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
        a=_operand(a_word, a_point),
        a_point=a_point,
        op=(choices & np.uint64(3)).astype(np.uint8),
        b=_operand(b_word, b_point),
        b_point=b_point,
    )


def _operand(words: Words, scaled: Flags) -> Integers:
    """Operands in hundredths from one word each; (n,)."""
    whole = ((words >> _32) * np.uint64(1000) >> _32) + np.uint64(1)
    # The factor times 2**32; 1 times 2**32 where not scaled (`where` would be slower).
    factor = _ONE - (_ONE - (words & _LOW_32)) * scaled
    product = whole * np.uint64(100) * factor  # hundredths times 2**32: below 2**49
    # Adding just under a half, or a half where the quotient is odd, rounds ties to even.
    half = (product >> _32 & np.uint64(1)) + np.uint64(2**31 - 1)
    hundredths: Words = product + half >> _32
    return hundredths.view(np.int64)
