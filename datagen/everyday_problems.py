"""Problems that people type: prices, percentages, constants, fractions, round numbers.

A kind is a function that draws two operands without signs and the code of an operation. Numbers
have up to 9 digits before the point and mostly up to 6 places.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from datagen.arithmetic import ADD, DIV, MUL, POWERS_OF_TEN, SUB, ProblemArray
from datagen.operations import OPERATIONS
from datagen.sampling import (
    Decimals,
    Drawn,
    Integers,
    Sampler,
    Words,
    common_places,
    either_side,
    mixture,
    problem_array,
    select,
)

KIND_WORDS = 10  # the most that a kind uses
WORDS = 1 + KIND_WORDS  # one selects the kind

Kind: TypeAlias = Callable[[Sampler], Drawn]

# From counting, mathematics, physics, units and taxes, and fractions as calculators show them.
_CONSTANTS = """
0 1 2 3 4 5 6 7 8 9 10 12 15 20 24 25 30 50 52 60 64 75 90 99 100 120 125 144 150 180 200 250
256 360 365 365.25 400 500 512 750 999 1000 1024 1440 2000 2024 2025 3600 86400 1000000 1048576
299792458 3.14 3.1416 3.14159 3.14159265 6.28318531 2.72 2.718 2.71828183 1.41421356 1.732
1.73205081 1.618 1.61803399 0.69314718 0.43429448 2.54 0.453592 0.45359237 0.3048 1.609344
1.60934 0.62137 0.6213712 3.78541 4.54609 28.3495 2.20462 0.264172 0.9144 39.3701 3.28084 1.8 32
273.15 9.81 9.80665 4.184 8.314 8.31446 22.4 6.022 6.674 6.626 1.602 96485 101.325 1013.25 6371
343 1.496 0.0821 1.05 1.07 1.08 1.1 1.15 1.19 1.2 1.21 1.25 1.5 2.5 7.5 0.1 0.2 0.25 0.3 0.5 0.6
0.75 0.8 0.9 0.95 0.99 0.125 0.33 0.333 0.33333333 0.67 0.6667 0.66666667 0.16666667 0.14285714
0.01 0.02 0.05 0.001 0.005 0.0001 0.00001 0.000001 0.0725 1.0
"""
CONSTANTS = _CONSTANTS.split()
_CENTS = np.array([0, 0, 10, 25, 49, 50, 50, 75, 80, 90, 95, 95, 98, 99, 99, 99])


def everyday(words: Words) -> ProblemArray:
    """Returns n problems of all KINDS, equally likely, from words of shape (WORDS, n)."""
    return mixture(words, [partial(of_kind, kind) for kind in KINDS])


def of_kind(kind: Kind, words: Words) -> ProblemArray:
    """Returns n problems of one kind from words of shape (KIND_WORDS, n).

    A quarter of the operands are negative. Most answers have 2 or 8 places, the others 1 to 9.
    """
    sampler = Sampler(words)
    places = common_places(sampler)
    a_negative, b_negative = sampler.one_in(4), sampler.one_in(4)
    a, op, b = kind(sampler)
    return problem_array(a.negated(a_negative), op, b.negated(b_negative), places)


def _any(sampler: Sampler) -> Drawn:
    """Two numbers of any shape: 48.2 * 30751."""
    return _number(sampler), sampler.below(len(OPERATIONS)), _number(sampler)


def _prices(sampler: Sampler) -> Drawn:
    """A price, and another one or a quantity: 19.99 + 4.5, 249.95 * 12, 86.4 / 3."""
    a, price = _price(sampler), _price(sampler)
    quantity = Decimals.whole(sampler.any_length(1000))
    op = sampler.below(len(OPERATIONS))
    return a, op, select(op >= MUL, quantity, price)


def _percentages(sampler: Sampler) -> Drawn:
    """A number and a percentage: 80 * 0.19, 1.075 * 64.99, 119 / 1.19, 250 * 0.0825."""
    factor_places = sampler.choice((2, 2, 3, 4))
    one = POWERS_OF_TEN.take(factor_places)
    percentage = 1 + sampler.below(one - 1)
    # The percentage p itself, 1 + p, or 1 - p.
    kind = sampler.below(3)
    units = np.where(kind == 1, one + percentage, np.where(kind == 2, one - percentage, percentage))
    a, b = either_side(sampler, _number(sampler, 7, 2), Decimals(units, factor_places))
    return a, sampler.choice((ADD, SUB, MUL, MUL, MUL, DIV, DIV, DIV)), b


def _small_factors(sampler: Sampler) -> Drawn:
    """A product or quotient of a factor from 0.01 to 0.99: 163.4 * 0.03, 52 / 0.7."""
    number = _number(sampler)
    a, b = either_side(sampler, number, _hundredths(1 + sampler.below(99)))
    return a, sampler.choice((MUL, DIV)), b


def _constants(sampler: Sampler) -> Drawn:
    """A constant and a number of any shape, sometimes another constant: 3.14159265 * 12.5."""
    constant = Decimals.choice(CONSTANTS, sampler)
    other = select(sampler.one_in(4), Decimals.choice(CONSTANTS, sampler), _number(sampler))
    a, b = either_side(sampler, constant, other)
    return a, sampler.below(len(OPERATIONS)), b


def _fractions(sampler: Sampler) -> Drawn:
    """A fraction of small whole numbers: 1 / 3, 22 / 7, 1 / 365."""
    numerator = np.where(sampler.one_in(2), 1, sampler.any_length(1000))
    return Decimals.whole(numerator), DIV, Decimals.whole(sampler.any_length(10_000))


def _round(sampler: Sampler) -> Drawn:
    """A round number up to 10**9, and another one or a number of any shape: 70000 / 250."""
    other = select(sampler.one_in(2), _round_number(sampler), _number(sampler))
    a, b = either_side(sampler, _round_number(sampler), other)
    return a, sampler.below(len(OPERATIONS)), b


def _results(sampler: Sampler) -> Drawn:
    """A number with as many places as answers have, and a small one: 0.33333333 * 3."""
    places = common_places(sampler)
    denominator = sampler.any_length(1000)
    # The digits of a fraction, or random digits.
    fraction = POWERS_OF_TEN.take(places) * sampler.any_length(100) // denominator
    random = sampler.of_length(1 + sampler.below(9), 9)
    a = Decimals(np.where(sampler.one_in(2), fraction, random), places)
    other = select(sampler.one_in(2), Decimals.whole(denominator), _number(sampler, 6, 3))
    a, b = either_side(sampler, a, other)
    return a, sampler.below(len(OPERATIONS)), b


def _number(sampler: Sampler, max_digits: int = 9, max_places: int = 6) -> Decimals:
    """Returns numbers of up to `max_digits` digits, all lengths alike, half of them whole."""
    places = (1 + sampler.below(max_places)) * sampler.one_in(2)
    return Decimals(sampler.of_length(1 + sampler.below(max_digits), max_digits), places)


def _price(sampler: Sampler) -> Decimals:
    """Returns amounts below 10,000 with two places, half of them with cents as in shops."""
    cents = np.where(sampler.one_in(2), _CENTS.take(sampler.below(len(_CENTS))), sampler.below(100))
    return _hundredths(100 * (sampler.any_length(10_000) - sampler.one_in(8)) + cents)


def _hundredths(units: Integers) -> Decimals:
    return Decimals(units, np.full(len(units), 2))


def _round_number(sampler: Sampler) -> Decimals:
    """Returns whole numbers from 100 to 10**9, of one or two digits and zeros: 2500, 70000."""
    power = POWERS_OF_TEN.take(2 + sampler.below(8))
    tens = 10 * sampler.choice((1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9))
    tens = np.where(sampler.one_in(2), tens, 10 + sampler.below(90))
    return Decimals.whole(power // 10 * np.where(power == 10**9, 10, tens))


KINDS: tuple[Kind, ...] = (
    *(_any, _any, _any, _any, _any, _any),
    *(_prices, _prices, _percentages, _small_factors, _constants, _fractions, _round),
    *(_results, _results, _results),
)
