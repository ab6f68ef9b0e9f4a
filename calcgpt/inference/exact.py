"""The value of a whole expression without rounding between its steps, as in api/static/exact.js."""

from __future__ import annotations

import operator
from fractions import Fraction

from calcgpt.inference.expression_tree import Expression, Literal, Power
from datagen.arithmetic import Operation

MAX_DIGITS = 10_000  # hexadecimal digits of a numerator or denominator; nested powers have billions
SHOWN_PLACES = 12  # decimal places of a value that is shown
SHOWN_BELOW = 10**1000  # Python writes no integer of more than 4300 digits
_OPERATORS = {
    Operation.ADD: operator.add,
    Operation.SUB: operator.sub,
    Operation.MUL: operator.mul,
    Operation.DIV: operator.truediv,
}


def evaluate(tree: Expression) -> Fraction:
    """Returns the value of an expression.

    Raises ZeroDivisionError, and OverflowError if a part of it may have more than MAX_DIGITS.
    """
    if isinstance(tree, Literal):
        return Fraction(tree.number.units, 10**tree.number.places)
    if isinstance(tree, Power):
        base = evaluate(tree.base)
        _limit_digits(_n_digits(base) * tree.exponent)
        return base**tree.exponent
    a, b = evaluate(tree.left), evaluate(tree.right)
    _limit_digits(_n_digits(a) + _n_digits(b))
    value: Fraction = _OPERATORS[tree.op](a, b)
    return value


def _n_digits(value: Fraction) -> int:
    """Returns the number of hexadecimal digits of the numerator or the denominator, the longer."""
    return (max(value.numerator.bit_length(), value.denominator.bit_length()) + 3) // 4


def _limit_digits(n: int) -> None:
    if n > MAX_DIGITS:
        raise OverflowError(f"more than {MAX_DIGITS:,} digits")


def round_to(value: Fraction, places: int) -> Fraction:
    """Returns a value rounded to decimal places, ties to even."""
    return Fraction(round(value * 10**places), 10**places)


def decimal_text(value: Fraction) -> str:
    """Returns a value in decimal notation, rounded to SHOWN_PLACES, without trailing zeros.

    Raises OverflowError unless it is between -SHOWN_BELOW and SHOWN_BELOW.
    """
    if abs(value) >= SHOWN_BELOW:
        raise OverflowError("too many digits to show")
    scaled = round(value * 10**SHOWN_PLACES)
    digits = str(abs(scaled)).zfill(SHOWN_PLACES + 1)
    whole, places = digits[:-SHOWN_PLACES], digits[-SHOWN_PLACES:].rstrip("0")
    return f"{'-' if scaled < 0 else ''}{whole}{'.' if places else ''}{places}"
