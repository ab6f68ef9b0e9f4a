"""Worked steps of any width: lines from layout and rules, one or a million.

    $(0000000471/0000000299)=+174+9920;74001+232728190-463249190-281528090-554750200:8510+=85.1000000$

The layout (`datagen.layout`) says what stands where, the rules (`datagen.rules`) what is written
there. docs/SCRATCHPAD.md spells out a line for each operation.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from datagen import notation, vectorised
from datagen.arithmetic import ProblemArray
from datagen.layout import layout, shape_of
from datagen.rules import RULES, second_quotient_digit
from datagen.slots import NOWHERE, WIDTH, Kind, Layout, Shape
from datagen.splits import next_words, problem_hashes

ALPHABET = "".join(sorted(set(notation.ALPHABET) | set(";|:")))


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


def render_lines(problems: ProblemArray, loose: bool = False) -> bytes:
    """Returns one problem a line, `$P(A op B)=WORK=ANSWER$`, each with its newline, in ASCII.

    With `loose`, a quarter of the quotient digits, chosen by the hash of the problem, are the
    second nearest where they can be. From them a model learns to continue after any digit.
    """
    direct = vectorised.render_lines(problems).splitlines()
    prompts = [line[: line.index(b"=") + 1] for line in direct]
    lines = render(prompts, problem_hashes(problems) if loose else None)
    return b"".join(line + b"\n" for line in lines)


def render(prompts: Sequence[bytes], choices: NDArray[np.uint64] | None = None) -> list[bytes]:
    """Returns the lines of prompts, without newlines.

    `choices`, (n,), are random words that choose loose quotient digits. Raises ValueError for what
    is not a prompt.
    """
    by_shape: dict[Shape, list[int]] = {}
    for i, prompt in enumerate(prompts):
        shape = shape_of(prompt.decode())
        if shape is None:
            raise ValueError(f"not a prompt: {prompt!r:.80}")
        by_shape.setdefault(shape, []).append(i)
    lines = [b""] * len(prompts)
    for shape, rows in by_shape.items():
        plan = layout(shape)
        text = np.frombuffer(b"".join(prompts[i] for i in rows), np.uint8)
        second = None
        if choices is not None:
            second = second_digits(choices[rows], n_quotient_digits(plan))
        for i, line in zip(rows, complete(plan, text.reshape(len(rows), -1), second), strict=True):
            lines[i] = line
    return lines


def second_digits(choices: NDArray[np.uint64], count: int) -> NDArray[np.bool_]:
    """Returns which of `count` quotient digits are the second nearest, (n, count): a quarter, by
    two bits of a word each. One word serves 32 digits, and then another that follows from it."""
    second = np.zeros((len(choices), count), bool)
    words = choices.copy()
    for digit in range(count):
        if digit and digit % 32 == 0:
            words = next_words(words)
        second[:, digit] = words >> np.uint64(2 * (digit % 32)) & np.uint64(3) == 0
    return second


def complete(
    plan: Layout, prompts: NDArray[np.uint8], second: NDArray[np.bool_] | None = None
) -> list[bytes]:
    """Returns whole lines, without newlines, of prompts of one layout; see `work_matrix`."""
    works = work_matrix(plan, prompts, second)
    text = np.concatenate((works, answer_matrix(plan, works)), axis=1)
    ends = np.count_nonzero(text, axis=1).cumsum().tolist()
    flat = text[text != 0].tobytes()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
