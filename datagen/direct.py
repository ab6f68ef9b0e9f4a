"""Lines in the format `direct`, from arrays: those of `notation.render`, a million at a time.

The lines are the rows of a matrix of characters. A number becomes one integer, with a 0 in place of
the decimal point. Its digits are looked up four at a time, in tables that have the point where it
belongs; the minus sign is written last. Arrays have the shape (n,), one item for each problem.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datagen import notation
from datagen.arithmetic import POWERS_OF_TEN, USUAL_PLACES, ProblemArray, answers, slow_rows
from datagen.operations import SIGNS

_CHUNK = 32_768  # problems rendered at a time: their columns stay in the cache

# Index: the hundredths (0..99) of a number without a point, 100 + hundredths of one with a point.
_FRACTION = np.tile(np.arange(100), 2)
_PLACES = np.repeat([0, 2], 100) - ((np.arange(200) >= 100) & (_FRACTION % 10 == 0))
_SCALE = np.array([1, 100, 1000])[_PLACES]  # makes room for the point and the places
_TAIL = _FRACTION // np.array([100, 10, 1])[_PLACES]

_MIN_CHARACTERS = np.array([1, 3, 4])  # of a number with 0, 1 or 2 places


def render_lines(problems: ProblemArray, chunk: int = _CHUNK, has_answers: bool = True) -> bytes:
    """Returns a line of ASCII for each problem, with its newline, or its prompt alone. Renders
    `chunk` at a time.

    Raises NotationError if an operand needs more than `notation.MAX_WIDTH` characters.
    """
    starts = range(0, len(problems), chunk)
    return b"".join(_render_chunk(problems[start : start + chunk], has_answers) for start in starts)


@dataclass(frozen=True, slots=True, eq=False)
class _DecimalColumns:
    """n numbers as they are written; each field has the shape (n,).

    `digits` has the digits of the magnitude, with a 0 for the point, as one integer.
    """

    digits: NDArray[np.int64]
    places: NDArray[np.int64]
    negative: NDArray[np.bool_]

    @classmethod
    def from_hundredths(
        cls, hundredths: NDArray[np.int64], point: NDArray[np.bool_]
    ) -> "_DecimalColumns":
        """Converts numbers whose magnitude is below 2**63 / 10."""
        magnitude = np.abs(hundredths)
        whole = magnitude // 100
        index = magnitude - 100 * whole + 100 * point
        digits = whole * _SCALE.take(index) + _TAIL.take(index)
        return cls(digits, _PLACES.take(index), hundredths < 0)

    def n_characters(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Returns how many characters the numbers in these rows have without a minus sign."""
        significant = np.searchsorted(POWERS_OF_TEN, self.digits.take(rows), side="right")
        least = _MIN_CHARACTERS.take(self.places.take(rows))
        n_characters: NDArray[np.int64] = np.maximum(significant, least)
        return n_characters

    def wide_rows(self) -> NDArray[np.intp]:
        """Returns the rows whose numbers need more than `notation.WIDTH` characters."""
        limit, limit_if_negative = POWERS_OF_TEN[[notation.WIDTH, notation.WIDTH - 1]]
        if self.digits.max(initial=0) < limit_if_negative:
            return np.empty(0, np.intp)
        wide = (self.digits >= limit) | (self.negative & (self.digits >= limit_if_negative))
        return np.flatnonzero(wide)


def _render_chunk(problems: ProblemArray, has_answers: bool) -> bytes:
    """Renders a few thousand problems. Slow and wide rows are rendered one by one."""
    special = slow_rows(problems)
    if not len(special):
        problems = problems.to_scale(USUAL_PLACES)
        special = wide_rows(problems)
        if not len(special):
            return (_render_int64 if has_answers else _render_prompts)(problems)
    usual = np.delete(np.arange(len(problems)), special)
    lines = np.empty(len(problems), object)
    lines[usual] = _render_chunk(problems.take(usual), has_answers).splitlines(keepends=True)
    render = notation.render if has_answers else notation.render_prompt
    lines[special] = [f"{render(p)}\n".encode() for p in problems.take(special).to_problems()]
    return b"".join(lines)


def wide_rows(problems: ProblemArray) -> NDArray[np.intp]:
    """Returns the rows with an operand of more than `notation.WIDTH` characters.

    The operands are in hundredths, and no row may be one of the `slow_rows`.
    """
    operands = (problems.a, problems.b)
    bound = 10 ** (notation.WIDTH - 2)  # below it, there is room for a sign and a point
    if all(x.min(initial=0) > -bound and x.max(initial=0) < bound for x in operands):
        return np.empty(0, np.intp)
    a = _DecimalColumns.from_hundredths(problems.a, problems.a_point).wide_rows()
    b = _DecimalColumns.from_hundredths(problems.b, problems.b_point).wide_rows()
    return np.union1d(a, b)


def _render_int64(problems: ProblemArray) -> bytes:
    """Renders problems in hundredths, without slow or wide rows."""
    exact = answers(problems)
    columns = _DecimalColumns.from_hundredths(exact.units, exact.point)
    wide = columns.wide_rows()
    lines = _with_operands(_WIDE_TEMPLATES if len(wide) else _TEMPLATES, problems)
    _write_reversed(lines, ANSWER_START, lines.shape[1] - ANSWER_START - 2, columns)
    nan = np.flatnonzero(exact.nan)
    lines[nan, ANSWER_START : ANSWER_START + 3] = np.frombuffer(b"nan", np.uint8)
    if not len(wide):
        return lines.tobytes()
    ends = np.full(len(problems), ANSWER_START + notation.WIDTH)
    ends[wide] = ANSWER_START + columns.n_characters(wide) + columns.negative[wide]
    rows = np.arange(len(problems))
    lines[rows, ends], lines[rows, ends + 1] = b"$\n"
    return lines[np.arange(lines.shape[1]) < ends[:, None] + 2].tobytes()


def _render_prompts(problems: ProblemArray) -> bytes:
    lines = _with_operands(_TEMPLATES[:, : ANSWER_START + 1], problems)
    lines[:, -1] = ord("\n")
    return lines.tobytes()


def _with_operands(templates: NDArray[np.uint8], problems: ProblemArray) -> NDArray[np.uint8]:
    lines: NDArray[np.uint8] = templates.take(problems.op, axis=0)
    _write_operands(lines, _A_START, problems.a, problems.a_point)
    _write_operands(lines, _B_START, problems.b, problems.b_point)
    return lines


def _write_operands(
    lines: NDArray[np.uint8], start: int, hundredths: NDArray[np.int64], point: NDArray[np.bool_]
) -> None:
    """Writes padded operands in the `notation.WIDTH` columns from `start`, which hold zeros."""
    if hundredths.min(initial=0) >= 0 and hundredths.max(initial=0) <= _COMMON:
        _put(lines, start + 2, _COMMON_TEXT.take(hundredths + (_COMMON + 1) * point))
        return
    columns = _DecimalColumns.from_hundredths(hundredths, point)
    upper = columns.digits // 10_000
    top = upper // 10_000
    _put(lines, start, _TWO_DIGITS.take(top))
    _put(lines, start + 2, _FOUR_DIGITS.take(upper - 10_000 * top))
    lowest = columns.digits - 10_000 * upper
    _put(lines, start + 6, _FOUR_DIGITS.take(lowest + 10_000 * columns.places))
    negative = np.flatnonzero(columns.negative)
    lines[negative, start + notation.WIDTH - 1 - columns.n_characters(negative)] = ord("-")


def _write_reversed(
    lines: NDArray[np.uint8], start: int, width: int, columns: _DecimalColumns
) -> None:
    """Writes reversed numbers, padded with zeros to `width` (a multiple of 4, or 2 more)."""
    upper = columns.digits // 10_000
    lowest = columns.digits - 10_000 * upper
    _put(lines, start, _FOUR_REVERSED.take(lowest + 10_000 * columns.places))
    for offset in range(4, width - 3, 4):
        rest, upper = upper, upper // 10_000
        _put(lines, start + offset, _FOUR_REVERSED.take(rest - 10_000 * upper))
    if width % 4:
        _put(lines, start + width - 2, _TWO_REVERSED.take(upper))
    negative = np.flatnonzero(columns.negative)
    lines[negative, start + columns.n_characters(negative)] = ord("-")


def _put(lines: NDArray[np.uint8], start: int, text: NDArray[Any]) -> None:
    """Writes the bytes of each item of `text`, (n,), as characters from column `start`."""
    lines[:, start : start + text.itemsize].view(text.dtype)[:, 0] = text


def _four_digits() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Returns two tables of four characters in each item: written forwards, and reversed.

    Index v holds the digits of v. Index 10000 * p + v holds them with a point in place of the digit
    that p digits follow.
    """
    digits = np.frombuffer("".join(f"{v:04}" for v in range(10_000)).encode(), np.uint8)
    tables = np.stack([digits.reshape(10_000, 4)] * 3)
    tables[1, :, -2] = tables[2, :, -3] = ord(".")
    backwards = np.ascontiguousarray(tables[:, :, ::-1])
    return tables.view(np.uint32).ravel(), backwards.view(np.uint32).ravel()


def _common_text() -> NDArray[np.uint64]:
    """Returns a table of eight characters in each item: the padded numbers from 0 to 1000.

    Index h holds the number of h hundredths without a point, if it is whole. Index _COMMON + 1 + h
    holds it with a point.
    """
    hundredths = np.tile(np.arange(_COMMON + 1), 2)
    columns = _DecimalColumns.from_hundredths(hundredths, np.repeat([False, True], _COMMON + 1))
    upper = columns.digits // 10_000
    text = np.empty((len(hundredths), 2), np.uint32)
    text[:, 0] = _FOUR_DIGITS[upper]
    text[:, 1] = _FOUR_DIGITS[columns.digits - 10_000 * upper + 10_000 * columns.places]
    return text.view(np.uint64)[:, 0]


def _templates(answer_length: int) -> NDArray[np.uint8]:
    """Returns a line for each operation, (operations, length), in which every digit is 0."""
    zeros = notation.WIDTH * "0"
    lines = "".join(f"$({zeros}{sign}{zeros})={answer_length * '0'}$\n" for sign in SIGNS)
    return np.frombuffer(lines.encode(), np.uint8).reshape(len(SIGNS), -1)


_FOUR_DIGITS, _FOUR_REVERSED = _four_digits()
_TWO_DIGITS = _FOUR_DIGITS.view(np.uint16)[1:200:2].copy()
_TWO_REVERSED = _FOUR_REVERSED.view(np.uint16)[0:200:2].copy()
_COMMON = 100_000  # hundredths
_COMMON_TEXT = _common_text()
_A_START, _B_START, ANSWER_START = 2, 3 + notation.WIDTH, 5 + 2 * notation.WIDTH
_TEMPLATES = _templates(notation.WIDTH)
_WIDE_TEMPLATES = _templates(20)  # no 64-bit number is longer
