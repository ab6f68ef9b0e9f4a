"""Which digits a quotient can have: an exhaustive search of all remainders of a divisor.

A quotient digit is the nearest to an estimate, or the second nearest. It is chosen by the leading
three digits of the dividend and of the divisor. With divisors of three digits, the remainder is all
that a row takes over, so that all rows that can occur are found, and no digit is above 8.

Longer divisors have digits that are not read: any, so the rest of a dividend and of a divisor lies
anywhere in an interval. By that bound, they reach no other cases if all digits are the nearest.
After second choices, they reach some more: at most 0.3% of the leading digits, at the edges, and
some thirty cases of the digits of results and of their roundings, with a digit 9. The certificate
leaves these out: a calculator that writes the nearest digits never gets there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from datagen.operations import RULES
from datagen.operations.quotients import quotient_digit, second_quotient_digit
from datagen.rules import MINUS, NINE, PLUS, ZERO, digit, value
from datagen.slots import MIN_DIVISOR, Kind

Flags = NDArray[np.bool_]
LIMIT = 10**MIN_DIVISOR
LEAST = LIMIT // 10
#: Divisors that reach all cases of the digits of a result and of its rounding that any divisor of
#: three digits reaches.
DIVISORS = (100, 105, 106, 107, 111, 125)


@cache
def choices() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the nearest and the second nearest digit for all leading digits, (2 LIMIT, LIMIT -
    LEAST): the dividend's from -LIMIT on, the divisor's from LEAST on."""
    dividend, divisor = np.mgrid[-LIMIT:LIMIT, LEAST:LIMIT].reshape(2, -1)
    top = np.where(dividend < 0, NINE, ZERO).astype(np.uint8)
    powers = 10 ** np.arange(MIN_DIVISOR)[:, None]
    sources = [*digit(dividend // powers % 10), top, *digit(divisor // powers % 10)]
    shape = 2 * LIMIT, LIMIT - LEAST
    nearest, second = (
        value(rule(*sources)).astype(np.int64).reshape(shape)
        for rule in (quotient_digit, second_quotient_digit)
    )
    return nearest, second


@cache
def leading_digits() -> Flags:
    """Returns which leading digits a row can divide, in the shape of `choices`."""
    signs = np.where(np.arange(2 * LIMIT) < LIMIT, -1, 1)[:, None]
    tables = [signs * table for table in choices()]
    reached = np.zeros(tables[0].shape, bool)
    reached[LIMIT + 1 : LIMIT + 10] = True  # the first digit of the dividend
    new = reached.copy()
    while new.any():
        leading, column = np.nonzero(new)
        new = np.zeros_like(reached)
        for table in tables:
            rest = 10 * (leading - LIMIT) - table[leading, column] * (column + LEAST)
            for down in range(10):
                after = rest + down
                possible = np.abs(after) < column + LEAST
                new[after[possible] + LIMIT, column[possible]] = True
        new &= ~reached
        reached |= new
    return reached


SignedDigit = tuple[int, int]  # sign, digit


class Edge(NamedTuple):
    """A row: the digit that it writes, and how it comes to be."""

    before: int  # remainder
    down: int  # the digit of A that is brought down
    is_second: bool
    x: SignedDigit
    after: int  # remainder


@cache
def edges_of(divisor: int) -> dict[int, list[Edge]]:
    """Returns all rows of a divisor of three digits by the remainder before."""
    edges: dict[int, list[Edge]] = {}
    remainders = list(range(1, 10))
    tables = choices()
    for before in remainders:
        sign = -1 if before < 0 else 1
        digits = [int(table[before + LIMIT, divisor - LEAST]) for table in tables]
        edges[before] = [
            Edge(before, down, bool(i), (sign, q), 10 * before + down - sign * q * divisor)
            for i, q in enumerate(digits[: len(set(digits))])
            for down in range(10)
        ]
        known = {*remainders}
        remainders += dict.fromkeys(e.after for e in edges[before] if e.after not in known)
    return edges


@cache
def rounding(last: SignedDigit, before: int, top: int) -> int:
    characters = (PLUS if last[0] == 1 else MINUS, ZERO + last[1], ZERO + before, ZERO + top)
    written = RULES[Kind.QUOTIENT_ROUNDING](*np.array(characters, np.uint8)[:, None])
    return {PLUS: 1, MINUS: -1, ZERO: 0}[int(written[0])]


Case = tuple[int, ...]
Kept = tuple[SignedDigit, int]  # a digit of the result, and the carry into it


@dataclass(frozen=True)
class Division:
    """All rows of a divisor, and the cases of results and of roundings that they reach.

    `kept` are the digits that the row after a remainder can write, if the result keeps them.
    `results` and `roundings` have the rows that write the digit of each case or, of a rounding, the
    last digit that is kept.
    """

    edges: dict[int, list[Edge]]
    kept: dict[int, set[Kept]]
    results: dict[Case, list[Edge]]
    roundings: dict[Case, list[Edge]]

    def endings(self, edge: Edge) -> Iterator[tuple[Edge, int]]:
        """Yields the last rows after a row, each with the top digits that it can leave."""
        for last in self.edges[edge.after]:
            yield from ((last, top) for top in sorted(tops(last.after)))


@cache
def division_by(divisor: int) -> Division:
    """Searches all rows of a divisor of three digits."""
    edges = edges_of(divisor)
    result = Division(edges, {remainder: set() for remainder in edges}, {}, {})
    rows = list(chain.from_iterable(edges.values()))
    for edge in rows:
        for last, top in result.endings(edge):
            carry = rounding(last.x, edge.x[1], top)
            result.kept[edge.before].add((edge.x, carry))
            result.roundings.setdefault(rounding_case(last.x, edge.x, top), []).append(edge)
            result.results.setdefault(result_case(edge.x, None, carry), []).append(edge)
    size = -1
    while size != (size := sum(map(len, result.kept.values()))):
        for edge in rows:
            carries = {carry_of(*low) for low in result.kept[edge.after]}
            result.kept[edge.before] |= {(edge.x, carry) for carry in carries}
    for edge in rows:
        for low in result.kept[edge.after]:
            result.results.setdefault(result_case(edge.x, *low), []).append(edge)
    return result


def tops(remainder: int) -> set[int]:
    """Returns which top digits the last remainder can have: A may have more digits below it."""
    return {9} if remainder < 0 else {1} if remainder else {0, 1}


def carry_of(x: SignedDigit, carry: int) -> int:
    """Returns the carry from a digit with a carry into the digit above."""
    return -(x[0] * x[1] + carry < 0)


def result_case(x: SignedDigit, low: SignedDigit | None, carry: int) -> tuple[int, ...]:
    """Returns the indices of the case of a result's digit: `carry` is into the digit before, or
    the rounding if there is none."""
    if low is None:
        return (_sign(x), x[1], 2, 10, {0: 0, 1: 10, -1: 11}[carry])
    return (_sign(x), x[1], _sign(low), low[1], (low[0] * low[1] + carry) % 10)


def rounding_case(last: SignedDigit, before: SignedDigit, top: int) -> tuple[int, ...]:
    """Returns the indices of the case of a rounding."""
    return (_sign(last), last[1], before[1], top)


def _sign(x: SignedDigit) -> int:
    return int(x[0] < 0)


@cache
def _searched() -> tuple[Flags, Flags]:
    tables = np.zeros((2, 10, 3, 11, 12), bool), np.zeros((2, 10, 10, 10), bool)
    for division in map(division_by, DIVISORS):
        for table, found in zip(tables, (division.results, division.roundings), strict=True):
            table[tuple(np.array([*found]).T)] = True
    return tables


def results() -> Flags:
    """Returns which cases of the digits of a quotient can occur: sign, digit, and those of the
    digit before, or none, and its result or the rounding."""
    return _searched()[0]


def roundings() -> Flags:
    """Returns which cases of the rounding of a quotient can occur: sign and last digit, the digit
    before, and the top digit of the last remainder."""
    return _searched()[1]
