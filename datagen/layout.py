"""The layout of worked steps: the purpose of each character, before any digit is known.

The question alone decides the layout: the operation, the lengths and places of the operands, and
the places of the answer. Only the layout of the answer also depends on the result row, whose zeros
at both ends are not copied. docs/NOTATION.md shows a layout for each operation.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from datagen.arithmetic import USUAL_PLACES, Operation
from datagen.slots import (
    LOWEST,
    MIN_DIVISOR,
    NOWHERE,
    Kind,
    Layout,
    Shape,
    position_of,
    shape_cache,
)

_PROMPT = re.compile(r"\$(|[013-9]|[12][0-9]|30)\(([-0-9.]{10,100}?)([-+*/])([-0-9.]{10,100})\)=")
_TO_ONES = str.maketrans("23456789", "11111111")


def shape_of(prompt: str) -> Shape | None:
    """Returns the shape of a prompt `$P(A op B)=`, or None for any other text."""
    # Other digits than 0 become 1: the shape is the same, and many prompts share a cache entry. The
    # places stay as they are.
    places, parenthesis, operands = prompt.partition("(")
    return _cached_shape(places + parenthesis + operands.translate(_TO_ONES))


def require_shape(prompt: str) -> Shape:
    """Returns the shape of a prompt. Raises ValueError for any other text."""
    shape = shape_of(prompt)
    if shape is None:
        raise ValueError(f"not a prompt: {prompt!r:.80}")
    return shape


def shape_of_line(line: bytes) -> Shape:
    """Returns the shape of the prompt that a line begins with. Raises ValueError without one."""
    return require_shape(line[: line.index(b"=") + 1].decode("ascii"))


@lru_cache(maxsize=2**16)
def _cached_shape(prompt: str) -> Shape | None:
    match = _PROMPT.fullmatch(prompt)
    if match is None:
        return None
    places, a, op, b = match.groups()
    a_digits, a_places, _ = _digits_and_places(a)
    b_digits, b_places, b_is_zero = _digits_and_places(b)
    return Shape(
        op=op,
        a_digits=a_digits,
        a_places=a_places,
        b_digits=b_digits,
        b_places=b_places,
        places=int(places) if places else USUAL_PLACES,
        a_width=len(a),
        b_width=len(b),
        by_zero=b_is_zero and op == Operation.DIV,
    )


def _digits_and_places(field: str) -> tuple[int, int, bool]:
    """Returns the digits and places of an operand, and whether it is 0."""
    whole, _, places = field.partition(".")
    digits = (whole + places).replace("-", "0").lstrip("0")
    return max(1, len(digits)), len(places), not digits


@shape_cache(lambda plan: len(plan.slots))
def layout(shape: Shape) -> Layout:
    """Returns the layout of all questions of this shape."""
    plan = Layout()
    write = {"*": _product, "/": _quotient}.get(shape.op, _sum)
    write(plan, shape)
    plan.put(Kind.EQUALS)
    return plan


@dataclass(slots=True)
class _Question:
    """The positions of a question's parts: its operands, and their digits by power of ten."""

    a_field: range
    b_field: range
    a: dict[int, int]  # exponent -> position
    b: dict[int, int]
    op: int


def _question(plan: Layout, shape: Shape) -> _Question:
    """Puts the question. The column of a character of an operand is its index in the operand, which
    is known as soon as the character is read."""
    for _ in f"${_places_text(shape)}(":
        plan.put(Kind.QUESTION)
    a_field, a = _operand(plan, Kind.A_FIELD, shape.a_width, shape.a_places)
    op = plan.put(Kind.QUESTION)
    b_field, b = _operand(plan, Kind.B_FIELD, shape.b_width, shape.b_places)
    for _ in ")=":
        plan.put(Kind.QUESTION)
    plan.prompt_length = len(plan.slots)
    return _Question(a_field, b_field, a, b, op)


def _places_text(shape: Shape) -> str:
    return "" if shape.places == USUAL_PLACES else str(shape.places)


def _operand(plan: Layout, kind: Kind, width: int, places: int) -> tuple[range, dict[int, int]]:
    field = [plan.put(kind, 0, LOWEST + i) for i in range(width)]
    digits = field[::-1]  # the last one first
    if places:
        del digits[places]  # the point
    exponents = range(-places, len(digits) - places)
    return range(field[0], field[-1] + 1), dict(zip(exponents, digits, strict=True))


def _copy(
    plan: Layout,
    positions: dict[int, int],
    exponents: range,
    largest: int,
    kinds: tuple[Kind, Kind],
    n_below: int = 0,
) -> list[int]:
    """Puts a row of copies of an operand's digits, lowest first, and returns their positions.

    Digits that are not written in the question are zeros. So are those above the exponent
    `largest`, where the question has only padding. The first `n_below` copies get the kind A_BELOW
    and also read the copy before them.
    """
    digit, zero = kinds
    copies = []
    for column, exponent in enumerate(exponents, start=LOWEST):
        source = positions.get(exponent, NOWHERE) if exponent <= largest else NOWHERE
        if source == NOWHERE:
            copies.append(plan.put(zero, 0, column))
        else:
            query = (0, plan.slots[source].column)
            is_below = len(copies) < n_below
            kind, before = (Kind.A_BELOW, copies[-1:]) if is_below else (digit, [])
            copies.append(plan.put(kind, 0, column, query, [source, *before]))
    return copies


_A, _B = (Kind.A_DIGIT, Kind.A_ZERO), (Kind.B_DIGIT, Kind.B_ZERO)


def _sum(plan: Layout, shape: Shape) -> None:
    """Puts A and B in the same unit, their sum or difference, and its magnitude or rounding.

    In that unit, A and B have d places and at most n digits.
    """
    d = max(shape.a_places, shape.b_places)
    n = max(shape.a_digits + d - shape.a_places, shape.b_digits + d - shape.b_places)
    drop = max(0, d - shape.places)
    n = max(n, drop)
    question = _question(plan, shape)
    exponents = range(-d, n + 1 - d)
    a_sign = plan.put(Kind.A_SIGN, sources=question.a_field)
    a = _copy(plan, question.a, exponents, shape.a_digits - shape.a_places - 1, _A)
    b_sign = plan.put(Kind.B_SIGN_OF_SUM, sources=[*question.b_field, question.op])
    b = _copy(plan, question.b, exponents, shape.b_digits - shape.b_places - 1, _B)
    operator = plan.put(Kind.ADD_OR_SUBTRACT, sources=[a_sign, b_sign])
    total: list[int] = []
    for j in range(n + 1):
        kind = Kind.SUM_DIGIT if j else Kind.SUM_LOWEST
        before = [a[j - 1], b[j - 1], total[j - 1]] if j else []
        column = j + LOWEST
        total.append(plan.put(kind, 0, column, (0, column), [operator, a[j], b[j], *before]))
    exact_kinds = [Kind.SUM_KEPT, Kind.SUM_HALF, Kind.SUM_BELOW]
    kinds = exact_kinds if drop else [Kind.SUM_RESULT] * 3
    plan.put(Kind.EXACT_MARK if drop else Kind.RESULT_MARK)
    magnitude: list[int] = []
    for j in range(n + 1):
        before = [total[j - 1], magnitude[j - 1]] if j else []
        kind = kinds[(j < drop) + (j < drop - 1)]
        column = j + LOWEST
        sources = [total[n], total[j], *before]
        magnitude.append(plan.put(kind, 0, column, (0, column), sources))
    plan.result = _rounded(plan, magnitude, drop) if drop else magnitude
    plan.result_places = min(d, shape.places)
    # The top digit of the sum is 9 if it is negative.
    query = (0, n + LOWEST)
    plan.sign = plan.put(Kind.SUM_SIGN, 0, 0, query, [a_sign, total[n], *plan.result])


def _rounded(plan: Layout, exact: list[int], drop: int, extra: int = 0) -> list[int]:
    """Puts the rounding of an exact row and the rounded digits, and returns their positions."""
    query = (0, drop - 1 + LOWEST)
    sources = [exact[drop - 1], position_of(exact, drop), position_of(exact, drop - 2)]
    rounding = plan.put(Kind.ROUNDING, 0, 0, query, sources)
    plan.put(Kind.RESULT_MARK)
    result: list[int] = []
    for j in range(drop, len(exact) + extra):
        before = [exact[j - 1], result[-1]] if result else [NOWHERE, rounding]
        column = j + LOWEST
        sources = [position_of(exact, j), *before]
        kind = Kind.ROUNDED_RESULT if j < len(exact) else Kind.ROUNDED_TOP
        result.append(plan.put(kind, 0, column, (0, column), sources))
    return result


def _product(plan: Layout, shape: Shape) -> None:
    """Puts a row for each digit of B: the row before without its lowest digit, plus A times the
    digit."""
    n_a, n_b = shape.a_digits, shape.b_digits
    question = _question(plan, shape)
    a_sign = plan.put(Kind.A_SIGN, sources=question.a_field)
    a_exponents = range(-shape.a_places, n_a - shape.a_places)
    a = _copy(plan, question.a, a_exponents, a_exponents[-1], _A)
    b_sign = plan.put(Kind.B_SIGN, sources=question.b_field)
    b_exponents = range(-shape.b_places, n_b - shape.b_places)
    b = _copy(plan, question.b, b_exponents, b_exponents[-1], _B)
    old: list[int] = []
    lowest: list[tuple[int, tuple[int, int]]] = []  # position and coordinates
    for k in range(1, n_b + 1):
        plan.put(Kind.ROW_MARK, k)
        multiplier = plan.put(Kind.MULTIPLIER, k, 0, (0, k - 1 + LOWEST), [b[k - 1]])
        row, carry = [], NOWHERE
        for j in range(n_a):
            query = (k, j + LOWEST)
            sources = [multiplier, a[j], position_of(old, j + 1), carry]
            kind = Kind.PRODUCT_DIGIT if k > 1 else Kind.FIRST_DIGIT
            row.append(plan.put(kind, k, j + LOWEST, query, sources))
            # The last carry is the row's top digit.
            kind = Kind.PRODUCT_CARRY if k > 1 else Kind.FIRST_CARRY
            carry = plan.put(kind, k, j + 1 + LOWEST, query, sources)
        row.append(carry)
        lowest.append((row[0], (k, LOWEST)))
        old = row
    digits = lowest + [(old[j], (n_b, j + LOWEST)) for j in range(1, n_a + 1)]
    places = shape.a_places + shape.b_places
    drop = max(0, places - shape.places)
    plan.result_places = min(places, shape.places)
    if drop > len(digits):  # less than half of the last place
        plan.put(Kind.RESULT_MARK)
    else:
        exact_kinds = [Kind.PRODUCT_KEPT, Kind.PRODUCT_HALF, Kind.PRODUCT_BELOW]
        kinds = exact_kinds if drop else [Kind.PRODUCT_RESULT] * 3
        plan.put(Kind.EXACT_MARK if drop else Kind.RESULT_MARK)
        magnitude: list[int] = []
        for m, (source, query) in enumerate(digits):
            before = magnitude[-1:] if m < drop - 1 else []  # a mark reads the one before
            kind = kinds[(m < drop) + (m < drop - 1)]
            magnitude.append(plan.put(kind, 0, m + LOWEST, query, [source, *before]))
        plan.result = _rounded(plan, magnitude, drop, 1) if drop else magnitude
    plan.sign = plan.put(Kind.SIGN, sources=[a_sign, b_sign, *plan.result])


def _quotient(plan: Layout, shape: Shape) -> None:
    """Puts a long division with signed digits. A row is the last remainder with A's next digit
    brought down, minus a quotient digit times B.

    The first row divides so few digits of A that its quotient is below 1. So no quotient digit is
    large: at most 6, or 8 if the digit before is only the second nearest.
    """
    n_a, n_b = shape.a_digits, shape.b_digits
    width = max(n_b, MIN_DIVISOR)
    question = _question(plan, shape)
    plan.result_places = shape.places
    a_sign = plan.put(Kind.A_SIGN, sources=question.a_field)
    a_exponents = range(-shape.a_places, n_a - shape.a_places)
    n_row = _n_row(shape)
    n_below = n_a - (width - 2) - n_row if n_row else 0
    a = _copy(plan, question.a, a_exponents, a_exponents[-1], _A, n_below)
    b_sign = plan.put(Kind.B_SIGN, sources=question.b_field)
    # Zeros below B until it has `width` digits, and one above it.
    lowest = -shape.b_places - (width - n_b)
    b_exponents = range(lowest, lowest + width + 1)
    top = n_b - shape.b_places - 1
    b = _copy(plan, question.b, b_exponents, top, _B)
    if shape.by_zero:
        plan.put(Kind.RESULT_MARK)
        plan.put(Kind.NAN)
        return
    if not n_row:
        plan.put(Kind.RESULT_MARK)
        plan.sign = plan.put(Kind.SIGN, sources=[a_sign, b_sign])
        return
    remainder = _first_remainder(plan, a, width)
    quotient: list[tuple[int, int]] = []  # positions of sign and digit
    for k in range(1, n_row + 1):
        down = _bring_down(plan, a, n_a - (width - 2) - k, k)
        below = n_below - 1 if k == n_row else None
        sign, digit, remainder = _division_row(plan, k, b, [down, *remainder], a, below)
        quotient.append((sign, digit))
    sources = [*quotient[-1], quotient[-2][1], remainder[-1]]
    rounding = plan.put(Kind.QUOTIENT_ROUNDING, 0, 0, (n_row + 1, width + LOWEST), sources)
    plan.result = _quotient_result(plan, quotient, rounding)
    plan.sign = plan.put(Kind.SIGN, sources=[a_sign, b_sign, *plan.result])


def _first_remainder(plan: Layout, a: list[int], width: int) -> list[int]:
    """Puts A's leading digits, two fewer than the divisor has, and returns the row's positions."""
    plan.put(Kind.REMAINDER_MARK, 1)
    remainder = []
    for j in range(width + 1):
        source = len(a) - (width - 2) + j
        if j < width - 2 and source >= 0:
            query = (0, source + LOWEST)
            copy = plan.put(Kind.REMAINDER_COPY, 1, j + LOWEST, query, [a[source]])
        else:
            copy = plan.put(Kind.REMAINDER_ZERO, 1, j + LOWEST)
        remainder.append(copy)
    return remainder


def _bring_down(plan: Layout, a: list[int], index: int, row: int) -> int:
    """Puts a digit of A below the remainder of a row, and returns its position."""
    if index < 0:
        return plan.put(Kind.BROUGHT_ZERO, row, LOWEST - 1)
    return plan.put(Kind.BROUGHT_DOWN, row, LOWEST - 1, (0, index + LOWEST), [a[index]])


def _division_row(
    plan: Layout, k: int, b: list[int], dividend: list[int], a: list[int], below: int | None
) -> tuple[int, int, list[int]]:
    """Puts quotient digit k and the remainder that it leaves. Returns the positions of the digit's
    sign, of the digit, and of the remainder's digits, lowest first."""
    width = len(b) - 1
    leading = (k, width + LOWEST)
    sign = plan.put(Kind.DIVIDEND_SIGN, k + 1, 0, leading, [dividend[-1]])
    leading_digits = [*dividend[-MIN_DIVISOR - 1 :], *b[width - MIN_DIVISOR : width]]
    digit = plan.put(Kind.QUOTIENT_DIGIT, k + 1, 0, leading, leading_digits)
    row, carry = [], NOWHERE
    mark = NOWHERE if below is None else _bring_down(plan, a, below, k + 1)
    for j in range(width + 1):
        query = (k + 1, j + LOWEST)
        if j:
            before = [sign, digit, b[j - 1], dividend[j - 1], carry]
            carry = plan.put(Kind.REMAINDER_CARRY, k + 1, j + LOWEST, query, before)
        sources = [sign, digit, b[j], dividend[j], carry]
        if below is None:
            row.append(plan.put(Kind.REMAINDER_DIGIT, k + 1, j + LOWEST, query, sources))
        else:
            mark = plan.put(Kind.LAST_DIGIT, k + 1, j + LOWEST, query, [*sources, mark])
            row.append(mark)
    return sign, digit, row


def _quotient_result(plan: Layout, quotient: list[tuple[int, int]], rounding: int) -> list[int]:
    """Puts the result of signed digits, without the digit that is rounded off. Returns the
    positions of its digits.

    The first signed digit stands for less than 1, so there is room for the carry of the others.
    """
    plan.put(Kind.RESULT_MARK)
    kept = quotient[-2::-1]  # from the lowest on
    result: list[int] = []
    for m, (sign, digit) in enumerate(kept):
        before = [*kept[m - 1], result[-1]] if m else [NOWHERE, NOWHERE, rounding]
        query = (len(kept) - m + 1, 0)
        slot = plan.put(Kind.QUOTIENT_RESULT, 0, m + LOWEST, query, [sign, digit, *before])
        result.append(slot)
    return result


def _n_row(shape: Shape) -> int:
    """Returns the number of quotient digits: 0 if the quotient is below half of the last place."""
    before_point = shape.a_digits - shape.a_places - (shape.b_digits - shape.b_places)
    n_row = before_point + shape.places + 3
    return n_row if n_row > 1 else 0


def work_length(shape: Shape) -> int:
    """Returns the number of slots of a layout, including the question, without making the layout.

    A product of two operands of 100 digits has some 20,000 slots.
    """
    n_a, n_b = shape.a_digits, shape.b_digits
    question = len(f"${_places_text(shape)}(+)=") + shape.a_width + shape.b_width
    if shape.op == Operation.MUL:
        work = 2 + n_a + n_b + 2 * n_b * (1 + n_a)
        drop = max(0, shape.a_places + shape.b_places - shape.places)
        work += 1 if drop > n_a + n_b else _result_length(n_a + n_b, drop, extra=1)
    elif shape.op == Operation.DIV:
        width = max(n_b, MIN_DIVISOR)
        n_row = _n_row(shape)
        work = 2 + n_a + width + 1
        if shape.by_zero:
            return question + work + len(":n=")
        if n_row:
            work += 1 + width + 1 + n_row * (2 * width + 4) + 3 + n_row - 1
        else:
            work += 1
    else:
        d = max(shape.a_places, shape.b_places)
        drop = max(0, d - shape.places)
        n = max(n_a + d - shape.a_places, n_b + d - shape.b_places, drop)
        work = 3 + 3 * (n + 1) + _result_length(n + 1, drop)
    return question + work + len("+=")


def _result_length(digits: int, drop: int, extra: int = 0) -> int:
    """Returns the length of the row of exact digits and, if the lowest `drop` of them are rounded
    off, of the rounding and the rounded row."""
    return 1 + digits + (2 + digits + extra - drop if drop else 0)
