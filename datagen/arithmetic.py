"""Exact decimal arithmetic with two places. No float is involved anywhere."""

import enum
from dataclasses import dataclass


class Operation(enum.StrEnum):
    """The four operations. Their order here is their code in arrays (see `vectorised`)."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"


@dataclass(frozen=True, slots=True)
class Number:
    """An exact decimal with at most two places, and how it is written.

    `point` says whether it is written with a decimal point, as Python distinguishes the float
    `5.0` from the int `5`; a number without one must be whole, else ValueError.
    """

    hundredths: int
    point: bool

    def __post_init__(self) -> None:
        if not self.point and self.hundredths % 100:
            raise ValueError(f"{self.hundredths} hundredths cannot be written without a point")


@dataclass(frozen=True, slots=True)
class Problem:
    """One binary operation on two numbers."""

    a: Number
    op: Operation
    b: Number


def divide_half_even(numerator: int, denominator: int) -> int:
    """The integer nearest to numerator / denominator, ties to even (ZeroDivisionError on 0)."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, remainder = divmod(numerator, denominator)
    excess = 2 * remainder - denominator
    return quotient + (excess > 0 or (excess == 0 and quotient % 2 == 1))


def answer(problem: Problem) -> Number | None:
    """The exact answer rounded to two places, ties to even; None (nan) when dividing by zero.

    It is whole (has no point) where both operands are and the operation is not a division.
    """
    a, b = problem.a.hundredths, problem.b.hundredths
    point = problem.a.point or problem.b.point
    match problem.op:
        case Operation.ADD:
            return Number(a + b, point)
        case Operation.SUB:
            return Number(a - b, point)
        case Operation.MUL:
            return Number(divide_half_even(a * b, 100), point)
        case Operation.DIV:
            return Number(divide_half_even(100 * a, b), True) if b else None
