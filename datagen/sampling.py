"""Which problems to draw.

Only `random_raw` of NumPy's bit generators is used: its output is the same in every version of
NumPy, which the output of `Generator`'s methods is not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import BitGenerator, Philox, SeedSequence
from numpy.typing import NDArray

from datagen import blog_problems, calculator_problems, edge_problems
from datagen.errors import DatasetError
from datagen.vectorised import ProblemArray

PIECE = 24_576  # problems at a time: few enough for their columns to stay in the cache


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


DISTRIBUTIONS: dict[str, Distribution] = {
    "blog": Distribution(blog_problems.WORDS, blog_problems.blog),
    "calculator": Distribution(calculator_problems.WORDS, calculator_problems.calculator),
    "edge": Distribution(edge_problems.WORDS, edge_problems.edge),
}


def distribution(name: str) -> Distribution:
    """The distribution of that name; DatasetError, listing the names, if there is none."""
    try:
        return DISTRIBUTIONS[name]
    except KeyError:
        known = ", ".join(sorted(DISTRIBUTIONS))
        raise DatasetError(f"unknown distribution {name!r}: choose one of {known}") from None
