"""Worked steps of any width: lines from layout and rules, one or a million.

    $(0000000471/0000000299)=+174+9920;74001+232728190-463249190-281528090-554750200:8510+=85.1000000$

The layout (`datagen.layout`) says what stands where, the rules (`datagen.rules`) what is written
there. docs/SCRATCHPAD.md spells out a line for each operation.

Most lines have a layout of their own, so a call of a rule writes one place of many lines, whatever
their layouts.

Shapes: n lines, W characters of the longest, K slots of all lines' works, m of those that one call
writes, D digits of the longest result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from datagen import notation, vectorised
from datagen.arithmetic import ProblemArray
from datagen.layout import layout, shape_of
from datagen.rules import RULES, second_quotient_digit
from datagen.slots import NOWHERE, WIDTH, Kind, Layout, Shape
from datagen.splits import next_words, problem_hashes

ALPHABET = "".join(sorted(set(notation.ALPHABET) | set(";|:")))
CHARACTERS = 2**18  # of lines that are written together: these take some 40 MB

Ints = NDArray[np.int64]
Characters = NDArray[np.uint8]


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
    shapes = [_shape(prompt) for prompt in prompts]
    lines = [b""] * len(prompts)
    for rows in _of_like_length([len(layout(shape).slots) for shape in shapes]):
        words = None if choices is None else choices[rows]
        part = _complete([prompts[row] for row in rows], [shapes[row] for row in rows], words)
        for row, line in zip(rows, part, strict=True):
            lines[row] = line
    return lines


def _shape(prompt: bytes) -> Shape:
    shape = shape_of(prompt.decode())
    if shape is None:
        raise ValueError(f"not a prompt: {prompt!r:.80}")
    return shape


def _of_like_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yields the rows of lines that are written together."""
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if rows and (len(rows) + 1) * lengths[row] > CHARACTERS:  # the last is the longest
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


@dataclass(frozen=True, slots=True)
class _Slots:
    """The slots of a layout's work, in arrays (k,). `sources` are those of all, one after another;
    `ordinals` count the quotient digits up to a slot."""

    positions: Ints
    kinds: Ints
    counts: Ints  # of sources
    sources: Ints
    ordinals: Ints


@lru_cache(maxsize=1_000)
def _slots(shape: Shape) -> _Slots:
    plan = layout(shape)
    slots = plan.slots[plan.prompt_length :]
    kinds = np.array([slot.kind for slot in slots], np.int64)
    return _Slots(
        positions=np.arange(plan.prompt_length, len(plan.slots)),
        kinds=kinds,
        counts=np.array([len(slot.sources) for slot in slots], np.int64),
        sources=np.array(list(chain.from_iterable(slot.sources for slot in slots)), np.int64),
        ordinals=np.cumsum(kinds == Kind.QUOTIENT_DIGIT) - 1,
    )


def _complete(
    prompts: Sequence[bytes], shapes: Sequence[Shape], choices: NDArray[np.uint64] | None
) -> list[bytes]:
    """Returns the lines of some prompts; see `render`."""
    plans = [layout(shape) for shape in shapes]
    text = np.zeros((len(plans), max(len(plan.slots) for plan in plans) + 1), np.uint8)
    for row, prompt in enumerate(prompts):
        text[row, : len(prompt)] = np.frombuffer(prompt, np.uint8)
    _write_works(text, [_slots(shape) for shape in shapes], choices)
    answers = _answers(text, plans)
    return [
        text[row, : len(plan.slots)].tobytes() + answer
        for row, (plan, answer) in enumerate(zip(plans, answers, strict=True))
    ]


def _write_works(
    text: Characters, slots: Sequence[_Slots], choices: NDArray[np.uint64] | None
) -> None:
    """Writes the works behind the prompts, in place. text: (n, W), of which the last column is what
    NOWHERE reads."""
    width = text.shape[1]
    lines = np.repeat(np.arange(len(slots)), [len(part.kinds) for part in slots])  # (K,)
    positions = np.concatenate([part.positions for part in slots])
    kinds = np.concatenate([part.kinds for part in slots])
    counts = np.concatenate([part.counts for part in slots])
    # In `flat`, all lines stand one after another.
    flat, targets = text.reshape(-1), lines * width + positions
    sources = np.concatenate([part.sources for part in slots]) % width
    sources += np.repeat(lines * width, counts)
    first = np.cumsum(counts) - counts  # of a slot's sources
    if choices is not None:
        ordinals = np.concatenate([part.ordinals for part in slots])
        second = second_digits(choices, int(ordinals.max(initial=-1)) + 1)
    # No slot reads what comes after it, so that one position follows the other. One call writes all
    # slots of a position that have one rule and equally many sources.
    keys = (positions * len(Kind) + kinds) * width + counts
    order = np.argsort(keys, kind="stable")
    bounds = np.flatnonzero(np.diff(keys[order], prepend=-1, append=-1))
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        group = order[start:end]  # (m,)
        kind, count = Kind(int(kinds[group[0]])), int(counts[group[0]])
        read = flat[sources[first[group] + np.arange(count)[:, None]]]  # (count, m)
        written = RULES[kind](*read)
        if kind is Kind.QUOTIENT_DIGIT and choices is not None:
            is_second = second[lines[group], ordinals[group]]
            written = np.where(is_second, second_quotient_digit(*read), written)
        flat[targets[group]] = written


def n_quotient_digits(plan: Layout) -> int:
    """Returns how many quotient digits a layout has."""
    return sum(slot.kind is Kind.QUOTIENT_DIGIT for slot in plan.slots)


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


def _answers(text: Characters, plans: Sequence[Layout]) -> list[bytes]:
    """Returns the answer fields that works stand for, with the closing `$`."""
    answers = ["nan".ljust(WIDTH, "0").encode() + b"$"] * len(plans)
    by_places: dict[int, list[int]] = {}
    for row, plan in enumerate(plans):
        if plan.sign != NOWHERE:
            by_places.setdefault(plan.result_places, []).append(row)
    for places, rows in by_places.items():
        results = [plans[row].result for row in rows]
        count = max(places + 1, *map(len, results))
        index = np.array([result + [NOWHERE] * (count - len(result)) for result in results])
        row_numbers = np.array(rows)
        digits = np.where(index == NOWHERE, ord("0"), text[row_numbers[:, None], index])
        signs = text[row_numbers, [plans[row].sign for row in rows]]
        fields = _answer_fields(digits, signs, places)
        ends = np.count_nonzero(fields, axis=1).cumsum().tolist()
        flat = fields[fields != 0].tobytes()
        for row, start, end in zip(rows, [0, *ends], ends, strict=False):
            answers[row] = flat[start:end]
    return answers


def _answer_fields(digits: Characters, signs: Characters, places: int) -> Characters:
    """Returns answer fields in a matrix, (n, any number), in which 0 means that nothing is written.

    digits: (n, D), results from the lowest digit on, of which `places` are decimals; signs: (n,).
    """
    n, count, zero = *digits.shape, ord("0")
    index = np.arange(count)
    is_digit = digits != zero
    # Written are all from the lowest that is not 0, or the first decimal place, to the highest that
    # is not 0, or the units.
    last_place = np.where(is_digit.any(axis=1), is_digit.argmax(axis=1), count)
    last_place = np.minimum(last_place, max(places - 1, 0))[:, None]
    top = np.maximum(count - 1 - is_digit[:, ::-1].argmax(axis=1), places)[:, None]
    top = np.where(is_digit.any(axis=1, keepdims=True), top, places)
    digits = digits * ((index >= last_place) & (index <= top))
    minus = np.where(signs == ord("-"), signs, 0)[:, None]
    parts = [digits[:, :places], digits[:, places:], minus]
    if places:
        parts.insert(1, np.full((n, 1), ord("."), np.uint8))
    length = sum(np.count_nonzero(part, axis=1) for part in parts)
    padding = np.arange(WIDTH) < WIDTH - np.reshape(length, (n, 1))
    end = np.full((n, 1), ord("$"), np.uint8)
    fields = np.concatenate((*parts, padding * np.uint8(zero), end), axis=1)
    return fields.astype(np.uint8)
