"""Quotients: long division with signed digits.

$(0000000006/0000000344)=+6+4430;60000+000600000+221119190-3021511110:20+=20.0000000$
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datagen.operations.base import Operation
from datagen.operations.parts import A_KINDS, B_KINDS, Question, copies, operand_sign
from datagen.rules import (
    MINUS,
    NINE,
    PLUS,
    ZERO,
    Characters,
    Values,
    constant,
    copy,
    digit,
    marked,
    sign,
    value,
)
from datagen.slots import LOWEST, MIN_DIVISOR, NOWHERE, Kind, Layout, Shape, StepKind

ROW_KINDS = (Kind.REMAINDER_DIGIT, Kind.REMAINDER_CARRY)


def exact_quotient(a: Any, b: Any, unit: int) -> tuple[Any, Any]:
    return a, b


def _rows(shape: Shape) -> int:
    before_point = shape.a_digits - shape.a_places - (shape.b_digits - shape.b_places)
    return before_point + shape.places + 3


def quotient_length(shape: Shape) -> int:
    width = max(shape.b_digits, MIN_DIVISOR)
    n_row = _rows(shape)
    operands = 2 + shape.a_digits + width + 1
    if shape.by_zero or n_row <= 1:
        return operands + 2
    return operands + 1 + width + 1 + n_row * (2 * width + 4) + 3 + n_row - 1 + 1


def quotient_layout(plan: Layout, shape: Shape, question: Question) -> None:
    """Puts a long division with signed digits. A row is the last remainder with A's next digit
    brought down, minus a quotient digit times B.

    The first row divides so few digits of A that its quotient is below 1. So no quotient digit is
    large: at most 6, or 8 if the digit before is only the second nearest. There are no rows if the
    quotient is below half of the last place.
    """
    n_a, n_b = shape.a_digits, shape.b_digits
    width = max(n_b, MIN_DIVISOR)
    plan.result_places = shape.places
    n_row = _rows(shape)
    n_below = n_a - (width - 2) - n_row if n_row > 1 else 0
    a_sign = operand_sign(plan, Kind.A_SIGN, question.a, [])
    a = copies(plan, question.a, -shape.a_places, n_a, A_KINDS, n_below)
    b_sign = operand_sign(plan, Kind.B_SIGN, question.b, [])
    # Zeros below B until it has `width` digits, and one above it.
    b = copies(plan, question.b, -shape.b_places - (width - n_b), width + 1, B_KINDS)
    if shape.by_zero:
        plan.put(Kind.RESULT_MARK)
        plan.put(Kind.NAN)
        return
    if n_row <= 1:
        plan.put(Kind.RESULT_MARK)
        plan.sign = plan.put(Kind.SIGN, 0, 0, [a_sign, b_sign])
        return
    remainder = first_remainder(plan, a, width)
    quotient: list[tuple[int, int]] = []  # positions of sign and digit
    for k in range(1, n_row + 1):
        down = bring_down(plan, a, n_a - (width - 2) - k, k)
        below = n_below - 1 if k == n_row else None
        sign_digit, remainder = division_row(plan, k, b, [down, *remainder], a, below)
        quotient.append(sign_digit)
    sources = [*quotient[-1], quotient[-2][1], remainder[-1]]
    rounding = plan.put(Kind.QUOTIENT_ROUNDING, 0, LOWEST - 1, sources)
    quotient_result(plan, quotient, rounding)
    plan.sign = plan.put(Kind.SIGN, 0, 0, [a_sign, b_sign])


def first_remainder(plan: Layout, a: list[int], width: int) -> list[int]:
    """Puts A's leading digits, two fewer than the divisor has, and returns the row's positions."""
    plan.put(Kind.REMAINDER_MARK, 1)
    row: list[int] = []
    for j in range(width + 1):
        source = len(a) - (width - 2) + j
        if j < width - 2 and source >= 0:
            row.append(plan.put(Kind.REMAINDER_COPY, 1, j + LOWEST, [a[source]]))
        else:
            row.append(plan.put(Kind.REMAINDER_ZERO, 1, j + LOWEST))
    return row


def bring_down(plan: Layout, a: list[int], index: int, row: int) -> int:
    """Puts a digit of A below the remainder of a row, and returns its position."""
    if index < 0:
        return plan.put(Kind.BROUGHT_ZERO, row, LOWEST - 1)
    return plan.put(Kind.BROUGHT_DOWN, row, LOWEST - 1, [a[index]])


def division_row(
    plan: Layout, k: int, b: list[int], dividend: list[int], a: list[int], below: int | None
) -> tuple[tuple[int, int], list[int]]:
    """Puts quotient digit k and the remainder that it leaves. Returns the positions of the digit's
    sign and of the digit, and those of the remainder's digits, lowest first.

    The digits of the last remainder are marks. `below` is the index of the digit of A below it.
    """
    width = len(b) - 1
    sign = plan.put(Kind.DIVIDEND_SIGN, k + 1, 0, [dividend[-1]])
    sources = [*dividend[-MIN_DIVISOR - 1 :], *b[width - MIN_DIVISOR : width]]
    digit = plan.put(Kind.QUOTIENT_DIGIT, k + 1, 0, sources)
    if below is None:
        above = [b[:width], dividend[:width]]
        row, carry = plan.put_columns(ROW_KINDS, k + 1, [sign, digit], above)
        sources = [sign, digit, b[width], dividend[width], carry]
        row.append(plan.put(Kind.REMAINDER_DIGIT, k + 1, width + LOWEST, sources))
        return (sign, digit), row
    mark = bring_down(plan, a, below, k + 1)
    row = []
    carry = NOWHERE
    for j in range(width + 1):
        if j:
            sources = [sign, digit, b[j - 1], dividend[j - 1], carry]
            carry = plan.put(Kind.REMAINDER_CARRY, k + 1, j + LOWEST, sources)
        sources = [sign, digit, b[j], dividend[j], carry, mark]
        mark = plan.put(Kind.LAST_DIGIT, k + 1, j + LOWEST, sources)
        row.append(mark)
    return (sign, digit), row


def quotient_result(plan: Layout, quotient: list[tuple[int, int]], rounding: int) -> None:
    """Puts the result of signed digits, without the digit that is rounded off.

    The first signed digit stands for less than 1, so there is room for the carry of the others.
    """
    plan.put(Kind.RESULT_MARK)
    last = len(quotient) - 2  # of the digits that are kept
    for m in range(last + 1):
        before = [*quotient[last - m + 1], plan.result[-1]] if m else [NOWHERE, NOWHERE, rounding]
        sources = [*quotient[last - m], *before]
        plan.result.append(plan.put(Kind.QUOTIENT_RESULT, 0, m + LOWEST, sources))


_POWERS = 10.0 ** np.arange(MIN_DIVISOR)


def estimate(*sources: Characters) -> NDArray[np.float64]:
    """Returns an estimate of the quotient from leading digits, (n,), within 0.2 of the true one.

    The sources are the leading digits of the remainder, lowest first and its sign digit last, and
    then those of the divisor.
    """
    values = value(np.asarray(sources))  # (7, n)
    dividend = _POWERS @ values[:MIN_DIVISOR]
    dividend -= np.where(sources[MIN_DIVISOR] == NINE, 10**MIN_DIVISOR, 0)
    divisor = _POWERS @ values[MIN_DIVISOR + 1 :]
    # The digits that are not read add half a unit on average.
    result: NDArray[np.float64] = 10 * (dividend + 0.5) / (divisor + 0.5)
    return result


def quotient_digit(*sources: Characters) -> Characters:
    """Returns the digit of the whole number nearest to the estimate, without its sign. The
    remainder is always smaller than the divisor."""
    return digit(np.minimum(np.abs(np.rint(estimate(*sources))), 9).astype(np.int16))


def second_quotient_digit(*sources: Characters) -> Characters:
    """Returns the second nearest whole number if it, too, certainly leaves less than the divisor;
    else the nearest."""
    quotient = estimate(*sources)
    nearest = np.clip(np.rint(quotient), -9, 9)
    distance = quotient - nearest
    other = nearest + np.sign(distance)
    negative = sources[MIN_DIVISOR] == NINE
    usable = (np.abs(distance) > 0.25) & (np.abs(other) <= 9) & ((other < 0) <= negative)
    usable &= (other > 0) <= ~negative
    return digit(np.abs(np.where(usable, other, nearest)).astype(np.int16))


def _dividend_sign(top: Characters) -> Characters:
    return sign(top == NINE)


def _total(
    sign: Characters, q: Characters, b: Characters, old: Characters, carry: Characters
) -> Values:
    """Returns old - q * b. The carry is a borrow if q is positive."""
    change = value(q) * value(b) + value(carry)
    return value(old) + np.where(sign == PLUS, -change, change)


def _remainder_digit(*sources: Characters) -> Characters:
    return digit(_total(*sources) % 10)


def _remainder_carry(*sources: Characters) -> Characters:
    return digit(abs(_total(*sources) // 10))


def _last_digit(*sources: Characters) -> Characters:
    *total, before = sources
    return marked(_remainder_digit(*total), before)


def _rounding(
    sign: Characters, last: Characters, before: Characters, top: Characters
) -> Characters:
    """Returns the carry (+, - or 0) from rounding off the last digit."""
    positive = sign == PLUS
    zero = top == ZERO
    # Whether the remainder has the sign of the last digit: then the part to round exceeds `last`.
    beyond = ~zero & ((top != NINE) == positive)
    away = (value(last) > 5) | ((value(last) == 5) & (beyond | (zero & (value(before) % 2 == 1))))
    return np.where(away, np.where(positive, PLUS, MINUS), ZERO).astype(np.uint8)


def _result(
    sign: Characters,
    q: Characters,
    sign_before: Characters,
    q_before: Characters,
    result: Characters,
) -> Characters:
    """Returns a signed digit plus the carry of the digit before. `result` is the result digit
    before, or the rounding."""
    before = np.where(sign_before == MINUS, -1, 1) * value(q_before)
    carry_before = (value(result) - before + 1) % 10 - 1  # into the digit before: -1, 0 or 1
    rounding = (result == PLUS).astype(np.int16) - (result == MINUS)
    carry = np.where(sign_before == 0, rounding, (before + carry_before) // 10)
    return digit((np.where(sign == MINUS, -1, 1) * value(q) + carry) % 10)


DIVISION = Operation(
    sign="/",
    name="division",
    symbol="÷",
    spellings=("/", "÷", "∕", "⁄", "➗", ":", "over", "divided by"),
    pairs=(("quotient of", "and", False), ("divide", "by", False)),
    rank=2,
    exact=exact_quotient,
    layout=quotient_layout,
    length=quotient_length,
    rules={
        StepKind.QUOTIENT: {Kind.QUOTIENT_DIGIT: quotient_digit},
        StepKind.REMAINDER: {
            Kind.REMAINDER_COPY: copy,
            Kind.REMAINDER_ZERO: constant("0"),
            Kind.BROUGHT_DOWN: copy,
            Kind.BROUGHT_ZERO: constant("0"),
            Kind.REMAINDER_DIGIT: _remainder_digit,
            Kind.LAST_DIGIT: _last_digit,
            Kind.REMAINDER_CARRY: _remainder_carry,
        },
        StepKind.ROUNDING: {Kind.QUOTIENT_ROUNDING: _rounding, Kind.QUOTIENT_RESULT: _result},
        StepKind.SIGN: {Kind.DIVIDEND_SIGN: _dividend_sign},
        StepKind.LAYOUT: {Kind.REMAINDER_MARK: constant(";"), Kind.NAN: constant("n")},
    },
    colour="purple",
    marker="v",
    divides=True,
    has_point=True,
)
