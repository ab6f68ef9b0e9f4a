"""Worked steps of any width: lines from layout and rules, one or a million, and their checker.

    $(0000000471/0000000299)=+174+9920;74001+232728190-463249190-281528090-554750200:8510+=85.1000000$

The layout (`datagen.layout`) says what stands where, the rules (`datagen.rules`) what is written
there. docs/NOTATION.md spells out a line for each operation.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from datagen.arithmetic import Operation
from datagen.layout import MIN_DIVISOR, NOWHERE, WIDTH, Kind, Layout, Shape, Slot, layout
from datagen.rules import RULES, quotient_digit, second_quotient_digit

_PROMPT = re.compile(r"\$([13-9]?)\(([-0-9.]{10,99}?)([-+*/])([-0-9.]{10,99})\)=")
_NEWLINE = ord("\n")


def shape_of(prompt: str) -> Shape | None:
    """Returns the shape of a prompt `$P(A op B)=`, or None for any other text."""
    match = _PROMPT.fullmatch(prompt)
    if match is None:
        return None
    places, a, op, b = match.groups()
    a_digits, a_places, _ = _digits_and_places(a)
    b_digits, b_places, b_is_zero = _digits_and_places(b)
    return Shape(
        op=Operation(op),
        a_digits=a_digits,
        a_places=a_places,
        b_digits=b_digits,
        b_places=b_places,
        places=int(places or 2),
        a_width=len(a),
        b_width=len(b),
        by_zero=b_is_zero and op == Operation.DIV,
    )


def _digits_and_places(field: str) -> tuple[int, int, bool]:
    """Returns the digits and places of an operand, and whether it is 0."""
    whole, _, places = field.partition(".")
    digits = (whole + places).replace("-", "0").lstrip("0")
    return max(1, len(digits)), len(places), not digits


def work_matrix(
    plan: Layout, prompts: NDArray[np.uint8], second: NDArray[np.bool_] | None = None
) -> NDArray[np.uint8]:
    """Returns prompts and works of one layout, (n, T), from the prompts, (n, prompt_length).

    `second`, (n, rows of a quotient), says which quotient digits are the second nearest.
    """
    text = np.zeros((len(plan.slots) + 1, len(prompts)), np.uint8)  # the last: what NOWHERE reads
    text[: plan.prompt_length] = prompts.T
    row = 0
    for position in range(plan.prompt_length, len(plan.slots)):
        slot = plan.slots[position]
        sources = [text[source] for source in slot.sources]
        text[position] = RULES[slot.kind](*sources)
        if slot.kind is Kind.QUOTIENT_DIGIT:
            if second is not None:
                other = second_quotient_digit(*sources)
                text[position] = np.where(second[:, row], other, text[position])
            row += 1
    return text[:-1].T


def n_quotient_digits(plan: Layout) -> int:
    """Returns how many quotient digits a layout has."""
    return sum(slot.kind is Kind.QUOTIENT_DIGIT for slot in plan.slots)


def answer_matrix(plan: Layout, works: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns the answer fields that works stand for, with the closing `$`, from `work_matrix`.

    In the matrix, (n, any number), 0 means that nothing is written.
    """
    n, zero = len(works), ord("0")
    if plan.sign == NOWHERE:
        field = "nan".ljust(WIDTH, "0") + "$"
        return np.tile(np.frombuffer(field.encode(), np.uint8), (n, 1))
    places = plan.result_places
    count = max(len(plan.result), places + 1)
    digits = np.full((n, count), zero, np.uint8)
    digits[:, : len(plan.result)] = works[:, plan.result]
    index = np.arange(count)
    is_digit = digits != zero
    # Written are all from the lowest that is not 0, or the first decimal place, to the highest that
    # is not 0, or the units.
    last_place = np.where(is_digit.any(axis=1), is_digit.argmax(axis=1), count)
    last_place = np.minimum(last_place, max(places - 1, 0))[:, None]
    top = np.maximum(count - 1 - is_digit[:, ::-1].argmax(axis=1), places)[:, None]
    top = np.where(is_digit.any(axis=1, keepdims=True), top, places)
    digits *= (index >= last_place) & (index <= top)
    minus = np.where(works[:, [plan.sign]] == ord("-"), ord("-"), 0).astype(np.uint8)
    parts = [digits[:, :places], digits[:, places:], minus]
    if places:
        parts.insert(1, np.full((n, 1), ord("."), np.uint8))
    length = sum(np.count_nonzero(part, axis=1) for part in parts)
    padding = np.arange(WIDTH) < WIDTH - np.reshape(length, (n, 1))
    end = np.full((n, 1), ord("$"), np.uint8)
    return np.concatenate((*parts, padding * np.uint8(zero), end), axis=1)


def answer_slots(plan: Layout, line: bytes) -> list[tuple[Slot, str]]:
    """Returns slot and character of each place of the answer field that the result row of a line
    stands for. The row may hold any characters, as a model wrote them."""
    if plan.sign == NOWHERE:
        kinds = [Kind.ANSWER_N, Kind.ANSWER_A, Kind.ANSWER_N]
        field = [(Slot(kind), character) for kind, character in zip(kinds, "nan", strict=True)]
    else:
        places, last_place = plan.result_places, 0
        digits = [line[position] for position in plan.result]
        nonzero = [index for index, code in enumerate(digits) if code != ord("0")]
        last_place = min(nonzero[0] if nonzero else places, max(places - 1, 0))
        field = [
            _digit_slot(plan, digits, index)
            for index in range(last_place, max([*nonzero[-1:], places]) + 1)
        ]
        if places:
            field.insert(places - last_place, (Slot(Kind.ANSWER_POINT), "."))
        if line[plan.sign] == ord("-"):
            field.append((Slot(Kind.ANSWER_MINUS), "-"))
    field += [(Slot(Kind.ANSWER_ZERO), "0")] * (WIDTH - len(field))
    return [*field, (Slot(Kind.END), "$")]


def _digit_slot(plan: Layout, digits: Sequence[int], index: int) -> tuple[Slot, str]:
    if index >= len(digits):
        return Slot(Kind.ANSWER_ZERO), "0"
    position = plan.result[index]
    column = plan.slots[position].column
    return Slot(Kind.ANSWER_DIGIT, 0, column, 0, column, (position,)), chr(digits[index])


def render_prompts(prompts: Sequence[str], second: Sequence[int] | None = None) -> list[str]:
    """Returns the lines of prompts.

    `second` has an integer a prompt: the bits of its quotient digits, the first digit's lowest, say
    which are the second nearest. Raises ValueError for what is not a prompt.
    """
    by_shape: dict[Shape, list[int]] = {}
    for i, prompt in enumerate(prompts):
        shape = shape_of(prompt)
        if shape is None:
            raise ValueError(f"not a prompt: {prompt!r:.80}")
        by_shape.setdefault(shape, []).append(i)
    lines = [""] * len(prompts)
    for shape, rows in by_shape.items():
        plan = layout(shape)
        text = np.frombuffer("".join(prompts[i] for i in rows).encode(), np.uint8)
        chosen = None
        if second is not None and (count := n_quotient_digits(plan)):
            chosen = np.array([[second[i] >> k & 1 for k in range(count)] for i in rows], bool)
        rendered = complete(plan, text.reshape(len(rows), -1), chosen)
        for i, line in zip(rows, rendered, strict=True):
            lines[i] = line.decode()
    return lines


def complete(
    plan: Layout, prompts: NDArray[np.uint8], second: NDArray[np.bool_] | None = None
) -> list[bytes]:
    """Returns whole lines, without newlines, of prompts of one layout; see `work_matrix`."""
    works = work_matrix(plan, prompts, second)
    text = np.concatenate((works, answer_matrix(plan, works)), axis=1)
    ends = np.count_nonzero(text, axis=1).cumsum().tolist()
    flat = text[text != 0].tobytes()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
