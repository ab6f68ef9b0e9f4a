"""The checker of worked steps: the first character that does not follow.

Every character of a work is compared with what its rule (`datagen.rules`) writes after the text so
far. A quotient digit is right if it leaves less than the divisor, because later digits correct it.
A work without an error always ends in the exact answer.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from datagen.errors import NotationError
from datagen.layout import answer_slots, layout, shape_of
from datagen.rules import MINUS, NINE, RULES, ZERO
from datagen.slots import Kind, Layout, Shape


class StepKind(StrEnum):
    """The purpose of a character of the work."""

    OPERAND = "operand rewriting"
    SUM = "sum digit"
    PRODUCT = "product row"
    QUOTIENT = "quotient digit"
    REMAINDER = "remainder digit"
    ROUNDING = "rounding"
    SIGN = "sign"
    LAYOUT = "layout"
    ANSWER = "answer"  # after the work


@dataclass(frozen=True, slots=True)
class WrongCharacter:
    """The first wrong character of a work, or of the answer after it."""

    kind: StepKind
    position: int  # in the text that was checked
    expected: str  # "" if the text should end
    actual: str  # "" if the text ends too early


STEP_KINDS: dict[StepKind, tuple[Kind, ...]] = {
    StepKind.OPERAND: (Kind.A_DIGIT, Kind.A_ZERO, Kind.B_DIGIT, Kind.B_ZERO),
    StepKind.SUM: (
        Kind.SUM_LOWEST,
        Kind.SUM_DIGIT,
        Kind.SUM_BELOW,
        Kind.SUM_HALF,
        Kind.SUM_KEPT,
    ),
    StepKind.PRODUCT: (
        Kind.MULTIPLIER,
        Kind.FIRST_DIGIT,
        Kind.FIRST_CARRY,
        Kind.PRODUCT_DIGIT,
        Kind.PRODUCT_CARRY,
        Kind.PRODUCT_BELOW,
        Kind.PRODUCT_HALF,
        Kind.PRODUCT_KEPT,
    ),
    StepKind.QUOTIENT: (Kind.QUOTIENT_DIGIT,),
    StepKind.REMAINDER: (
        Kind.REMAINDER_COPY,
        Kind.REMAINDER_ZERO,
        Kind.BROUGHT_DOWN,
        Kind.BROUGHT_ZERO,
        Kind.REMAINDER_DIGIT,
        Kind.REMAINDER_CARRY,
    ),
    StepKind.ROUNDING: (
        Kind.ROUNDING,
        Kind.QUOTIENT_ROUNDING,
        Kind.SUM_RESULT,
        Kind.PRODUCT_RESULT,
        Kind.ROUNDED_RESULT,
        Kind.ROUNDED_TOP,
        Kind.QUOTIENT_RESULT,
    ),
    StepKind.SIGN: (
        Kind.A_SIGN,
        Kind.B_SIGN,
        Kind.B_SIGN_OF_SUM,
        Kind.ADD_OR_SUBTRACT,
        Kind.DIVIDEND_SIGN,
        Kind.SUM_SIGN,
        Kind.SIGN,
    ),
    StepKind.LAYOUT: (
        Kind.ROW_MARK,
        Kind.REMAINDER_MARK,
        Kind.EXACT_MARK,
        Kind.RESULT_MARK,
        Kind.NAN,
        Kind.EQUALS,
    ),
}
STEP_KIND = {kind: step for step, kinds in STEP_KINDS.items() for kind in kinds}


def first_error(prompt: str, work: str) -> WrongCharacter | None:
    """Returns the first wrong character of a WORK, or None if there is none.

    Raises NotationError if the prompt is none.
    """
    shape = _shape(prompt)
    plan = layout(shape)
    length = len(plan.slots) - plan.prompt_length - 1  # without `=`
    text = (prompt + work[:length]).encode("ascii", "replace")
    if error := _first_wrong(shape, text):
        # `text` has only ASCII.
        return replace(error, actual=work[error.position : error.position + 1])
    if len(work) > length:
        return WrongCharacter(StepKind.LAYOUT, length, "", work[length])
    return None


def first_error_of_completion(prompt: str, text: str) -> WrongCharacter | None:
    """Does what `first_error` does for `WORK=ANSWER$`, the text after a prompt."""
    work, equals, field = text.partition("=")
    if error := first_error(prompt, work):
        return error
    if not equals:
        return WrongCharacter(StepKind.LAYOUT, len(work), "=", "")
    slots = answer_slots(layout(_shape(prompt)), f"{prompt}{work}=".encode())
    true_field = "".join(character for _, character in slots)
    for i in range(max(len(true_field), len(field))):
        expected, actual = true_field[i : i + 1], field[i : i + 1]
        if expected != actual:
            return WrongCharacter(StepKind.ANSWER, len(work) + 1 + i, expected, actual)
    return None


def quotient_digits(prompt: str, work: str) -> set[int]:
    """Returns the positions of the quotient digits in a work, even in an invalid one.

    They are the only characters that do not follow from those before them. What is no prompt has
    none.
    """
    shape = shape_of(prompt)
    if shape is None or shape.op != "/":
        return set()
    positions = _quotient_positions(shape)
    return {position for position in positions if position < len(work)}


def _shape(prompt: str) -> Shape:
    shape = shape_of(prompt)
    if shape is None:
        raise NotationError("not a question in the notation", 0)
    return shape


@lru_cache(maxsize=1_000)
def _quotient_positions(shape: Shape) -> list[int]:
    plan = layout(shape)
    slots = enumerate(plan.slots[plan.prompt_length :])
    return [i for i, slot in slots if slot.kind is Kind.QUOTIENT_DIGIT]


@dataclass(frozen=True)
class SlotGroup:
    """m slots of one kind with equally many sources: one call of a rule writes them all."""

    kind: Kind
    positions: NDArray[np.intp]  # (m,)
    sources: NDArray[np.intp]  # (number of sources, m)


@lru_cache(maxsize=1_000)
def slot_groups(shape: Shape) -> list[SlotGroup]:
    """Returns the slots of a work by kind, `=` included."""
    plan = layout(shape)
    members: dict[tuple[Kind, int], list[int]] = {}
    for position in range(plan.prompt_length, len(plan.slots)):
        slot = plan.slots[position]
        members.setdefault((slot.kind, len(slot.sources)), []).append(position)
    return [
        SlotGroup(
            kind,
            np.array(positions, np.intp),
            np.array([plan.slots[p].sources for p in positions], np.intp).T,
        )
        for (kind, _), positions in members.items()
    ]


def _first_wrong(shape: Shape, text: bytes) -> WrongCharacter | None:
    """Returns the first wrong character of a prompt and a work, which may end too early."""
    plan = layout(shape)
    actual = np.zeros(len(plan.slots) + 1, np.uint8)  # the last: what NOWHERE reads
    actual[: len(text)] = np.frombuffer(text, np.uint8)
    expected = actual.copy()
    # No rule reads what comes after its slot, so that all can be applied at once. Behind the first
    # wrong character their results mean nothing.
    for group in slot_groups(shape):
        expected[group.positions] = RULES[group.kind](*actual[group.sources])
    for position in np.flatnonzero(expected[: len(plan.slots) - 1] != actual[:-2]).tolist():
        slot = plan.slots[position]
        if slot.kind is not Kind.QUOTIENT_DIGIT or not _leaves_less(plan, actual, position):
            character = chr(actual[position]) if position < len(text) else ""
            work_position = position - plan.prompt_length
            kind = STEP_KIND[slot.kind]
            return WrongCharacter(kind, work_position, chr(expected[position]), character)
    return None


def _leaves_less(plan: Layout, text: NDArray[np.uint8], position: int) -> bool:
    """Whether the quotient digit at a position leaves a remainder below the divisor.

    All before it must be right.
    """
    if not ZERO <= text[position] <= NINE:
        return False
    [top] = plan.slots[position - 1].sources  # what its sign is read from: the old remainder's sign
    rows = [
        slot.sources
        for slot in plan.slots[position + 1 :]
        if slot.kind is Kind.REMAINDER_DIGIT and slot.sources[1] == position
    ]
    divisor = _value([text[sources[2]] for sources in rows])
    dividend = _value([*(text[sources[3]] for sources in rows), text[top]])
    if text[top] == NINE:  # a ten's complement
        dividend -= 10 ** (len(rows) + 1)
    digit = int(text[position]) - ZERO
    if text[position - 1] == MINUS:
        digit = -digit
    return abs(dividend - digit * divisor) < divisor


def _value(digits: list[np.uint8]) -> int:
    """Returns the value of digits, the lowest first."""
    return int(bytes(map(int, digits))[::-1])
