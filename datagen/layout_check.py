"""The check of layouts against what the rules read (`datagen.schema`).

Each place has one slot, none is missing, and each source is the slot at its place. So what holds
for a column of a row (`datagen.invariants`) holds for the whole line.

Shapes: T slots of all layouts that are checked together.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcgpt.base.errors import DataError
from datagen.layout import new_layout
from datagen.operations import BY_SIGN
from datagen.schema import FAMILIES, FAMILY_OF_KIND, Ints, Sizes, extents, reads, sizes_of
from datagen.slots import LOWEST, NOWHERE, WIDTH, Kind, Layout, Shape, shape_cache


class LayoutError(DataError):
    """A slot reads what its rule does not."""


STATED = "+-*/"  # what `datagen.schema` states, and `calcgpt prove` proves
SMALL_DIGITS, SMALL_PLACES, SMALL_ANSWERS = 8, 4, 8
AT_ONCE = 2**16  # slots: the check of a layout with millions takes no more memory


def small_shapes() -> Iterator[Shape]:
    """Yields all shapes of operands of at most SMALL_DIGITS digits and SMALL_PLACES places, in
    fields of WIDTH characters, and answers of at most SMALL_ANSWERS places. Operations that have
    one function of layouts have one shape."""
    operands = list(product(range(1, SMALL_DIGITS + 1), range(SMALL_PLACES + 1)))
    different = {BY_SIGN[op].layout: op for op in STATED}.values()
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
    """Returns the layout of a shape. What is STATED of it is checked: by `calcgpt prove` if the
    shape is small, else here. Raises LayoutError if a layout is not what its rules read."""
    plan = new_layout(shape)
    is_proved = is_small(shape) and shape.a_width == shape.b_width == WIDTH
    if shape.op in STATED and not is_proved:
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
    sizes = Sizes(*(np.array(column) for column in zip(*map(sizes_of, shapes), strict=True)))
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
    at_T = np.arange(len(of_T)) - starts[of_T]
    _require(found_TR < at_T[:, None], "a slot that reads a later one")
    _check_fields(kinds_T, columns_T, at_T, of_T, sizes)
    order_T = np.argsort(kinds_T, kind="stable")
    bounds = np.flatnonzero(np.diff(kinds_T[order_T], prepend=-1, append=-1))
    parts = (part for kind in np.split(order_T, bounds[1:-1]) for part in _parts(kind))
    for slots in parts:
        kind, of = Kind(kinds_T[slots[0]]), of_T[slots]
        own = sizes.at(of) if len(layouts) > 1 else sizes
        expected = reads(kind, rows_T[slots], columns_T[slots], own)
        found_nR = found_TR[slots]
        for index, (family, row, column) in enumerate(expected):
            source = places.find(family, of, row, column)
            source -= starts[of] * (source != NOWHERE)
            _require(source == found_nR[:, index], f"source {index} of {kind.name}")
        _require(found_nR[:, len(expected) :] == NOWHERE, f"a source of {kind.name} too many")
    for plan, shape, start in zip(layouts, shapes, starts.tolist(), strict=True):
        _check_result(plan, shape, places, of_T[start], start)


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
    for family, extent in extents(sizes).items():
        first, last, low, high = (axis + 0 * sizes.n_a for axis in extent)
        of, row, column = places.rows_and_columns(family)
        inside = (row >= first[of]) & (row <= last[of]) & (column >= low[of]) & (column <= high[of])
        _require(inside, f"{family} has a slot outside")
        wanted = np.maximum(last - first + 1, 0) * np.maximum(high - low + 1, 0)
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


def _check_result(plan: Layout, shape: Shape, places: _Places, of: Ints, start: int) -> None:
    """Raises LayoutError unless the answer copies the result, digit by digit."""
    s = sizes_of(shape)
    family = "result" if s.divides or s.drop else "exact"
    columns = LOWEST + s.drop + np.arange(len(plan.result))
    positions = places.find(family, np.full(len(columns), of), 0 * columns, columns)
    _require(positions == np.array(plan.result, np.intp) + start, "the result")
    in_family = places.rows_and_columns(family)[0]
    _require((in_family == of).sum() == len(plan.result), "a digit of the result is missing")
    _require(plan.result_places == s.places, "the places of the result")
    is_sign = plan.kinds[plan.sign] in (Kind.SIGN, Kind.SUM_SIGN)
    is_right = plan.sign == NOWHERE if shape.by_zero else plan.sign != NOWHERE and is_sign
    _require(is_right, "the sign of the result")


def _require(holds: Any, what: str) -> None:
    if not np.all(holds):
        raise LayoutError(f"a layout is not what its rules read: {what}")
