"""Local steps: the rules of worked steps, each with all inputs that it may have.

A work is right if each of its characters is what its rule (`datagen.rules`) writes. A rule reads
few characters, so it has a limited number of different inputs, here called cases. If a model writes
the right character in every case of every rule, it never takes a wrong step.

A `LocalStep` is a rule with all its cases: a table with an axis for the kind of the character that
is written, and an axis for each input that is read. `research.line_cases` returns the case of each
character of a line. The cases of all steps are numbered together, from 0 to N_CASES - 1.

Shapes: n lines of one shape, T characters of the work, m slots of one rule, k sources.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from datagen.operations import RULES
from datagen.rules import MINUS, Characters, any_of, value
from datagen.slots import MIN_DIVISOR, Kind

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

NONE = "none"  # what a rule reads where there is no character
DIGITS = tuple("0123456789")
SIGNS = ("+", "-")
NOT_ALL_ZERO = ("all 0", "not all 0", NONE)


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
    which combinations of these indices can occur together; by default all.
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

    def cases(self, kind: Kind, sources: Sequence[Characters]) -> Ints:
        """Returns the index of each case in the table."""
        indices = self.read(sources)
        first = np.full(indices[0].shape if indices else (), self.kinds.index(kind))
        return np.ravel_multi_index((first, *indices), self.shape).astype(np.int64)

    def possible(self, seen: Flags) -> Flags:
        """Returns which cases can occur, (size,): the `allowed` ones, without values that are never
        read. No quotient digit is 9, for example. `seen`, (size,), marks cases that did occur."""
        indices = np.indices(self.shape, sparse=True)
        result = np.ones(self.shape, bool) & self.allowed(*indices[1:])
        table = seen.reshape(self.shape)
        for axis in range(1, len(self.shape)):  # each kind may have other values
            others = tuple(i for i in range(1, len(self.shape)) if i != axis)
            result &= table.any(axis=others, keepdims=True)
        if len(self.shape) == 1:
            result &= table
        return np.asarray(result.ravel())

    def describe(self, case: int) -> dict[str, str]:
        """Returns the values of a case by the names of the axes."""
        indices = np.unravel_index(case, self.shape)
        return {
            axis.name: axis.values[index] for axis, index in zip(self.axes, indices, strict=True)
        }


def _reader(*axes: Axis, rest: bool = False) -> Read:
    """Returns a function that reads one source for each axis. With `rest`, the last axis stands for
    all other sources: whether they are all 0."""
    tables = []
    for axis in axes[: len(axes) - rest]:
        table = np.full(256, axis.values.index(NONE) if NONE in axis.values else 0, np.int64)
        for index, text in enumerate(axis.values):
            if text != NONE:
                table[ord(text)] = index
        tables.append(table)

    def read(sources: Sequence[Characters]) -> list[Ints]:
        missing = np.zeros_like(sources[0])
        padded = [*sources[: len(tables)], *[missing] * (len(tables) - len(sources))]
        indices = [table[source] for table, source in zip(tables, padded, strict=True)]
        if rest:
            others = sources[len(tables) :]
            flags = any_of(value(c) > 0 for c in others) if others else np.zeros_like(missing, bool)
            indices.append(np.where(flags, 1, 0) if others else np.full(missing.shape, 2))
        return indices

    return read


def _kinds_like(kind: Kind) -> tuple[Kind, ...]:
    """Returns all kinds that the same rule writes."""
    return tuple(other for other, rule in RULES.items() if rule is RULES[kind])


def _digit(name: str) -> Axis:
    return Axis(name, DIGITS)


def _digit_or_none(name: str) -> Axis:
    return Axis(name, (*DIGITS, NONE))


def _step(
    name: str, kind: Kind, *axes: Axis, rest: bool = False, allowed: Allowed | None = None
) -> LocalStep:
    kinds, read = _kinds_like(kind), _reader(*axes, rest=rest)
    return LocalStep(name, kinds, axes, read, allowed or LocalStep.allowed)


def _signs_of_operands() -> LocalStep:
    """The minus of an operand may stand anywhere in its field. A difference adds the negative."""
    axes = (Axis("minus in the operand", ("no", "yes")), Axis("operation", ("+", "-", NONE)))
    op = _reader(axes[1])

    def read(sources: Sequence[Characters]) -> list[Ints]:
        # The last source of B_SIGN_OF_SUM is the operator. No operand ends in + or -.
        is_op = (sources[-1] == ord("+")) | (sources[-1] == MINUS)
        minus = any_of(c == MINUS for c in sources[:-1])
        return [minus.astype(np.int64), *op([np.where(is_op, sources[-1], 0).astype(np.uint8)])]

    kinds = (Kind.A_SIGN, Kind.B_SIGN, Kind.B_SIGN_OF_SUM)
    return LocalStep("sign of an operand", kinds, axes, read)


def _carried(op: Ints, a: Ints, b: Ints, a_before: Ints, b_before: Ints, before: Ints) -> Flags:
    """The carry into the column before is 0 or 1. There is no column before the lowest one."""
    direction = np.where(op == 0, 1, -1)
    carry = direction * (before - a_before - direction * b_before) % 10
    n_missing = (a_before == 10).astype(int) + (b_before == 10) + (before == 10)
    return np.asarray(np.where(n_missing == 0, carry <= 1, n_missing == 3))


def _complemented(top: Ints, total: Ints, total_before: Ints, before: Ints) -> Flags:
    """The digit before is that of the sum or, if the sum is negative, of its ten's complement. It
    may be a 1 that stands for a 0."""
    negative = np.isin(top, 9)
    either = ((9 - total_before) % 10 == before) | ((10 - total_before) % 10 == before)
    n_missing = (total_before == 10).astype(int) + (before == 10)
    is_mark = (total_before == 0) & (before == 1)
    same = np.where(negative, either, (total_before == before) | is_mark)
    return np.asarray(np.where(n_missing == 0, same, n_missing == 2))


def _product_carries(multiplier: Ints, a: Ints, old: Ints, carry: Ints) -> Flags:
    """The lowest digit of a row has no carry; the first row has no old digits."""
    no_carry = carry == 10
    return np.asarray(no_carry | (carry <= np.maximum(multiplier - (old == 10), 0)))


def _remainder_carries(sign: Ints, q: Ints, b: Ints, old: Ints, carry: Ints) -> Flags:
    return np.asarray((carry == 10) | (carry <= q))


def _rounded_digits(exact: Ints, before: Ints, result: Ints) -> Flags:
    """`result` is the digit before, or one more; at the lowest digit, 0 or the rounding."""
    follows = (result == before) | (result == (before + 1) % 10)
    return np.asarray(np.where(before == 10, np.isin(result, (0, 10)), follows))


def _quotient_digits(sign: Ints, q: Ints, sign_before: Ints, before: Ints, result: Ints) -> Flags:
    """`result` is the signed digit before with -1, 0 or 1 carried into it, or the rounding."""
    signed = np.where(sign_before == 1, -before, before)
    carried = (result - signed + 1) % 10 <= 2
    first = np.isin(result, (0, 10, 11)) & (before == 10)
    both_or_none = (sign == 2) == (q == 10)
    follows = (before < 10) & (result < 10) & carried
    return np.asarray(both_or_none & np.where(sign_before == 2, first, follows))


def _quotient_roundings(sign: Ints, last: Ints, before: Ints, top: Ints) -> Flags:
    """A last digit of 0 leaves the dividend as it was, and so the sign of the remainder."""
    return np.asarray((last > 0) | ((top == 9) == (sign == 1)))


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


def _leading_quotients(leading: Ints, divisor: Ints) -> Flags:
    """A dividend is at most ten times the divisor."""
    return np.asarray(np.abs(leading_quotient(leading, divisor)) <= 10)


def leading_quotient(leading: Ints, divisor: Ints) -> NDArray[np.float64]:
    """Returns the quotient that the indices of a QUOTIENT_CHOICE case stand for, computed as by
    `estimate` of `datagen.rules`."""
    return np.asarray(10 * (leading - _LEADING + 0.5) / (divisor + _LEAST + 0.5))


QUOTIENT_CHOICE = LocalStep(
    "quotient digit",
    (Kind.QUOTIENT_DIGIT,),
    (
        Axis("leading digits of the remainder", tuple(map(str, range(-_LEADING, _LEADING)))),
        Axis("of the divisor", tuple(map(str, range(_LEAST, _LEADING)))),
    ),
    _read_leading,
    _leading_quotients,
)

_COPIES = LocalStep(
    "copied digit",
    (*_kinds_like(Kind.A_DIGIT), Kind.ANSWER_DIGIT),
    (_digit("digit"),),
    _reader(_digit("digit")),
)
_REST = Axis("the others", NOT_ALL_ZERO)
_BELOW = Axis("below", NOT_ALL_ZERO)  # a marked digit, which stands for all digits below, too
_COLUMN = (_digit_or_none("A before"), _digit_or_none("B before"), _digit_or_none("sum before"))

_RULED = [
    _signs_of_operands(),
    _COPIES,
    _step("sum or difference", Kind.ADD_OR_SUBTRACT, Axis("A", SIGNS), Axis("B", SIGNS)),
    _step(
        "digit of a sum",
        Kind.SUM_DIGIT,
        *(Axis("operation", SIGNS), _digit("A"), _digit("B"), *_COLUMN),
        allowed=_carried,
    ),
    *(
        _step(
            name,
            kind,
            *(_digit("top"), _digit("sum"), _digit_or_none("sum before"), _digit_or_none("before")),
            allowed=_complemented,
        )
        for name, kind in {
            "magnitude of a sum": Kind.SUM_RESULT,
            "marked magnitude of a sum": Kind.SUM_BELOW,
        }.items()
    ),
    _step("marked digit", Kind.A_BELOW, _digit("digit"), _BELOW, rest=True),
    _step(
        "sign of a sum",
        Kind.SUM_SIGN,
        Axis("A", SIGNS),
        _digit("top"),
        _REST,
        rest=True,
        allowed=lambda a, top, rest: (top != 1) | (rest == 1),
    ),
    *(
        _step(
            f"{what} of a product",
            kind,
            *(_digit("digit of B"), _digit("A"), _digit_or_none("old"), _digit_or_none("carry")),
            allowed=_product_carries,
        )
        for what, kind in {"digit": Kind.PRODUCT_DIGIT, "carry": Kind.PRODUCT_CARRY}.items()
    ),
    _step("sign of a dividend", Kind.DIVIDEND_SIGN, _digit("top")),
    QUOTIENT_CHOICE,
    *(
        _step(
            f"{what} of a remainder",
            kind,
            *(Axis("sign", SIGNS), _digit("quotient digit"), _digit("B")),
            *(_digit("old"), _digit_or_none("carry")),
            allowed=_remainder_carries,
        )
        for what, kind in {"digit": Kind.REMAINDER_DIGIT, "carry": Kind.REMAINDER_CARRY}.items()
    ),
    _step(
        "digit of the last remainder",
        Kind.LAST_DIGIT,
        *(Axis("sign", SIGNS), _digit("quotient digit"), _digit("B")),
        *(_digit("old"), _digit_or_none("carry"), _BELOW),
        rest=True,
        allowed=lambda *indices: _remainder_carries(*indices[:-1]),
    ),
    _step(
        "rounding",
        Kind.ROUNDING,
        *(_digit("half"), _digit_or_none("kept"), _BELOW),
        rest=True,
    ),
    _step(
        "rounded digit",
        Kind.ROUNDED_RESULT,
        _digit_or_none("exact"),
        _digit_or_none("before"),
        Axis("result before", (*DIGITS, "+")),
        allowed=_rounded_digits,
    ),
    _step(
        "rounding of a quotient",
        Kind.QUOTIENT_ROUNDING,
        *(Axis("sign", SIGNS), _digit("last"), _digit_or_none("before"), _digit("top")),
        allowed=_quotient_roundings,
    ),
    _step(
        "digit of a quotient",
        Kind.QUOTIENT_RESULT,
        *(Axis("sign", (*SIGNS, NONE)), _digit_or_none("digit")),
        *(Axis("sign before", (*SIGNS, NONE)), _digit_or_none("before")),
        Axis("result before", (*DIGITS, "+", "-")),
        allowed=_quotient_digits,
    ),
    _step("sign", Kind.SIGN, Axis("A", SIGNS), Axis("B", SIGNS), _REST, rest=True),
]
_QUESTION = {Kind.QUESTION, Kind.A_FIELD, Kind.B_FIELD}
_FIXED = set(Kind) - _QUESTION - {kind for step in _RULED for kind in step.kinds}
LOCAL_STEPS = [*_RULED, LocalStep("mark", tuple(sorted(_FIXED)), (), lambda sources: [])]
#: Steps with so many cases that only a sample of them is tried.
SAMPLED = {QUOTIENT_CHOICE.name}

#: The number of the first case of each step.
OFFSETS: dict[str, int] = dict(
    zip(
        (step.name for step in LOCAL_STEPS),
        np.cumsum([0, *(step.size for step in LOCAL_STEPS)]).tolist(),
        strict=False,
    )
)
N_CASES = sum(step.size for step in LOCAL_STEPS)
