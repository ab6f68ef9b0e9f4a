"""What the characters of worked steps mean, as equations over whole numbers, checked in all cases.

The rules (`datagen.rules`) say which character is written. Here is why that is right. Each row of
the work keeps an invariant from column to column, such as that the digits so far and the carry are
those of the sum. It follows from an equation between the numbers of one case. `check` tries the
equations in all cases (`datagen.cases`), so by induction over the columns the invariants hold for
rows of any length. docs/PROOF.md says what follows from them.

A digit stands for its value, a sign for 1 or -1, and nothing for 0. So a rounding, +, - or 0, is
what it adds. Signs and digits that are not written, such as carries, follow from those that are.

Shapes: n cases of a kind.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from datagen.cases import NONE, Cases
from datagen.slots import Kind

Ints = NDArray[np.int64]  # (n,)
Flags: TypeAlias = Any  # an array of bool, (n,), or (k, n) of sources: NumPy's types say Any
#: From the values of the sources, (k, n), what is written, and which sources do not exist, (k, n);
#: or, for a digit and its carry, from the sources and both. Returns whether the equation holds.
Equation = Callable[[Ints, Ints, Any], Flags]

_VALUES = np.zeros(256, np.int64)
_VALUES[ord("0") : ord("9") + 1] = np.arange(10)
_VALUES[[ord("+"), ord("-")]] = 1, -1


class Check(NamedTuple):
    """The result for a kind: how many cases there are, and the first that fails, if one does."""

    kind: Kind
    n: int
    failing: int | None  # its number among all cases


def check(cases: Cases) -> Iterator[Check]:
    """Yields a result for each kind with an equation: all but the quotient digits, whose intervals
    are in `datagen.cases`, and the characters that are always the same."""
    for kind, equation in EQUATIONS.items():
        rows = np.flatnonzero(cases.kinds == kind)
        sources, written = cases.sources[rows].T, cases.right[rows, 0]
        holds = equation(_VALUES[sources], _VALUES[written], sources == NONE)
        holds &= np.isin(written, list(OTHERS.get(kind, DIGITS)))
        failing = rows[~np.broadcast_to(holds, len(rows))]
        yield Check(kind, len(rows), int(failing[0]) if len(failing) else None)
    for low, (high, equation) in CARRIES.items():
        below, above = (np.flatnonzero(cases.kinds == kind) for kind in (low, high))
        same = np.array_equal(cases.sources[below], cases.sources[above])
        digits, carries = (_VALUES[cases.right[rows, 0]] for rows in (below, above))
        holds = same & equation(_VALUES[cases.sources[below].T], digits, carries)
        holds &= np.isin(cases.right[[below, above], 0], list(DIGITS)).all(axis=0)
        failing = below[~holds]
        yield Check(high, len(above), int(failing[0]) if len(failing) else None)


def _copied(x: Ints, written: Ints, none: Flags) -> Flags:
    return written == x[0]


def _mark(digit: Ints, before: Ints) -> Ints:
    """A mark is 0 if and only if all digits so far are 0."""
    return np.where((digit == 0) & (before > 0), 1, digit)


def _marked(x: Ints, written: Ints, none: Flags) -> Flags:
    return written == _mark(x[0], x[1])


def _operand_sign(x: Ints, written: Ints, none: Flags) -> Flags:
    return written == np.where(x[0] == -1, -1, 1)


def _sign_of_b(x: Ints, written: Ints, none: Flags) -> Flags:
    return written == np.where(x[0] == -1, -1, 1) * x[1]


def _sign_of_both(x: Ints, written: Ints, none: Flags) -> Flags:
    return written == x[0] * x[1]


def _lowest_sum(x: Ints, written: Ints, none: Flags) -> Flags:
    op, a, b = x[:3]
    return (a + op * b - written) % 10 == 0


def _sum(x: Ints, written: Ints, none: Flags) -> Flags:
    """The carry c0 into the column before follows from its digits, since it is 0 or 1; and so does
    the carry c out of it: a0 + op (b0 + c0) = s0 + op 10 c."""
    op, a, b, a0, b0, s0 = x[:6]
    c0 = op * (s0 - a0 - op * b0) % 10
    carried = op * (a0 + op * (b0 + c0) - s0)
    c = carried // 10
    seen = (c0 <= 1) & (carried % 10 == 0) & (c >= 0) & (c <= 1)
    return seen & ((a + op * (b + c) - written) % 10 == 0)


def _magnitude(x: Ints, written: Ints, none: Flags, is_mark: bool = False) -> Flags:
    """Below a top digit 9 stands the ten's complement: the nines' complement plus a carry k, which
    is 1 as long as all digits of the sum are 0, that is while sum and magnitude are both 0."""
    top, total, total0, magnitude0 = x[:4]
    k = none[2] | (total0 == 0) & (magnitude0 == 0)
    digit = np.where(top == 9, (9 - total + k) % 10, total)
    goes_on = ((total == 0) & (written == 0)) == ((total == 0) & k)
    expected = _mark(digit, magnitude0) if is_mark else digit
    return (written == expected) & (goes_on | (top != 9))


def _top(x: Ints, written: Ints, none: Flags) -> Flags:
    return written == np.where(x[0] == 9, 0, x[0])


def _sum_sign(x: Ints, written: Ints, none: Flags) -> Flags:
    return written == np.where(x[1] == 9, -x[0], x[0])


def _rounding(x: Ints, written: Ints, none: Flags) -> Flags:
    """What is dropped, in twentieths of the last place and rounded up to the next odd number if
    digits are left below: more than half is 11 or more, a tie is 10."""
    half, kept, below = x[:3]
    dropped = 2 * half + (below > 0)
    return written == ((dropped > 10) | (dropped == 10) & (kept % 2 == 1))


def _rounded(x: Ints, written: Ints, none: Flags) -> Flags:
    exact, exact0, result0 = x[:3]
    c0 = (result0 - exact0) % 10
    carry = np.where(none[1], result0, (exact0 + c0) // 10)
    return (none[1] | (c0 <= 1)) & ((exact + carry - written) % 10 == 0)


def _dividend_sign(x: Ints, written: Ints, none: Flags) -> Flags:
    return written == np.where(x[0] == 9, -1, 1)


def _last(x: Ints, written: Ints, none: Flags) -> Flags:
    sign, q, b, old, carry, mark = x[:6]
    return written == _mark((old - sign * (q * b + carry)) % 10, mark)


def _quotient_rounding(x: Ints, written: Ints, none: Flags) -> Flags:
    """The last signed digit and the sign of the remainder, 9 for below zero, are what is dropped,
    in twentieths of the last place. The parity of the number is that of the digit before."""
    sign, last, before, top = x[:4]
    dropped = 2 * sign * last + np.where(top == 9, -1, top)
    away = (abs(dropped) > 10) | (abs(dropped) == 10) & (before % 2 == 1)
    return written == np.where(away, np.sign(dropped), 0)


def _quotient_result(x: Ints, written: Ints, none: Flags) -> Flags:
    """The carry c0 into the digit before is -1, 0 or 1, and so is the carry c out of it: x0 + c0 =
    r0 + 10 c."""
    digit, digit0, result0 = x[0] * x[1], x[2] * x[3], x[4]
    c0 = (result0 - digit0 + 1) % 10 - 1
    c = (digit0 + c0) // 10
    carry = np.where(none[2], result0, c)
    seen = none[2] | (abs(c0) <= 1) & (abs(c) <= 1)
    return seen & ((digit + carry - written) % 10 == 0)


def _product_row(x: Ints, digit: Ints, carry: Ints) -> Flags:
    multiplier, a, old, carry0 = x[:4]
    return digit + 10 * carry == old + multiplier * a + carry0


def _remainder_row(x: Ints, digit: Ints, carry: Ints) -> Flags:
    sign, q, b, old, carry0 = x[:5]
    return digit - sign * 10 * carry == old - sign * (q * b + carry0)


_COPIES = (Kind.A_DIGIT, Kind.B_DIGIT, Kind.MULTIPLIER, Kind.REMAINDER_COPY, Kind.BROUGHT_DOWN)
_COPIED = (Kind.PRODUCT_HALF, Kind.PRODUCT_KEPT, Kind.PRODUCT_RESULT, Kind.ANSWER_DIGIT)
_OF_MAGNITUDES = (Kind.MAGNITUDE_LOWEST, Kind.SUM_RESULT, Kind.SUM_HALF, Kind.SUM_KEPT)
EQUATIONS: dict[Kind, Equation] = {
    **dict.fromkeys((*_COPIES, *_COPIED), _copied),
    **dict.fromkeys((Kind.A_BELOW, Kind.PRODUCT_BELOW), _marked),
    **dict.fromkeys((Kind.A_SIGN, Kind.B_SIGN), _operand_sign),
    Kind.B_SIGN_OF_SUM: _sign_of_b,
    **dict.fromkeys((Kind.ADD_OR_SUBTRACT, Kind.SIGN), _sign_of_both),
    Kind.SUM_LOWEST: _lowest_sum,
    **dict.fromkeys((Kind.SUM_DIGIT, Kind.SUM_TOP), _sum),
    **dict.fromkeys(_OF_MAGNITUDES, _magnitude),
    Kind.SUM_BELOW: partial(_magnitude, is_mark=True),
    Kind.MAGNITUDE_TOP: _top,
    Kind.SUM_SIGN: _sum_sign,
    Kind.ROUNDING: _rounding,
    **dict.fromkeys((Kind.ROUNDED_RESULT, Kind.ROUNDED_TOP), _rounded),
    Kind.DIVIDEND_SIGN: _dividend_sign,
    Kind.LAST_DIGIT: _last,
    Kind.QUOTIENT_ROUNDING: _quotient_rounding,
    Kind.QUOTIENT_RESULT: _quotient_result,
}
#: What is written: DIGITS, but for these kinds.
DIGITS, SIGNS = b"0123456789", b"+-"
OTHERS = {
    **dict.fromkeys((Kind.A_SIGN, Kind.B_SIGN, Kind.B_SIGN_OF_SUM, Kind.SIGN), SIGNS),
    **dict.fromkeys((Kind.ADD_OR_SUBTRACT, Kind.SUM_SIGN, Kind.DIVIDEND_SIGN), SIGNS),
    Kind.ROUNDING: b"+0",
    Kind.QUOTIENT_ROUNDING: b"+-0",
}
#: Digits, the carries that are written beside them from the same sources, and their equation.
CARRIES: dict[Kind, tuple[Kind, Equation]] = {
    Kind.FIRST_DIGIT: (Kind.FIRST_CARRY, _product_row),
    Kind.PRODUCT_DIGIT: (Kind.PRODUCT_CARRY, _product_row),
    Kind.REMAINDER_DIGIT: (Kind.REMAINDER_CARRY, _remainder_row),
}
