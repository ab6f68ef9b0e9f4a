"""Products: a row for each digit of B.

$(0000000012*0000000034)=+21+43;48040;30140:8040+=8040000000$
"""

from typing import Any

from datagen.operations.base import Operation
from datagen.operations.parts import (
    A_KINDS,
    B_KINDS,
    Question,
    copies,
    exact_kind,
    nowhere,
    operand_sign,
    result_length,
    rounded,
)
from datagen.rules import Characters, Values, constant, copy, digit, marked, value
from datagen.slots import LOWEST, Kind, Layout, Shape, StepKind

FIRST_KINDS = (Kind.FIRST_DIGIT, Kind.FIRST_CARRY)
ROW_KINDS = (Kind.PRODUCT_DIGIT, Kind.PRODUCT_CARRY)


def exact_product(a: Any, b: Any, unit: int) -> tuple[Any, Any]:
    return a * b, unit * unit


def product_length(shape: Shape) -> int:
    n_a, n_b = shape.a_digits, shape.b_digits
    drop = max(0, shape.a_places + shape.b_places - shape.places)
    result = 1 if drop > n_a + n_b else result_length(n_a + n_b, drop, 1)
    return 2 + n_a + n_b + 2 * n_b * (1 + n_a) + result + 1


def product_layout(plan: Layout, shape: Shape, question: Question) -> None:
    """Puts a row for each digit of B: the row before without its lowest digit, plus A times the
    digit."""
    n_a, n_b = shape.a_digits, shape.b_digits
    a_sign = operand_sign(plan, Kind.A_SIGN, question.a, [])
    a = copies(plan, question.a, -shape.a_places, n_a, A_KINDS)
    b_sign = operand_sign(plan, Kind.B_SIGN, question.b, [])
    b = copies(plan, question.b, -shape.b_places, n_b, B_KINDS)
    row: list[int] = []
    digits: list[int] = []
    for k in range(1, n_b + 1):
        plan.put(Kind.ROW_MARK, k)
        multiplier = plan.put(Kind.MULTIPLIER, k, 0, [b[k - 1]])
        if k > 1:
            above = [a, row[1:]]
            row, carry = plan.put_columns(ROW_KINDS, k, [multiplier], above)
        else:
            above = [a, nowhere(n_a)]
            row, carry = plan.put_columns(FIRST_KINDS, k, [multiplier], above)
        row.append(carry)  # the row's top digit
        digits.append(row[0])
    for j in range(1, n_a + 1):
        digits.append(row[j])
    places = shape.a_places + shape.b_places
    drop = max(0, places - shape.places)
    plan.result_places = min(places, shape.places)
    if drop > len(digits):  # less than half of the last place
        plan.put(Kind.RESULT_MARK)
    else:
        plan.put(Kind.EXACT_MARK if drop else Kind.RESULT_MARK)
        magnitude: list[int] = []
        for m, source in enumerate(digits):
            kind = exact_kind(Kind.PRODUCT_KEPT, Kind.PRODUCT_HALF, Kind.PRODUCT_BELOW, m, drop)
            kind = kind if drop else Kind.PRODUCT_RESULT
            before = magnitude[-1:] if m < drop - 1 else []  # a mark reads the one before
            magnitude.append(plan.put(kind, 0, m + LOWEST, [source, *before]))
        plan.result = rounded(plan, magnitude, drop, 1) if drop else magnitude
    plan.sign = plan.put(Kind.SIGN, 0, 0, [a_sign, b_sign])


def _total(multiplier: Characters, a: Characters, old: Characters, carry: Characters) -> Values:
    return value(old) + value(multiplier) * value(a) + value(carry)


def _product_digit(*sources: Characters) -> Characters:
    return digit(_total(*sources) % 10)


def _product_carry(*sources: Characters) -> Characters:
    return digit(_total(*sources) // 10)


MULTIPLICATION = Operation(
    sign="*",
    name="multiplication",
    symbol="×",
    spellings=(*"*×✕✖⨯∗·⋅∙•xｘＸхХ", "times", "multiplied by"),  # two of them are Cyrillic
    pairs=(("product of", "and", False), ("multiply", "and", False), ("multiply", "by", False)),
    rank=2,
    exact=exact_product,
    layout=product_layout,
    length=product_length,
    rules={
        StepKind.PRODUCT: {
            Kind.MULTIPLIER: copy,
            Kind.FIRST_DIGIT: _product_digit,
            Kind.FIRST_CARRY: _product_carry,
            Kind.PRODUCT_DIGIT: _product_digit,
            Kind.PRODUCT_CARRY: _product_carry,
            Kind.PRODUCT_BELOW: marked,
            Kind.PRODUCT_HALF: copy,
            Kind.PRODUCT_KEPT: copy,
        },
        StepKind.ROUNDING: {Kind.PRODUCT_RESULT: copy},
        StepKind.LAYOUT: {Kind.ROW_MARK: constant(";")},
    },
    colour="green",
    marker="^",
    commutes=True,
    grows=True,
)
