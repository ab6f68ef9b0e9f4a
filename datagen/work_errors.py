"""The checker of worked steps, which finds the first wrong character.

Every character of a work is compared with the character that its rule (`datagen.rules`) writes
after the text so far. A quotient digit is right if it leaves less than the divisor, because later
digits correct it. A work without an error always ends in the exact answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calcgpt.base.errors import NotationError
from datagen.answer_layout import answer_field
from datagen.arithmetic import integer_from_text
from datagen.layout import layout, shape_of
from datagen.operations import RULES, STEP_KIND
from datagen.rules import NINE, ZERO
from datagen.slots import MAX_SOURCES, Kind, Shape, StepKind, shape_cache


@dataclass(frozen=True, slots=True)
class WrongCharacter:
    """The first wrong character of a work, or of the answer after it."""

    kind: StepKind
    position: int  # in the text that was checked
    expected: str  # "" if the text should end
    actual: str  # "" if the text ends too early


def first_error(prompt: str, work: str) -> WrongCharacter | None:
    """Returns the first wrong character of a WORK, or None if there is none.

    Raises NotationError if the prompt is not in the notation.
    """
    shape = _shape(prompt)
    plan = layout(shape)
    length = len(plan) - plan.prompt_length - 1  # without `=`
    text = (prompt + work[:length]).encode("ascii", "replace")
    if error := _first_wrong(shape, text):
        return replace(error, actual=work[error.position : error.position + 1])
    if len(work) > length:
        return WrongCharacter(StepKind.LAYOUT, length, "", work[length])
    return None


def first_error_of_completion(prompt: str, text: str) -> WrongCharacter | None:
    """The same as `first_error` for `WORK=ANSWER$`, the text after a prompt."""
    work, equals, field = text.partition("=")
    if error := first_error(prompt, work):
        return error
    if not equals:
        return WrongCharacter(StepKind.LAYOUT, len(work), "=", "")
    slots = answer_field(layout(_shape(prompt)), f"{prompt}{work}=".encode())
    true_field = "".join(character for _, character in slots)
    for i in range(max(len(true_field), len(field))):
        expected, actual = true_field[i : i + 1], field[i : i + 1]
        if expected != actual:
            return WrongCharacter(StepKind.ANSWER, len(work) + 1 + i, expected, actual)
    return None


def quotient_digits(prompt: str, work: str) -> set[int]:
    """Returns the positions of the quotient digits in a work, even in an invalid one.

    They are the only characters that do not follow from the text before them. Returns an empty set
    if `prompt` is not in the notation.
    """
    shape = shape_of(prompt)
    if shape is None:
        return set()
    plan = layout(shape)
    kinds = plan.kinds[plan.prompt_length : plan.prompt_length + len(work)]
    return set(np.flatnonzero(kinds == Kind.QUOTIENT_DIGIT).tolist())


def _shape(prompt: str) -> Shape:
    shape = shape_of(prompt)
    if shape is None:
        raise NotationError("not a question in the notation", 0)
    return shape


@dataclass(frozen=True, slots=True)
class Division:
    """The positions of the numbers that a quotient digit divides, lowest digit first: the divisor,
    and as dividend the last remainder with the next digit brought down."""

    divisor: list[int]
    dividend: list[int]

    def valid_digits(self, text: Sequence[int]) -> NDArray[np.bool_]:
        """Returns which digits leave less than the divisor, (10,). `text` has an ASCII code for
        each position. The divisor and the dividend in it must be right."""
        divisor, dividend = (
            integer_from_text(bytes(text[p] for p in reversed(positions)).decode())
            for positions in (self.divisor, self.dividend)
        )
        if text[self.dividend[-1]] == NINE:  # a ten's complement
            dividend = 10 ** len(self.dividend) - dividend
        return np.array([abs(dividend - digit * divisor) < divisor for digit in range(10)])


@shape_cache(lambda result: 1 + sum(len(d.divisor) + len(d.dividend) for d in result.values()))
def divisions(shape: Shape) -> dict[int, Division]:
    """Returns the division of each quotient digit, by the position of the digit in a line."""
    result: dict[int, Division] = {}
    plan = layout(shape)
    for position, kind in enumerate(plan.kinds.tolist()):
        if kind == Kind.QUOTIENT_DIGIT:
            division = result[position] = Division([], [])
        elif kind in (Kind.REMAINDER_DIGIT, Kind.LAST_DIGIT):
            division.divisor.append(int(plan.sources[position, 2]))
            division.dividend.append(int(plan.sources[position, 3]))
    for position, division in result.items():
        division.dividend.extend(plan[position - 1].sources)  # the sign: the top digit
    return result


@dataclass(frozen=True)
class SlotGroup:
    """m slots of one kind with equally many sources: one call of a rule writes them all."""

    kind: Kind
    positions: NDArray[np.intp]  # (m,)
    sources: NDArray[np.intp]  # (number of sources, m)


@shape_cache(lambda groups: sum(len(group.positions) for group in groups))
def slot_groups(shape: Shape) -> list[SlotGroup]:
    """Returns the slots of a work by kind, `=` included."""
    plan = layout(shape)
    kinds = plan.kinds.astype(np.intp)
    keys = kinds * (MAX_SOURCES + 1) + plan.counts
    keys[: plan.prompt_length] = -1
    return [
        SlotGroup(Kind(kinds[at[0]]), at, plan.sources[at, : plan.counts[at[0]]].T.astype(np.intp))
        for at in (np.flatnonzero(keys == key) for key in np.unique(keys) if key >= 0)
    ]


def _first_wrong(shape: Shape, text: bytes) -> WrongCharacter | None:
    """Returns the first wrong character of a prompt and a work, which may end too early. `actual`
    is left empty: the text may have had characters that are not ASCII."""
    plan = layout(shape)
    actual = np.zeros(len(plan) + 1, np.uint8)  # NOWHERE reads the last one
    actual[: len(text)] = np.frombuffer(text, np.uint8)
    expected = actual.copy()
    # No rule reads a character after its slot, so all rules can be applied at once. Their results
    # after the first wrong character mean nothing.
    for group in slot_groups(shape):
        expected[group.positions] = RULES[group.kind](*actual[group.sources])
    for position in np.flatnonzero(expected[: len(plan) - 1] != actual[:-2]).tolist():
        digit = int(actual[position]) - ZERO
        division = divisions(shape).get(position)
        if division and 0 <= digit <= 9 and division.valid_digits(actual.tolist())[digit]:
            continue  # a quotient digit that later ones correct
        kind = STEP_KIND[plan[position].kind]
        work_position = position - plan.prompt_length
        return WrongCharacter(kind, work_position, chr(expected[position]), actual="")
    return None
