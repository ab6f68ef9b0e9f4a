"""Quotients that have wanted rows, found on the graph of all remainders of a divisor."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.random import Generator

from tools.cases.questions import FIRST_CHOICES, MAX_ROWS, Question, question
from tools.cases.quotients import (
    DIVISORS,
    LEAST,
    LIMIT,
    Case,
    Division,
    Edge,
    Kept,
    carry_of,
    division_by,
    edges_of,
    leading_digits,
    result_case,
    rounding,
    rounding_case,
)

T = TypeVar("T")
NO_SIGN = 2  # of the digit before, in a case of a result


def long_division(
    divisor: int, edges: list[Edge], tail: int, places: int, rng: Generator
) -> Question:
    """Returns the quotient with these rows, and no others. `tail` is a digit of A below them."""
    digits = [edges[0].before, *(edge.down for edge in edges), *[tail] * (tail > 0)]
    places = 0 if not digits[-1] else places
    signs = rng.choice((1, -1), 2).tolist()
    words = FIRST_CHOICES
    for row, edge in enumerate(edges):
        words ^= int(edge.is_second) << 2 * row
    a = signs[0] * int("".join(map(str, digits)))
    a_places = (tail > 0) + 1 + places
    return Question(question(a, "/", signs[1] * divisor, a_places, 0, places), words)


def chain_question(case: Case, n_rows: int, rng: Generator) -> Question:
    """Returns a quotient with the case of a result's digit or, if it has four indices, of a
    rounding. At least `n_rows` rows precede it."""
    is_rounding = len(case) == 4
    tables = {
        b: division.roundings if is_rounding else division.results
        for b, division in ((b, division_by(b)) for b in DIVISORS)
    }
    divisor = _any([b for b, table in tables.items() if case in table], rng)
    division = division_by(divisor)
    edge = _any(tables[divisor][case], rng)
    if is_rounding or case[2] == NO_SIGN:
        endings = [
            (last, top)
            for last, top in division.endings(edge)
            if case == rounding_case(last.x, edge.x, top)
            or case == result_case(edge.x, None, rounding(last.x, edge.x[1], top))
        ]
        last, top = _any(endings, rng)
        rows, tail = [last], top == 1 and last.after == 0
    else:
        low = _any(
            [kept for kept in division.kept[edge.after] if case == result_case(edge.x, *kept)], rng
        )
        rows, tail = _rest(division, edge.after, low, rng)
    before = _way_to(divisor, edge.before, n_rows, rng)
    if len(before) + 1 + len(rows) > MAX_ROWS:
        return chain_question(case, n_rows // 2, rng)
    digit = 1 + int(rng.integers(9)) if tail else 0
    return long_division(divisor, [*before, edge, *rows], digit, int(rng.integers(3)), rng)


def _any(items: Sequence[T], rng: Generator) -> T:
    return items[int(rng.integers(len(items)))]


def _rest(
    division: Division, remainder: int, kept: Kept, rng: Generator
) -> tuple[list[Edge], bool]:
    """Returns the rows after a remainder, the first of which writes a digit with a carry into it,
    and whether A must have digits below them that are not 0."""
    x, carry = kept
    endings: list[tuple[list[Edge], bool]] = []
    longer: list[tuple[Edge, Kept]] = []
    for edge in division.edges[remainder]:
        if edge.x == x:
            for last, top in division.endings(edge):
                if rounding(last.x, x[1], top) == carry:
                    endings.append(([edge, last], top == 1 and last.after == 0))
            for low in division.kept[edge.after]:
                if carry_of(*low) == carry:
                    longer.append((edge, low))
    if endings and (not longer or rng.integers(2)):
        return _any(endings, rng)
    edge, low = _any(longer, rng)
    rows, tail = _rest(division, edge.after, low, rng)
    return [edge, *rows], tail


def _way_to(divisor: int, remainder: int, n_rows: int, rng: Generator) -> list[Edge]:
    """Returns rows that lead to a remainder: `n_rows` random ones, and a shortest way."""
    edges, way = edges_of(divisor), list[Edge]()
    start = 1 + int(rng.integers(9))
    for _ in range(n_rows):
        following = edges[way[-1].after if way else start]
        way.append(following[rng.integers(len(following))])
    if not way and remainder in range(1, 10):
        return []
    start = way[-1].after if way else start
    ways: dict[int, list[Edge]] = {start: []}
    for current in (queue := [start]):
        if current == remainder:
            break
        for edge in edges[current]:
            if edge.after not in ways:
                ways[edge.after] = [*ways[current], edge]
                queue.append(edge.after)
    return way + ways[remainder]


def leading_questions(divisor: int, rng: Generator) -> Iterator[Question]:
    """Yields quotients that together have all leading digits of a divisor of three digits."""
    edges = edges_of(divisor)
    column = np.flatnonzero(leading_digits()[:, divisor - LEAST]) - LIMIT
    need = set(column.tolist())
    while need:
        firsts = [start for start in range(1, 10) if start in need] or [*range(1, 10)]
        current = int(rng.choice(firsts))
        rows: list[Edge] = []
        found = len(need)
        for _ in range(MAX_ROWS - 1):
            need.discard(current)
            following = edges[current]
            wanted = [edge for edge in following if edge.after in need] or following
            rows.append(wanted[rng.integers(len(wanted))])
            current = rows[-1].after
        if len(need) == found:  # none by chance: go to one
            rows = _way_to(divisor, next(iter(need)), 0, rng)
            last = edges[next(iter(need))]
            rows = [*rows, *last[:1], *edges[last[0].after][:1]]
            need.discard(rows[-2].before)
        yield long_division(divisor, rows, 1 + int(rng.integers(9)), 0, rng)
