"""Classes of problems: by lengths, places, signs, carries, runs, texture and nearness to powers.

A table has rows and columns. A cell of a table, together with an operation, is a class. A problem
belongs to one cell of a table. In a table whose columns are A, B and the answer, it belongs to one
cell in each column, except that of an answer that is nan. Shapes: 4 operations, R rows, C columns.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from datagen.arithmetic import DRAWN_PLACES, Number, Problem, answer
from datagen.operations import DIVISION, MULTIPLICATION, OPERATIONS, SUBTRACTION

MAX_DIGITS = 20  # longer numbers count as one length
MAX_CARRIES = 12
MAX_RUN = 5  # zeros or nines in a row

Counts: TypeAlias = dict[str, NDArray[np.int64]]  # by table, (4, R, C)
Class: TypeAlias = tuple[str, int, int, int]  # table, operation, row, column
Cells: TypeAlias = Iterable[tuple[int, int]]


@dataclass(frozen=True)
class Axis:
    """The rows or columns of a table."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A way to divide all problems into classes.

    `cells` returns the rows and columns to which a problem with this answer belongs.
    """

    title: str
    rows: Axis
    columns: Axis
    cells: Callable[[Problem, Number | None], Cells]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of its counts, (4, R, C)."""
        return len(OPERATIONS), len(self.rows.labels), len(self.columns.labels)


def count_classes(problems: Iterable[Problem]) -> Counts:
    """Returns how many of the problems belong to each class of each table."""
    frequencies = Counter(chain.from_iterable(map(classes_of, problems)))
    counts = {name: np.zeros(table.shape, np.int64) for name, table in TABLES.items()}
    for (name, *cell), count in frequencies.items():
        counts[name][tuple(cell)] = count
    return counts


def classes_of(problem: Problem) -> Iterator[Class]:
    """Yields the classes of a problem, table by table."""
    code, value = OPERATIONS.index(problem.op), answer(problem)
    for name, table in TABLES.items():
        for row, column in table.cells(problem, value):
            yield name, code, row, column


def most_digits(problem: Problem) -> int:
    """Returns the length of the longer operand, as `digits` counts it."""
    return max(len(digits(problem.a)), len(digits(problem.b)))


def digits(number: Number) -> str:
    """Returns the digits of a number from the first that is not 0, without the last 0 of `5.0`;
    at least one digit."""
    units = abs(number.units)
    return str(units // 10 if number.places == 1 and units % 10 == 0 else units)


def longest_carry_chain(problem: Problem, value: Number | None) -> int:
    """Returns the largest number of adjacent columns that all carry.

    A column of a sum has a digit of each term. A difference is counted as the sum of the difference
    and the smaller number: a borrow is a carry there. A column of a product has all products of two
    digits with the same place value. A quotient is counted as the product of the divisor and the
    rounded quotient.
    """
    a, b = problem.a, problem.b
    if problem.op in (MULTIPLICATION, DIVISION):
        factor = a if problem.op is MULTIPLICATION else value
        return _longest_chain(_spread(factor.units) * _spread(b.units)) if factor else 0
    scale = max(a.places, b.places)
    x, y = a.scaled(scale), b.scaled(scale)
    if problem.op is SUBTRACTION:
        y = -y
    if (x < 0) != (y < 0):  # the larger magnitude is the sum of the smaller and the difference
        x, y = x + y, min(abs(x), abs(y))
    return _longest_chain(_spread(x) + _spread(y))


_COLUMN_DIGITS = 4  # of the sum of a column: it is at most 81 times the digits of an operand


def _spread(number: int) -> int:
    """Returns the number with its digits read in base 10**_COLUMN_DIGITS."""
    return int("".join(digit.zfill(_COLUMN_DIGITS) for digit in str(abs(number))))


def _longest_chain(spread: int) -> int:
    """Returns the largest number of adjacent columns that all carry. The sums of the columns are
    the digits in base 10**_COLUMN_DIGITS of a sum or product of spread numbers."""
    text = str(spread)
    longest = length = carry = 0
    for end in range(len(text), 0, -_COLUMN_DIGITS):  # from the lowest column on
        carry = (int(text[max(0, end - _COLUMN_DIGITS) : end]) + carry) // 10
        length = length + 1 if carry else 0
        longest = max(longest, length)
    return longest


POWER_LABELS = ("farther", "within 10%", "within 1%", "within 0.1%", "a power")


def nearness(number: Number) -> int:
    """Returns the index in POWER_LABELS of a number's distance from the nearest power of ten."""
    units = abs(number.units)
    if not units:
        return 0
    above = 10 ** len(str(units))
    below = above // 10
    if units == below:
        return len(POWER_LABELS) - 1
    return sum(
        (units - below) * percent <= below or (above - units) * percent <= above
        for percent in (10, 100, 1000)
    )


def longest_run(number: Number, digit: str) -> int:
    """Returns the length of the longest run of a digit. Zeros at the end do not count."""
    text, length = digits(number).rstrip("0"), 0
    while digit * (length + 1) in text:
        length += 1
    return length


def run_length(number: Number) -> int:
    """Returns the length of the longest run of any digit, as `longest_run` counts it."""
    runs = groupby(digits(number).rstrip("0"))
    return max((len(list(run)) for _, run in runs), default=0)


TEXTURES = ("short", "one digit", "one other digit", "period", "palindrome", "run", "none")
SHORT, MAX_PERIOD = 3, 5


def texture(number: Number) -> int:
    """Returns the index in TEXTURES of the first that a number has: at most SHORT digits; 7777;
    7717; a period of up to MAX_PERIOD; 12321; a run of half of the digits; none of these."""
    text = digits(number)
    n = len(text)
    most = max(map(text.count, text))
    periods = range(2, min(MAX_PERIOD, n // 2) + 1)
    flags = (
        n <= SHORT,
        most == n,
        most == n - 1,
        any(text == (text[:period] * n)[:n] for period in periods),
        text == text[::-1],
        2 * max(len(list(run)) for _, run in groupby(text)) >= n,
        True,
    )
    return flags.index(True)


def _lengths(problem: Problem, value: Number | None) -> Cells:
    a, b = (min(len(digits(number)), MAX_DIGITS) - 1 for number in (problem.a, problem.b))
    return [(a, b)]


def _signs(problem: Problem, value: Number | None) -> Cells:
    a, b = (1 + (n.units > 0) - (n.units < 0) for n in (problem.a, problem.b))
    return [(a, b)]


def _number_cells(measure: Callable[[Number], int], limit: int) -> Callable[..., Cells]:
    """Returns a function that returns a cell for A, for B, and for the answer unless it is nan: its
    row is the measure, at most `limit`."""

    def cells(problem: Problem, value: Number | None) -> Cells:
        numbers = (problem.a, problem.b, value)
        return [(min(measure(n), limit), column) for column, n in enumerate(numbers) if n]

    return cells


def _answers(problem: Problem, value: Number | None) -> Cells:
    if value is None:
        return [(0, 0)]
    length = min(len(digits(value)), MAX_DIGITS) if value.units else 0
    return [(1 + length, int(value.units < 0))]


def _numbers(name: str, first: int, last: int, more: bool = False) -> Axis:
    """Returns the axis of all numbers from first to last. With `more`, the last label stands for
    larger numbers, too."""
    labels = [str(number) for number in range(first, last + 1)]
    return Axis(name, (*labels[:-1], f"{last}+" if more else labels[-1]))


_NONE = Axis("", ("",))
_NUMBERS = Axis("of", ("A", "B", "answer"))
_SIGNS = ("-", "0", "+")
TABLES: dict[str, Table] = {
    "lengths": Table(
        "lengths of the operands",
        _numbers("digits of A", 1, MAX_DIGITS, more=True),
        _numbers("digits of B", 1, MAX_DIGITS, more=True),
        _lengths,
    ),
    "places": Table(
        "places of the operands",
        _numbers("places of A", 0, DRAWN_PLACES, more=True),
        _numbers("places of B", 0, DRAWN_PLACES, more=True),
        lambda problem, _: [
            (min(problem.a.places, DRAWN_PLACES), min(problem.b.places, DRAWN_PLACES))
        ],
    ),
    "signs": Table(
        "signs of the operands", Axis("sign of A", _SIGNS), Axis("sign of B", _SIGNS), _signs
    ),
    "answer-places": Table(
        "places of the answer",
        _numbers("places", 0, DRAWN_PLACES, more=True),
        _NONE,
        lambda problem, _: [(min(problem.places, DRAWN_PLACES), 0)],
    ),
    "carries": Table(
        "longest chain of carries",
        _numbers("columns", 0, MAX_CARRIES, more=True),
        _NONE,
        lambda problem, value: [(min(longest_carry_chain(problem, value), MAX_CARRIES), 0)],
    ),
    "powers": Table(
        "nearness to a power of ten",
        Axis("distance", POWER_LABELS),
        _NUMBERS,
        _number_cells(nearness, len(POWER_LABELS) - 1),
    ),
    "zeros": Table(
        "zeros in a row inside a number",
        _numbers("zeros", 0, MAX_RUN, more=True),
        _NUMBERS,
        _number_cells(partial(longest_run, digit="0"), MAX_RUN),
    ),
    "nines": Table(
        "nines in a row",
        _numbers("nines", 0, MAX_RUN, more=True),
        _NUMBERS,
        _number_cells(partial(longest_run, digit="9"), MAX_RUN),
    ),
    "runs": Table(
        "the longest run of a digit",
        _numbers("digits", 0, MAX_DIGITS, more=True),
        _NUMBERS,
        _number_cells(run_length, MAX_DIGITS),
    ),
    "textures": Table(
        "texture of a number",
        Axis("texture", TEXTURES),
        _NUMBERS,
        _number_cells(texture, len(TEXTURES) - 1),
    ),
    "answers": Table(
        "length and sign of the answer",
        Axis("digits", ("nan", "0", *_numbers("", 1, MAX_DIGITS, more=True).labels)),
        Axis("sign", ("+", "-")),
        _answers,
    ),
}
