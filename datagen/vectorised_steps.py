"""Lines with worked steps by the hundred thousand: the bytes that `steps.render` writes.

The lines are the rows of a matrix of characters, in which 0 means that nothing is written. The
zeros are removed at the end.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from datagen import arithmetic, steps, vectorised
from datagen.arithmetic import (
    ADD,
    DIV,
    MUL,
    POWERS_OF_TEN,
    SUB,
    USUAL_PLACES,
    ProblemArray,
    in_hundredths,
)
from datagen.splits import problem_hashes

_CHUNK = 8_192  # problems at a time, so that the columns stay in the cache
_ROWS = np.frombuffer(steps.ROWS.encode(), np.uint8)
_ZERO, _NEWLINE = ord("0"), ord("\n")

Columns = NDArray[np.int64]  # (n,)


def fits(problems: ProblemArray, digits: int) -> NDArray[np.bool_]:
    """Returns a mask, (n,), of the problems that `steps` can write: answers of two places, operands
    of at most two places and `digits` digits."""
    fitting: NDArray[np.bool_] = problems.places == USUAL_PLACES
    for operands in (problems.a, problems.b):
        fitting &= in_hundredths(operands, problems.scale, 10**digits)
    return fitting


def render_lines(problems: ProblemArray, digits: int, loose: bool = False) -> bytes:
    """Returns one problem a line, `$(A op B)=WORK=ANSWER$`, each with its newline, in ASCII.

    With `loose`, the quotient digits are those of `steps.loose_digits`.

    Raises NotationError for a problem that does not fit, and DataError as `steps.check_digits`.
    """
    steps.check_digits(digits)
    for row in np.flatnonzero(~fits(problems, digits))[:1]:
        steps.work_steps(problems.take(np.array([row])).to_problems()[0], digits)  # raises
    problems = problems.to_scale(USUAL_PLACES)
    chunks = (problems[i : i + _CHUNK] for i in range(0, len(problems), _CHUNK))
    return b"".join(_render_chunk(chunk, digits, loose) for chunk in chunks)


def _render_chunk(problems: ProblemArray, digits: int, loose: bool) -> bytes:
    """Renders problems that fit, those with a wide operand one by one."""
    wide = vectorised.wide_rows(problems)
    if not len(wide):
        return _render_int64(problems, digits, loose)
    others = np.delete(np.arange(len(problems)), wide)
    lines = np.empty(len(problems), object)
    lines[others] = _render_int64(problems.take(others), digits, loose).splitlines(keepends=True)
    for row, problem in zip(wide, problems.take(wide).to_problems(), strict=True):
        choose = steps.loose_digits(problem) if loose else steps.nearest_digit
        lines[row] = f"{steps.render(problem, digits, choose)}\n".encode()
    return b"".join(lines)


def _render_int64(problems: ProblemArray, digits: int, loose: bool) -> bytes:
    """Renders problems in hundredths, without wide operands."""
    direct = np.frombuffer(vectorised.render_lines(problems), np.uint8)
    ends = np.flatnonzero(direct == _NEWLINE) + 1
    lengths = np.diff(ends, prepend=0)
    columns = np.arange(lengths.max(initial=0))
    inside = columns < lengths[:, None]
    lines = np.zeros(inside.shape, np.uint8)
    lines[inside] = direct
    work = np.zeros((len(problems), _work_columns(digits) + 1), np.uint8)
    exact = arithmetic.answers(problems)
    hundredths = exact.units.astype(np.int64)
    places = np.where(exact.point, 2 - (hundredths % 10 == 0), 0)
    quotients = partial(_quotients, loose=loose)
    for write, codes, count in (  # `count` digits of the result
        (_sums, (ADD, SUB), digits + 1),
        (_products, (MUL,), 2 * digits - 2),
        (quotients, (DIV,), digits + 2),
    ):
        rows = np.flatnonzero(np.isin(problems.op, codes))
        matrix = _WorkMatrix(len(rows), work.shape[1])
        write(matrix, problems.take(rows), digits)
        matrix.mark(steps.RESULT_MARK)
        start = matrix.column
        matrix.number(np.abs(hundredths[rows]), count)
        matrix.characters(np.where(hundredths[rows] < 0, ord("-"), ord("+")))
        matrix.characters(_ZERO + places[rows])
        nan = np.flatnonzero(exact.nan[rows])
        matrix.text[nan, start:] = 0
        matrix.text[nan, start] = ord("n")
        work[rows] = matrix.text
    work[:, -1] = ord("=")
    prompt, answer = lines[:, : vectorised.ANSWER_START], lines[:, vectorised.ANSWER_START :]
    text: NDArray[np.uint8] = np.concatenate((prompt, work, answer), axis=1)
    return bytes(text[text != 0].tobytes())


def _work_columns(digits: int) -> int:
    """Returns the largest number of characters that a work can have."""
    product = 4 * digits + 4 + digits * (2 * digits + 3)
    quotient = 3 * digits + 10 + (digits + steps.GUARD) * (2 * digits + 4)
    return max(product, quotient)


class _WorkMatrix:
    """n works, written side by side, one column at a time."""

    def __init__(self, n: int, columns: int) -> None:
        self.text = np.zeros((n, columns), np.uint8)
        self.column = 0

    def characters(self, codes: NDArray[np.generic] | int) -> None:
        """Writes one character in each work; 0 writes nothing."""
        self.text[:, self.column] = codes
        self.column += 1

    def mark(self, character: str) -> None:
        """Writes the same character in each work."""
        self.characters(ord(character))

    def number(self, values: Columns, count: int) -> None:
        """Writes what `steps.reversed_digits` returns."""
        for _ in range(count):
            rest = values // 10
            self.characters(values - 10 * rest + _ZERO)
            values = rest

    def row(
        self,
        old: Columns,
        digit: Columns,
        number: Columns,
        count: int,
        written: NDArray[np.bool_],
    ) -> None:
        """Writes `count` digits of old + digit * number, with carries, in the `written` matrix."""
        sign, size, carry = np.where(digit < 0, -1, 1), np.abs(digit), np.zeros_like(old)
        for place in range(count):
            if place:
                self.characters((_ZERO + carry) * written)
            old_rest, number_rest = old // 10, number // 10
            total = old - 10 * old_rest + sign * (size * (number - 10 * number_rest) + carry)
            carry = total // 10
            self.characters((_ZERO + total - 10 * carry) * written)
            carry, old, number = sign * carry, old_rest, number_rest


def _sums(matrix: _WorkMatrix, problems: ProblemArray, digits: int) -> None:
    a, b = problems.a, problems.b * (1 - 2 * (problems.op == SUB))
    size_a, size_b = np.abs(a), np.abs(b)
    matrix.mark(steps.A_MARK)
    matrix.number(size_a, digits)
    matrix.mark(steps.B_MARK)
    matrix.number(size_b, digits)
    matrix.mark(steps.ROWS[0])
    same_sign = (a < 0) == (b < 0)
    matrix.characters(np.where(same_sign, ord("+"), ord("-")))
    matrix.number(size_a + np.where(same_sign, size_b, -size_b), digits + 1)


def _products(matrix: _WorkMatrix, problems: ProblemArray, digits: int) -> None:
    a, b = np.abs(problems.a), np.abs(problems.b)
    length = _n_digits(b)
    matrix.mark(steps.A_MARK)
    matrix.number(a, digits)
    matrix.mark(steps.B_MARK)
    matrix.characters(_ZERO + length)
    matrix.number(b, digits)
    accumulator = np.zeros_like(a)
    for place in range(digits):
        digit = b // 10**place % 10
        written = (b % 10 ** (place + 1) > 0) & (place < length)
        matrix.characters(_ROWS[place] * written)
        matrix.characters((_ZERO + digit) * written)
        matrix.row(accumulator // 10, digit, a, digits + 1, written)
        accumulator = accumulator // 10 + a * digit


def _quotients(matrix: _WorkMatrix, problems: ProblemArray, digits: int, loose: bool) -> None:
    a, b = np.abs(problems.a), np.abs(problems.b)
    length_a, length_b = _n_digits(a), _n_digits(b)
    divisor, remainder = (
        b * POWERS_OF_TEN[digits - length_b],
        a * POWERS_OF_TEN[digits - length_a],
    )
    matrix.mark(steps.B_MARK)
    matrix.characters(_ZERO + length_b)
    matrix.number(divisor, digits)
    matrix.mark(steps.A_MARK)
    matrix.characters(_ZERO + length_a)
    matrix.number(remainder, digits)
    first = length_a - length_b + steps.GUARD
    # Two bits for each row. Bits that are never both 0 always choose the nearest digit.
    choices = problem_hashes(problems) if loose else np.full(len(a), 2**64 - 1, np.uint64)
    divisor = np.maximum(divisor, 1)  # a problem with the divisor 0 writes nothing below
    rounded = digit = np.zeros_like(a)
    for row in range(digits + steps.GUARD):
        dividend = remainder if row == 0 else 10 * remainder
        written = (first >= row) & (b != 0)
        rounded = np.where(written, 10 * rounded + digit, rounded)
        digit = np.where(written, _choose(dividend, divisor, choices), digit)
        choices = choices >> np.uint64(2)
        remainder = np.where(written, dividend - digit * divisor, remainder)
        matrix.characters(_ROWS.take(first - row, mode="clip") * written)
        matrix.characters(np.where(dividend < 0, ord("-"), ord("+")) * written)
        matrix.characters((_ZERO + np.abs(digit)) * written)
        matrix.row(dividend, -digit, divisor, digits + 1, written)
    below = np.where(digit > 0, remainder, -remainder)  # with the sign of the last digit
    tie_to_odd = (below == 0) & (rounded % 2 == 1)
    away = (np.abs(digit) > 5) | ((np.abs(digit) == 5) & ((below > 0) | tie_to_odd))
    carry = np.where(away, np.where(digit > 0, ord("+"), ord("-")), _ZERO)
    matrix.characters(carry * ((first >= 0) & (b != 0)))


def _choose(dividend: Columns, divisor: Columns, choices: NDArray[np.uint64]) -> Columns:
    """Returns the nearest quotient digits, or the second nearest for two 0 bits in `choices`."""
    digit = np.clip((2 * dividend + divisor) // (2 * divisor), -9, 9)
    other = digit + np.sign(dividend - digit * divisor)
    second = (choices & np.uint64(3) == 0) & (np.abs(other) <= 9)
    chosen: Columns = np.where(second, other, digit)
    return chosen


def _n_digits(values: Columns) -> Columns:
    """Does what `steps.n_digits` does, for an array."""
    return np.searchsorted(POWERS_OF_TEN, values, side="right")
