"""Problems in whose work a wanted case of a rule occurs, between wanted neighbours.

`tools.cases.rows` gives the columns of a row; here they become the operands of a problem.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from datagen.arithmetic import MAX_ASKED_PLACES, Number
from datagen.notation import number_text
from datagen.slots import MIN_DIVISOR
from tools.cases.quotients import LEAST, LIMIT, choices, leading_digits
from tools.cases.rows import Input

FIRST_CHOICES = 0x5555_5555_5555_5555  # two bits for each quotient digit; 0 is the second nearest
MAX_ROWS = 32  # digits of a quotient that one word decides about
TRIES = 200
MAX_DIGITS = 95  # with sign and point, an operand has at most 100 characters


class Question(NamedTuple):
    """A prompt, and which of its quotient digits are the second nearest (`datagen.work.render`)."""

    prompt: bytes
    choices: int = FIRST_CHOICES
    row: int = 0  # that has the wanted cases; 0 if any has


def question(
    a: int, op: str, b: int, a_places: int = 0, b_places: int = 0, places: int = 2
) -> bytes:
    """Returns the prompt of a problem, whose operands have units of 10**-places."""
    texts = (number_text(Number.from_units(n, p, p > 0)) for n, p in ((a, a_places), (b, b_places)))
    first, second = (text.rjust(10, "0") for text in texts)
    return f"${'' if places == 2 else places}({first}{op}{second})=".encode()


def number(digits: Sequence[int]) -> int:
    """Returns the number with these digits, lowest first."""
    return int("".join(map(str, reversed(digits))) or "0")


def sum_question(direction: int, word: Sequence[Input], is_top: bool, rng: Generator) -> Question:
    """Returns a sum, or a difference if `direction` is -1, with these columns, lowest first.

    Zeros above all other digits are not written, so a column follows them. If `is_top`, none does:
    they are written because all digits are rounded off, and other columns have only the top of the
    sum above them. Then a column without carry precedes zeros that would be the lowest.
    """
    has_zeros = len(word) > 1 and not any(word[-1])
    column = (1 + int(rng.integers(9)), 0)
    if has_zeros and not is_top:
        word = [*word, column[:: int(rng.choice((1, -1)))]]
    elif has_zeros and not any(word[0]):
        word = [column, *word]
    a, b = number([x[0] for x in word]), number([x[1] for x in word])
    sign, op = _signs(direction, a, b, rng)
    shared = int(rng.choice((0, 2, 9))) if any(word[0]) and a and b else 0
    places = int(rng.choice((max(2, shared - len(word)), shared)))
    if has_zeros and is_top:
        shared, places = len(word), 0
    other = sign * direction * op
    text = question(sign * a, "+" if op == 1 else "-", other * b, shared, shared, places)
    return Question(text)


def split_question(top: int, digits: Sequence[int], drop: int, rng: Generator) -> Question | None:
    """Returns a problem whose sum has these digits, lowest first, below the digit `top`, 0, 1 or 9.
    The lowest `drop` of them are rounded off. Returns None if there is none."""
    limit, total = 10 ** len(digits), number(digits)
    # The longer operand has as many digits as the row has below its top.
    if top == 1:  # A + B = limit + total
        least, most = total + 1, limit - 1
    elif top == 9:  # A - B = total - limit
        least, most = max(0, total + limit // 10 - limit), total - 1
    else:  # A - B = total
        least, most = max(total, limit // 10), limit - 1
    if least > most:
        return None
    for _ in range(TRIES):
        a = least + _below(most - least + 1, rng)
        b = {0: a - total, 1: limit + total - a, 9: a + limit - total}[top]
        if not drop or a % 10 or b % 10:  # no operand ends in a 0 after the point
            break
    else:
        return None
    direction = 1 if top == 1 else -1
    sign, op = _signs(direction, a, b, rng)
    places = min(drop + int(rng.integers(3)), MAX_ASKED_PLACES) if drop else 0
    text = question(
        sign * a, "+" if op == 1 else "-", sign * op * direction * b, places, places, places - drop
    )
    return Question(text)


def _signs(direction: int, a: int, b: int, rng: Generator) -> tuple[int, int]:
    """Returns the sign of A, and 1 for a sum and -1 for a difference, so that B has the sign
    sign * op * direction. A zero has no sign."""
    sign = int(rng.choice((1, -1))) if a else 1
    return sign, int(rng.choice((1, -1))) if b else sign * direction


def _below(limit: int, rng: Generator) -> int:
    """Returns a whole number from 0 to below `limit`, of any size."""
    if limit < 2**62:
        return int(rng.integers(max(limit, 1)))
    return int.from_bytes(rng.bytes(limit.bit_length() // 8 + 8)) % limit


def product_question(
    m: int, word: Sequence[Input], first: bool, is_top: bool, rng: Generator
) -> Question:
    """Returns a product with a row for the digit m with these columns: the first row, or the last
    of many, whose old digits are the upper digits of A. A has no digit above them if `is_top`."""
    a = number([x[0] for x in word] + [x[1] for x in word if not first])
    if not is_top:
        a += 10 ** (len(word) * (1 if first else 2)) * (1 + int(rng.integers(9)))
    k = 0 if first else len(word)
    b = m * 10**k + (not first)
    if first or not m:
        b += 10 ** (k + 1) * int(rng.integers(not first or not m, 30))
    signs = rng.choice((1, -1), 2).tolist()
    # No operand ends in a 0 after the point.
    a_places, b_places = rng.integers(3, size=2).tolist() if a % 10 and b % 10 else (0, 0)
    places = int(rng.choice((2, a_places + b_places)))
    text = question(signs[0] * a, "*", signs[1] * b, a_places, b_places, places)
    return Question(text, row=k + 1)


@cache
def _leading(sign: int, q: int) -> list[list[int]]:
    """Returns the leading digits, as indices, whose nearest digit is q."""
    positive = np.arange(2 * LIMIT)[:, None] >= LIMIT
    chosen = leading_digits() & (choices()[0] == q) & (positive == (sign == 1))
    rows: list[list[int]] = np.argwhere(chosen).tolist()
    return rows


def quotient_question(
    sign: int, q: int, word: Sequence[Input], mark: int | None, n_before: int, rng: Generator
) -> Question | None:
    """Returns a quotient with a row that takes q times B from the remainder, with these columns,
    lowest first. It is the last row if there is a `mark`, the digit below it.

    A is 10 B Q plus the dividend V of that row; Q has `n_before` digits more than a dividend below
    B needs. Returns None if none of TRIES quotients leads to the dividend.
    """
    rows, column_b, column_a = _leading(sign, q), [x[0] for x in word], [x[1] for x in word]
    width = len(word) + MIN_DIVISOR
    for _ in range(TRIES):
        leading, divisor = rows[rng.integers(len(rows))]
        b = number(column_b) + (divisor + LEAST) * 10 ** len(word)
        dividend = number([*column_a, int(rng.integers(10))])
        dividend += (leading - LIMIT) * 10 ** (len(word) + 1)
        before = int(rng.integers(10 ** (n_before - 1), 10**n_before)) if n_before else 0
        before = max(before, int(dividend < 10 ** (width - 1)))
        a = 10 * b * before + dividend
        n_row = len(str(a)) - (width - 2)
        if n_row < 2 or n_row > MAX_ROWS - 2:
            continue
        second = _lead_to(a, b, width, n_row, dividend)
        text = _finish(a, b, mark, rng)
        if second is not None and text:
            return Question(text, FIRST_CHOICES ^ second, n_row + 1)
    return None


def _lead_to(a: int, b: int, width: int, n_row: int, dividend: int) -> int | None:
    """Returns the change of FIRST_CHOICES by which row `n_row` divides the dividend: the digit
    before may have to be the second nearest. Returns None if neither leads to it."""
    digits = str(a)
    remainder, unit = int(digits[: width - 2]), 10 ** (width - 3)
    tables = choices()
    for row in range(n_row):
        current = 10 * remainder + int(digits[width - 2 + row])
        if row == n_row - 1:
            return 0 if current == dividend else None
        leading, divisor = current // (10 * unit) + LIMIT, b // unit - LEAST
        sign = -1 if current < 0 else 1
        for index, table in enumerate(tables):
            after = current - sign * int(table[leading, divisor]) * b
            if row < n_row - 2:
                break
            if 10 * after + int(digits[width - 2 + row + 1]) == dividend:
                return index << 2 * row
        remainder = after
    return None


def _finish(a: int, b: int, mark: int | None, rng: Generator) -> bytes | None:
    """Returns the prompt in which the row that takes in the last digit of A is the last one, with
    `mark` below it; without a mark, one row more follows. Returns None if it cannot be written."""
    tail = [] if not mark else [mark]
    if mark is None and rng.integers(2):
        tail = [int(rng.integers(1, 10))]
    places = 0 if not tail and a % 10 == 0 else int(rng.integers(3))
    b_places = int(rng.integers(3)) if b % 10 else 0
    a_places = len(tail) + places + (mark is not None) + b_places
    dividend = number([*tail, *map(int, reversed(str(a)))])
    if (a_places > 1 and dividend % 10 == 0) or max(dividend, b) >= 10**MAX_DIGITS:
        return None
    signs = rng.choice((1, -1), 2).tolist()
    return question(signs[0] * dividend, "/", signs[1] * b, a_places, b_places, places)
