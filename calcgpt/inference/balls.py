"""Balls, which enclose real numbers, to any precision (Johansson 2017, Arb): those of python-flint.

The page has its own, under the same names (`api/static/engine/balls.js`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

Ball: TypeAlias = Any  # arb of python-flint, whose import takes a while
TINY = -(2**17)  # the binary logarithm of what counts as 0
_MAX_ROOT = 1_000  # the degree of a root that is not worked out as a power of e
_precision = threading.Lock()  # flint has one precision for all threads

_OPERATIONS: dict[str, Callable[..., Ball]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "exp": lambda x: x.exp(),
    "ln": lambda x: x.log(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "asin": lambda x: x.asin(),
    "atan": lambda x: x.atan(),
    "!": lambda n: (n + 1).gamma(),
}


def cost(operation: str, bits: int) -> int:
    """Returns the microseconds that a ball takes, about; "" for that of a fraction."""
    return 1 + (bits // 400) ** (1 if operation in ("", "+", "*", "/") else 2)


def of_fraction(value: Fraction, bits: int) -> Ball:
    from flint import arb, ctx, fmpq

    with _precision, ctx.workprec(bits):
        return arb(fmpq(value.numerator, value.denominator))


def apply(operation: str, operands: Sequence[Ball], exponent: Fraction, bits: int) -> Ball:
    """Returns the ball of an operation on numbers, given theirs. It may be wider than `bits` binary
    digits say, or not finite. `exponent` is that of a power."""
    from flint import arb, ctx, fmpq, fmpz

    with _precision, ctx.workprec(bits):
        if operation == "pi":
            return arb.pi()
        if operation != "^":
            return _OPERATIONS[operation](*operands)
        n, d = exponent.as_integer_ratio()
        if d > _MAX_ROOT:
            return operands[0] ** arb(fmpq(n, d))
        return (operands[0].root(d) if d > 1 else operands[0]) ** fmpz(n)


def sign(ball: Ball) -> int:
    """Returns the sign of the numbers of a ball, 0 if it is not one sign."""
    return int(ball > 0) - int(ball < 0)


def is_finite(ball: Ball) -> bool:
    return bool(ball.is_finite())


def is_below(ball: Ball, n: int) -> bool:
    """Returns whether the numbers are below 2**n, without their sign."""
    from flint import arb, fmpz

    return bool(ball.abs_upper() < arb(2) ** fmpz(n))


def is_narrow(ball: Ball, n: int) -> bool:
    """Returns whether the numbers are less than 2**n from the middle."""
    return bool(ball.rad() < 2.0**n)


def accuracy(ball: Ball) -> int:
    """Returns how many bits of the middle are right."""
    return int(ball.rel_accuracy_bits())


def middle(ball: Ball) -> Fraction:
    """Returns the middle, or 0 if that is tiny."""
    if logarithm(ball) < TINY:
        return Fraction(0)
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def logarithm(ball: Ball) -> int:
    """Returns the binary exponent of the middle, which is rounded first, so that it is that of
    other balls with the same number: 0 for 0."""
    mantissa, exponent = map(int, ball.mid().man_exp())
    excess = max(0, mantissa.bit_length() - 64)
    return ((abs(mantissa) + (1 << excess >> 1)) >> excess).bit_length() + excess + exponent


def integer_root(value: int, degree: int) -> int:
    """Returns the root of a number that is not negative, rounded down."""
    from flint import fmpz

    return int(fmpz(value).root(degree))
