"""Problems with rare steps, which a model still gets wrong when it has learned all others.

- Answers next to the middle between two numbers: whether 2.745 is rounded up depends on digits that
  may come much later.
- Quotients that begin with 6 to 9 and soon end: the first digit of their work is 1, and the next
  digits are subtracted from it.

A kind is a function as in `tricky_12_problems`. All arrays have the shape (n,).
"""

from functools import partial

import numpy as np

from datagen.arithmetic import DIV, DRAWN_PLACES, MUL, POWERS_OF_TEN, ProblemArray
from datagen.sampling import Decimals, Drawn, Integers, Sampler, Words, mixture, split_places
from datagen.tricky_12_problems import KIND_WORDS, Kind, of_kind, sum_ties

WORDS = 1 + KIND_WORDS  # one selects the kind


def hard(words: Words) -> ProblemArray:
    """Returns n problems of all KINDS, equally likely, from words of shape (WORDS, n)."""
    return mixture(words, [partial(of_kind, kind) for kind in KINDS.values()])


def _product_ties(sampler: Sampler, places: Integers) -> Drawn:
    """A product at or next to the middle between two answers: 55.13 * 176.27 = 9717.7651."""
    dropped = 1 + sampler.below(np.minimum(5, 2 * DRAWN_PLACES - places))
    a = 10 * (sampler.of_length(1 + sampler.below(5), 5) - 1) + sampler.choice((1, 3, 7, 9))
    modulus = POWERS_OF_TEN.take(dropped)
    target = modulus // 2 + _near(sampler, modulus // 2)  # a * b modulo `modulus`
    # The inverse exists, because a ends in 1, 3, 7 or 9.
    pairs = zip(a.tolist(), modulus.tolist(), strict=True)
    inverse = np.array([pow(number, -1, base) for number, base in pairs], np.int64)
    b = target % modulus * inverse % modulus + modulus * sampler.below(1000)
    a_places, b_places = split_places(sampler, places + dropped)
    return Decimals(a, a_places), MUL, Decimals(b, b_places)


def _quotient_ties(sampler: Sampler, places: Integers) -> Drawn:
    """A quotient at or next to the middle between two answers: 433.73 / 158 = 2.74513."""
    b = sampler.of_length(1 + sampler.below(5), 5)
    middle = 10 * sampler.below(POWERS_OF_TEN.take(1 + sampler.below(4))) + 5
    fewer = sampler.below(3)  # so that a ends earlier than the middle
    b_places = sampler.below(4) * sampler.one_in(2)
    a_places = np.clip(b_places + places + 1 - fewer, 0, DRAWN_PLACES)
    power = POWERS_OF_TEN.take(fewer)
    a = b * middle // power + np.where(power > 1, sampler.below(2), _near(sampler, b))
    return Decimals(np.maximum(a, 1), a_places), DIV, Decimals(b, b_places)


def _large_quotient_digits(sampler: Sampler, places: Integers) -> Drawn:
    """A quotient that begins with a digit from 6 to 9 and soon ends: 985 / 108.72 = 9.06."""
    b = sampler.of_length(2 + sampler.below(10), 11)
    a = b * (550 + sampler.below(450)) // 100 + sampler.below(b // 100 + 1)
    digit_places = np.maximum(0, places - sampler.below(3))  # of the quotient's first digit
    b_places = sampler.below(np.minimum(4, DRAWN_PLACES - digit_places + 1))
    return Decimals(a, b_places + digit_places), DIV, Decimals(b, b_places)


def _near(sampler: Sampler, bound: Integers) -> Integers:
    """Returns 0 for a third of the rows; else a small number of either sign, below the bound."""
    size = 1 + sampler.below(np.maximum(1, np.minimum(bound, sampler.choice((2, 10, 10**5))) - 1))
    return sampler.choice((-1, 0, 1)) * np.minimum(size, np.maximum(bound - 1, 0))


KINDS: dict[str, Kind] = {
    "sum ties": sum_ties,
    "product ties": _product_ties,
    "quotient ties": _quotient_ties,
    "large quotient digits": _large_quotient_digits,
}
