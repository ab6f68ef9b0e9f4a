"""Where the rule of each slot reads, as arrays, and the case of each character of a line.

The case of a character is the kind of its slot and the characters that its rule reads
(`datagen.cases`). Both follow from the text before it.

Shapes: T characters or slots.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from datagen.answer_layout import answer_shape, answer_slots
from datagen.layout import layout, shape_of
from datagen.slots import MAX_SOURCES, NOWHERE, Layout, Slot


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


def next_cases(line: bytes, start: int = 0) -> NDArray[np.uint8]:
    """Returns the case of the character after each character of a line from `start` on, (T, 1 +
    MAX_SOURCES): its kind, and the ASCII codes of its sources, 0 for none.

    The line may be unfinished, and any text is allowed: where no slot follows, or the question is
    not complete, the case is all 0.
    """
    kinds, sources = next_slots(line, start)
    codes = np.frombuffer(line + b"\0", np.uint8)  # NOWHERE reads the last one
    return np.hstack((kinds[:, None], codes[sources]))


def next_slots(line: bytes, start: int = 0) -> Slots:
    """Returns the slots of the cases of `next_cases`."""
    n = len(line) - start
    result = Slots(np.zeros(n, np.uint8), np.full((n, MAX_SOURCES), NOWHERE, np.int32))
    end = line.find(b"=") + 1
    shape = shape_of(line[:end].decode("ascii", "replace")) if end else None
    if shape is None:
        return result
    plan, first = layout(shape), max(end, start + 1)  # the first slot to fill
    _fill(result, plan, first, start + 1)
    n_work = len(plan)
    if len(line) >= n_work:
        answer = as_arrays(answer_slots(plan, answer_shape(plan, line)))
        _fill(result, answer, max(0, first - n_work), start + 1 - n_work)
    return result


def _fill(result: Slots, slots: Layout | Slots, first: int, offset: int) -> None:
    """Writes slots from `first` on into the rows of `result`, in place: slot `offset` is in the
    first row."""
    stop = min(len(slots.kinds), offset + len(result.kinds))
    if first < stop:
        rows = slice(first - offset, stop - offset)
        result.kinds[rows] = slots.kinds[first:stop]
        result.sources[rows] = slots.sources[first:stop]
