"""The characters of many numbers at once, written into a matrix that has one line a row.

A number is turned into one integer in which a 0 stands for the point. Its digits are looked up four
at a time, in a table that has the point where it belongs; the minus sign is put in afterwards.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datagen import notation
from datagen.arithmetic import Number

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
