"""Exact decimal arithmetic with two places, for one problem or for arrays. It uses no floats.

Shapes: n is the number of problems in an array.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

POWERS_OF_TEN = 10 ** np.arange(19, dtype=np.int64)


class Operation(enum.StrEnum):
    """The four operations. Their order here is their code in arrays."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"


OPERATIONS = tuple(Operation)  # an operation's code is its index
ADD, SUB, MUL, DIV = range(4)


@dataclass(frozen=True, slots=True)
class Number:
    """An exact decimal with at most two places.

    `point` says whether the number is written with a decimal point, as Python writes the float
    `5.0` and the int `5`. Raises ValueError for a number without a point that is not whole.
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
    """Returns numerator / denominator rounded to an integer, ties to even."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, remainder = divmod(numerator, denominator)
    excess = 2 * remainder - denominator
    return quotient + (excess > 0 or (excess == 0 and quotient % 2 == 1))


def answer(problem: Problem) -> Number | None:
    """Returns the exact answer rounded to two places, ties to even. Dividing by zero gives None.

    The answer has no point if neither operand has one and the operation is not a division.
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


@dataclass(frozen=True, slots=True, eq=False)
class ProblemArray:
    """n problems as columns of shape (n,).

    Operands are in hundredths. An operation is its index in OPERATIONS.
    """

    a: NDArray[np.int64]
    a_point: NDArray[np.bool_]
    op: NDArray[np.uint8]
    b: NDArray[np.int64]
    b_point: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.op)

    def __getitem__(self, rows: slice) -> "ProblemArray":
        """The problems of a slice, without copying them."""
        return ProblemArray(
            self.a[rows], self.a_point[rows], self.op[rows], self.b[rows], self.b_point[rows]
        )

    def take(self, rows: NDArray[np.intp]) -> "ProblemArray":
        """The problems at these indices."""
        return ProblemArray(
            self.a.take(rows),
            self.a_point.take(rows),
            self.op.take(rows),
            self.b.take(rows),
            self.b_point.take(rows),
        )

    @classmethod
    def from_problems(cls, problems: Sequence[Problem]) -> "ProblemArray":
        """Raises OverflowError if an operand exceeds 64 bits."""
        return cls(
            np.array([p.a.hundredths for p in problems], np.int64),
            np.array([p.a.point for p in problems], np.bool_),
            np.array([OPERATIONS.index(p.op) for p in problems], np.uint8),
            np.array([p.b.hundredths for p in problems], np.int64),
            np.array([p.b.point for p in problems], np.bool_),
        )

    def to_problems(self) -> list[Problem]:
        """Returns the problems one by one."""
        columns = (self.a, self.a_point, self.op, self.b, self.b_point)
        return [
            Problem(Number(a, a_point), OPERATIONS[op], Number(b, b_point))
            for a, a_point, op, b, b_point in zip(*(c.tolist() for c in columns), strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class AnswerArray:
    """n answers as columns of shape (n,). Where `nan` is True, the others are 0 and False.

    `hundredths` has the type int64, or object (Python integers) if one could exceed 64 bits.
    """

    hundredths: NDArray[Any]
    point: NDArray[np.bool_]
    nan: NDArray[np.bool_]


def answers(problems: ProblemArray) -> AnswerArray:
    """Returns the answers that `answer` gives, for an array."""
    is_division = problems.op == DIV
    nan = is_division & (problems.b == 0)
    point = (is_division | problems.a_point | problems.b_point) & ~nan
    large = large_rows(problems)
    if not len(large):
        return AnswerArray(_answers_int64(problems), point, nan)
    others = np.delete(np.arange(len(problems)), large)
    hundredths = np.empty(len(problems), object)
    hundredths[others] = _answers_int64(problems.take(others))
    exact = [answer(problem) for problem in problems.take(large).to_problems()]
    hundredths[large] = [value.hundredths if value else 0 for value in exact]
    return AnswerArray(hundredths, point, nan)


def large_rows(problems: ProblemArray) -> NDArray[np.intp]:
    """Returns the rows in which a value might exceed 64 bits. Python's integers compute them."""
    operands = (problems.a, problems.b)
    if all(x.min(initial=0) > -(2**31) and x.max(initial=0) < 2**31 for x in operands):
        return np.empty(0, np.intp)  # even a product is below 2**62
    a, b = (np.abs(x).astype(np.uint64) for x in operands)
    product = (problems.op == MUL) & (a > 2**62 // np.maximum(b, 1))
    return np.flatnonzero(product | (np.maximum(a, b) >= 2**50))


def _answers_int64(problems: ProblemArray) -> NDArray[np.int64]:
    """Returns the answers in hundredths, (n,), 0 for nan. No value may exceed 64 bits."""
    a, op, b = problems.a, problems.op, problems.b
    hundredths: NDArray[np.int64] = a + b * (1 - 2 * (op == SUB))
    rows = np.flatnonzero(op == MUL)
    hundredths[rows] = _divide_half_even_int64(a.take(rows) * b.take(rows), 100)
    rows = np.flatnonzero(op == DIV)
    divisors = b.take(rows)
    by_zero = divisors == 0
    quotients = _divide_half_even_int64(100 * a.take(rows), divisors + by_zero)
    hundredths[rows] = quotients * ~by_zero
    return hundredths


def _divide_half_even_int64(
    numerator: NDArray[np.int64], denominator: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    """Does what `divide_half_even` does, for arrays of shape (n,)."""
    numerator, denominator = numerator * np.sign(denominator), np.abs(denominator)
    quotient = numerator // denominator
    excess = 2 * (numerator - quotient * denominator) - denominator
    # Up where more than half remains, or exactly half of an odd quotient.
    rounded: NDArray[np.int64] = quotient + (excess + (quotient & 1) > 0)
    return rounded
