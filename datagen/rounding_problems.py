"""Problems whose results are hard to round:

- Quotients near a tie between two answers, with a divisor of more than five digits, such as
  607.71 / 24308.2 = 0.0250002.
- Results that round up to a new first digit, such as 0.0099 * 98, which is 1.0 to one place.

A kind is a function as in `tricky_12_problems`. All arrays have the shape (n,).
"""

import numpy as np

from datagen.arithmetic import ADD, DIV, DRAWN_PLACES, MUL, POWERS_OF_TEN, SUB
from datagen.sampling import Decimals, Drawn, Integers, Sampler, split_places
from datagen.tricky_12_problems import MAX_DIGITS, Kind


def _quotients_near_the_middle(sampler: Sampler, places: Integers) -> Drawn:
    """A quotient at or next to the middle between two answers: 607.71 / 24308.2 = 0.0250002."""
    digits = 1 + sampler.below(MAX_DIGITS - 1)
    b = sampler.of_length(digits, MAX_DIGITS)
    # a / b is the middle in units of a tenth of the answer's last place.
    longest = np.minimum(MAX_DIGITS - 1 - digits, 5)
    middle = 10 * sampler.below(POWERS_OF_TEN.take(sampler.below(longest + 1))) + 5
    fewer = sampler.below(4)  # digits by which a ends before the middle
    b_places = sampler.below(4) * sampler.one_in(2)
    a_places = np.clip(b_places + places + 1 - fewer, 0, DRAWN_PLACES)
    power = POWERS_OF_TEN.take(fewer)
    offset = sampler.choice((-1, 0, 1)) * (1 + sampler.below(sampler.choice((1, 10, 1000))))
    a = b * middle // power + np.where(power > 1, sampler.below(2), offset)
    return Decimals(np.maximum(a, 1), a_places), DIV, Decimals(b, b_places)


def _products_to_a_new_digit(sampler: Sampler, places: Integers) -> Drawn:
    """A product that rounds up to a power of ten, or nearly: 0.0099 * 98 = 0.9702, to 1 place."""
    digits = 1 + sampler.below(5)
    a = sampler.of_length(digits, 5)
    dropped = digits + 1 + sampler.below(3)  # digits that are rounded off
    power = _power_beyond(sampler, dropped)
    b = (power - _short_of(sampler, dropped)) // a
    a_places, b_places = split_places(sampler, places + dropped)
    return Decimals(a, a_places), MUL, Decimals(b, b_places)


def _quotients_to_a_new_digit(sampler: Sampler, places: Integers) -> Drawn:
    """A quotient that rounds up to a power of ten, or nearly: 0.9977 / 1.0012 = 0.9965."""
    digits = 1 + sampler.below(8)
    b = sampler.of_length(digits, 8)
    less = np.where(sampler.one_in(2), 1 + sampler.below(9), sampler.below(b))
    a = b * POWERS_OF_TEN.take(sampler.below(4)) - less
    b_places = sampler.below(np.minimum(4, DRAWN_PLACES - places + 1))
    return Decimals(np.maximum(a, 1), b_places + places), DIV, Decimals(b, b_places)


def _sums_to_a_new_digit(sampler: Sampler, places: Integers) -> Drawn:
    """A sum or difference that rounds up to a power of ten, or nearly: 0.93 + 0.04, to 1 place."""
    dropped = np.minimum(1 + sampler.below(3), DRAWN_PLACES - places)
    answer = _power_beyond(sampler, dropped) - _short_of(sampler, dropped)
    a = 1 + sampler.below(np.minimum(answer, 2**30))
    is_sum = (a < answer) & sampler.one_in(2)
    first, second = np.where(is_sum, a, answer + a), np.where(is_sum, answer - a, a)
    op, shared = np.where(is_sum, ADD, SUB), places + dropped
    return Decimals(first, shared), op, Decimals(second, shared)


def _power_beyond(sampler: Sampler, dropped: Integers) -> Integers:
    """Returns powers of ten up to 10**11 with at least as many zeros as digits are rounded off."""
    zeros = np.minimum(dropped + sampler.below(7), MAX_DIGITS - 1)
    powers: Integers = POWERS_OF_TEN.take(zeros)
    return powers


def _short_of(sampler: Sampler, dropped: Integers) -> Integers:
    """Returns distances below a power of ten, from 1 to slightly more than those that round up to
    the power."""
    return 1 + sampler.below(6 * POWERS_OF_TEN.take(dropped) // 10)


KINDS: dict[str, Kind] = {
    "quotients near the middle": _quotients_near_the_middle,
    "products to a new digit": _products_to_a_new_digit,
    "quotients to a new digit": _quotients_to_a_new_digit,
    "sums to a new digit": _sums_to_a_new_digit,
}
