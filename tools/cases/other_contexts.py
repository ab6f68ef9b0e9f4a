"""Contexts of the cases outside rows of digits: signs, copies, magnitudes, roundings, quotients.

They have few cases, so each is written out in a problem of its own.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.random import Generator

from datagen.arithmetic import MAX_ASKED_PLACES
from datagen.slots import Kind
from tools.cases.contexts import CONTEXTS, MANY_ROWS, RANDOM, Context, Group, group_of, row_groups
from tools.cases.questions import Question, number, question, split_question, sum_question
from tools.cases.quotient_questions import chain_question, leading_questions
from tools.cases.quotients import LEAST, LIMIT, results, roundings
from tools.cases.rows import COLUMNS, sum_rows
from tools.cases.rules import LOCAL_STEPS

ALL = range(10)
SUMS = (
    Kind.MAGNITUDE_LOWEST,
    Kind.SUM_RESULT,
    Kind.SUM_KEPT,
    Kind.SUM_HALF,
    Kind.SUM_BELOW,
    Kind.MAGNITUDE_TOP,
)
ROUNDINGS = (Kind.ROUNDING, Kind.ROUNDED_RESULT, Kind.ROUNDED_TOP)
PRODUCTS = (Kind.PRODUCT_BELOW, Kind.PRODUCT_HALF, Kind.PRODUCT_KEPT, Kind.PRODUCT_RESULT)
#: Kinds of which any problem has many.
SMALL = tuple(
    kind
    for step in LOCAL_STEPS
    for kind in step.kinds
    if step.size <= 100 and kind not in {*SUMS, *ROUNDINGS, *PRODUCTS}
)


def groups(seed: int) -> Iterator[Group]:
    """Yields the groups of all cases."""
    rng = np.random.default_rng(seed)
    for context in CONTEXTS:
        copies = context.times
        yield group_of(context, SMALL, [*_operands(context, rng)])
        for kinds, make in (
            ((Kind.SUM_TOP,), _tops),
            (SUMS, _magnitudes),
            (ROUNDINGS, _roundings),
            (PRODUCTS, _products),
            ((Kind.A_BELOW,), _below_rows),
            (ROUNDINGS, _product_roundings),
        ):
            questions = [q for _ in range(copies) for q in make(context, rng)]
            yield group_of(context, kinds, questions)
    quotients = (Kind.QUOTIENT_RESULT, Kind.QUOTIENT_ROUNDING)
    yield group_of(CONTEXTS[0], quotients, [*_quotients(3, 0, rng)])
    for n_rows in (4, 10, 20):
        yield group_of(MANY_ROWS, quotients, [*_quotients(1, n_rows, rng)])
    yield from row_groups(seed)
    for start in range(LEAST, LIMIT, 100):
        questions = [q for b in range(start, start + 100) for q in leading_questions(b, rng)]
        yield group_of(CONTEXTS[0], (Kind.QUOTIENT_DIGIT, Kind.DIVIDEND_SIGN), questions)


def _operands(context: Context, rng: Generator) -> Iterator[Question]:
    """Yields operands of all signs and many lengths, for signs and copies. One is short, or both
    are long."""
    lengths = (1, 2, 5, 9, 10, 12, 25) if context.name == RANDOM else (2 * context.repeat, 39)
    for op, signs, d, n, part in product(
        "+-*/", product((1, -1), repeat=2), ALL, lengths, range(3)
    ):
        if part == 2 and op == "*":
            continue
        digits = rng.integers(10, size=n).tolist() if context.name == RANDOM else [d] * n
        digits[-1] = digits[-1] or 1 + int(rng.integers(9))
        long, short = number(digits), int(rng.integers(10 ** rng.integers(1, 4)))
        other = number([int(rng.integers(10))] * (n - 1) + [1 + int(rng.integers(9))])
        a, b = ((short, long), (long, short), (long, other))[part]
        places = rng.choice((0, 0, 1, 2), 2).tolist()
        yield Question(question(signs[0] * a, op, signs[1] * b, *places))


def _tops(context: Context, rng: Generator) -> Iterator[Question]:
    """Yields sums with all columns, with and without a carry into them, below the top one, which
    has no digits. The column repeats or, if the carry would change, ends a run of another one."""
    r = context.repeat
    for row, x, carry in product(sum_rows(), range(len(COLUMNS)), (0, 1)):
        state = row.states.index((*COLUMNS[x], carry))
        made: list[list[int]] = []
        while not made:
            others = rng.integers(1, len(COLUMNS), size=rng.integers(1, 12)).tolist()
            words = [[*others, x]]
            if context.name != RANDOM:
                run = others[:1] * r
                words = [[x] * r, [*run, *[x] * r], [*run, x]]
            made = [word for word in words if word[0] and row.after(word) == state]
        yield sum_question(row.fixed[0], [COLUMNS[x] for x in made[0]], True, rng)


def _magnitudes(context: Context, rng: Generator) -> Iterator[Question]:
    """Yields sums with all digits `low` before all digits `high`, above only zeros and not, in all
    parts of a row: those that are kept, rounded off, or beside that place."""
    r = context.repeat
    parts = [([], r), ([0] * r, r), ([0] * r, 1), ([1 + int(rng.integers(9))] * r, r)]
    for top, low, high, (lowest, times) in product((0, 1, 9), ALL, ALL, parts):
        digits = [*lowest, *[low] * times, *[high] * r]
        if context.name == RANDOM:
            digits += rng.integers(10, size=rng.integers(2, 12)).tolist()
        middle = len(lowest) + times
        for drop in {0, middle - 1, middle, middle + 1, middle + 2} & {
            *range(min(len(digits), MAX_ASKED_PLACES) + 1)
        }:
            if made := split_question(top, digits, drop, rng):
                yield made


def _roundings(context: Context, rng: Generator) -> Iterator[Question]:
    """Yields sums that are rounded: all digits at the place and on both sides, and all pairs of
    digits above with and without a carry into them."""
    r = context.repeat
    for half, kept, below in product(ALL, ALL, (*ALL, None)):
        low = [] if below is None else [below] * r
        if below and context.name == RANDOM:
            low = [*rng.integers(10, size=4).tolist(), below]
        made = split_question(0, [*low, half, *[kept] * r], len(low) + 1, rng)
        if made:
            yield made
    for exact, before, nines in product(ALL, ALL, {0, r}):
        for half in (int(rng.integers(5)), int(rng.integers(6, 10))):
            digits = [half, *[9] * nines, before, *[exact] * r]
            if made := split_question(0, digits, 1, rng):
                yield made


def _products(context: Context, rng: Generator) -> Iterator[Question]:
    """Yields products by a power of 10: all pairs of digits in all parts of the exact row."""
    r = context.repeat
    for low, high, part in product((*ALL, None), ALL, range(4)):
        digits = [*[low] * (r if low is not None else 0), *[high] * r, 1 + int(rng.integers(9))]
        if context.name == RANDOM:
            digits[-1:] = [*rng.integers(10, size=4).tolist(), *digits[-1:]]
        middle = len(digits) - 1 - r if context.name != RANDOM else len(digits) - 5 - r
        # The digit `high` is kept, half, or below; or all are kept.
        drop = min((middle, middle + 1, middle + 3, 0)[part], MAX_ASKED_PLACES)
        yield Question(question(number(digits), "*", 1, 0, drop, 0))


def _below_rows(context: Context, rng: Generator) -> Iterator[Question]:
    """Yields quotients with all digits of A below the last row."""
    r = context.repeat
    for low, high in product(range(1, 10), ALL):
        digits = [low] * r + [high] * r
        if high == 0:  # a 0 after each mark: the mark of a 0 is 1
            digits = [low, *[0] * r]
        if low == 1:
            digits = [*digits[:1], *digits]
        places = len(digits) + 1
        lead = number([*digits, *rng.integers(10, size=2).tolist(), 1 + int(rng.integers(9))])
        yield Question(question(lead, "/", int(rng.integers(100, 1000)), places, 0, 0))


def _product_roundings(context: Context, rng: Generator) -> Iterator[Question]:
    """Yields products whose top digits are rounded, to the top one or to none: the top digit is
    all digits, before all digits and exact zeros."""
    n = max(2, context.repeat) if context.name != RANDOM else 3
    a = rng.integers(10 ** (n - 1), 10**n, size=20_000).astype(object)
    if context.name != RANDOM:
        a = np.concatenate([a, [d * (10**n // 9) for d in range(1, 10)] * 1000])
    b = rng.integers(1, 10 ** min(n, 4), size=len(a)).astype(object)
    pairs = [*zip(a.tolist(), b.tolist(), strict=True), *_exact_products(rng)]
    for length in range(1, 4):
        yield Question(question(0, "*", int(rng.integers(10**length)) | 1, 0, length + 1, 0))
    seen: set[tuple[int, int, bool]] = set()
    for x, y in pairs:
        length = len(str(x)) + len(str(y))
        digits = str(x * y).zfill(length)
        case = int(digits[0]), int(digits[1]), not int(digits[1:])
        if case in seen or x % 10 == 0 or y % 10 == 0 or length > MAX_ASKED_PLACES:
            continue
        seen.add(case)
        x_places = min(length, MAX_ASKED_PLACES - 2)
        for places in (0, 1):
            yield Question(question(x, "*", y, x_places + places, length - x_places, places))
        yield Question(question(x, "*", y, length - 1, 0, 0))


def _exact_products(rng: Generator) -> list[tuple[int, int]]:
    """Returns pairs whose product is a digit and zeros, as 0.9375 * 0.96, in a random order."""
    numbers = [
        d * power
        for d in (1, 3, 7, 9)
        for power in (*(2**i for i in range(30)), *(5**i for i in range(1, 20)))
    ]
    pairs = [
        (x, y)
        for x in numbers
        for y in numbers
        if not str(x * y)[1:].strip("0") and x % 10 and y % 10
    ]
    return [pairs[i] for i in rng.permutation(len(pairs)).tolist()]


def _quotients(count: int, n_rows: int, rng: Generator) -> Iterator[Question]:
    """Yields quotients with all digits of results and all roundings."""
    for table in (results(), roundings()):
        for case in map(tuple, np.argwhere(table).tolist()):
            yield from (chain_question(case, n_rows, rng) for _ in range(count))
