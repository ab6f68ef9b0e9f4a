"""Problems that arithmetic often gets wrong, with numbers of 1 to 12 digits and up to 9 places.

The kinds are those of `tricky_5_problems`, with the point anywhere, and others: runs of nines and
zeros, one-digit factors, long quotients, operands that differ by little. A kind is a function of
a sampler and of the places of the answer. It returns two operands, without signs, and the code of
the operation. All arrays have the shape (n,).
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

import numpy as np

from datagen import tricky_5_problems
from datagen.arithmetic import ADD, DIV, DRAWN_PLACES, MUL, POWERS_OF_TEN, SUB, ProblemArray
from datagen.sampling import (
    Decimals,
    Drawn,
    Flags,
    Integers,
    Sampler,
    Words,
    common_places,
    either_side,
    mixture,
    problem_array,
    select,
)

MAX_DIGITS = 12  # digits of an operand
KIND_WORDS = 4 + tricky_5_problems.KIND_WORDS  # for signs, places and points, and a kind
WORDS = 1 + KIND_WORDS  # one selects the kind

Kind: TypeAlias = Callable[[Sampler, Integers], Drawn]


def any_of(kinds: Iterable[Kind]) -> Callable[[Words], ProblemArray]:
    """Returns what draws n problems of all these kinds, equally likely, from words of shape (WORDS,
    n)."""
    return partial(mixture, components=[partial(of_kind, kind) for kind in kinds])


def of_kind(kind: Kind, words: Words) -> ProblemArray:
    """Returns n problems of one kind from words of shape (KIND_WORDS, n).

    A quarter of the operands are negative. A whole operand has a point with probability 1/8.
    """
    sampler = Sampler(words)
    places = common_places(sampler)
    a_negative, b_negative = sampler.one_in(4), sampler.one_in(4)
    a_point, b_point = sampler.one_in(8), sampler.one_in(8)
    a, op, b = kind(sampler, places)
    # As in `tricky_5_problems.of_kind`: the answer changes its sign at most.
    op = op ^ ((a_negative ^ b_negative) & (op <= SUB))
    a, b = _with_point(a, a_point).negated(a_negative), _with_point(b, b_point).negated(b_negative)
    return problem_array(a, op, b, places)


def _with_point(decimals: Decimals, point: Flags) -> Decimals:
    """Returns the decimals, with Python integers as units. Whole numbers have a point where `point`
    is True, and none elsewhere.

    Python integers are needed because a number may have 12 digits before the point.
    """
    power = 10 ** decimals.places.astype(object)
    whole, rest = decimals.units // power, decimals.units % power
    whole_decimals = Decimals(np.where(point, 10 * whole, whole), point.astype(np.int64))
    result = select(rest == 0, whole_decimals, decimals)
    return Decimals(result.units.astype(object), result.places)


def _moved(short_kind: tricky_5_problems.Kind) -> Kind:
    """Returns a kind of `tricky_5_problems` with numbers of up to 5 to 9 digits and the point
    anywhere.

    The answer keeps its digits, and with them its special property, at any number of places.
    """

    def kind(sampler: Sampler, places: Integers) -> Drawn:
        a, op, b = short_kind(sampler, POWERS_OF_TEN.take(5 + sampler.below(5)))
        is_product, is_quotient = np.equal(op, MUL), np.equal(op, DIV)
        # A product has the places of a plus those of b, a quotient those of a minus those of b.
        # As in hundredths, rounding drops two places of a product and adds two to a quotient.
        total, difference = places + 2, places - 2
        low = np.maximum(0, is_product * (total - DRAWN_PLACES) + is_quotient * difference)
        high = np.where(is_product, total, DRAWN_PLACES + is_quotient * difference)
        a_places = low + sampler.below(np.minimum(DRAWN_PLACES, high) - low + 1)
        b_places = np.where(is_product, total - a_places, a_places - is_quotient * difference)
        return Decimals(a, a_places), op, Decimals(b, b_places)

    return kind


def _beside_powers(sampler: Sampler, places: Integers) -> Drawn:
    """An operand next to a power of ten, or both: 99999.9 * 1001, 1000000 - 0.0001."""
    a = _beside_power(sampler)
    other = select(sampler.one_in(2), _beside_power(sampler), _number(sampler))
    a, b = either_side(sampler, a, other)
    return a, sampler.below(4), b


def _beside_power(sampler: Sampler) -> Decimals:
    power = POWERS_OF_TEN.take(sampler.below(MAX_DIGITS))
    difference = sampler.choice((-1, 1)) * sampler.choice((0, 1, 1, 1, 2, 2, 3, 5, 8, 10, 0, 1))
    return Decimals(np.abs(power + difference), _places(sampler))


def _run_sums(sampler: Sampler, places: Integers) -> Drawn:
    """A sum or difference that is made of runs of nines and zeros: 41700.3 + 58299.6."""
    answer = _runs(sampler, MAX_DIGITS - 1)
    a = sampler.of_length(_length(sampler, MAX_DIGITS - 1), MAX_DIGITS)
    # Either a is the smaller term of a sum, or the answer is a difference.
    is_sum = (a < answer) & sampler.one_in(2)
    op = np.where(is_sum, ADD, SUB)
    first, second = np.where(is_sum, a, answer + a), np.where(is_sum, answer - a, a)
    shared = _places(sampler)
    return Decimals(first, shared), op, Decimals(second, shared)


def _run_products(sampler: Sampler, places: Integers) -> Drawn:
    """Factors or a quotient that are made of runs of nines and zeros: 9990 * 1001, 89991 / 9."""
    a = _runs(sampler, 6)
    b = np.where(sampler.one_in(2), _runs(sampler, 6), sampler.of_length(_length(sampler, 6), 6))
    op = sampler.choice((MUL, DIV))
    # The quotient of this dividend is a, or would be a if the dividend were one more or less.
    dividend = np.maximum(a * b + sampler.below(3) - 1, 1)
    swap = (op == MUL) & sampler.one_in(2)
    first, second = np.where(op == DIV, dividend, np.where(swap, b, a)), np.where(swap, a, b)
    return Decimals(first, _places(sampler)), op, Decimals(second, _places(sampler))


def _runs(sampler: Sampler, max_digits: int) -> Integers:
    """Returns numbers such as 899, 4999000 or 10009990: a digit and zeros, plus or minus powers."""
    lengths = _length(sampler, max_digits)
    digits = sampler.choice((1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9))
    numbers: Integers = POWERS_OF_TEN.take(lengths - 1) * digits
    for _ in range(2):
        power = POWERS_OF_TEN.take(sampler.below(lengths))
        numbers = np.abs(numbers + power * sampler.choice((-1, 0, 1)))
    return np.where(numbers == 0, 9, numbers)


def sum_ties(sampler: Sampler, places: Integers) -> Drawn:
    """A sum or difference exactly halfway between two answers, or beside it: 1.0625 + 3.0525."""
    operand_places = np.minimum(places + 1, DRAWN_PLACES)
    a, b = (sampler.of_length(_length(sampler, MAX_DIGITS), MAX_DIGITS) for _ in range(2))
    op = sampler.choice((ADD, SUB))
    last = np.where(sampler.one_in(2), 5, sampler.choice((4, 5, 6)))
    b = 10 * (b // 10) + np.where(op == ADD, last - a, a - last) % 10
    return Decimals(a, operand_places), op, Decimals(b, operand_places)


def _one_digit(sampler: Sampler, places: Integers) -> Drawn:
    """A factor or divisor of one digit, at every scale: 163.4 * 0.00003, 75 / 400000."""
    short = _one_digit_number(sampler)
    other = select(sampler.one_in(4), _one_digit_number(sampler), _number(sampler))
    op = sampler.choice((MUL, DIV))
    a, b = either_side(sampler, short, other)
    swap = (op == DIV) & sampler.one_in(2)  # so that most short operands of quotients are divisors
    return select(swap, other, a), op, select(swap, short, b)


def _one_digit_number(sampler: Sampler) -> Decimals:
    power = sampler.below(2 * DRAWN_PLACES + 1) - DRAWN_PLACES
    units = (1 + sampler.below(9)) * POWERS_OF_TEN.take(np.maximum(power, 0))
    return Decimals(units, np.maximum(-power, 0))


def _long_quotients(sampler: Sampler, places: Integers) -> Drawn:
    """A large number by a small one: 70000 / 0.01, 99999999.9 / 0.07, 123456789 / 3."""
    digits = 6 + sampler.below(MAX_DIGITS - 5)
    a = sampler.of_length(digits, MAX_DIGITS)
    power = POWERS_OF_TEN.take(digits - 1)
    a = np.where(sampler.one_in(4), a // power * power, a)
    a_places = sampler.below(4) * sampler.one_in(4)
    b = sampler.of_length(_length(sampler, 3), 3)
    return Decimals(a, a_places), DIV, Decimals(b, _places(sampler))


def _negative(sampler: Sampler, places: Integers) -> Drawn:
    """A difference below zero, of every length: 12.5 - 80012.5."""
    answer, a = (sampler.of_length(_length(sampler, MAX_DIGITS - 1), MAX_DIGITS) for _ in range(2))
    shared = _places(sampler)
    return Decimals(a, shared), SUB, Decimals(a + answer, shared)


def _nearly_equal(sampler: Sampler, places: Integers) -> Drawn:
    """Operands that are equal, or differ only in their last digits: 48190.3 - 48190.1."""
    a = sampler.of_length(_length(sampler, MAX_DIGITS - 1), MAX_DIGITS)
    b = np.abs(a + sampler.below(10) * sampler.choice((0, 1, -1, 10)))
    shared = _places(sampler)
    op = sampler.choice((ADD, SUB, SUB, SUB, MUL, DIV, DIV, DIV))
    return Decimals(a, shared), op, Decimals(b, shared)


def _small_factors(sampler: Sampler, places: Integers) -> Drawn:
    """A product of a number of any length and a factor from 0.01 to 0.99: 163.4 * 0.03."""
    hundredths = 1 + sampler.below(99)
    factor = Decimals(hundredths, np.full(len(hundredths), 2))
    a, b = either_side(sampler, _number(sampler), factor)
    return a, MUL, b


def _unlike_places(sampler: Sampler, places: Integers) -> Drawn:
    """Operands of 1 to 7 digits with any places each: 0.00001204 * 31.5, 8 - 0.090000001."""
    a, b = (
        Decimals(sampler.of_length(_length(sampler, 7), 7), sampler.below(DRAWN_PLACES + 1))
        for _ in range(2)
    )
    return a, sampler.below(4), b


def _number(sampler: Sampler) -> Decimals:
    return Decimals(sampler.of_length(_length(sampler, MAX_DIGITS), MAX_DIGITS), _places(sampler))


def _length(sampler: Sampler, max_digits: int) -> Integers:
    return 1 + sampler.below(max_digits)


def _places(sampler: Sampler) -> Integers:
    """Returns no places for a quarter of the numbers, and 1 to 9 for the others."""
    return (1 + sampler.below(DRAWN_PLACES)) * ~sampler.one_in(4)


KINDS: dict[str, Kind] = {
    **{name: _moved(kind) for name, kind in tricky_5_problems.KINDS.items()},
    "beside powers of ten": _beside_powers,
    "run sums": _run_sums,
    "run products": _run_products,
    "sum ties": sum_ties,
    "one digit": _one_digit,
    "long quotients": _long_quotients,
    "negative": _negative,
    "nearly equal": _nearly_equal,
    "small factors": _small_factors,
    "unlike places": _unlike_places,
}
# Four times as likely as any other is the kind that has the most classes.
tricky_12 = any_of([*KINDS.values(), *[_unlike_places] * 3])
