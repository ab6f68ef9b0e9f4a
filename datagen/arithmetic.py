"""Exact decimal arithmetic, for one problem or for arrays. It uses no floats.

Shapes: n is the number of problems in an array.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcgpt.base.errors import DataError, check_integer, check_types, shown
from datagen.operations import OPERATIONS, Operation

POWERS_OF_TEN = 10 ** np.arange(19, dtype=np.int64)
MAX_PLACES = 9_999  # of a number, and of an answer
MAX_ASKED_PLACES = 30  # of an answer that a user asks for
DRAWN_PLACES = 9  # the most that the distributions draw
USUAL_PLACES = 2  # of an answer, where a question does not say
MAX_INT64 = 2**63 - 1
_UNIT = 10**USUAL_PLACES

ADD, SUB, MUL, DIV = range(4)  # codes of operations in arrays


@dataclass(frozen=True, slots=True)
class Number:
    """The exact decimal `units / 10**places`, as Python prints it.

    With 0 places it is whole and has no point (`5`). Otherwise it has one, and no trailing zero
    beyond the first place: `5.0` is (50, 1). Raises DataError for other trailing zeros, or unless
    0 <= places <= MAX_PLACES.
    """

    units: int
    places: int = 0

    def __post_init__(self) -> None:
        check_integer("places", self.places, 0, MAX_PLACES)
        if type(self.units) is not int:
            check_types(units=(self.units, Integral))
        if self.places > 1 and self.units % 10 == 0:
            raise DataError(
                f"{shown(self.units)} units with {self.places} places: superfluous zeros"
            )

    @classmethod
    def from_units(cls, units: int, places: int, point: bool) -> "Number":
        """Returns the number `units / 10**places`, written with a point or without one.

        Raises ValueError if it has no point but is not whole, and DataError if it has more than
        MAX_PLACES places.
        """
        if not point:
            whole, rest = divmod(units, 10**places)
            if rest:
                raise ValueError(f"{units} / 10**{places} cannot be written without a point")
            return cls(whole)
        if places == 0:
            return cls(10 * units, 1)
        if places > 1 and units % 10 == 0:
            digits = integer_text(units)
            zeros = places - 1 if not units else len(digits) - len(digits.rstrip("0"))
            zeros = min(zeros, places - 1)
            units, places = units // 10**zeros, places - zeros
        return cls(units, places)

    @property
    def point(self) -> bool:
        """Whether the number is written with a decimal point."""
        return self.places > 0

    def scaled(self, places: int) -> int:
        """Returns the value in units of 10**-places. Raises ValueError if that is not exact."""
        factor: int = 10 ** abs(places - self.places)
        if places >= self.places:
            return self.units * factor
        units, rest = divmod(self.units, factor)
        if rest:
            raise ValueError(f"{self.units} / 10**{self.places} has more than {places} places")
        return units


@dataclass(frozen=True, slots=True)
class Problem:
    """One binary operation on two numbers, and the number of places of the answer.

    Raises DataError unless 0 <= places <= MAX_PLACES.
    """

    a: Number
    op: Operation
    b: Number
    places: int = USUAL_PLACES

    def __post_init__(self) -> None:
        if not (type(self.a) is type(self.b) is Number and type(self.op) is Operation):
            check_types(a=(self.a, Number), op=(self.op, Operation), b=(self.b, Number))
        check_integer("places", self.places, 0, MAX_PLACES)


def integer_text(value: int) -> str:
    """Returns an integer in decimal digits. `str` refuses more than 4,300 of them."""
    return str(Decimal(value))


def integer_from_text(text: str) -> int:
    """Inverts `integer_text`. `int` refuses more than 4,300 digits."""
    return int(Decimal(text))


def divide_half_even(numerator: int, denominator: int) -> int:
    """Returns numerator / denominator rounded to an integer, ties to even."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, remainder = divmod(numerator, denominator)
    excess = 2 * remainder - denominator
    return quotient + (excess > 0 or (excess == 0 and quotient % 2 == 1))


def answer(problem: Problem) -> Number | None:
    """Returns the exact answer rounded to the problem's places, ties to even. Dividing by zero
    gives None.

    The answer has no point if it is rounded to 0 places, or if neither operand has one and the
    operation is not a division.
    """
    if problem.op.divides and not problem.b.units:
        return None
    numerator, denominator = _exact(problem)
    if not (problem.a.places or problem.b.places or problem.op.has_point):
        return Number(numerator)
    units = divide_half_even(numerator * 10**problem.places, denominator)
    return Number.from_units(units, problem.places, point=problem.places > 0)


def is_rounded(problem: Problem) -> bool:
    """Whether the answer differs from the exact result. False for a division by zero."""
    if problem.op.divides and not problem.b.units:
        return False
    numerator, denominator = _exact(problem)
    return bool(numerator * 10**problem.places % denominator)


def _exact(problem: Problem) -> tuple[int, int]:
    places = max(problem.a.places, problem.b.places)
    a, b = problem.a.scaled(places), problem.b.scaled(places)
    numerator, denominator = problem.op.exact(a, b, 10**places)
    return numerator, denominator


COLUMNS = ("a", "a_point", "op", "b", "b_point", "places")  # of a ProblemArray


@dataclass(frozen=True, slots=True, eq=False)
class ProblemArray:
    """n problems as columns of shape (n,).

    Operands are in units of 10**-scale, of the type int64, or object (Python integers) if one
    or 10**scale exceeds 64 bits. An operation is its index in OPERATIONS. `places` are the places
    of the answers; a single number applies to all of them. Raises ValueError unless
    2 <= scale <= MAX_PLACES.
    """

    a: NDArray[Any]
    a_point: NDArray[np.bool_]
    op: NDArray[np.uint8]
    b: NDArray[Any]
    b_point: NDArray[np.bool_]
    places: NDArray[np.uint16] = field(default_factory=lambda: np.array(USUAL_PLACES, np.uint16))
    scale: int = USUAL_PLACES

    def __post_init__(self) -> None:
        if not USUAL_PLACES <= self.scale <= MAX_PLACES:
            raise ValueError(f"scale must be from 2 to {MAX_PLACES}, not {self.scale}")
        object.__setattr__(self, "places", np.broadcast_to(self.places, self.op.shape))
        if self.scale >= len(POWERS_OF_TEN):
            for name in ("a", "b"):
                object.__setattr__(self, name, getattr(self, name).astype(object))

    def __len__(self) -> int:
        return len(self.op)

    def __getitem__(self, rows: slice) -> "ProblemArray":
        """The problems of a slice, without copying them."""
        return self._map_columns(lambda column: column[rows])

    def take(self, rows: NDArray[np.intp]) -> "ProblemArray":
        """The problems at these indices."""
        return self._map_columns(lambda column: column.take(rows))

    def _map_columns(self, select: Callable[[NDArray[Any]], NDArray[Any]]) -> "ProblemArray":
        columns = {name: select(getattr(self, name)) for name in COLUMNS}
        return ProblemArray(**columns, scale=self.scale)

    @classmethod
    def from_problems(cls, problems: Sequence[Problem]) -> "ProblemArray":
        """Returns the problems as columns, with the smallest scale that holds all operands."""
        places = [number.places for p in problems for number in (p.a, p.b)]
        scale = max(USUAL_PLACES, *places) if places else USUAL_PLACES
        return cls(
            _integers([p.a.scaled(scale) for p in problems]),
            np.array([p.a.point for p in problems], np.bool_),
            np.array([OPERATIONS.index(p.op) for p in problems], np.uint8),
            _integers([p.b.scaled(scale) for p in problems]),
            np.array([p.b.point for p in problems], np.bool_),
            np.array([p.places for p in problems], np.uint16),
            scale,
        )

    def to_problems(self) -> list[Problem]:
        """Returns the problems one by one."""
        return [
            Problem(
                Number.from_units(a, self.scale, a_point),
                OPERATIONS[op],
                Number.from_units(b, self.scale, b_point),
                places,
            )
            for a, a_point, op, b, b_point, places in zip(
                *(getattr(self, name).tolist() for name in COLUMNS), strict=True
            )
        ]

    def to_scale(self, scale: int) -> "ProblemArray":
        """Returns the problems with another scale. Raises ValueError if that is not exact."""
        if scale == self.scale and self.a.dtype != object and self.b.dtype != object:
            return self
        a, b = (_rescale(x, scale - self.scale) for x in (self.a, self.b))
        return replace(self, a=a, b=b, scale=scale)


def concatenate(parts: Sequence[ProblemArray]) -> ProblemArray:
    """Returns the problems of one or more arrays as one. Their scales may differ."""
    scale = max(part.scale for part in parts)
    parts = [part.to_scale(scale) for part in parts]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    return ProblemArray(**columns, scale=scale)


def _integers(values: Sequence[int]) -> NDArray[Any]:
    """Returns an array of int64, or of Python integers if one exceeds 64 bits."""
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array(values, object)


def _rescale(values: NDArray[Any], places: int) -> NDArray[Any]:
    """Returns values times 10**places. Raises ValueError if they are not whole."""
    factor = 10 ** abs(places)
    if places < 0:
        if np.any(values % factor):
            raise ValueError("an operand has more places than the new scale")
        values = values // factor
    elif values.dtype != object and (
        factor > MAX_INT64
        or values.max(initial=0) > MAX_INT64 // factor
        or values.min(initial=0) < -MAX_INT64 // factor
    ):
        values = values.astype(object) * factor
    else:
        values = values * factor
    return values if values.dtype != object else _integers(values.tolist())


@dataclass(frozen=True, slots=True, eq=False)
class AnswerArray:
    """n answers as columns of shape (n,). Where `nan` is True, `units` is 0 and `point` is False.

    `units` are in 10**-scale. They have the type int64, or object (Python integers) if a number has
    more than two places, an answer has other than two, or a value could exceed 64 bits.
    """

    units: NDArray[Any]
    point: NDArray[np.bool_]
    nan: NDArray[np.bool_]
    scale: int = USUAL_PLACES


def answers(problems: ProblemArray) -> AnswerArray:
    """Returns the answers that `answer` gives, for an array."""
    nan = _attribute("divides", problems) & np.asarray(problems.b == 0, np.bool_)
    point = _attribute("has_point", problems) | problems.a_point | problems.b_point
    point &= ~nan & (problems.places > 0)
    slow = slow_rows(problems)
    if not len(slow):
        return AnswerArray(_answers_int64(problems.to_scale(USUAL_PLACES)), point, nan)
    fast = np.delete(np.arange(len(problems)), slow)
    slow_answers = [answer(problem) for problem in problems.take(slow).to_problems()]
    scale = max(USUAL_PLACES, int(problems.places.max()))
    units = np.empty(len(problems), object)
    hundredths = _answers_int64(problems.take(fast).to_scale(USUAL_PLACES))
    units[fast] = hundredths.astype(object) * 10 ** (scale - USUAL_PLACES)
    units[slow] = [value.scaled(scale) if value else 0 for value in slow_answers]
    return AnswerArray(units, point, nan, scale)


def _attribute(name: str, problems: ProblemArray) -> NDArray[np.bool_]:
    """Returns whether the operation of each problem has an attribute, (n,)."""
    values = np.array([getattr(operation, name) for operation in OPERATIONS], np.bool_)
    return values.take(problems.op)


def slow_rows(problems: ProblemArray) -> NDArray[np.intp]:
    """Returns the rows that are computed one by one, with Python's integers.

    In these rows, an operand has more than two places, the answer has other than two, or a value
    might exceed 64 bits.
    """
    slow = problems.places != USUAL_PLACES
    a, b = problems.a, problems.b
    if problems.scale != USUAL_PLACES or a.dtype == object or b.dtype == object:
        factor = 10 ** (problems.scale - USUAL_PLACES)
        for operand in (a, b):
            slow |= (np.abs(operand) >= 2**50 * factor) | (operand % factor != 0)
        a, b = (np.where(slow, 0, x // factor).astype(np.int64) for x in (a, b))
    if all(x.min(initial=0) > -(2**31) and x.max(initial=0) < 2**31 for x in (a, b)):
        return np.flatnonzero(slow)  # even a product is below 2**62
    a, b = (np.abs(x).astype(np.uint64) for x in (a, b))
    large = _attribute("grows", problems) & (a > 2**62 // np.maximum(b, 1))
    return np.flatnonzero(slow | large | (np.maximum(a, b) >= 2**50))


def _answers_int64(problems: ProblemArray) -> NDArray[np.int64]:
    """Returns the answers in hundredths, (n,), 0 for nan. No value may exceed 64 bits."""
    hundredths = np.empty(len(problems), np.int64)
    for code, operation in enumerate(OPERATIONS):
        rows = np.flatnonzero(problems.op == code)
        a, b = problems.a.take(rows), problems.b.take(rows)
        is_nan = (b == 0) & operation.divides
        numerator, denominator = operation.exact(a, b + is_nan, _UNIT)
        if isinstance(denominator, int):  # one or more hundredths
            scale = denominator // _UNIT
            results = _divide_half_even_int64(numerator, scale) if scale > 1 else numerator
        else:
            results = _divide_half_even_int64(_UNIT * numerator, denominator)
        hundredths[rows] = results * ~is_nan
    return hundredths


def _divide_half_even_int64(
    numerator: NDArray[np.int64], denominator: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    """The same as `divide_half_even`, for arrays of shape (n,)."""
    numerator, denominator = numerator * np.sign(denominator), np.abs(denominator)
    quotient = numerator // denominator
    excess = 2 * (numerator - quotient * denominator) - denominator
    # Up where more than half remains, or exactly half of an odd quotient.
    rounded: NDArray[np.int64] = quotient + (excess + (quotient & 1) > 0)
    return rounded
