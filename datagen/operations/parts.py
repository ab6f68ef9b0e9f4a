"""The parts of layouts that several operations have."""

from typing import NamedTuple

from datagen.slots import LOWEST, NOWHERE, Kind, Layout, position_of


class Operand(NamedTuple):
    """The positions of an operand in the question: its digits without padding, lowest first, and
    the character before the number, which is its sign or padding. A number that fills its field has
    none before it: `sign` is NOWHERE."""

    digits: list[int]
    places: int
    sign: int


class Question(NamedTuple):
    """The positions of the parts of a question."""

    a: Operand
    op: int
    b: Operand


A_KINDS = (Kind.A_DIGIT, Kind.A_ZERO)
B_KINDS = (Kind.B_DIGIT, Kind.B_ZERO)


def nowhere(count: int) -> list[int]:
    """Returns a row that has no digits."""
    row: list[int] = []
    for _ in range(count):
        row.append(NOWHERE)
    return row


def operand_sign(plan: Layout, kind: Kind, operand: Operand, op: list[int]) -> int:
    """Puts the sign of an operand and returns its position. `op`: what else its rule reads."""
    return plan.put(kind, 0, 0, [operand.sign, *op])


def copies(
    plan: Layout,
    operand: Operand,
    lowest: int,
    count: int,
    kinds: tuple[Kind, Kind],
    n_below: int = 0,
) -> list[int]:
    """Puts a row of copies of an operand's digits, lowest first, and returns their positions.

    `lowest` is the exponent of the first. Digits that the question does not write are zeros. The
    first `n_below` copies get the kind A_BELOW and also read the copy before them.
    """
    digit, zero = kinds
    row: list[int] = []
    for index in range(count):
        source = position_of(operand.digits, lowest + index + operand.places)
        if source == NOWHERE:
            row.append(plan.put(zero, 0, LOWEST + index))
        elif index < n_below:
            sources = [source, *row[-1:]]
            row.append(plan.put(Kind.A_BELOW, 0, LOWEST + index, sources))
        else:
            row.append(plan.put(digit, 0, LOWEST + index, [source]))
    return row


def exact_kind(kept: Kind, half: Kind, below: Kind, index: int, drop: int) -> Kind:
    """Returns the kind of a digit of an exact row, of which the lowest `drop` are rounded off."""
    if index >= drop:
        return kept
    return half if index == drop - 1 else below


def result_length(digits: int, drop: int, extra: int = 0) -> int:
    """Returns the number of slots of the row of exact digits and, if the lowest `drop` of them are
    rounded off, of the rounding and the rounded row."""
    return 1 + digits + (2 + digits + extra - drop if drop else 0)


def rounded(plan: Layout, exact: list[int], drop: int, extra: int = 0) -> list[int]:
    """Puts the rounding of an exact row and the rounded digits, and returns their positions."""
    sources = [exact[drop - 1], position_of(exact, drop), position_of(exact, drop - 2)]
    rounding = plan.put(Kind.ROUNDING, 0, drop - 1 + LOWEST, sources)
    return rounded_digits(plan, exact, rounding, drop, extra)


def rounded_digits(
    plan: Layout, exact: list[int], rounding: int, drop: int, extra: int
) -> list[int]:
    """Puts the digits of an exact row that are kept, rounded, and `extra` digits above them."""
    plan.put(Kind.RESULT_MARK)
    result: list[int] = []
    for j in range(drop, len(exact) + extra):
        before = [exact[j - 1], result[-1]] if j > drop else [NOWHERE, rounding]
        kind = Kind.ROUNDED_RESULT if j < len(exact) else Kind.ROUNDED_TOP
        sources = [position_of(exact, j), *before]
        result.append(plan.put(kind, 0, j + LOWEST, sources))
    return result
