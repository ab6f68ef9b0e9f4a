"""Problems that arithmetic often gets wrong: ties, chains of carries, zeros, unlike lengths.

A kind is a function that returns problems without signs: the operands a and b, at least 0 and at
most `bound`, in hundredths, and the code of the operation. All arrays have the shape (n,). Signs
and points are added to all kinds in the same way.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from datagen.arithmetic import ADD, DIV, MUL, SUB, ProblemArray
from datagen.sampling import Code, Integers, Sampler, Words, mixture

KIND_WORDS = 10  # the most that a kind uses: two numbers with inner zeros
WORDS = 1 + KIND_WORDS  # one selects the kind

Unsigned: TypeAlias = tuple[Integers, Code, Integers]
Kind: TypeAlias = Callable[[Sampler, Integers], Unsigned]

_ANY = (ADD, SUB, MUL, DIV)
_LARGEST = 9_999_999  # hundredths
_BLOG_LARGEST = 100_000

# Pairs of factors in hundredths. Odd multiples of a pair of _HALF_FACTORS have a product that ends
# in half a hundredth. If a pair of _ROUND_FACTORS is multiplied by numbers coprime to ten, neither
# factor is whole, but their product has at most one place.
_HALF_FACTORS = np.array([(s, 50 // s) for s in range(1, 51) if 50 % s == 0])
_ROUND_FACTORS = np.array(
    [
        (s, product // s)
        for product in (1000, 10_000)
        for s in range(1, product)
        if product % s == 0 and s % 100 and product // s % 100
    ]
)


def tricky_5(words: Words) -> ProblemArray:
    """Returns n problems of all KINDS, equally likely, from words of shape (WORDS, n)."""
    return mixture(words, [partial(of_kind, kind) for kind in KINDS.values()])


def of_kind(kind: Kind, words: Words) -> ProblemArray:
    """Returns n problems of one kind from words of shape (KIND_WORDS, n).

    Half have operands from 0 to 1000, as in the blog. In the others magnitudes are below 100,000
    and a quarter of the operands are negative. A whole operand has a point with probability 1/8.
    """
    sampler = Sampler(words)
    wide = sampler.one_in(2)
    a, op, b = kind(sampler, np.where(wide, _LARGEST, _BLOG_LARGEST))
    a_negative, b_negative = wide & sampler.one_in(4), wide & sampler.one_in(4)
    # If one operand is negated, a sum becomes a difference and a difference a sum. So the magnitude
    # of the answer, and with it its special property, stays the same.
    op = op ^ ((a_negative ^ b_negative) & (op <= SUB))
    return ProblemArray(
        a=a * (1 - 2 * a_negative),
        a_point=(a % 100 > 0) | sampler.one_in(8),
        op=op.astype(np.uint8),
        b=b * (1 - 2 * b_negative),
        b_point=(b % 100 > 0) | sampler.one_in(8),
    )


def _product_ties(sampler: Sampler, bound: Integers) -> Unsigned:
    """A product exactly halfway between two hundredths: 0.25 * 0.3 = 0.075."""
    s, t = _HALF_FACTORS.take(sampler.below(len(_HALF_FACTORS)), axis=0).T
    return s * _odd(sampler, bound // s), MUL, t * _odd(sampler, bound // t)


def _quotient_ties(sampler: Sampler, bound: Integers) -> Unsigned:
    """A quotient exactly halfway between two hundredths: 3 / 8 = 0.375."""
    # An odd number of 200ths: odd / (8 * s) = odd * (25 / s) / 200.
    eight = 8 * sampler.choice((1, 5, 25))
    common = _operand(sampler, bound // eight)
    return common * _odd(sampler, bound // common), DIV, common * eight


def _quotients_beside_ties(sampler: Sampler, bound: Integers) -> Unsigned:
    """A quotient as little above or below a tie as the divisor allows: 9.38 / 267.9 = 0.03501."""
    # From 10 up: there, a hundredth more or less changes the quotient by at most a thousandth.
    b = _at_least(1000, sampler, bound)
    tie_200ths = b * _odd(sampler, 200 * (bound - 1) // b)
    a = np.where(sampler.one_in(2), (tie_200ths - 1) // 200, tie_200ths // 200 + 1)
    return a, DIV, b


def _quotients_beside_wholes(sampler: Sampler, bound: Integers) -> Unsigned:
    """A quotient that is whole, or would be with a hundredth more or less: 20.99 / 7."""
    b = _operand(sampler, bound // 2)
    return b * sampler.any_length((bound - 1) // b) + sampler.below(3) - 1, DIV, b


def _small_quotients(sampler: Sampler, bound: Integers) -> Unsigned:
    """A quotient up to 0.01, so that the answer is 0.0 or 0.01: 4 / 802."""
    b = _at_least(100, sampler, bound)
    return 1 + sampler.below(b // 100), DIV, b


def _carries(sampler: Sampler, bound: Integers) -> Unsigned:
    """A sum with a chain of carries: 123.45 + 876.57."""
    total, a = _chain(sampler, bound)
    a, b = _either_side(sampler, a, total - a)
    return a, ADD, b


def _borrows(sampler: Sampler, bound: Integers) -> Unsigned:
    """A difference with a chain of borrows: 1000 - 0.01, 500 - 499.99."""
    total, b = _chain(sampler, bound)
    return total, SUB, np.where(sampler.one_in(2), b, total - b)


def _chain(sampler: Sampler, bound: Integers) -> tuple[Integers, Integers]:
    """Returns a sum up to `bound` and one of its terms. Two or more digits carry in a row.

    The last digits of the two terms add to 10 or more, those before them to 9.
    """
    step = sampler.choice((1, 10, 100))
    top = bound // step
    power = sampler.power_of_ten(100, (top + 1) // 10)
    term = sampler.any_length(power)
    term += term % 10 == 0
    leading = sampler.any_length(top // power)
    leading += sampler.one_in(2) & (leading < top // power)  # so that the blog's 1000 occurs
    total = power * leading + sampler.below(term % 10)
    return np.minimum(total, top) * step, term * step


def _inner_zeros(sampler: Sampler, bound: Integers) -> Unsigned:
    """Operands with zeros inside or, a sixth of them, at the end: 400.04 * 10005, 100 / 3007."""
    a, b = _with_inner_zeros(sampler, bound), _with_inner_zeros(sampler, bound)
    return a, sampler.choice(_ANY), b


def _with_inner_zeros(sampler: Sampler, bound: Integers) -> Integers:
    step = sampler.choice((1, 10, 100))
    top = bound // step
    power = sampler.power_of_ten(100, (top + 1) // 10)
    # Zeros at the end are written only if there are no places: 600 hundredths are written 6.
    end = sampler.any_length(power // 10) * ~((step == 100) & sampler.one_in(2))
    units: Integers = power * sampler.any_length(top // power) + end
    return units * step


def _equal(sampler: Sampler, bound: Integers) -> Unsigned:
    """The same operand twice or, if one gets a sign, a number and its opposite."""
    a = _operand(sampler, bound)
    return a, sampler.choice(_ANY), a


def _special(*values: int) -> Kind:
    """Returns the kind in which one operand, and sometimes both, are among `values`."""

    def kind(sampler: Sampler, bound: Integers) -> Unsigned:
        other = np.where(sampler.one_in(16), sampler.choice(values), _operand(sampler, bound))
        a, b = _either_side(sampler, sampler.choice(values), other)
        return a, sampler.choice(_ANY), b

    return kind


def _round_sums(sampler: Sampler, bound: Integers) -> Unsigned:
    """Two places each, fewer in the answer: 132.67 + 62.53 = 195.2, 12.75 - 2.75 = 10.0."""
    a = sampler.any_length(bound)
    a += a % 10 == 0
    op = sampler.choice((ADD, SUB))
    step = sampler.choice((10, 100))
    # b is free except for the places that must vanish in a + b or a - b.
    vanishing = np.where(op == ADD, -a, a) % step
    return a, op, sampler.any_length(bound) // step * step + vanishing


def _round_products(sampler: Sampler, bound: Integers) -> Unsigned:
    """Two decimals whose product has one place or none: 13.75 * 2.4 = 33.0."""
    s, t = _ROUND_FACTORS.take(sampler.below(len(_ROUND_FACTORS)), axis=0).T
    return s * _coprime_to_ten(sampler, bound // s), MUL, t * _coprime_to_ten(sampler, bound // t)


def _unlike_lengths(sampler: Sampler, bound: Integers) -> Unsigned:
    """Three or more digits before the point, and one digit in all: 99999.99 * 0.01."""
    long = _at_least(10_000, sampler, bound)
    short = (1 + sampler.below(9)) * sampler.choice((1, 10, 100))
    a, b = _either_side(sampler, long, short)
    return a, sampler.choice(_ANY), b


def _operand(sampler: Sampler, bound: Integers) -> Integers:
    """Returns operands other than 0: 0, 1 or 2 places, all lengths up to `bound` >= 100."""
    step = sampler.choice((1, 10, 100))
    return step * sampler.any_length(bound // step)


def _at_least(low: int, sampler: Sampler, bound: Integers) -> Integers:
    """Returns operands of at least `low`, a power of ten >= 100: 0, 1 or 2 places, all lengths."""
    power = sampler.power_of_ten(low, (bound + 1) // 10)
    step = sampler.choice((1, 10, 100))
    return power + step * sampler.below(9 * power // step)


def _odd(sampler: Sampler, top: Integers) -> Integers:
    """Returns odd numbers from 1 to top >= 1, of all lengths."""
    return (sampler.any_length(top) - 1) | 1


def _coprime_to_ten(sampler: Sampler, top: Integers) -> Integers:
    """Returns numbers up to top >= 10 that end in 1, 3, 7 or 9."""
    return 10 * (sampler.any_length(top // 10) - 1) + sampler.choice((1, 3, 7, 9))


def _either_side(sampler: Sampler, a: Integers, b: Integers) -> tuple[Integers, Integers]:
    """Returns a and b, exchanged in half of the rows."""
    swap = sampler.one_in(2)
    return np.where(swap, b, a), np.where(swap, a, b)


KINDS: dict[str, Kind] = {
    "product ties": _product_ties,
    "quotient ties": _quotient_ties,
    "quotients beside ties": _quotients_beside_ties,
    "quotients beside wholes": _quotients_beside_wholes,
    "small quotients": _small_quotients,
    "carries": _carries,
    "borrows": _borrows,
    "inner zeros": _inner_zeros,
    "equal": _equal,
    "zero": _special(0),
    "units": _special(1, 10, 50, 100, 200, 1000, 10_000),
    "thousand": _special(100_000),
    "round sums": _round_sums,
    "round products": _round_products,
    "unlike lengths": _unlike_lengths,
}
