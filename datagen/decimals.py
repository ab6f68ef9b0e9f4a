"""Operands with any number of places, as they are drawn, and the problems that they make.

All arrays have the shape (n,).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from datagen.arithmetic import MAX_PLACES, POWERS_OF_TEN, ProblemArray
from datagen.drawing import Flags, Integers, Sampler


@dataclass(frozen=True, slots=True)
class Decimals:
    """n decimals: `units` / 10**`places`. Those with places are written with a point.

    `units` has the type int64, or object (Python integers).
    """

    units: NDArray[Any]
    places: Integers

    @classmethod
    def choice(cls, texts: Sequence[str], sampler: Sampler) -> "Decimals":
        """Returns decimals that are written like one of these, all equally likely."""
        parts = [text.partition(".") for text in texts]
        selected = sampler.below(len(texts))
        units = np.array([int(whole + fraction) for whole, _, fraction in parts], np.int64)
        places = np.array([len(fraction) for *_, fraction in parts], np.int64)
        return cls(units.take(selected), places.take(selected))

    @classmethod
    def whole(cls, units: NDArray[Any]) -> "Decimals":
        """Returns whole numbers."""
        return cls(units, np.zeros(len(units), np.int64))

    def scaled(self) -> NDArray[Any]:
        """The values in units of 10**-MAX_PLACES."""
        return self.units * POWERS_OF_TEN.take(MAX_PLACES - self.places)

    def negated(self, negative: Flags) -> "Decimals":
        """These with the sign changed where `negative` is True."""
        return Decimals(self.units * (1 - 2 * negative), self.places)


Drawn: TypeAlias = tuple[Decimals, Integers, Decimals]  # an operand, an operation, an operand


def problem_array(a: Decimals, op: Integers, b: Decimals, places: Integers) -> ProblemArray:
    """Returns the problems `a op b` to so many places."""
    return ProblemArray(
        a=a.scaled(),
        a_point=a.places > 0,
        op=op.astype(np.uint8),
        b=b.scaled(),
        b_point=b.places > 0,
        places=places.astype(np.uint8),
        scale=MAX_PLACES,
    )


def either_side(sampler: Sampler, a: Decimals, b: Decimals) -> tuple[Decimals, Decimals]:
    """Returns a and b, exchanged in half of the rows."""
    swap = sampler.one_in(2)
    return select(swap, b, a), select(swap, a, b)


def select(condition: Flags, a: Decimals, b: Decimals) -> Decimals:
    """Returns a where the condition is True, and b elsewhere."""
    return Decimals(np.where(condition, a.units, b.units), np.where(condition, a.places, b.places))


def common_places(sampler: Sampler) -> Integers:
    """Returns the places of answers: 2 and 8 in 3 of 8 problems each, else any from 1 to 9."""
    common, others = sampler.choice((2, 2, 2, 8, 8, 8, 0, 0)), any_places(sampler)
    return np.where(common > 0, common, others)


def any_places(sampler: Sampler) -> Integers:
    """Returns the places of answers: 1 to 9, all equally likely."""
    return 1 + sampler.below(MAX_PLACES)
