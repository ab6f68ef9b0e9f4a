"""Where the rules read: a statement apart from the layouts (`datagen.layout_check` compares them).

Each character of the work belongs to a family, such as the digits of the row below B, and has a row
and a column there. For each kind of slot, `reads` says from which families, rows and columns its
rule reads. `extents` says which rows and columns a family has.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from datagen.slots import LOWEST, MIN_DIVISOR, N_KINDS, NOWHERE, Kind, Shape

Ints: TypeAlias = Any  # an array of whole numbers, or one number
Place: TypeAlias = tuple[str, Ints, Ints]  # a family, its rows and its columns


class Sizes(NamedTuple):
    """What decides the places of a shape, for each layout, or for each of n slots."""

    divides: Ints
    multiplies: Ints
    n_a: Ints  # digits of A, and of B
    n_b: Ints
    a_shift: Ints  # columns between the digits of A in the question and in the work
    b_shift: Ints
    a_end: Ints  # position of the last character of A, and of B
    b_end: Ints
    a_places: Ints
    b_places: Ints
    n: Ints  # columns of a sum, without the top
    drop: Ints  # digits that are rounded off
    places: Ints  # of the result
    width: Ints  # of a divisor
    n_row: Ints  # quotient digits; 0 if there are none

    def at(self, layouts: Ints) -> "Sizes":
        """Returns the sizes of these layouts."""
        return Sizes(*(size[layouts] for size in self))

    @property
    def down(self) -> Ints:
        """The column of A whose digit is brought down to row 0."""
        return LOWEST + self.n_a - (self.width - 2)


def sizes_of(shape: Shape) -> Sizes:
    a, b = shape.a_digits, shape.b_digits
    divides, multiplies = shape.op == "/", shape.op == "*"
    width = max(b, MIN_DIVISOR)
    unit = max(shape.a_places, shape.b_places)  # places of a sum
    exact = shape.a_places + shape.b_places if multiplies else unit
    drop = 0 if divides else max(0, exact - shape.places)
    n_row = a - shape.a_places - (b - shape.b_places) + shape.places + 3
    is_sum = not (divides or multiplies)
    prefix = len("$(") + (0 if shape.places == 2 else len(str(shape.places)))
    a_end = prefix + shape.a_width - 1
    return Sizes(
        divides=divides,
        multiplies=multiplies,
        n_a=a,
        n_b=b,
        a_shift=(unit - shape.a_places) * is_sum,
        b_shift=(unit - shape.b_places) * is_sum + (width - b) * divides,
        a_end=a_end,
        b_end=a_end + 1 + shape.b_width,
        a_places=shape.a_places,
        b_places=shape.b_places,
        n=max(a + unit - shape.a_places, b + unit - shape.b_places, drop),
        drop=drop,
        places=shape.places if divides else min(exact, shape.places),
        width=width,
        n_row=n_row if divides and n_row > 1 and not shape.by_zero else 0,
    )


FAMILIES: dict[str, tuple[Kind, ...]] = {
    "a field": (Kind.A_FIELD,),
    "b field": (Kind.B_FIELD,),
    "operation": (Kind.QUESTION,),
    "a sign": (Kind.A_SIGN,),
    "b sign": (Kind.B_SIGN, Kind.B_SIGN_OF_SUM),
    "a": (Kind.A_DIGIT, Kind.A_BELOW, Kind.A_ZERO),
    "b": (Kind.B_DIGIT, Kind.B_ZERO),
    "direction": (Kind.ADD_OR_SUBTRACT,),
    "total": (Kind.SUM_LOWEST, Kind.SUM_DIGIT, Kind.SUM_TOP),
    "multiplier": (Kind.MULTIPLIER,),
    "row": (Kind.FIRST_DIGIT, Kind.PRODUCT_DIGIT),
    "carry": (Kind.FIRST_CARRY, Kind.PRODUCT_CARRY, Kind.REMAINDER_CARRY),
    "remainder": (
        *(Kind.REMAINDER_COPY, Kind.REMAINDER_ZERO, Kind.BROUGHT_DOWN, Kind.BROUGHT_ZERO),
        *(Kind.REMAINDER_DIGIT, Kind.LAST_DIGIT),
    ),
    "sign": (Kind.DIVIDEND_SIGN,),
    "quotient": (Kind.QUOTIENT_DIGIT,),
    "exact": (
        *(Kind.SUM_BELOW, Kind.SUM_HALF, Kind.SUM_KEPT, Kind.MAGNITUDE_LOWEST, Kind.SUM_RESULT),
        *(Kind.MAGNITUDE_TOP, Kind.PRODUCT_BELOW, Kind.PRODUCT_HALF, Kind.PRODUCT_KEPT),
        Kind.PRODUCT_RESULT,
    ),
    "result": (Kind.ROUNDED_RESULT, Kind.ROUNDED_TOP, Kind.QUOTIENT_RESULT),
    "rounding": (Kind.ROUNDING, Kind.QUOTIENT_ROUNDING),
}
FAMILY_OF_KIND = np.full(N_KINDS, NOWHERE)
for _number, _kinds in enumerate(FAMILIES.values()):
    FAMILY_OF_KIND[list(_kinds)] = _number


def reads(kind: Kind, r: Ints, c: Ints, s: Sizes) -> list[Place]:
    """Returns the places that slots of a kind read, whose rows and columns are r and c."""
    top = s.n + LOWEST
    match kind:
        case Kind.A_SIGN:
            return [("a field", 0, LOWEST + np.maximum(s.n_a, s.a_places + 1))]
        case Kind.B_SIGN | Kind.B_SIGN_OF_SUM:
            sign = ("b field", 0, LOWEST + np.maximum(s.n_b, s.b_places + 1))
            return [sign, ("operation", 0, LOWEST)] if kind is Kind.B_SIGN_OF_SUM else [sign]
        case Kind.A_DIGIT | Kind.A_BELOW:
            mark = [("a", 0, c - 1)] if kind is Kind.A_BELOW else []
            return [("a field", 0, c - s.a_shift), *mark]
        case Kind.B_DIGIT:
            return [("b field", 0, c - s.b_shift)]
        case Kind.ADD_OR_SUBTRACT | Kind.SIGN:
            return [("a sign", 0, 0), ("b sign", 0, 0)]
        case Kind.SUM_LOWEST:
            return [("direction", 0, 0), ("a", 0, c), ("b", 0, c)]
        case Kind.SUM_DIGIT | Kind.SUM_TOP:
            before = [("a", 0, c - 1), ("b", 0, c - 1), ("total", 0, c - 1)]
            return [("direction", 0, 0), ("a", 0, c), ("b", 0, c), *before]
        case Kind.SUM_BELOW | Kind.SUM_HALF | Kind.SUM_KEPT | Kind.SUM_RESULT:
            before = [("total", 0, c - 1), ("exact", 0, c - 1)]
            return [("total", 0, top), ("total", 0, c), *before]
        case Kind.MAGNITUDE_LOWEST:
            return [("total", 0, top), ("total", 0, c)]
        case Kind.MAGNITUDE_TOP:
            return [("total", 0, top)]
        case Kind.SUM_SIGN:
            return [("a sign", 0, 0), ("total", 0, top)]
        case Kind.MULTIPLIER:
            return [("b", 0, r - 1 + LOWEST)]
        case Kind.FIRST_DIGIT | Kind.PRODUCT_DIGIT | Kind.FIRST_CARRY | Kind.PRODUCT_CARRY:
            at = c - (kind in FAMILIES["carry"])  # a carry is for the next column
            above = [("multiplier", r, 0), ("a", 0, at), ("row", r - 1, at + 1)]
            return [*above, ("carry", r, at)]
        case Kind.PRODUCT_BELOW | Kind.PRODUCT_HALF | Kind.PRODUCT_KEPT | Kind.PRODUCT_RESULT:
            row = np.minimum(c - LOWEST + 1, s.n_b)
            mark = [("exact", 0, c - 1)] if kind is Kind.PRODUCT_BELOW else []
            return [("row", row, c + 1 - row), *mark]
        case Kind.ROUNDING:
            return [("exact", 0, c), ("exact", 0, c + 1), ("exact", 0, c - 1)]
        case Kind.ROUNDED_RESULT | Kind.ROUNDED_TOP:
            # The lowest reads the rounding in place of the column before.
            lowest = c == s.drop + LOWEST
            kept = np.where(lowest, NOWHERE, 0)
            return [("exact", 0, c), ("exact", kept, c - 1), ("result or rounding", 0, c - 1)]
    return _reads_of_quotients(kind, r, c, s)


def _reads_of_quotients(kind: Kind, r: Ints, c: Ints, s: Sizes) -> list[Place]:
    """The same for the slots that only a division has."""
    match kind:
        case Kind.REMAINDER_COPY:
            return [("a", 0, s.down + c - LOWEST)]
        case Kind.BROUGHT_DOWN:
            return [("a", 0, s.down - r)]
        case Kind.DIVIDEND_SIGN:
            return [("remainder", r - 1, s.width + LOWEST)]
        case Kind.QUOTIENT_DIGIT:
            leading = [s.width + LOWEST - MIN_DIVISOR + i for i in range(MIN_DIVISOR + 1)]
            remainder = [("remainder", r - 1, column) for column in leading]
            return [*remainder, *(("b", 0, column) for column in leading[:-1])]
        case Kind.REMAINDER_DIGIT | Kind.LAST_DIGIT | Kind.REMAINDER_CARRY:
            at = c - (kind is Kind.REMAINDER_CARRY)
            digit = [("sign", r, 0), ("quotient", r, 0), ("b", 0, at), ("remainder", r - 1, at - 1)]
            mark = [("remainder", r, c - 1)] if kind is Kind.LAST_DIGIT else []
            return [*digit, ("carry", r, at), *mark]
        case Kind.QUOTIENT_ROUNDING:
            last = s.n_row + 1
            digits = [("sign", last, 0), ("quotient", last, 0), ("quotient", last - 1, 0)]
            return [*digits, ("remainder", last, s.width + LOWEST)]
        case Kind.QUOTIENT_RESULT:
            row = s.n_row + LOWEST - c
            below = np.where(c == LOWEST, NOWHERE, row + 1)
            digits = [("sign", row, 0), ("quotient", row, 0), ("sign", below, 0)]
            return [*digits, ("quotient", below, 0), ("result or rounding", 0, c - 1)]
    return []


def extents(s: Sizes) -> dict[str, tuple[Ints, Ints, Ints, Ints]]:
    """Returns the first and last row and the first and last column of families, for each layout. A
    family that is missing there ends before it begins."""
    is_sum = ~(s.divides | s.multiplies)
    whole = np.where(s.multiplies, s.n_a + s.n_b, s.n + 1)  # digits of an exact row
    has_exact = is_sum | (s.multiplies & (s.drop <= s.n_a + s.n_b))
    n_a, n_b = np.where(is_sum, s.n + 1, s.n_a), np.where(is_sum, s.n + 1, s.n_b)
    rounded = np.where(has_exact & (s.drop > 0), whole + s.multiplies - s.drop, 0)
    last, low = s.n_row + 1, np.where(s.divides, LOWEST, LOWEST + s.drop)
    n_result = np.where(s.divides, np.maximum(s.n_row - 1, 0), rounded)
    n_b = np.where(s.divides, s.width + 1, n_b)
    factor_rows, division_rows = s.n_b * s.multiplies, np.where(s.n_row > 0, last, 0)
    n_carry: Ints = np.where(s.multiplies, s.n_a, s.width)
    top = LOWEST - 1
    n_sum, n_rounding = 1 * is_sum, 1 * (n_result > 0) * (s.divides | (s.drop > 0))
    return {
        "a sign": (0, 0, 0, 0),
        "b sign": (0, 0, 0, 0),
        "direction": (0, n_sum - 1, 0, 0),
        "rounding": (0, n_rounding - 1, low - 1, low - 1),
        "a": (0, 0, LOWEST, top + n_a),
        "b": (0, 0, LOWEST, top + n_b),
        "total": (0, 0, LOWEST, top + (s.n + 1) * is_sum),
        "multiplier": (1, factor_rows, 0, 0),
        "row": (1, factor_rows, LOWEST, LOWEST + s.n_a),
        "carry": (
            np.where(s.divides, 2, 1),
            np.where(s.divides, division_rows, factor_rows),
            LOWEST + 1,
            LOWEST + n_carry,
        ),
        "remainder": (1, division_rows, LOWEST - 1, LOWEST + s.width),
        "sign": (2, division_rows, 0, 0),
        "quotient": (2, division_rows, 0, 0),
        "exact": (0, 0, LOWEST, top + whole * has_exact),
        "result": (0, 0, low, low - 1 + n_result),
    }
