"""The layout of the answer field, which follows the worked steps.

It depends on the question and on the result row: zeros at both ends of the row are not copied.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from datagen.slots import MAX_SOURCES, NOWHERE, WIDTH, Kind, Layout, Slot

CHARACTERS = {
    Kind.ANSWER_N: "n",
    Kind.ANSWER_A: "a",
    Kind.ANSWER_POINT: ".",
    Kind.ANSWER_MINUS: "-",
    Kind.ANSWER_ZERO: "0",
    Kind.END: "$",
}


class AnswerShape(NamedTuple):
    """What decides the layout of an answer field, besides the layout of the work.

    `lowest` and `highest` are the indices of the digits of the result row that it copies first and
    last.
    """

    lowest: int
    highest: int
    is_negative: bool


def answer_shape(plan: Layout, line: bytes) -> AnswerShape:
    """Returns the shape of the answer that follows from the result row of a line. The row may have
    any characters that a model wrote."""
    if plan.sign == NOWHERE:  # nan
        return AnswerShape(0, 0, False)
    places = plan.result_places
    nonzero = [index for index, position in enumerate(plan.result) if line[position] != ord("0")]
    lowest = min(nonzero[0] if nonzero else places, max(places - 1, 0))
    is_negative = bool(nonzero) and line[plan.sign] == ord("-")  # a zero has no sign
    return AnswerShape(lowest, max([*nonzero[-1:], places]), is_negative)


def answer_slots(plan: Layout, answer: AnswerShape) -> list[Slot]:
    """Returns the slots of an answer field, its end included."""
    if plan.sign == NOWHERE:
        slots = [Slot(Kind.ANSWER_N), Slot(Kind.ANSWER_A), Slot(Kind.ANSWER_N)]
    else:
        indices = range(answer.lowest, answer.highest + 1)
        slots = [_answer_digit(plan, index) for index in indices]
        if plan.result_places:
            slots.insert(plan.result_places - answer.lowest, Slot(Kind.ANSWER_POINT))
        if answer.is_negative:
            slots.append(Slot(Kind.ANSWER_MINUS))
    slots += [Slot(Kind.ANSWER_ZERO)] * (WIDTH - len(slots))
    return [*slots, Slot(Kind.END)]


class Slots(NamedTuple):
    """The kinds of T slots, (T,), and the positions of their sources, (T, MAX_SOURCES), NOWHERE for
    what they do not read."""

    kinds: NDArray[np.uint8]
    sources: NDArray[np.int32]


def as_arrays(slots: Sequence[Slot]) -> Slots:
    """Returns slots as arrays."""
    sources = np.full((len(slots), MAX_SOURCES), NOWHERE, np.int32)
    for row, slot in zip(sources, slots, strict=True):
        row[: len(slot.sources)] = slot.sources
    return Slots(np.array([slot.kind for slot in slots], np.uint8), sources)


def _answer_digit(plan: Layout, index: int) -> Slot:
    if index >= len(plan.result):
        return Slot(Kind.ANSWER_ZERO)
    return Slot(Kind.ANSWER_DIGIT, sources=(plan.result[index],))


def answer_field(plan: Layout, line: bytes) -> list[tuple[Slot, str]]:
    """Returns the slot and the character of each position of the answer field that follows from the
    result row of a line."""
    return [
        (slot, chr(line[slot.sources[0]]) if slot.sources else CHARACTERS[slot.kind])
        for slot in answer_slots(plan, answer_shape(plan, line))
    ]
