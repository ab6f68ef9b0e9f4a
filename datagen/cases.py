"""The cases of the rules: every input that a rule of worked steps may have, in work of any length.

A rule reads at most MAX_SOURCES characters (`datagen.slots`). A case is a kind of slot and these
characters. All cases that can occur are found here, as in a proof by induction over the slots of a
line. A row of the work is a finite transducer: it reads a column of other rows, and of itself what
it wrote in the column before. So from the cases of a first column follow the states that they
leave, and from each state, with whatever digits the next column may have, follow the next cases,
until there are no new ones. The result has every case of every line, whatever its length, and some
that never occur, as digits of different rows are taken to be independent.

A quotient digit is chosen by leading digits. The digits that are not read may be any, so a
remainder and a divisor lie anywhere in an interval (`_leading_digits`).

Nothing here depends on a model: a case is followed by all characters that are right there.

Shapes: n cases or states; k characters of each.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from datagen.answer_layout import CHARACTERS as ANSWER_CHARACTERS
from datagen.operations import RULES
from datagen.operations.quotients import quotient_digit, second_quotient_digit
from datagen.rules import MINUS, NINE, PLUS, ZERO, Characters, digit, value
from datagen.slots import MAX_SOURCES, MIN_DIVISOR, Kind

Rows = NDArray[np.uint8]  # (n, k): cases or states

NONE = 0  # what a rule reads where there is no character
MAX_QUOTIENT_DIGIT = 8
LIMIT = 10**MIN_DIVISOR
LEAST = LIMIT // 10


class Cases(NamedTuple):
    """The cases, sorted by kind. `sources` are ASCII codes, NONE where there is no character.
    `right` are the characters that are right: two quotient digits may be, else both are equal."""

    kinds: NDArray[np.uint8]  # (n,)
    sources: Rows  # (n, MAX_SOURCES)
    right: Rows  # (n, 2)


@cache
def all_cases() -> Cases:
    """Returns all cases. Takes about a second."""
    search = _Search()
    for family in (_operands, _sums, _products, _roundings, _quotients, _fixed):
        family(search)
    return search.cases()


class _Search:
    """The cases that were found so far, by kind, and what is right in each."""

    def __init__(self) -> None:
        self._found: dict[Kind, list[Rows]] = {}

    def write(self, kind: Kind, cases: Rows) -> Rows:
        """Adds cases, (n, k). Returns what the rule of the kind writes in each, (n, 1)."""
        written = np.broadcast_to(RULES[kind](*cases.T), len(cases))[:, None]
        self.add(kind, cases, written, written)
        return written

    def add(self, kind: Kind, cases: Rows, *right: Rows) -> None:
        """Adds cases, (n, k), and two characters that are right in each, both (n, 1)."""
        padding = np.zeros((len(cases), MAX_SOURCES - cases.shape[1]), np.uint8)
        self._found.setdefault(kind, []).append(np.hstack((cases, padding, *right)))

    def cases(self) -> Cases:
        parts = {}
        for kind, found in sorted(self._found.items()):
            rows = np.vstack(found)
            parts[kind] = rows[np.unique(_keys(rows[:, :MAX_SOURCES]), return_index=True)[1]]
        kinds = np.repeat([np.uint8(k) for k in parts], [len(part) for part in parts.values()])
        rows = np.vstack([*parts.values()])
        return Cases(kinds, rows[:, :MAX_SOURCES], rows[:, MAX_SOURCES:])


def _quotient_digits(cases: Rows) -> tuple[Characters, Characters]:
    """Returns the nearest digit and, if it is right as well, the second nearest; (n,) each."""
    nearest, second = quotient_digit(*cases.T), second_quotient_digit(*cases.T)
    return nearest, np.where(value(second) > MAX_QUOTIENT_DIGIT, nearest, second)


def _keys(rows: Rows) -> NDArray[np.uint64]:
    """Returns a number for each row, (n,): equal rows have equal numbers."""
    padded = np.zeros((len(rows), 8), np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(np.uint64)[:, 0]


def _distinct(rows: Rows) -> Rows:
    """Returns the different rows."""
    return rows[np.unique(_keys(rows), return_index=True)[1]]


def _each(*parts: Rows) -> Rows:
    """Returns all combinations of a row of each part, side by side."""
    rows = parts[0]
    for part in parts[1:]:
        rows = np.hstack((rows.repeat(len(part), axis=0), np.tile(part, (len(rows), 1))))
    return rows


def _closure(states: Rows, step: Callable[[Rows], Rows]) -> Rows:
    """Returns the states and all that follow from them by `step`."""
    states = new = _distinct(states)
    while len(new):
        after = _distinct(step(new))
        new = after[~np.isin(_keys(after), _keys(states))]
        states = np.vstack((states, new))
    return states


def _column(text: bytes) -> Rows:
    return np.frombuffer(text, np.uint8)[:, None]


DIGITS, SIGNS, NOTHING = _column(b"0123456789"), _column(b"+-"), _column(b"\0")
DIGITS_OR_NONE = np.vstack((DIGITS, NOTHING))
BEFORE_OPERAND = _column(b"-0\0")  # a minus sign, padding, or the beginning of the field


def _operands(search: _Search) -> None:
    for kind in (Kind.A_SIGN, Kind.B_SIGN):
        search.write(kind, BEFORE_OPERAND)
    search.write(Kind.B_SIGN_OF_SUM, _each(BEFORE_OPERAND, SIGNS))
    copies = (Kind.A_DIGIT, Kind.B_DIGIT, Kind.MULTIPLIER, Kind.REMAINDER_COPY, Kind.BROUGHT_DOWN)
    copied = (Kind.PRODUCT_HALF, Kind.PRODUCT_KEPT, Kind.PRODUCT_RESULT)
    for kind in (*copies, *copied):
        search.write(kind, DIGITS)
    for kind in (Kind.A_BELOW, Kind.PRODUCT_BELOW):
        search.write(kind, DIGITS)
        search.write(kind, _each(DIGITS, DIGITS))  # marks read the mark before
    search.write(Kind.SIGN, _each(SIGNS, SIGNS))


def _sums(search: _Search) -> None:
    search.write(Kind.ADD_OR_SUBTRACT, _each(SIGNS, SIGNS))

    def column(before: Rows) -> Rows:
        """Returns the operation, A, B and the sum of the columns after columns."""
        cases = _each(before, DIGITS, DIGITS)[:, [0, 4, 5, 1, 2, 3]]
        return np.hstack((cases[:, :3], search.write(Kind.SUM_DIGIT, cases)))

    lowest = _each(SIGNS, DIGITS, DIGITS)
    columns = _closure(np.hstack((lowest, search.write(Kind.SUM_LOWEST, lowest))), column)
    zeros = _each(columns[:, :1], _column(b"0"), _column(b"0"))  # the operands end below the top
    tops = _distinct(search.write(Kind.SUM_TOP, np.hstack((zeros, columns[:, 1:]))))
    search.write(Kind.MAGNITUDE_TOP, tops)
    search.write(Kind.SUM_SIGN, _each(SIGNS, tops))
    _magnitudes(search, tops)


def _magnitudes(search: _Search, tops: Rows) -> None:
    """Adds the cases of the magnitude of a sum. The state of a row is the top digit of the sum, and
    the digits of the sum and of the magnitude."""

    def first(kind: Kind) -> Rows:
        cases = _each(tops, DIGITS)
        return np.hstack((cases, search.write(kind, cases)))

    def after(kind: Kind) -> Callable[[Rows], Rows]:
        def column(before: Rows) -> Rows:
            cases = _each(before, DIGITS)[:, [0, 3, 1, 2]]
            return np.hstack((cases[:, :2], search.write(kind, cases)))

        return column

    _closure(first(Kind.MAGNITUDE_LOWEST), after(Kind.SUM_RESULT))
    below = _closure(first(Kind.SUM_BELOW), after(Kind.SUM_BELOW))
    half = np.vstack((first(Kind.SUM_HALF), after(Kind.SUM_HALF)(below)))
    _closure(after(Kind.SUM_KEPT)(half), after(Kind.SUM_KEPT))


def _products(search: _Search) -> None:
    """Adds the cases of the rows of a product. The first row has no digits of a row above."""
    _product_row(search, Kind.FIRST_DIGIT, Kind.FIRST_CARRY, NOTHING)
    _product_row(search, Kind.PRODUCT_DIGIT, Kind.PRODUCT_CARRY, DIGITS)


def _product_row(search: _Search, digit: Kind, carry: Kind, above: Rows) -> None:
    """Adds the cases of a row, whose state is the multiplier and the carry."""

    def column(before: Rows) -> Rows:
        cases = _each(before, DIGITS, above)[:, [0, 2, 3, 1]]
        search.write(digit, cases)
        return np.hstack((cases[:, :1], search.write(carry, cases)))

    _closure(_each(DIGITS, NOTHING), column)


def _roundings(search: _Search) -> None:
    """Adds the cases of the rounding of a sum or a product, and of the rounded digits. A product
    may have no digit that is kept."""
    cases = _each(DIGITS, DIGITS_OR_NONE, DIGITS_OR_NONE)
    roundings = _distinct(search.write(Kind.ROUNDING, cases))

    def column(before: Rows) -> Rows:
        cases = _each(DIGITS, before)
        return np.hstack((cases[:, :1], search.write(Kind.ROUNDED_RESULT, cases)))

    lowest = _each(NOTHING, roundings)
    states = np.vstack((lowest, _closure(column(lowest), column)))  # a digit and its result
    search.write(Kind.ROUNDED_TOP, _each(NOTHING, states))


def _quotients(search: _Search) -> None:
    leading, *choices = _leading_digits()
    search.add(Kind.QUOTIENT_DIGIT, leading, *choices)
    search.write(Kind.DIVIDEND_SIGN, _column(b"09"))
    negative = leading[:, MIN_DIVISOR] == NINE
    signs = np.where(negative, MINUS, PLUS).astype(np.uint8)[:, None]
    digits = _distinct(np.vstack([np.hstack((signs, choice)) for choice in choices]))

    def column(before: Rows) -> Rows:
        cases = _each(before, DIGITS, DIGITS)[:, [0, 1, 3, 4, 2]]
        search.write(Kind.REMAINDER_DIGIT, cases)
        return np.hstack((cases[:, :2], search.write(Kind.REMAINDER_CARRY, cases)))

    _closure(_each(digits, NOTHING), column)

    def last_column(before: Rows) -> Rows:
        """Returns the sign, digit, carry and mark that columns leave."""
        cases = _each(before, DIGITS, DIGITS)[:, [0, 1, 4, 5, 2, 3]]
        carries = search.write(Kind.REMAINDER_CARRY, cases[:, :5])
        return np.hstack((cases[:, :2], carries, search.write(Kind.LAST_DIGIT, cases)))

    _closure(_each(digits, NOTHING, DIGITS), last_column)
    # The top digit of the last remainder is 9 if it is negative, and 0 only if it is 0.
    cases = _each(digits, digits[:, 1:], _column(b"019"))
    roundings = _distinct(search.write(Kind.QUOTIENT_ROUNDING, _distinct(cases)))

    def result(before: Rows) -> Rows:
        cases = _each(digits, before)
        return np.hstack((cases[:, :2], search.write(Kind.QUOTIENT_RESULT, cases)))

    _closure(result(_each(NOTHING, NOTHING, roundings)), result)


def _fixed(search: _Search) -> None:
    """Adds the kinds whose character is always the same, and the digits of the answer."""
    marks = (Kind.ROW_MARK, Kind.REMAINDER_MARK, Kind.EXACT_MARK, Kind.RESULT_MARK, Kind.EQUALS)
    zeros = (Kind.A_ZERO, Kind.B_ZERO, Kind.REMAINDER_ZERO, Kind.BROUGHT_ZERO, Kind.NAN)
    nothing = np.zeros((1, 0), np.uint8)
    for kind in (*marks, *zeros):
        search.write(kind, nothing)
    for kind, character in ANSWER_CHARACTERS.items():
        search.add(kind, nothing, *[_column(character.encode())] * 2)
    search.add(Kind.ANSWER_DIGIT, DIGITS, DIGITS, DIGITS)


def _leading_digits() -> tuple[Rows, ...]:
    """Returns all cases of a quotient digit, for divisors of any length, and the two digits that
    are right in each.

    The unit is that of the lowest digit that is read. A remainder whose leading digits are r is in
    [r, r + 1), and with the digit that is brought down, ten times as much, x, in [10 r, 10 r + 10).
    A divisor whose leading digits are d is in [d, d + 1). Both may have any further digits. A digit
    q leaves x - q b, which is linear in x and in b, so it is between its values at the corners.

    Raises ArithmeticError if a digit could leave as much as the divisor: the next leading digits
    would not be those of the remainder.

    Shapes: R leading digits of a remainder, D those of a divisor.
    """
    r_RD, d_RD = np.mgrid[-LIMIT:LIMIT, LEAST:LIMIT].astype(np.int32)
    possible_RD = (r_RD <= d_RD) & (r_RD >= -d_RD - 1)  # of remainders less than the divisor
    cases = _leading_rows(r_RD[possible_RD], d_RD[possible_RD])
    written = _quotient_digits(cases)
    choices = np.zeros((2, *possible_RD.shape), np.int32)
    choices[:, possible_RD] = [value(digits) for digits in written]
    choices *= np.where(r_RD < 0, -1, 1)
    # The first remainder is less than the leading digit's unit.
    reached_RD = new_RD = (r_RD >= 0) & (r_RD < 10)
    n_d = LIMIT - LEAST
    while new_RD.any():
        starts, ends, d = [], [], d_RD[new_RD]  # of intervals of remainders
        for q_RD in choices:
            low, high = _rests(10 * r_RD[new_RD], d, q_RD[new_RD])
            starts.append((low + LIMIT) * n_d + d - LEAST)
            ends.append((high + 1 + LIMIT) * n_d + d - LEAST)
        n = reached_RD.size
        edges_N = _counts(starts, n) - _counts(ends, n)
        new_RD = (edges_N.reshape(-1, n_d).cumsum(axis=0) > 0) & ~reached_RD
        reached_RD = reached_RD | new_RD
    reached = reached_RD[possible_RD]
    return cases[reached], *(digits[reached, None] for digits in written)


def _counts(indices: list[NDArray[np.int32]], n: int) -> NDArray[np.int64]:
    """Returns how often each of the first n indices occurs, (n,)."""
    return np.bincount(np.concatenate(indices), minlength=n)[:n]


def _leading_rows(r: NDArray[np.int32], d: NDArray[np.int32]) -> Rows:
    """Returns the characters of leading digits of remainders and of divisors, each lowest first,
    and 9 above those of a negative remainder, (n, MAX_SOURCES)."""
    powers = 10 ** np.arange(MIN_DIVISOR)
    digits = digit(np.arange(LIMIT)[:, None] // powers % 10)
    top = np.where(r < 0, NINE, ZERO).astype(np.uint8)[:, None]
    return np.hstack((digits[r % LIMIT], top, digits[d]))


def _rests(
    x: NDArray[np.int32], d: NDArray[np.int32], q: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the lowest and the highest leading digits that may follow."""
    # x - (q + 1) b < 0 < x - (q - 1) b at all corners: less than b is left. The upper ends of the
    # intervals do not belong to them, so there is equality at most there.
    too_much = np.maximum(x + 10 - (q + 1) * d, x + 10 - (q + 1) * (d + 1)) > 0
    too_much |= (x - (q - 1) * d <= 0) | (x - (q - 1) * (d + 1) < 0)
    if too_much.any():
        first = int(too_much.argmax())
        raise ArithmeticError(f"{x[first]} / {d[first]}: {q[first]} may leave as much as a divisor")
    low = np.minimum(x - q * d, x - q * (d + 1))
    high = np.maximum(x - q * d, x - q * (d + 1)) + 10 - 1
    # None is empty: by what was required, some of the interval is less than the divisor.
    return np.maximum(low, -d - 1), np.minimum(high, d)
