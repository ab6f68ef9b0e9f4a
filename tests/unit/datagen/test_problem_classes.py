"""Classes of problems, against definitions digit by digit."""

import re
from fractions import Fraction

import numpy as np
import pytest
from datagen_strategies import problems
from hypothesis import given
from hypothesis import strategies as st

from datagen.arithmetic import Number, Operation, Problem, answer
from datagen.notation import number_from_text, number_text
from datagen.problem_classes import (
    MAX_CARRIES,
    POWER_LABELS,
    TABLES,
    count_classes,
    digits,
    longest_carry_chain,
    longest_run,
    nearness,
)

SYMBOLS = "+-*/"
whole = st.integers(0, 9).flatmap(lambda n: st.integers(10**n, 10 ** (n + 1)))


def problem(text: str) -> Problem:
    a, op, b = text.split()
    return Problem(number_from_text(a), Operation(op), number_from_text(b))


def chain(text: str) -> int:
    return longest_carry_chain(problem(text), answer(problem(text)))


def longest(flags: list[bool]) -> int:
    return max(map(len, re.findall("1+", "".join("01"[flag] for flag in flags))), default=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2", 0),
        ("5 + 5", 1),
        ("999 + 1", 3),
        ("0.95 + 0.05", 2),
        ("909 + 101", 1),
        ("-999 - 1", 3),
        ("1000 - 1", 3),
        ("1 - 1000", 3),
        ("1000 + -1", 3),
        ("-12.5 - -12.5", 0),
        ("3 * 3", 0),
        ("4 * 5", 1),
        ("99 * 1", 0),
        ("99 * 2", 2),
        ("10 / 5", 1),
        ("0 * 99", 0),
        ("1 / 0", 0),
    ],
)
def test_chains_of_carries(text: str, expected: int) -> None:
    assert chain(text) == expected


@given(whole, whole)
def test_carries_of_sums_and_borrows_of_differences(x: int, y: int) -> None:
    width = 12
    # Something is carried from a column if the digits up to it add to a power of ten or more, and
    # borrowed if those of the minuend are fewer.
    carries = [x % 10**k + y % 10**k >= 10**k for k in range(1, width)]
    assert chain(f"{x} + {y}") == longest(carries)
    high, low = max(x, y), min(x, y)
    borrows = [high % 10**k < low % 10**k for k in range(1, width)]
    assert chain(f"{low} - {high}") == longest(borrows)


@given(whole, whole)
def test_carries_of_products(x: int, y: int) -> None:
    left, right = ([int(c) for c in reversed(str(n))] for n in (x, y))
    columns = np.convolve(left, right).tolist()
    # What the columns from the lowest up to one add up to, beyond their places.
    totals = [sum(c * 10**i for i, c in enumerate(columns[:k])) for k in range(1, 1 + len(columns))]
    carries = [total >= 10**k for k, total in enumerate(totals, start=1)]
    assert chain(f"{x} * {y}") == longest(carries)


@given(problems)
def test_nearness_is_a_distance_from_the_nearest_power(problem: Problem) -> None:
    number = problem.a
    value = abs(Fraction(number.units, 10**number.places))
    if not value:
        assert nearness(number) == 0
        return
    powers = [Fraction(10) ** k for k in range(-12, 110)]
    distance = min(abs(value - power) / power for power in powers)
    limits = [Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000)]
    expected = sum(distance <= limit for limit in limits) + (distance == 0)
    assert nearness(number) == expected
    assert len(POWER_LABELS) == 5


@given(problems, st.sampled_from("09"))
def test_digits_and_runs(problem: Problem, digit: str) -> None:
    number = problem.a
    written = number_text(number).replace(".", "").strip("-").strip("0")
    assert digits(number).rstrip("0") == written
    assert longest_run(number, digit) == max(map(len, re.findall(f"{digit}*", written)))


@given(st.lists(problems, max_size=5))
def test_every_problem_is_in_a_cell_of_each_table(batch: list[Problem]) -> None:
    counts = count_classes(batch)
    assert counts.keys() == TABLES.keys()
    n_answers = sum(answer(p) is not None for p in batch)
    for name, table in TABLES.items():
        assert counts[name].shape == table.shape
        columns = counts[name].sum((0, 1))
        if table.columns.labels == ("A", "B", "answer"):
            assert columns.tolist() == [len(batch), len(batch), n_answers]
        else:
            assert columns.sum() == len(batch)
        expected = [sum(p.op == op for p in batch) for op in Operation]
        if columns.sum() == len(batch):
            assert counts[name].sum((1, 2)).tolist() == expected


@pytest.mark.parametrize(
    ("name", "text", "row", "column"),
    [
        ("lengths", "0.05 + 1000", "1", "4"),
        ("lengths", "5.0 + 12.5", "1", "3"),
        ("places", "0.05 * 1000", "2", "0"),
        ("signs", "-3 / 0", "-", "0"),
        ("answer-places", "1 / 3", "2", ""),
        ("carries", "999 + 1", "3", ""),
        ("powers", "7 * 1001", "farther", "A"),
        ("powers", "7 * 1001", "within 0.1%", "B"),
        ("powers", "500 + 500", "a power", "answer"),
        ("zeros", "4007 + 10", "2", "A"),
        ("zeros", "4007 + 10", "0", "B"),
        ("nines", "0.1 + 9.89", "3", "answer"),
        ("answers", "3 - 120", "3", "-"),
        ("answers", "1 / 0", "nan", "+"),
        ("answers", "5 - 5", "0", "+"),
    ],
)
def test_classes_of_examples(name: str, text: str, row: str, column: str) -> None:
    table, example = TABLES[name], problem(text)
    cell = (
        SYMBOLS.index(example.op),
        table.rows.labels.index(row),
        table.columns.labels.index(column),
    )
    assert count_classes([example])[name][cell] == 1


def test_longer_numbers_count_as_one_length() -> None:
    longest = Number(10**30)
    counts = count_classes([Problem(longest, Operation.MUL, longest)])
    assert counts["lengths"][2, -1, -1] == 1
    assert counts["answers"][2, -1, 0] == 1


def test_the_last_row_of_the_carries_is_for_all_longer_chains() -> None:
    lengths = (MAX_CARRIES - 1, MAX_CARRIES, MAX_CARRIES + 3)
    sums = [Problem(Number(10**n - 1), Operation.ADD, Number(1)) for n in lengths]
    rows = count_classes(sums)["carries"].sum(axis=(0, 2))
    assert TABLES["carries"].rows.labels[-1] == f"{MAX_CARRIES}+"
    assert rows[-2:].tolist() == [1, 2]
