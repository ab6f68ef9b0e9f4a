"""Where the rules read: a statement apart from the layouts, and the check of layouts against it.

Each character of the work belongs to a family, such as the digits of the row below B, and has a row
and a column there. For each kind of slot, `_reads` says from which families, rows and columns its
rule reads. `_extents` says which rows and columns a family has. `check` compares all slots of
layouts with that: each place has one slot, none is missing, and each source is the slot at its
place. So what holds for a column of a row (`datagen.invariants`) holds for the whole line.

Shapes: T slots of all layouts that are checked together; n slots of a kind.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from datagen.errors import DataError
from datagen.layout import new_layout
from datagen.operations import BY_SIGN, SIGNS
from datagen.slots import (
    LOWEST,
    MIN_DIVISOR,
    N_KINDS,
    NOWHERE,
    WIDTH,
    Kind,
    Layout,
    Shape,
    shape_cache,
)

Ints: TypeAlias = Any  # an array of whole numbers, or one number
Place: TypeAlias = tuple[str, Ints, Ints]  # a family, its rows and its columns


class LayoutError(DataError):
    """A slot reads what its rule does not."""


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


def _sizes(shape: Shape) -> Sizes:
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


def _reads(kind: Kind, r: Ints, c: Ints, s: Sizes) -> list[Place]:
    """Returns the places that slots of a kind read, whose rows and columns are r and c."""
    top, first = s.n + LOWEST, c == LOWEST
    match kind:
        case Kind.A_SIGN:
            return [("a field", 0, LOWEST + np.maximum(s.n_a, s.a_places + 1))]
        case Kind.B_SIGN | Kind.B_SIGN_OF_SUM:
            sign = ("b field", 0, LOWEST + np.maximum(s.n_b, s.b_places + 1))
            return [sign, ("operation", 0, LOWEST)] if kind is Kind.B_SIGN_OF_SUM else [sign]
        case Kind.A_DIGIT:
            return [("a field", 0, c - s.a_shift)]
        case Kind.A_BELOW:
            return [("a field", 0, c - s.a_shift), ("a", 0, c - 1)]
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
        case Kind.ROUNDING:
            return [("exact", 0, c), ("exact", 0, c + 1), ("exact", 0, c - 1)]
        case Kind.ROUNDED_RESULT | Kind.ROUNDED_TOP:
            # The lowest reads the rounding in place of the column before.
            lowest = c == s.drop + LOWEST
            kept = np.where(lowest, NOWHERE, 0)
            return [("exact", 0, c), ("exact", kept, c - 1), ("result or rounding", 0, c - 1)]
        case Kind.QUOTIENT_ROUNDING:
            last = s.n_row + 1
            digits = [("sign", last, 0), ("quotient", last, 0), ("quotient", last - 1, 0)]
            return [*digits, ("remainder", last, s.width + LOWEST)]
        case Kind.QUOTIENT_RESULT:
            row = s.n_row + LOWEST - c
            below = np.where(first, NOWHERE, row + 1)
            digits = [("sign", row, 0), ("quotient", row, 0), ("sign", below, 0)]
            return [*digits, ("quotient", below, 0), ("result or rounding", 0, c - 1)]
    return []


def _extents(s: Sizes) -> dict[str, tuple[Ints, Ints, Ints, Ints]]:
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
    return {
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


SMALL_DIGITS, SMALL_PLACES, SMALL_ANSWERS = 8, 4, 8
AT_ONCE = 2**16  # slots: the check of a layout with millions takes no more memory


def small_shapes() -> Iterator[Shape]:
    """Yields all shapes of operands of at most SMALL_DIGITS digits and SMALL_PLACES places, in
    fields of WIDTH characters, and answers of at most SMALL_ANSWERS places. Operations that have
    one function of layouts have one shape."""
    operands = list(product(range(1, SMALL_DIGITS + 1), range(SMALL_PLACES + 1)))
    different = {BY_SIGN[op].layout: op for op in SIGNS}.values()
    for op, a, b, places in product(different, operands, operands, range(SMALL_ANSWERS + 1)):
        yield Shape(op, *a, *b, places, WIDTH, WIDTH)
        if BY_SIGN[op].divides and b[0] == 1:
            yield Shape(op, *a, *b, places, WIDTH, WIDTH, by_zero=True)


def is_small(shape: Shape) -> bool:
    """Returns whether a shape is one of `small_shapes`, but for the widths of its fields."""
    digits, places = max(shape.a_digits, shape.b_digits), max(shape.a_places, shape.b_places)
    small = digits <= SMALL_DIGITS and places <= SMALL_PLACES
    return small and shape.places <= SMALL_ANSWERS


@shape_cache(len)
def checked_layout(shape: Shape) -> Layout:
    """Returns the layout of a shape. Those that are small are checked by `calcgpt prove`, all
    others here. Raises LayoutError if a layout is not what its rules read."""
    plan = new_layout(shape)
    if not (is_small(shape) and shape.a_width == shape.b_width == WIDTH):
        check([shape], [plan])
    return plan


def check(shapes: Sequence[Shape], layouts: Sequence[Layout]) -> None:
    """Raises LayoutError unless each slot of each layout reads what its rule reads."""
    lengths = np.array([len(plan) for plan in layouts])
    of_T = np.repeat(np.arange(len(layouts)), lengths)  # the layout of a slot
    starts = lengths.cumsum() - lengths
    kinds_T = np.concatenate([plan.kinds for plan in layouts])
    rows_T, columns_T = (
        np.concatenate([getattr(plan, name) for plan in layouts]).astype(np.intp)
        for name in ("rows", "columns")
    )
    sources = [plan.sources for plan in layouts]
    found_TR = sources[0] if len(layouts) == 1 else np.concatenate(sources)
    sizes = Sizes(*(np.array(column) for column in zip(*map(_sizes, shapes), strict=True)))
    places = _Places(of_T, rows_T, columns_T)
    families_T = FAMILY_OF_KIND[kinds_T]
    for number, family in enumerate(FAMILIES):
        slots = np.flatnonzero(families_T == number)
        if family == "operation":
            slots = slots[columns_T[slots] > 0]
        places.add(family, slots)
    # The last carry of a row is its top digit.
    carries = np.flatnonzero(np.isin(kinds_T, (Kind.FIRST_CARRY, Kind.PRODUCT_CARRY)))
    places.add("row", carries[columns_T[carries] == LOWEST + sizes.n_a[of_T[carries]]])
    for family in ("result", "rounding"):
        places.add("result or rounding", places.members[family])
    _check_extents(places, sizes)
    _check_fields(kinds_T, columns_T, np.arange(len(of_T)) - starts[of_T], of_T, sizes)
    order_T = np.argsort(kinds_T, kind="stable")
    bounds = np.flatnonzero(np.diff(kinds_T[order_T], prepend=-1, append=-1))
    parts = (part for kind in np.split(order_T, bounds[1:-1]) for part in _parts(kind))
    for slots in parts:
        kind, of = Kind(kinds_T[slots[0]]), of_T[slots]
        own = sizes.at(of) if len(layouts) > 1 else sizes
        expected = _reads(kind, rows_T[slots], columns_T[slots], own)
        found_nR = found_TR[slots]
        for index, (family, row, column) in enumerate(expected):
            source = places.find(family, of, row, column)
            source -= starts[of] * (source != NOWHERE)
            _require(source == found_nR[:, index], f"source {index} of {kind.name}")
        _require(found_nR[:, len(expected) :] == NOWHERE, f"a source of {kind.name} too many")
    for plan, shape, start in zip(layouts, shapes, starts.tolist(), strict=True):
        _check_result(plan, _sizes(shape), places, of_T[start], start)


def _parts(slots: Ints) -> list[Ints]:
    return [slots[start : start + AT_ONCE] for start in range(0, len(slots), AT_ONCE)]


class _Places:
    """The slots at each place of all layouts."""

    def __init__(self, of_T: Ints, rows_T: Ints, columns_T: Ints) -> None:
        self._of_T, self._rows_T, self._columns_T = of_T, rows_T, columns_T
        height = int(rows_T.max(initial=0)) + 1
        self._n_row = np.full(int(of_T.max(initial=0)) + 1, height)
        self._n_column = int(columns_T.max(initial=0)) + 1
        self._tables: dict[str, NDArray[np.int32]] = {}
        self.members: dict[str, Ints] = {}

    def _keys(self, layout: Ints, row: Ints, column: Ints, height: int) -> Ints:
        return (layout * height + row) * self._n_column + column

    def add(self, family: str, slots: Ints) -> None:
        """Notes the slots of a family. Raises LayoutError if two have one place."""
        slots = np.concatenate((self.members.get(family, slots[:0]), slots))
        height = int(self._rows_T[slots].max(initial=0)) + 1
        keys = self._keys(self._of_T[slots], self._rows_T[slots], self._columns_T[slots], height)
        table = np.full((len(self._n_row), height, self._n_column), NOWHERE, np.int32)
        table.reshape(-1)[keys] = slots
        _require(table.reshape(-1)[keys] == slots, f"two slots have one place in {family}")
        self._tables[family], self.members[family] = table, slots

    def find(self, family: str, layout: Ints, row: Ints, column: Ints) -> Ints:
        """Returns the slots at places of a family, NOWHERE where there is none."""
        table = self._tables.get(family)
        if table is None:
            return np.full(len(layout), NOWHERE)
        _, height, width = table.shape
        row, column = row + 0 * layout, column + 0 * layout
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        slots = table[layout, np.where(inside, row, 0), np.where(inside, column, 0)]
        return np.where(inside, slots, NOWHERE)

    def rows_and_columns(self, family: str) -> tuple[Ints, Ints, Ints]:
        """Returns the layouts, rows and columns of the slots of a family."""
        slots = self.members[family]
        return self._of_T[slots], self._rows_T[slots], self._columns_T[slots]


def _check_extents(places: _Places, sizes: Sizes) -> None:
    """Raises LayoutError unless each family has all its rows and columns, and no other."""
    n_layout = len(sizes.n_a)
    for family, extent in _extents(sizes).items():
        first, last, low, high = (axis + 0 * sizes.n_a for axis in extent)
        of, row, column = places.rows_and_columns(family)
        inside = (row >= first[of]) & (row <= last[of]) & (column >= low[of]) & (column <= high[of])
        _require(inside, f"{family} has a slot outside")
        wanted = np.maximum(last - first + 1, 0) * np.maximum(high - low + 1, 0)
        if family == "remainder":  # the last row has a digit below it only if it has marks
            wanted -= (sizes.n_row > 0) & (np.bincount(of, minlength=n_layout) == wanted - 1)
        _require(np.bincount(of, minlength=n_layout) == wanted, f"{family} is not complete")


def _check_fields(kinds_T: Ints, columns_T: Ints, at_T: Ints, of_T: Ints, s: Sizes) -> None:
    """Raises LayoutError unless the digits of the question have the columns of their places, and
    the work copies those that are written. at_T: positions in the own line."""
    for field, end, places in (
        (Kind.A_FIELD, s.a_end, s.a_places),
        (Kind.B_FIELD, s.b_end, s.b_places),
    ):
        slots = np.flatnonzero((kinds_T == field) & (columns_T > 0))
        index, of = columns_T[slots] - LOWEST, of_T[slots]
        beyond_point = (places[of] > 0) & (index >= places[of])
        _require(at_T[slots] == end[of] - index - beyond_point, "a digit of the question")
    for copied, zero, shift, count in (
        ((Kind.A_DIGIT, Kind.A_BELOW), Kind.A_ZERO, s.a_shift, s.n_a),
        ((Kind.B_DIGIT,), Kind.B_ZERO, s.b_shift, s.n_b),
    ):
        slots = np.flatnonzero(np.isin(kinds_T, (*copied, zero)))
        index = columns_T[slots] - LOWEST - shift[of_T[slots]]
        is_written = (index >= 0) & (index < count[of_T[slots]])
        _require((kinds_T[slots] != zero) == is_written, "a copied digit")


def _check_result(plan: Layout, s: Sizes, places: _Places, of: Ints, start: int) -> None:
    """Raises LayoutError unless the answer copies the result, digit by digit."""
    family = "result" if s.divides or s.drop else "exact"
    columns = LOWEST + s.drop + np.arange(len(plan.result))
    positions = places.find(family, np.full(len(columns), of), 0 * columns, columns)
    _require(positions == np.array(plan.result, np.intp) + start, "the result")
    in_family = places.rows_and_columns(family)[0]
    _require((in_family == of).sum() == len(plan.result), "a digit of the result is missing")
    _require(plan.result_places == s.places, "the places of the result")
    is_sign = plan.kinds[plan.sign] in (Kind.SIGN, Kind.SUM_SIGN)
    _require(is_sign or plan.sign == NOWHERE, "the sign of the result")


def _require(holds: Any, what: str) -> None:
    if not np.all(holds):
        raise LayoutError(f"a layout is not what its rules read: {what}")
