"""Problems at which arithmetic goes wrong: ties, chains of carries, zeros, unlike lengths.

A kind makes problems without signs: operands a, b >= 0, in hundredths, and the operation's code,
all of shape (n,) or one for all. It keeps the operands within `bound`, also of shape (n,), which
says how large they may be. Signs and points are added to all kinds alike.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from datagen.arithmetic import ADD, DIV, MUL, SUB, ProblemArray
from datagen.drawing import Draws, Integers, Words, mixture

KIND_WORDS = 10  # as many as the most demanding kind needs: two numbers with inner zeros
WORDS = 1 + KIND_WORDS  # one chooses the kind

Unsigned: TypeAlias = tuple[Integers, Integers | int, Integers]
Kind: TypeAlias = Callable[[Draws, Integers], Unsigned]

_LARGEST = 9_999_999  # hundredths
_BLOG_LARGEST = 100_000

# Pairs of factors, in hundredths. Odd multiples of the first have a product that ends in half a
# hundredth. The others are not whole, nor are their multiples by what is coprime to ten; yet a
# product of these has at most one place.
_HALF_FACTORS = np.array([(s, 50 // s) for s in range(1, 51) if 50 % s == 0])
_ROUND_FACTORS = np.array(
    [
        (s, product // s)
        for product in (1000, 10_000)
        for s in range(1, product)
        if product % s == 0 and s % 100 and product // s % 100
    ]
)


def edge(words: Words) -> ProblemArray:
    """n problems, all KINDS equally likely, from words of shape (WORDS, n)."""
    return mixture(words, [partial(of_kind, kind) for kind in KINDS.values()])


def of_kind(kind: Kind, words: Words) -> ProblemArray:
    """n problems of one kind from words of shape (KIND_WORDS, n).

    Half are within the blog's bounds, 0 to 1000; in the other half magnitudes are below 100,000,
    and a quarter of the operands are negative. A whole operand has a point with probability 1/8.
    """
    draws = Draws(words)
    wide = draws.once_in(2)
    a, op, b = kind(draws, np.where(wide, _LARGEST, _BLOG_LARGEST))
    a_negative, b_negative = wide & draws.once_in(4), wide & draws.once_in(4)
    # A sum whose one operand is negated becomes a difference, and a difference a sum: so the
    # answer changes its sign at most, and what is special about it remains.
    op = op ^ ((a_negative ^ b_negative) & (op <= SUB))
    return ProblemArray(
        a=a * (1 - 2 * a_negative),
        a_point=(a % 100 > 0) | draws.once_in(8),
        op=op.astype(np.uint8),
        b=b * (1 - 2 * b_negative),
        b_point=(b % 100 > 0) | draws.once_in(8),
    )


def _product_ties(draws: Draws, bound: Integers) -> Unsigned:
    """A product exactly halfway between two hundredths: 0.25 * 0.3 = 0.075."""
    s, t = _HALF_FACTORS.take(draws.below(len(_HALF_FACTORS)), axis=0).T
    return s * _odd(draws, bound // s), MUL, t * _odd(draws, bound // t)


def _quotient_ties(draws: Draws, bound: Integers) -> Unsigned:
    """A quotient exactly halfway between two hundredths: 3 / 8 = 0.375."""
    # An odd number of 200ths: odd / (8 * s) = odd * (25 / s) / 200.
    eight = 8 * draws.among((1, 5, 25))
    common = _operand(draws, bound // eight)
    return common * _odd(draws, bound // common), DIV, common * eight


def _quotients_beside_ties(draws: Draws, bound: Integers) -> Unsigned:
    """A quotient as little above or below a tie as the divisor allows: 9.38 / 267.9 = 0.03501."""
    # From 10 up, where a hundredth more or less changes the quotient by less than a thousandth.
    b = _at_least(1000, draws, bound)
    tie_200ths = b * _odd(draws, 200 * (bound - 1) // b)
    a = np.where(draws.once_in(2), (tie_200ths - 1) // 200, tie_200ths // 200 + 1)
    return a, DIV, b


def _quotients_beside_wholes(draws: Draws, bound: Integers) -> Unsigned:
    """A quotient that is whole, or would be but for a hundredth: 20.99 / 7."""
    b = _operand(draws, bound // 2)
    return b * draws.of_any_length((bound - 1) // b) + draws.below(3) - 1, DIV, b


def _small_quotients(draws: Draws, bound: Integers) -> Unsigned:
    """A quotient up to 0.01, so that the answer is 0.0 or 0.01: 4 / 802."""
    b = _at_least(100, draws, bound)
    return 1 + draws.below(b // 100), DIV, b


def _carries(draws: Draws, bound: Integers) -> Unsigned:
    """A sum with a chain of carries: 123.45 + 876.57."""
    total, a = _chain(draws, bound)
    a, b = _either_side(draws, a, total - a)
    return a, ADD, b


def _borrows(draws: Draws, bound: Integers) -> Unsigned:
    """A difference with a chain of borrows: 1000 - 0.01, 500 - 499.99."""
    total, b = _chain(draws, bound)
    return total, SUB, np.where(draws.once_in(2), b, total - b)


def _chain(draws: Draws, bound: Integers) -> tuple[Integers, Integers]:
    """A sum up to `bound` and one of its terms, such that two digits or more carry in a row.

    The last digits of the two terms add to 10 or more, those before them to 9.
    """
    step = draws.among((1, 10, 100))
    top = bound // step
    power = draws.power_of_ten(100, (top + 1) // 10)
    term = draws.of_any_length(power)
    term += term % 10 == 0
    leading = draws.of_any_length(top // power)
    leading += draws.once_in(2) & (leading < top // power)  # so that the blog's 1000 occurs
    total = power * leading + draws.below(term % 10)
    return np.minimum(total, top) * step, term * step


def _inner_zeros(draws: Draws, bound: Integers) -> Unsigned:
    """Operands with zeros inside or, a sixth of them, at the end: 400.04 * 10005, 100 / 3007."""
    a, b = _with_inner_zeros(draws, bound), _with_inner_zeros(draws, bound)
    return a, _any_operation(draws), b


def _with_inner_zeros(draws: Draws, bound: Integers) -> Integers:
    step = draws.among((1, 10, 100))
    top = bound // step
    power = draws.power_of_ten(100, (top + 1) // 10)
    # What ends in zeros shows them if it has no places: 600 hundredths are written 6.
    end = draws.of_any_length(power // 10) * ~((step == 100) & draws.once_in(2))
    units: Integers = power * draws.of_any_length(top // power) + end
    return units * step


def _equal(draws: Draws, bound: Integers) -> Unsigned:
    """The same operand twice or, where one has a sign, a number and its opposite."""
    a = _operand(draws, bound)
    return a, _any_operation(draws), a


def _special(*values: int) -> Kind:
    """The kind of problems one of whose operands is one of these; now and then both are."""

    def kind(draws: Draws, bound: Integers) -> Unsigned:
        other = np.where(draws.once_in(16), draws.among(values), _operand(draws, bound))
        a, b = _either_side(draws, draws.among(values), other)
        return a, _any_operation(draws), b

    return kind


def _round_sums(draws: Draws, bound: Integers) -> Unsigned:
    """Two places each, fewer in the answer: 132.67 + 62.53 = 195.2, 12.75 - 2.75 = 10.0."""
    a = draws.of_any_length(bound)
    a += a % 10 == 0
    op = draws.among((ADD, SUB))
    step = draws.among((10, 100))
    # Of b, all but the places that are to vanish is free: those are what a + b or a - b asks for.
    vanishing = np.where(op == ADD, -a, a) % step
    return a, op, draws.of_any_length(bound) // step * step + vanishing


def _round_products(draws: Draws, bound: Integers) -> Unsigned:
    """Two decimals whose product has one place or none: 13.75 * 2.4 = 33.0."""
    s, t = _ROUND_FACTORS.take(draws.below(len(_ROUND_FACTORS)), axis=0).T
    return s * _coprime_to_ten(draws, bound // s), MUL, t * _coprime_to_ten(draws, bound // t)


def _unlike_lengths(draws: Draws, bound: Integers) -> Unsigned:
    """Three digits or more before the point, and a single one in all: 99999.99 * 0.01."""
    long = _at_least(10_000, draws, bound)
    short = (1 + draws.below(9)) * draws.among((1, 10, 100))
    a, b = _either_side(draws, long, short)
    return a, _any_operation(draws), b


def _any_operation(draws: Draws) -> Integers:
    return draws.among((ADD, SUB, MUL, DIV))


def _operand(draws: Draws, bound: Integers) -> Integers:
    """Any operand but 0: 0, 1 or 2 places, all lengths up to `bound` >= 100 hundredths."""
    step = draws.among((1, 10, 100))
    return step * draws.of_any_length(bound // step)


def _at_least(low: int, draws: Draws, bound: Integers) -> Integers:
    """Operands from `low`, a power of ten >= 100, up: 0, 1 or 2 places, all lengths."""
    power = draws.power_of_ten(low, (bound + 1) // 10)
    step = draws.among((1, 10, 100))
    return power + step * draws.below(9 * power // step)


def _odd(draws: Draws, top: Integers) -> Integers:
    """Odd numbers from 1 to top >= 1 of all lengths."""
    return (draws.of_any_length(top) - 1) | 1


def _coprime_to_ten(draws: Draws, top: Integers) -> Integers:
    """Numbers up to top >= 10 that end in 1, 3, 7 or 9."""
    return 10 * (draws.of_any_length(top // 10) - 1) + draws.among((1, 3, 7, 9))


def _either_side(draws: Draws, a: Integers, b: Integers) -> tuple[Integers, Integers]:
    """The two, exchanged in half of the rows."""
    swap = draws.once_in(2)
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
