"""Problems by the hundred thousand: what `arithmetic` and `notation` do, on whole arrays.

`render_lines` writes, byte for byte, what `notation.render` writes one problem at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datagen import arithmetic, notation
from datagen.arithmetic import Number, Operation, Problem

OPERATIONS = tuple(Operation)  # an operation's code is its index here
ADD, SUB, MUL, DIV = range(4)

_OPERATION_BYTES = np.frombuffer("".join(OPERATIONS).encode(), np.uint8)
_ANSWER_AT = notation.PROMPT_LENGTH
_CHUNK = 16_384  # problems rendered at a time, so that the columns stay in the processor's cache


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

    def __getitem__(self, rows: slice | NDArray[Any]) -> "ProblemArray":
        """The problems of a slice, of an index array or of a boolean mask."""
        return ProblemArray(
            self.a[rows], self.a_point[rows], self.op[rows], self.b[rows], self.b_point[rows]
        )

    @classmethod
    def concatenate(cls, parts: "Sequence[ProblemArray]") -> "ProblemArray":
        """The problems of all parts (at least one), in order."""
        return cls(
            np.concatenate([part.a for part in parts]),
            np.concatenate([part.a_point for part in parts]),
            np.concatenate([part.op for part in parts]),
            np.concatenate([part.b for part in parts]),
            np.concatenate([part.b_point for part in parts]),
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
    large = _exceeds_int64(problems)
    if not large.any():
        return AnswerArray(_answers_int64(problems), point, nan)
    hundredths = np.empty(len(problems), object)
    hundredths[~large] = _answers_int64(problems[~large])
    exact = [arithmetic.answer(problem) for problem in problems[large].to_problems()]
    hundredths[large] = [value.hundredths if value else 0 for value in exact]
    return AnswerArray(hundredths, point, nan)


def render_lines(problems: ProblemArray) -> bytes:
    """One problem a line, each ended by a newline, in ASCII.

    NotationError if an operand needs more than `notation.WIDTH` characters.
    """
    chunks = (problems[i : i + _CHUNK] for i in range(0, len(problems), _CHUNK))
    return b"".join(_render_chunk(chunk) for chunk in chunks)


def _exceeds_int64(problems: ProblemArray) -> NDArray[np.bool_]:
    """Where an intermediate result may not fit 64 bits; (n,). Rare, so left to Python integers."""
    a, b = (np.abs(x).astype(np.uint64) for x in (problems.a, problems.b))
    operands = np.maximum(a, b)
    if operands.max(initial=0) < 2**31:  # then even a product is below 2**62
        return np.zeros(len(problems), np.bool_)
    product = (problems.op == MUL) & (a > 2**62 // np.maximum(b, 1))
    return np.asarray(product | (operands >= 2**50))


def _answers_int64(problems: ProblemArray) -> NDArray[np.int64]:
    """The answers in hundredths, 0 for nan; (n,). Nothing in `problems` exceeds 64 bits."""
    hundredths = np.empty(len(problems), np.int64)
    for code in (ADD, SUB, MUL, DIV):
        rows = np.flatnonzero(problems.op == code)
        a, b = problems.a[rows], problems.b[rows]
        if code == ADD:
            hundredths[rows] = a + b
        elif code == SUB:
            hundredths[rows] = a - b
        elif code == MUL:
            hundredths[rows] = _divide_half_even(a * b, 100)
        else:
            quotients = _divide_half_even(100 * a, np.where(b == 0, 1, b))
            hundredths[rows] = np.where(b == 0, 0, quotients)
    return hundredths


def _divide_half_even(
    numerator: NDArray[np.int64], denominator: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    """numerator / denominator to the nearest integer, ties to even; (n,)."""
    sign = np.sign(denominator)
    numerator, denominator = numerator * sign, denominator * sign
    quotient = numerator // denominator
    excess = 2 * (numerator - quotient * denominator) - denominator
    # Up where more than half remains, or exactly half of an odd quotient.
    return np.add(quotient, excess + (quotient & 1) > 0, dtype=np.int64)


def _render_chunk(problems: ProblemArray) -> bytes:
    """The lines of a few thousand problems; those beyond 64 bits are rendered one by one."""
    large = _exceeds_int64(problems)
    if not large.any():
        return _render_int64(problems)
    lines = np.empty(len(problems), object)
    lines[~large] = _render_int64(problems[~large]).splitlines(keepends=True)
    one_by_one = (notation.render(problem) for problem in problems[large].to_problems())
    lines[large] = [f"{line}\n".encode() for line in one_by_one]
    return b"".join(lines)


# The rest writes a matrix of characters, one row a line. A number is turned into one integer in
# which a 0 stands for the point; its digits are looked up four at a time, in a table that has
# the point in the right place; the rare minus signs are put in afterwards.


def _tables() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Four digits as four characters in one uint32: at index v, the digits of v; at 10000 * p + v,
    the same with a point in place of the digit that p others follow. Forwards and reversed."""
    digits = np.frombuffer("".join(f"{v:04}" for v in range(10_000)).encode(), np.uint8)
    tables = np.stack([digits.reshape(10_000, 4)] * 3)
    tables[1, :, -2] = tables[2, :, -3] = ord(".")
    reverse = np.ascontiguousarray(tables[:, :, ::-1])
    return tables.view(np.uint32).ravel(), reverse.view(np.uint32).ravel()


_FORWARD, _REVERSE = _tables()
_POWERS_OF_TEN = 10 ** np.arange(19, dtype=np.int64)

# By hundredths (0..99) of a number without a point, then (100..199) of one with a point:
_FRACTION = np.tile(np.arange(100), 2)
_PLACES = np.repeat([0, 2], 100) - ((np.arange(200) >= 100) & (_FRACTION % 10 == 0))
_SCALE = np.array([1, 100, 1000])[_PLACES]  # what makes room for the point and the places
_TAIL = _FRACTION // np.array([100, 10, 1])[_PLACES]
_SHORTEST = np.array([1, 3, 4])  # characters of the shortest number with that many places


@dataclass(frozen=True, slots=True, eq=False)
class _Figures:
    """What n numbers look like; each (n,). `digits` are those of the magnitude, with a 0 for the
    point, as one integer."""

    digits: NDArray[np.int64]
    places: NDArray[np.int64]
    negative: NDArray[np.bool_]

    @classmethod
    def of(cls, hundredths: NDArray[np.int64], point: NDArray[np.bool_]) -> "_Figures":
        magnitude = np.abs(hundredths)
        whole = magnitude // 100
        code = magnitude - 100 * whole + 100 * point
        return cls(whole * _SCALE[code] + _TAIL[code], _PLACES[code], hundredths < 0)

    def lengths(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """How many characters the numbers of these rows have, not counting a minus sign."""
        significant = np.searchsorted(_POWERS_OF_TEN, self.digits[rows], side="right")
        return np.maximum(significant, _SHORTEST[self.places[rows]])

    def too_wide(self) -> NDArray[np.bool_]:
        """Where the number needs more than `notation.WIDTH` characters."""
        limits = _POWERS_OF_TEN[[notation.WIDTH, notation.WIDTH - 1]]
        return np.asarray(self.digits >= limits[self.negative.view(np.uint8)])


def _render_int64(problems: ProblemArray) -> bytes:
    """The lines of problems of which nothing exceeds 64 bits."""
    exact = answers(problems)
    figures = _Figures.of(exact.hundredths, exact.point)
    long = np.flatnonzero(figures.too_wide())
    groups = 5 if len(long) else 3  # of four digits: room for any 64-bit answer, or for most
    lines = np.empty((len(problems), _ANSWER_AT + 4 * groups + (2 if len(long) else 0)), np.uint8)
    # Twelve characters each, of which the first two are overwritten by what stands before.
    _write_operand(lines, 3 + 2 * notation.WIDTH, problems.b, problems.b_point)
    _write_operand(lines, 2 + notation.WIDTH, problems.a, problems.a_point)
    lines[:, 2 + notation.WIDTH] = _OPERATION_BYTES[problems.op]
    _put(lines, 0, b"$(")
    _put(lines, _ANSWER_AT - 2, b")=")
    _write_answer(lines, groups, figures)
    nan = np.flatnonzero(exact.nan)
    lines[nan, _ANSWER_AT : _ANSWER_AT + 3] = np.frombuffer(b"nan", np.uint8)
    if not len(long):
        _put(lines, _ANSWER_AT + notation.WIDTH, b"$\n")
        return lines.tobytes()
    ends = np.full(len(problems), _ANSWER_AT + notation.WIDTH)
    ends[long] = _ANSWER_AT + figures.lengths(long) + figures.negative[long]
    rows = np.arange(len(problems))
    lines[rows, ends], lines[rows, ends + 1] = b"$\n"
    return lines[np.arange(lines.shape[1]) < ends[:, None] + 2].tobytes()


def _write_operand(
    lines: NDArray[np.uint8], end: int, hundredths: NDArray[np.int64], point: NDArray[np.bool_]
) -> None:
    """Write operands in the twelve columns before `end`; NotationError if one is too wide."""
    figures = _Figures.of(hundredths, point)
    for row in np.flatnonzero(figures.too_wide())[:1]:
        notation.operand_field(Number(int(hundredths[row]), bool(point[row])))  # raises
    upper = figures.digits // 10_000
    top = upper // 10_000
    _put(lines, end - 12, _FORWARD[top])
    _put(lines, end - 8, _FORWARD[upper - 10_000 * top])
    _put(lines, end - 4, _FORWARD[figures.digits - 10_000 * upper + 10_000 * figures.places])
    negative = np.flatnonzero(figures.negative)
    lines[negative, end - 1 - figures.lengths(negative)] = ord("-")


def _write_answer(lines: NDArray[np.uint8], groups: int, figures: _Figures) -> None:
    """Write answers, reversed, in the columns from _ANSWER_AT on, four for each group."""
    rest, table_at = figures.digits, 10_000 * figures.places
    for group in range(groups):
        upper = rest // 10_000
        _put(lines, _ANSWER_AT + 4 * group, _REVERSE[rest - 10_000 * upper + table_at])
        rest, table_at = upper, np.zeros_like(table_at)
    negative = np.flatnonzero(figures.negative)
    lines[negative, _ANSWER_AT + figures.lengths(negative)] = ord("-")


def _put(lines: NDArray[np.uint8], column: int, text: NDArray[np.uint32] | bytes) -> None:
    """Write the same bytes in each row, or four characters a row (n,), from a column on."""
    if isinstance(text, bytes):
        lines[:, column : column + len(text)] = np.frombuffer(text, np.uint8)
    else:
        lines[:, column : column + 4].view(np.uint32)[:, 0] = text
