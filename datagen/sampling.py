"""Random numbers and decimals from random words, and mixtures of problems.

All results depend on the words alone, so that the bytes of a problem depend on nothing else.
Shapes: words are (words, n), results (n,), where n is the number of problems.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.random import BitGenerator, Philox, SeedSequence
from numpy.typing import NDArray

from datagen.arithmetic import DRAWN_PLACES, POWERS_OF_TEN, ProblemArray, concatenate

Words: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

MAX_SEED = 2**63 - 1


def bit_generator(seed: int, stream: int, block: int) -> BitGenerator:
    """Returns an independent source of bits for each block of each stream of a seed (all >= 0)."""
    return Philox(SeedSequence(seed, spawn_key=(stream, block)))


class Sampler:
    """Independent random numbers from words of shape (words, n): two from each word.

    Each method returns an array of shape (n,). `bound` and `top` are below 2**31: one number, or an
    array of shape (n,). The frequencies of m equally likely numbers differ by about m / 2**32.
    """

    def __init__(self, words: Words) -> None:
        self._halves = (half for word in words for half in (word >> 32, word & (2**32 - 1)))

    def below(self, bound: Integers | int) -> Integers:
        """Returns numbers from 0 to bound - 1, all equally likely."""
        # As int64, because NumPy turns mixtures of signed and unsigned integers into floats.
        numbers: Integers = next(self._halves).view(np.int64) * bound >> 32
        return numbers

    def one_in(self, n: int) -> Flags:
        """Returns True with probability 1 / n."""
        return np.equal(self.below(n), 0)

    def choice(self, values: Sequence[int]) -> Integers:
        """Returns one of the values, all equally likely."""
        return np.array(values, np.int64).take(self.below(len(values)))

    def any_length(self, top: Integers | int) -> Integers:
        """Returns numbers from 1 to top >= 1.

        All lengths are equally likely, and so are all numbers of one length. A `top` that is a
        power of ten, except 1, is left out: it would be the only number of its length.
        """
        lengths = np.maximum(np.searchsorted(POWERS_OF_TEN, top), 1)
        low = POWERS_OF_TEN.take(self.below(lengths))
        return low + self.below(np.minimum(9 * low, top - low + 1))

    def of_length(self, digits: Integers, max_digits: int) -> NDArray[Any]:
        """Returns numbers without leading zeros, all of one length equally likely.

        `digits` gives the length of each, from 1 to `max_digits`. The numbers have the type int64,
        or object (Python integers) if `max_digits` exceeds 18.
        """
        numbers: NDArray[Any] = np.zeros(len(digits), np.int64 if max_digits <= 18 else object)
        for exponent in range((max_digits - 1) // 9 * 9, -1, -9):  # nine digits at a time
            power = POWERS_OF_TEN.take(np.clip(digits - exponent, 0, 9))
            is_first = (digits > exponent) & (digits <= exponent + 9)
            low = power // 10 * is_first
            numbers = numbers * 10**9 + (low + self.below(power - low))
        return numbers

    def power_of_ten(self, low: int, top: Integers | int) -> Integers:
        """Returns powers of ten from `low`, a power itself, to top >= low, all equally likely."""
        first = np.searchsorted(POWERS_OF_TEN, low)
        end = np.searchsorted(POWERS_OF_TEN, top, side="right")
        return POWERS_OF_TEN.take(first + self.below(end - first))


@dataclass(frozen=True, slots=True)
class Decimals:
    """n operands, `units` / 10**`places`. An operand with places is written with a point.

    `units` has the type int64, or object (Python integers).
    """

    units: NDArray[Any]
    places: Integers

    @classmethod
    def choice(cls, texts: Sequence[str], sampler: Sampler) -> "Decimals":
        """Returns decimals that are written like one of `texts`, all equally likely."""
        parts = [text.partition(".") for text in texts]
        selected = sampler.below(len(texts))
        units = np.array([int(whole + fraction) for whole, _, fraction in parts], np.int64)
        places = np.array([len(fraction) for *_, fraction in parts], np.int64)
        return cls(units.take(selected), places.take(selected))

    @classmethod
    def whole(cls, units: NDArray[Any]) -> "Decimals":
        """Returns whole numbers."""
        return cls(units, np.zeros(len(units), np.int64))

    def scaled(self, scale: int) -> NDArray[Any]:
        """Returns the values in units of 10**-scale, which no value may have more places than."""
        shift = scale - self.places
        if scale < len(POWERS_OF_TEN):
            return self.units * POWERS_OF_TEN.take(shift)
        result: NDArray[Any] = self.units * 10 ** shift.astype(object)
        return result

    def negated(self, negative: Flags) -> "Decimals":
        """The decimals with the sign changed where `negative` is True."""
        return Decimals(self.units * (1 - 2 * negative), self.places)


Code: TypeAlias = Integers | int  # of the operation: one for each problem, or one for all
Drawn: TypeAlias = tuple[Decimals, Code, Decimals]


def problem_array(a: Decimals, op: Code, b: Decimals, places: Integers) -> ProblemArray:
    """Returns the problems `a op b`, whose answers are rounded to `places`."""
    scale = max(DRAWN_PLACES, *(int(number.places.max(initial=0)) for number in (a, b)))
    return ProblemArray(
        a=a.scaled(scale),
        a_point=a.places > 0,
        op=np.full(len(places), op, np.uint8),
        b=b.scaled(scale),
        b_point=b.places > 0,
        places=places.astype(np.uint16),
        scale=scale,
    )


def either_side(sampler: Sampler, a: Decimals, b: Decimals) -> tuple[Decimals, Decimals]:
    """Returns a and b, exchanged in half of the rows."""
    swap = sampler.one_in(2)
    return select(swap, b, a), select(swap, a, b)


def select(condition: Flags, a: Decimals, b: Decimals) -> Decimals:
    """Returns a where the condition is True, and b elsewhere."""
    return Decimals(np.where(condition, a.units, b.units), np.where(condition, a.places, b.places))


def common_places(sampler: Sampler) -> Integers:
    """Returns the places of answers: 2 in 3/8 of the problems, 8 in 3/8, else any from 1 to 9."""
    common, uniform = sampler.choice((2, 2, 2, 8, 8, 8, 0, 0)), any_places(sampler)
    return np.where(common > 0, common, uniform)


def any_places(sampler: Sampler) -> Integers:
    """Returns the places of answers: 1 to 9, all equally likely."""
    return 1 + sampler.below(DRAWN_PLACES)


def mixture(words: Words, components: Sequence[Callable[[Words], ProblemArray]]) -> ProblemArray:
    """Returns n problems, each of one of the components, all equally likely.

    The first word of a problem selects the component, which gets the other words.
    """
    selected = Sampler(words[:1]).below(len(components))
    rows = [np.flatnonzero(selected == index) for index in range(len(components))]
    parts = [
        component(words[1:].take(component_rows, axis=1))
        for component, component_rows in zip(components, rows, strict=True)
    ]
    order = np.empty(len(selected), np.intp)
    order[np.concatenate(rows)] = np.arange(len(selected))
    return concatenate(parts).take(order)
