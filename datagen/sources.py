"""Where the rule of each slot reads, as arrays, and the case of each character of a line.

The case of a character is the kind of its slot and the characters that its rule reads
(`datagen.cases`). Both follow from the text before it.

Shapes: T characters or slots.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from datagen.answer_layout import AnswerShape, answer_shape, answer_slots
from datagen.layout import layout, shape_of
from datagen.slots import MAX_SOURCES, NOWHERE, Layout, Shape, Slot, shape_cache


class Slots(NamedTuple):
    """The kinds of slots, (T,), and the positions of their sources, (T, MAX_SOURCES), NOWHERE for
    what they do not read."""

    kinds: NDArray[np.uint8]
    sources: NDArray[np.int32]


def as_arrays(slots: Sequence[Slot]) -> Slots:
    """Returns slots as arrays."""
    sources = np.full((len(slots), MAX_SOURCES), NOWHERE, np.int32)
    for row, slot in zip(sources, slots, strict=True):
        row[: len(slot.sources)] = slot.sources
    return Slots(np.array([slot.kind for slot in slots], np.uint8), sources)


@shape_cache(lambda slots: len(slots.kinds))
def work_slots(shape: Shape) -> Slots:
    """Returns the slots of the question and the work of a shape."""
    return as_arrays(layout(shape).slots)


def answer_field_slots(plan: Layout, answer: AnswerShape) -> Slots:
    """Returns the slots of an answer field."""
    return as_arrays(answer_slots(plan, answer))


def next_cases(line: bytes) -> NDArray[np.uint8]:
    """Returns the case of the character after each character of a line, (T, 1 + MAX_SOURCES): its
    kind, and the ASCII codes of its sources, 0 for none.

    The line may be unfinished, and any text is allowed: where no slot follows, or the question is
    not complete, the case is all 0.
    """
    result = np.zeros((len(line), 1 + MAX_SOURCES), np.uint8)
    end = line.find(b"=") + 1
    shape = shape_of(line[:end].decode("ascii", "replace")) if end else None
    if shape is None:
        return result
    parts, plan = [work_slots(shape)], layout(shape)
    if len(line) >= len(plan.slots):
        parts.append(answer_field_slots(plan, answer_shape(plan, line)))
    kinds = np.concatenate([part.kinds for part in parts])[end : len(line) + 1]
    sources = np.concatenate([part.sources for part in parts])[end : len(line) + 1]
    codes = np.frombuffer(line + b"\0", np.uint8)  # NOWHERE reads the last one
    result[end - 1 : end - 1 + len(kinds), 0] = kinds
    result[end - 1 : end - 1 + len(kinds), 1:] = codes[sources]
    return result
