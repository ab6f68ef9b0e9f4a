"""The cases of the rules of worked steps: all inputs that each rule may have.

A work is right if each of its characters is what its rule (`datagen.rules`) writes. A rule reads
few characters, its sources, so it has a limited number of different inputs, here called cases. If a
model writes the right character in every case of every rule, it never takes a wrong step.

A `LocalStep` is a rule with all its cases: a table with an axis for the kind of the character that
is written, and an axis for each source. `tools.cases.lines` returns the case of each character of a
line. The cases of all steps are numbered together, from 0 to N_CASES - 1.

Not all cases of a table can occur: no carry of 3 times a digit is 7. `LocalStep.reachable` says
which can, and its function says why. Where digits follow from earlier ones of the same row, the
cases of `tools.cases.rows` are all that a row can have.

Shapes: n lines of one shape, T characters of the work, m slots of one rule, k sources.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from datagen.operations import RULES
from datagen.rules import Characters, value
from datagen.slots import MIN_DIVISOR, Kind
from tools.cases import quotients

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

NONE = "none"  # what a rule reads where there is no character
DIGITS = tuple("0123456789")
SIGNS = ("+", "-")
PADDED = ("-", "0", NONE)  # what stands before an operand


@dataclass(frozen=True)
class Axis:
    """An input of a rule, and the values that it may have."""

    name: str
    values: tuple[str, ...]


Read: TypeAlias = Callable[[Sequence[Characters]], list[Ints]]
Allowed: TypeAlias = Callable[..., Any]  # flags, from indices


@dataclass(frozen=True)
class LocalStep:
    """A rule, and all the cases in which it may have to write a character.

    `read` turns sources, (k, anything), into indices on the axes after the first. `allowed` says
    which combinations of indices, that of the kind first, can occur; by default all.
    """

    name: str
    kinds: tuple[Kind, ...]
    read_axes: tuple[Axis, ...]
    read: Read
    allowed: Allowed = lambda *indices: True

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        kinds = tuple(kind.name.lower().replace("_", " ") for kind in self.kinds)
        return (Axis("writes", kinds), *self.read_axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def first(self) -> int:
        """The number of its first case."""
        return OFFSETS[self.name]

    def cases(self, kind: Kind, sources: Sequence[Characters]) -> Ints:
        """Returns the index of each case in the table."""
        indices = self.read(sources)
        first = np.full(indices[0].shape if indices else (), self.kinds.index(kind))
        return np.ravel_multi_index((first, *indices), self.shape).astype(np.int64)

    @cached_property
    def reachable(self) -> Flags:
        """Which cases can occur, (size,)."""
        allowed = self.allowed(*np.indices(self.shape, sparse=True))
        return np.asarray(np.broadcast_to(allowed, self.shape).ravel())

    def describe(self, case: int) -> dict[str, str]:
        """Returns the values of a case by the names of the axes."""
        indices = np.unravel_index(case, self.shape)
        return {
            axis.name: axis.values[index] for axis, index in zip(self.axes, indices, strict=True)
        }


def _reader(*axes: Axis) -> Read:
    """Returns a function that reads one source for each axis; a source that a slot does not have
    counts as NONE."""
    tables = []
    for axis in axes:
        table = np.full(256, axis.values.index(NONE) if NONE in axis.values else 0, np.int64)
        for index, text in enumerate(axis.values):
            if text != NONE:
                table[ord(text)] = index
        tables.append(table)

    def read(sources: Sequence[Characters]) -> list[Ints]:
        missing = [np.zeros_like(sources[0])] * (len(tables) - len(sources))
        return [table[c] for table, c in zip(tables, [*sources, *missing], strict=True)]

    return read


def _kinds_like(kind: Kind) -> tuple[Kind, ...]:
    """Returns all kinds that the same rule writes."""
    return tuple(other for other, rule in RULES.items() if rule is RULES[kind])


def _digit(name: str) -> Axis:
    return Axis(name, DIGITS)


def _digit_or_none(name: str) -> Axis:
    return Axis(name, (*DIGITS, NONE))


def _step(name: str, kind: Kind, *axes: Axis, allowed: Allowed | None = None) -> LocalStep:
    kinds = _kinds_like(kind)
    return LocalStep(name, kinds, axes, _reader(*axes), allowed or LocalStep.allowed)


def _is(kinds: tuple[Kind, ...], *chosen: Kind) -> Callable[[Ints], Flags]:
    """Returns a function that says which indices of kinds are those of the chosen ones."""
    flags: Flags = np.array([kind in chosen for kind in kinds])

    def are_chosen(index: Ints) -> Flags:
        return np.asarray(flags[index])

    return are_chosen


def _carried(kind: Ints, op: Ints, a: Ints, b: Ints, a_low: Ints, b_low: Ints, low: Ints) -> Flags:
    """The carry into the column before is 0 or 1. Only the lowest column has none before it, and
    the operands have no digits in the top one."""
    direction = np.where(op == 0, 1, -1)
    carry = direction * (low - a_low - direction * b_low) % 10
    n_missing = (a_low == 10).astype(int) + (b_low == 10) + (low == 10)
    kinds = _kinds_like(Kind.SUM_DIGIT)
    is_lowest, is_top = _is(kinds, Kind.SUM_LOWEST)(kind), _is(kinds, Kind.SUM_TOP)(kind)
    seen = np.where(is_lowest, n_missing == 3, (n_missing == 0) & (carry <= 1))
    return np.asarray(seen & (~is_top | (a == 0) & (b == 0)))


def _complemented(kind: Ints, top: Ints, total: Ints, total_low: Ints, low: Ints) -> Flags:
    """The digit before is that of the sum or, of a negative one, of its ten's complement: 10 minus
    the digit if all digits before are 0, else 9 minus it.

    Only the lowest digit has none before it. It has a kind of its own or, if digits are rounded
    off, is one of those. Only the digit that is rounded off reads a marked one: 1 for a 0 that has
    other digits below it.
    """
    kinds = _kinds_like(Kind.SUM_RESULT)
    negative = top == 9
    copied = np.where(negative, (9 - total_low) % 10, total_low) == low
    copied |= negative & ((10 - total_low) % 10 == low)
    is_half, is_lowest = _is(kinds, Kind.SUM_HALF)(kind), _is(kinds, Kind.MAGNITUDE_LOWEST)(kind)
    seen = np.where(is_half, _marked_before(negative, total_low, low), copied) & ~is_lowest
    first = (total_low == 10) & (low == 10) & (is_half | is_lowest)
    return np.asarray(_is_top(top) & (first | (total_low < 10) & (low < 10) & seen))


def _is_top(top: Ints) -> Flags:
    """The top digit of a sum is 0, 1 if a carry goes there or, of a negative one, 9."""
    return np.isin(top, (0, 1, 9))


def _marked_before(negative: Flags, total: Ints, low: Ints) -> Flags:
    """A marked digit is that of the sum or of its ten's complement, but 1 for a 0 that has other
    digits below it. The nine's complement has digits below it: else it would be ten's."""
    positive = (low == total) | (total == 0) & (low == 1)
    complement = (low == (10 - total) % 10) | (low == np.where(total == 9, 1, 9 - total))
    return np.asarray(np.where(negative, complement, positive))


def _marked_below(kind: Ints, top: Ints, total: Ints, total_low: Ints, low: Ints) -> Flags:
    first = (total_low == 10) & (low == 10)
    seen = (total_low < 10) & (low < 10) & _marked_before(top == 9, total_low, low)
    return np.asarray(_is_top(top) & (first | seen))


def _marks(kind: Ints, digit: Ints, before: Ints) -> Flags:
    """A quotient has digits below its rows only if A has two places or more. Then A does not end in
    a 0, so that all its marks are above 0."""
    is_below_a = _is(_kinds_like(Kind.A_BELOW), Kind.A_BELOW)(kind)
    return np.asarray(~is_below_a | (before > 0) & ((before < 10) | (digit > 0)))


def _product_carries(kind: Ints, multiplier: Ints, a: Ints, old: Ints, carry: Ints) -> Flags:
    """The first row has no old digits, and its carry is less than the digit of B: with a carry c <
    m, 9 m + c < 10 m. In the other rows, it is at most m: 9 + 9 m + m < 10 (m + 1). The lowest
    digit has no carry."""
    kinds = _kinds_like(Kind.PRODUCT_DIGIT)
    is_first = _is(kinds, *(k for k in kinds if k.name.startswith("FIRST")))(kind)
    most = np.where(is_first, np.maximum(multiplier - 1, 0), multiplier)
    return np.asarray((is_first == (old == 10)) & ((carry == 10) | (carry <= most)))


def _remainder_carries(kind: Ints, sign: Ints, q: Ints, b: Ints, old: Ints, carry: Ints) -> Flags:
    """A carry is at most the quotient digit: 9 + 9 q + q < 10 (q + 1). No digit is 9, but after
    second choices with long divisors, which are left out (`tools.cases.quotients`)."""
    return np.asarray((q < 9) & ((carry == 10) | (carry <= q)))


def _roundings(kind: Ints, half: Ints, kept: Ints, below: Ints) -> Flags:
    """A product may have no digit that is kept, but it has two digits."""
    return np.asarray((kept < 10) | (below < 10))


def _rounded_digits(kind: Ints, exact: Ints, before: Ints, result: Ints) -> Flags:
    """`result` is the digit before, or one more; at the lowest digit, 0 or the rounding. There is
    no exact digit above the top one."""
    follows = (result == before) | (result == (before + 1) % 10)
    is_top = _is(_kinds_like(Kind.ROUNDED_TOP), Kind.ROUNDED_TOP)(kind)
    seen = np.where(before == 10, np.isin(result, (0, 10)), follows)
    return np.asarray(seen & (is_top == (exact == 10)))


_LEADING = 10**MIN_DIVISOR
_LEAST = _LEADING // 10


def _read_leading(sources: Sequence[Characters]) -> list[Ints]:
    """Reads the leading digits of the remainder, with its sign, and those of the divisor."""
    powers = 10 ** np.arange(MIN_DIVISOR)
    digits = [value(source).astype(np.int64) for source in sources]
    leading = sum(p * d for p, d in zip(powers, digits, strict=False))
    divisor = sum(p * d for p, d in zip(powers, digits[MIN_DIVISOR + 1 :], strict=True))
    below_zero = digits[MIN_DIVISOR] == 9
    return [np.where(below_zero, leading, leading + _LEADING), np.asarray(divisor - _LEAST)]


QUOTIENT_CHOICE = LocalStep(
    "quotient digit",
    (Kind.QUOTIENT_DIGIT,),
    (
        Axis("leading digits of the remainder", tuple(map(str, range(-_LEADING, _LEADING)))),
        Axis("of the divisor", tuple(map(str, range(_LEAST, _LEADING)))),
    ),
    _read_leading,
    lambda kind, leading, divisor: quotients.leading_digits()[None],
)


def _last_carries(
    kind: Ints, sign: Ints, q: Ints, b: Ints, old: Ints, carry: Ints, mark: Ints
) -> Flags:
    """The mark of n digits that are all 0 has no carry q of a difference: q b - old = 10^n q would
    need b >= 10^n."""
    is_zero = (sign == 0) & (carry == q) & (q > 0) & (mark == 0)
    return np.asarray(_remainder_carries(kind, sign, q, b, old, carry) & ~is_zero)


_SIGN, _SIGN_OR_NONE = Axis("sign", SIGNS), Axis("sign before", (*SIGNS, NONE))
_COPIES = LocalStep(
    "copied digit",
    (*_kinds_like(Kind.A_DIGIT), Kind.ANSWER_DIGIT),
    (_digit("digit"),),
    _reader(_digit("digit")),
)
_COLUMN = (_digit_or_none("A before"), _digit_or_none("B before"), _digit_or_none("sum before"))
_MAGNITUDE = (_digit("top"), _digit("sum"), _digit_or_none("sum before"), _digit_or_none("before"))
_PRODUCT = (_digit("digit of B"), _digit("A"), _digit_or_none("old"), _digit_or_none("carry"))
_REMAINDER = (_SIGN, _digit("quotient digit"), _digit("B"), _digit("old"), _digit_or_none("carry"))
_RULED = [
    _step("sign of an operand", Kind.A_SIGN, Axis("before", PADDED)),
    _step("sign of B in a sum", Kind.B_SIGN_OF_SUM, Axis("before", PADDED), Axis("op", SIGNS)),
    _COPIES,
    _step("sum or difference", Kind.ADD_OR_SUBTRACT, Axis("A", SIGNS), Axis("B", SIGNS)),
    _step(
        "digit of a sum",
        Kind.SUM_DIGIT,
        *(Axis("operation", SIGNS), _digit("A"), _digit("B"), *_COLUMN),
        allowed=_carried,
    ),
    _step("magnitude of a sum", Kind.SUM_RESULT, *_MAGNITUDE, allowed=_complemented),
    _step(
        "top of a magnitude",
        Kind.MAGNITUDE_TOP,
        _digit("top"),
        allowed=lambda kind, top: _is_top(top),
    ),
    _step("marked magnitude of a sum", Kind.SUM_BELOW, *_MAGNITUDE, allowed=_marked_below),
    _step(
        "marked digit", Kind.A_BELOW, *(_digit("digit"), _digit_or_none("before")), allowed=_marks
    ),
    _step(
        "sign of a sum",
        Kind.SUM_SIGN,
        *(Axis("A", SIGNS), _digit("top")),
        allowed=lambda kind, a, top: _is_top(top),
    ),
    _step("digit of a product", Kind.PRODUCT_DIGIT, *_PRODUCT, allowed=_product_carries),
    _step("carry of a product", Kind.PRODUCT_CARRY, *_PRODUCT, allowed=_product_carries),
    _step(
        "sign of a dividend",
        Kind.DIVIDEND_SIGN,
        _digit("top"),
        # The remainder is less than the divisor, which has no digit in that column.
        allowed=lambda kind, top: np.isin(top, (0, 9)),
    ),
    QUOTIENT_CHOICE,
    _step("digit of a remainder", Kind.REMAINDER_DIGIT, *_REMAINDER, allowed=_remainder_carries),
    _step("carry of a remainder", Kind.REMAINDER_CARRY, *_REMAINDER, allowed=_remainder_carries),
    _step(
        "digit of the last remainder",
        Kind.LAST_DIGIT,
        *(*_REMAINDER, _digit("mark before")),
        allowed=_last_carries,
    ),
    _step(
        "rounding",
        Kind.ROUNDING,
        *(_digit("half"), _digit_or_none("kept"), _digit_or_none("below")),
        allowed=_roundings,
    ),
    _step(
        "rounded digit",
        Kind.ROUNDED_RESULT,
        *(_digit_or_none("exact"), _digit_or_none("before"), Axis("result", (*DIGITS, "+"))),
        allowed=_rounded_digits,
    ),
    _step(
        "rounding of a quotient",
        Kind.QUOTIENT_ROUNDING,
        *(_SIGN, _digit("last"), _digit("before"), _digit("top")),
        allowed=lambda kind, *indices: quotients.roundings()[indices],
    ),
    _step(
        "digit of a quotient",
        Kind.QUOTIENT_RESULT,
        *(_SIGN, _digit("digit"), _SIGN_OR_NONE, _digit_or_none("before")),
        Axis("result before", (*DIGITS, "+", "-")),
        allowed=lambda kind, *indices: quotients.results()[indices],
    ),
    _step("sign", Kind.SIGN, Axis("A", SIGNS), Axis("B", SIGNS)),
]
_QUESTION = {Kind.QUESTION, Kind.A_FIELD, Kind.B_FIELD}
_FIXED = set(Kind) - _QUESTION - {kind for step in _RULED for kind in step.kinds}
LOCAL_STEPS = [*_RULED, LocalStep("mark", tuple(sorted(_FIXED)), (), lambda sources: [])]
STEP_OF = {kind: step for step in LOCAL_STEPS for kind in step.kinds}

#: The number of the first case of each step.
OFFSETS: dict[str, int] = dict(
    zip(
        (step.name for step in LOCAL_STEPS),
        np.cumsum([0, *(step.size for step in LOCAL_STEPS)]).tolist(),
        strict=False,
    )
)
N_CASES = sum(step.size for step in LOCAL_STEPS)
