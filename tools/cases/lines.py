"""The cases of lines: which case of which rule writes each character (`tools.cases.rules`)."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from datagen.answer_layout import answer_field
from datagen.layout import layout, shape_of_line
from datagen.slots import Kind, Shape
from datagen.work_errors import divisions, slot_groups
from tools.cases.rules import OFFSETS, STEP_OF, Flags, Ints


def line_cases(lines: Sequence[bytes]) -> list[Ints]:
    """Returns the case of each character that follows the prompt of a line, (T,) for each line.

    The lines must be complete: `$P(A op B)=WORK=ANSWER$`. Many lines of one shape take little more
    time than one.
    """
    shapes = [shape_of_line(line) for line in lines]
    rows: dict[Shape, list[int]] = {}
    for row, shape in enumerate(shapes):
        rows.setdefault(shape, []).append(row)
    plans = {shape: layout(shape) for shape in rows}  # more than a cache keeps
    width = 1 + max((len(plan.slots) for plan in plans.values()), default=0)
    text = b"".join(
        line[: len(plans[shape].slots)].ljust(width, b"\0")  # NOWHERE reads the last one
        for line, shape in zip(lines, shapes, strict=True)
    )
    flat = np.frombuffer(text, np.uint8)
    # One call reads all slots of a kind with equally many sources.
    slots: dict[tuple[Kind, int], tuple[list[Ints], list[Ints]]] = {}
    for shape, shape_rows in rows.items():
        starts = np.array(shape_rows)[:, None] * width  # (n, 1)
        for group in slot_groups(shape):
            key = group.kind, len(group.sources)
            positions, sources = slots.setdefault(key, ([], []))
            positions.append((group.positions + starts).ravel())
            if key[1]:
                offsets = group.sources % width  # (k, m)
                sources.append((offsets[:, None] + starts).reshape(key[1], -1))
    cases = np.empty(len(flat), np.int64)
    for (kind, count), (positions, sources) in slots.items():
        step = STEP_OF[kind]
        characters = list(flat[np.concatenate(sources, axis=1)]) if count else []
        cases[np.concatenate(positions)] = OFFSETS[step.name] + step.cases(kind, characters)
    result = []
    for line, shape, row_cases in zip(lines, shapes, cases.reshape(-1, width), strict=True):
        plan = plans[shape]
        work_cases = row_cases[plan.prompt_length : len(plan.slots)]
        answer = answer_field(plan, line[: len(plan.slots)])
        answer_cases = [_answer_case(slot.kind, character) for slot, character in answer]
        result.append(np.concatenate((work_cases, np.array(answer_cases, np.int64))))
    return result


@lru_cache
def _answer_case(kind: Kind, character: str) -> int:
    step = STEP_OF[kind]
    source = [np.array(ord(character), np.uint8)] if kind is Kind.ANSWER_DIGIT else []
    offset: int = OFFSETS[step.name]
    return offset + int(step.cases(kind, source))


def quotient_choices(line: bytes) -> list[tuple[int, Flags]]:
    """Returns the position of each quotient digit of a line, counted from the prompt's end, and
    which digits leave less than the divisor there, (10,)."""
    shape = shape_of_line(line)
    start = layout(shape).prompt_length
    return [
        (position - start, division.valid_digits(line))
        for position, division in divisions(shape).items()
    ]
