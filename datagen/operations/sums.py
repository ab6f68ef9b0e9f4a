"""Sums and differences: A and B in the same unit, column by column.

$(00000012.5+00000-3.25)=+05210-52300-52900:52900+=52.9000000$
"""

from typing import Any

import numpy as np

from datagen.operations.base import Operation
from datagen.operations.parts import (
    A_KINDS,
    B_KINDS,
    Question,
    copies,
    exact_kind,
    operand_sign,
    result_length,
    rounded,
)
from datagen.rules import MINUS, NINE, PLUS, ZERO, Characters, Rule, digit, marked, sign, value
from datagen.slots import LOWEST, Kind, Layout, Shape, StepKind


def exact_sum(a: Any, b: Any, unit: int) -> tuple[Any, Any]:
    return a + b, unit


def exact_difference(a: Any, b: Any, unit: int) -> tuple[Any, Any]:
    return a - b, unit


def _size(shape: Shape) -> tuple[int, int, int]:
    d = max(shape.a_places, shape.b_places)
    drop = max(0, d - shape.places)
    n = max(shape.a_digits + d - shape.a_places, shape.b_digits + d - shape.b_places, drop)
    return d, n, drop


def sum_length(shape: Shape) -> int:
    _, n, drop = _size(shape)
    return 3 + 3 * (n + 1) + result_length(n + 1, drop) + 1


def sum_layout(plan: Layout, shape: Shape, question: Question) -> None:
    """Puts A and B in the same unit, their sum or difference, and its magnitude or rounding.

    In that unit, A and B have d places and at most n digits. The top digit of the sum is 9 if the
    sum is negative. All columns of the magnitude read it.
    """
    d, n, drop = _size(shape)
    a_sign = operand_sign(plan, Kind.A_SIGN, question.a, [])
    a = copies(plan, question.a, -d, n + 1, A_KINDS)
    b_sign = operand_sign(plan, Kind.B_SIGN_OF_SUM, question.b, [question.op])
    b = copies(plan, question.b, -d, n + 1, B_KINDS)
    operator = plan.put(Kind.ADD_OR_SUBTRACT, 0, 0, [a_sign, b_sign])
    total: list[int] = []
    for j in range(n + 1):
        kind = Kind.SUM_TOP if j == n else Kind.SUM_DIGIT if j else Kind.SUM_LOWEST
        before = [a[j - 1], b[j - 1], total[j - 1]] if j else []
        sources = [operator, a[j], b[j], *before]
        total.append(plan.put(kind, 0, j + LOWEST, sources))
    plan.put(Kind.EXACT_MARK if drop else Kind.RESULT_MARK)
    magnitude: list[int] = []
    for j in range(n):
        before = [total[j - 1], magnitude[j - 1]] if j else []
        kind = Kind.SUM_RESULT if j else Kind.MAGNITUDE_LOWEST
        if drop:
            kind = exact_kind(Kind.SUM_KEPT, Kind.SUM_HALF, Kind.SUM_BELOW, j, drop)
        sources = [total[n], total[j], *before]
        magnitude.append(plan.put(kind, 0, j + LOWEST, sources))
    magnitude.append(plan.put(Kind.MAGNITUDE_TOP, 0, n + LOWEST, [total[n]]))
    plan.result = rounded(plan, magnitude, drop) if drop else magnitude
    plan.result_places = min(d, shape.places)
    plan.sign = plan.put(Kind.SUM_SIGN, 0, 0, [a_sign, total[n]])


def _sign_of_b(minus: Characters, op: Characters) -> Characters:
    return sign((minus == MINUS) != (op == MINUS))


def _add_or_subtract(a_sign: Characters, b_sign: Characters) -> Characters:
    return sign(a_sign != b_sign)


def _sum_digit(
    operator: Characters, a: Characters, b: Characters, *column_before: Characters
) -> Characters:
    """Returns the digit of a column. The carry is not written: it follows from the operands and the
    sum of the column before. The lowest column has none before it."""
    add = operator == PLUS
    direction = np.where(add, 1, -1)
    total = value(a) + direction * value(b)
    if column_before:
        a_before, b_before, sum_before = column_before
        before = value(a_before) + direction * value(b_before)
        carried = (direction * (value(sum_before) - before)) % 10  # into the column before
        total += (before + direction * carried) // 10
    return digit(total % 10)


def _magnitude(top: Characters, total: Characters, *column_before: Characters) -> Characters:
    """Returns the digit of the sum or, if its top digit is 9, of the ten's complement."""
    carry = np.ones(len(total), bool)  # of the complement, which is the nines' complement plus one
    if column_before:
        total_before, magnitude_before = column_before
        # The carry goes on while all digits so far are 0.
        carry = (total_before == ZERO) & (magnitude_before == ZERO)
    values = value(total)
    return digit(np.where(top == NINE, (9 + carry - values) % 10, values))


def _magnitude_top(top: Characters) -> Characters:
    return np.where(top == NINE, ZERO, top).astype(np.uint8)


def _sum_below(top: Characters, total: Characters, *column_before: Characters) -> Characters:
    return marked(_magnitude(top, total, *column_before), *column_before[1:])


def _sum_sign(a_sign: Characters, top: Characters) -> Characters:
    return sign((a_sign == MINUS) != (top == NINE))


_RULES: dict[StepKind, dict[Kind, Rule]] = {
    StepKind.SUM: {
        Kind.SUM_LOWEST: _sum_digit,
        Kind.SUM_DIGIT: _sum_digit,
        Kind.SUM_TOP: _sum_digit,
        Kind.SUM_BELOW: _sum_below,
        Kind.SUM_HALF: _magnitude,
        Kind.SUM_KEPT: _magnitude,
    },
    StepKind.ROUNDING: {
        Kind.MAGNITUDE_LOWEST: _magnitude,
        Kind.SUM_RESULT: _magnitude,
        Kind.MAGNITUDE_TOP: _magnitude_top,
    },
    StepKind.SIGN: {
        Kind.B_SIGN_OF_SUM: _sign_of_b,
        Kind.ADD_OR_SUBTRACT: _add_or_subtract,
        Kind.SUM_SIGN: _sum_sign,
    },
}
ADDITION = Operation(
    sign="+",
    name="addition",
    symbol="+",
    spellings=("+", "plus", "added to"),
    pairs=(("sum of", "and", False), ("add", "and", False), ("add", "to", False)),
    rank=1,
    exact=exact_sum,
    layout=sum_layout,
    length=sum_length,
    rules=_RULES,
    colour="blue",
    marker="s",
    commutes=True,
)
SUBTRACTION = Operation(
    sign="-",
    name="subtraction",
    symbol="−",
    spellings=("-", "—", "minus", "less", "take away"),
    pairs=(
        ("difference between", "and", False),
        ("difference of", "and", False),
        ("subtract", "from", True),
        ("take", "from", True),
    ),
    rank=1,
    exact=exact_difference,
    layout=sum_layout,
    length=sum_length,
    rules=_RULES,
    colour="orange",
    marker="D",
)
