"""The characters of many numbers at once, written into a matrix that has one line a row.

A number is turned into one integer in which a 0 stands for the point. Its digits are looked up four
at a time, in a table that has the point where it belongs; the minus sign is put in afterwards.

Problems by the hundred thousand: what `arithmetic` and `notation` do, on whole arrays.

`render_lines` writes, byte for byte, what `notation.render` writes one problem at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datagen import arithmetic, notation
from datagen.arithmetic import Number, Operation, Problem

POWERS_OF_TEN = 10 ** np.arange(19, dtype=np.int64)

# By hundredths (0..99) of a number without a point, then (100..199) of one with a point:
_FRACTION = np.tile(np.arange(100), 2)
_PLACES = np.repeat([0, 2], 100) - ((np.arange(200) >= 100) & (_FRACTION % 10 == 0))
_SCALE = np.array([1, 100, 1000])[_PLACES]  # what makes room for the point and the places
_TAIL = _FRACTION // np.array([100, 10, 1])[_PLACES]
_SHORTEST = np.array([1, 3, 4])  # characters of the shortest number with that many places


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What n numbers look like; each of shape (n,). `digits` are those of the magnitude, with a 0
    for the point, as one integer."""

    digits: NDArray[np.int64]
    places: NDArray[np.int64]
    negative: NDArray[np.bool_]

    @classmethod
    def of(cls, hundredths: NDArray[np.int64], point: NDArray[np.bool_]) -> "Figures":
        """The figures of numbers below 2**63 / 10 in magnitude."""
        magnitude = np.abs(hundredths)
        whole = magnitude // 100
        code = magnitude - 100 * whole + 100 * point
        digits = whole * _SCALE.take(code) + _TAIL.take(code)
        return cls(digits, _PLACES.take(code), hundredths < 0)

    def lengths(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """How many characters the numbers of these rows have, not counting a minus sign."""
        significant = np.searchsorted(POWERS_OF_TEN, self.digits.take(rows), side="right")
        lengths: NDArray[np.int64] = np.maximum(significant, _SHORTEST.take(self.places.take(rows)))
        return lengths

    def too_wide(self) -> NDArray[np.intp]:
        """The rows whose numbers need more than `notation.WIDTH` characters."""
        limit, limit_if_negative = POWERS_OF_TEN[[notation.WIDTH, notation.WIDTH - 1]]
        if self.digits.max(initial=0) < limit_if_negative:
            return np.empty(0, np.intp)
        wide = (self.digits >= limit) | (self.negative & (self.digits >= limit_if_negative))
        return np.flatnonzero(wide)


def write_operands(
    lines: NDArray[np.uint8], column: int, hundredths: NDArray[np.int64], point: NDArray[np.bool_]
) -> None:
    """Write padded operands in the `notation.WIDTH` columns from `column` on, which hold zeros.

    NotationError if one is too wide.
    """
    if hundredths.min(initial=0) >= 0 and hundredths.max(initial=0) <= _COMMON:
        _put(lines, column + 2, _COMMON_TEXT.take(hundredths + (_COMMON + 1) * point))
        return
    figures = Figures.of(hundredths, point)
    for row in figures.too_wide()[:1]:
        notation.operand_field(Number(int(hundredths[row]), bool(point[row])))  # raises
    upper = figures.digits // 10_000
    top = upper // 10_000
    _put(lines, column, _TWO_DIGITS.take(top))
    _put(lines, column + 2, _FOUR_DIGITS.take(upper - 10_000 * top))
    lowest = figures.digits - 10_000 * upper
    _put(lines, column + 6, _FOUR_DIGITS.take(lowest + 10_000 * figures.places))
    negative = np.flatnonzero(figures.negative)
    lines[negative, column + notation.WIDTH - 1 - figures.lengths(negative)] = ord("-")


def write_reversed(lines: NDArray[np.uint8], column: int, width: int, figures: Figures) -> None:
    """Write reversed numbers in `width` columns (a multiple of 4, or 2 more), zeros after them."""
    upper = figures.digits // 10_000
    lowest = figures.digits - 10_000 * upper
    _put(lines, column, _FOUR_REVERSED.take(lowest + 10_000 * figures.places))
    for start in range(4, width - 3, 4):
        rest, upper = upper, upper // 10_000
        _put(lines, column + start, _FOUR_REVERSED.take(rest - 10_000 * upper))
    if width % 4:
        _put(lines, column + width - 2, _TWO_REVERSED.take(upper))
    negative = np.flatnonzero(figures.negative)
    lines[negative, column + figures.lengths(negative)] = ord("-")


def _put(lines: NDArray[np.uint8], column: int, text: NDArray[Any]) -> None:
    """Write, from `column` on, the characters that each item of `text`, (n,), is made of."""
    lines[:, column : column + text.itemsize].view(text.dtype)[:, 0] = text


def _four_digits() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Four characters in one item: at index v, the digits of v; at 10000 * p + v, the same with a
    point instead of the digit that p others follow. Forwards, and reversed."""
    digits = np.frombuffer("".join(f"{v:04}" for v in range(10_000)).encode(), np.uint8)
    tables = np.stack([digits.reshape(10_000, 4)] * 3)
    tables[1, :, -2] = tables[2, :, -3] = ord(".")
    backwards = np.ascontiguousarray(tables[:, :, ::-1])
    return tables.view(np.uint32).ravel(), backwards.view(np.uint32).ravel()


def _common_text() -> NDArray[np.uint64]:
    """Eight characters in one item: at index h, the number of h hundredths without a point (if it
    is whole), at _COMMON + 1 + h with one. Numbers up to 1000 are looked up as a whole."""
    hundredths = np.tile(np.arange(_COMMON + 1), 2)
    figures = Figures.of(hundredths, np.repeat([False, True], _COMMON + 1))
    upper = figures.digits // 10_000
    text = np.empty((len(hundredths), 2), np.uint32)
    text[:, 0] = _FOUR_DIGITS[upper]
    text[:, 1] = _FOUR_DIGITS[figures.digits - 10_000 * upper + 10_000 * figures.places]
    return text.view(np.uint64)[:, 0]


_FOUR_DIGITS, _FOUR_REVERSED = _four_digits()
_TWO_DIGITS = _FOUR_DIGITS.view(np.uint16)[1:200:2].copy()
_TWO_REVERSED = _FOUR_REVERSED.view(np.uint16)[0:200:2].copy()
_COMMON = 100_000
_COMMON_TEXT = _common_text()


OPERATIONS = tuple(Operation)  # an operation's code is its index here
ADD, SUB, MUL, DIV = range(4)

_CHUNK = 32_768  # problems rendered at a time, so that the columns stay in the cache


@dataclass(frozen=True, slots=True, eq=False)
class ProblemArray:
    """n problems as columns, each of shape (n,): operands in hundredths and whether they have a
    point, and the operation's code (its index in OPERATIONS)."""

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
        """The columns of a list of problems (OverflowError if an operand exceeds 64 bits)."""
        return cls(
            np.array([p.a.hundredths for p in problems], np.int64),
            np.array([p.a.point for p in problems], np.bool_),
            np.array([OPERATIONS.index(p.op) for p in problems], np.uint8),
            np.array([p.b.hundredths for p in problems], np.int64),
            np.array([p.b.point for p in problems], np.bool_),
        )

    def to_problems(self) -> list[Problem]:
        """The same problems one by one."""
        columns = (self.a, self.a_point, self.op, self.b, self.b_point)
        return [
            Problem(Number(a, a_point), OPERATIONS[op], Number(b, b_point))
            for a, a_point, op, b, b_point in zip(*(c.tolist() for c in columns), strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class AnswerArray:
    """n answers as columns of shape (n,). Where `nan`, the others are 0 and False.

    `hundredths` is int64, or Python integers (dtype object) if one of them could exceed 64 bits.
    """

    hundredths: NDArray[Any]
    point: NDArray[np.bool_]
    nan: NDArray[np.bool_]


def answers(problems: ProblemArray) -> AnswerArray:
    """The exact answers, as `arithmetic.answer` gives them."""
    is_division = problems.op == DIV
    nan = is_division & (problems.b == 0)
    point = (is_division | problems.a_point | problems.b_point) & ~nan
    large = _large_rows(problems)
    if not len(large):
        return AnswerArray(_answers_int64(problems), point, nan)
    others = np.delete(np.arange(len(problems)), large)
    hundredths = np.empty(len(problems), object)
    hundredths[others] = _answers_int64(problems.take(others))
    exact = [arithmetic.answer(problem) for problem in problems.take(large).to_problems()]
    hundredths[large] = [value.hundredths if value else 0 for value in exact]
    return AnswerArray(hundredths, point, nan)


def render_lines(problems: ProblemArray) -> bytes:
    """One problem a line, each ended by a newline, in ASCII.

    NotationError if an operand needs more than `notation.WIDTH` characters.
    """
    chunks = (problems[i : i + _CHUNK] for i in range(0, len(problems), _CHUNK))
    return b"".join(_render_chunk(chunk) for chunk in chunks)


def _large_rows(problems: ProblemArray) -> NDArray[np.intp]:
    """The rows in which something might exceed 64 bits. They are left to Python's integers."""
    operands = (problems.a, problems.b)
    if all(x.min(initial=0) > -(2**31) and x.max(initial=0) < 2**31 for x in operands):
        return np.empty(0, np.intp)  # even a product is below 2**62
    a, b = (np.abs(x).astype(np.uint64) for x in operands)
    product = (problems.op == MUL) & (a > 2**62 // np.maximum(b, 1))
    return np.flatnonzero(product | (np.maximum(a, b) >= 2**50))


def _answers_int64(problems: ProblemArray) -> NDArray[np.int64]:
    """The answers in hundredths, 0 for nan; (n,). Nothing in `problems` exceeds 64 bits."""
    a, op, b = problems.a, problems.op, problems.b
    hundredths: NDArray[np.int64] = a + b * (1 - 2 * (op == SUB))
    rows = np.flatnonzero(op == MUL)
    hundredths[rows] = _divide_half_even(a.take(rows) * b.take(rows), 100)
    rows = np.flatnonzero(op == DIV)
    divisors = b.take(rows)
    by_zero = divisors == 0
    quotients = _divide_half_even(100 * a.take(rows), divisors + by_zero)
    hundredths[rows] = quotients * ~by_zero
    return hundredths


def _divide_half_even(
    numerator: NDArray[np.int64], denominator: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    """numerator / denominator to the nearest integer, ties to even; (n,)."""
    numerator, denominator = numerator * np.sign(denominator), np.abs(denominator)
    quotient = numerator // denominator
    excess = 2 * (numerator - quotient * denominator) - denominator
    # Up where more than half remains, or exactly half of an odd quotient.
    rounded: NDArray[np.int64] = quotient + (excess + (quotient & 1) > 0)
    return rounded


def _render_chunk(problems: ProblemArray) -> bytes:
    """The lines of a few thousand problems; those beyond 64 bits are rendered one by one."""
    large = _large_rows(problems)
    if not len(large):
        return _render_int64(problems)
    others = np.delete(np.arange(len(problems)), large)
    lines = np.empty(len(problems), object)
    lines[others] = _render_int64(problems.take(others)).splitlines(keepends=True)
    one_by_one = (notation.render(problem) for problem in problems.take(large).to_problems())
    lines[large] = [f"{line}\n".encode() for line in one_by_one]
    return b"".join(lines)


def _render_int64(problems: ProblemArray) -> bytes:
    """The lines of problems of which nothing exceeds 64 bits."""
    exact = answers(problems)
    figures = Figures.of(exact.hundredths, exact.point)
    long = figures.too_wide()
    lines = (_LONG_TEMPLATES if len(long) else _TEMPLATES).take(problems.op, axis=0)
    write_operands(lines, _A_AT, problems.a, problems.a_point)
    write_operands(lines, _B_AT, problems.b, problems.b_point)
    write_reversed(lines, _ANSWER_AT, lines.shape[1] - _ANSWER_AT - 2, figures)
    nan = np.flatnonzero(exact.nan)
    lines[nan, _ANSWER_AT : _ANSWER_AT + 3] = np.frombuffer(b"nan", np.uint8)
    if not len(long):
        return lines.tobytes()
    ends = np.full(len(problems), _ANSWER_AT + notation.WIDTH)
    ends[long] = _ANSWER_AT + figures.lengths(long) + figures.negative[long]
    rows = np.arange(len(problems))
    lines[rows, ends], lines[rows, ends + 1] = b"$\n"
    return lines[np.arange(lines.shape[1]) < ends[:, None] + 2].tobytes()


def _templates(answer_length: int) -> NDArray[np.uint8]:
    """For each operation, a line in which every digit is 0; (4, length)."""
    zeros = notation.WIDTH * "0"
    lines = "".join(f"$({zeros}{op}{zeros})={answer_length * '0'}$\n" for op in OPERATIONS)
    return np.frombuffer(lines.encode(), np.uint8).reshape(len(OPERATIONS), -1)


_A_AT, _B_AT, _ANSWER_AT = 2, 3 + notation.WIDTH, notation.PROMPT_LENGTH
_TEMPLATES = _templates(notation.WIDTH)
_LONG_TEMPLATES = _templates(20)  # no 64-bit number is longer
