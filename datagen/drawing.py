"""Random numbers out of given random words, and mixtures of kinds of problems.

Everything is a pure function of the words, so that a problem's bytes depend on nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TypeAlias

import numpy as np
from numpy.random import BitGenerator, Philox, SeedSequence
from numpy.typing import NDArray

from datagen.arithmetic import POWERS_OF_TEN, ProblemArray

Words: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


def bit_generator(seed: int, stream: int, block: int) -> BitGenerator:
    """An independent source of bits for each block of each stream of a seed (all >= 0)."""
    return Philox(SeedSequence(seed, spawn_key=(stream, block)))


class Draws:
    """Independent draws, n at a time, from words of shape (words, n): two from each word.

    Every result has the shape (n,). A `bound` or `top` is one for all n or has that shape, and is
    below 2**31. Uniform over m numbers means that their frequencies differ by about m parts in
    2**32 at most.
    """

    def __init__(self, words: Words) -> None:
        self._halves = (half for word in words for half in (word >> 32, word & (2**32 - 1)))

    def below(self, bound: Integers | int) -> Integers:
        """Uniform over 0..bound - 1."""
        # In 64 bits with a sign, for NumPy turns mixtures of signed and unsigned into floats.
        drawn: Integers = next(self._halves).view(np.int64) * bound >> 32
        return drawn

    def once_in(self, times: int) -> Flags:
        """True with probability 1 / times."""
        return np.equal(self.below(times), 0)

    def among(self, values: Sequence[int]) -> Integers:
        """One of the values, all equally likely."""
        return np.array(values, np.int64).take(self.below(len(values)))

    def of_any_length(self, top: Integers | int) -> Integers:
        """From 1 to top >= 1, all numbers of digits equally likely, and all numbers of as many.

        A top that is a power of ten, other than 1, is left out: it would be frequent, for no other
        number up to it is as long.
        """
        lengths = np.maximum(np.searchsorted(POWERS_OF_TEN, top), 1)
        low = POWERS_OF_TEN.take(self.below(lengths))
        return low + self.below(np.minimum(9 * low, top - low + 1))

    def power_of_ten(self, low: int, top: Integers | int) -> Integers:
        """One of the powers of ten from low, which is one, to top >= low, all equally likely."""
        first = np.searchsorted(POWERS_OF_TEN, low)
        end = np.searchsorted(POWERS_OF_TEN, top, side="right")
        return POWERS_OF_TEN.take(first + self.below(end - first))


def mixture(words: Words, parts: Sequence[Callable[[Words], ProblemArray]]) -> ProblemArray:
    """n problems from words of shape (words, n), each from one of the parts, all equally likely.

    The first word of a problem chooses the part; the part makes the problem of the other words.
    """
    chosen = Draws(words[:1]).below(len(parts))
    n = len(chosen)
    mixed = ProblemArray(
        a=np.empty(n, np.int64),
        a_point=np.empty(n, np.bool_),
        op=np.empty(n, np.uint8),
        b=np.empty(n, np.int64),
        b_point=np.empty(n, np.bool_),
    )
    for index, part in enumerate(parts):
        rows = np.flatnonzero(chosen == index)
        problems = part(words[1:].take(rows, axis=1))
        for column in fields(ProblemArray):
            getattr(mixed, column.name)[rows] = getattr(problems, column.name)
    return mixed
