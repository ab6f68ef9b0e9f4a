"""Lines with worked steps, made from layouts and rules: one line or a million.

    $(0000000006/0000000344)=+6+4430;60000+000600000+221119190-3021511110:20+=20.0000000$

The layout (`datagen.layout`) decides which rule writes each character, and the rules
(`datagen.rules`) compute the characters. docs/NOTATION.md explains a line for each operation.

Lines of one shape share a layout, but there are hundreds of shapes. So one call of a rule writes
one position of many lines, whatever their layouts.

Shapes: n lines, sorted by shape; S shapes; W characters of the longest line; K slots of the works
of all shapes; D digits of the longest result. The text of many lines is a matrix (W + 1, n) with
a row for each position: characters that are written together are adjacent. NOWHERE, index -1, reads
the last row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datagen import direct
from datagen.arithmetic import ProblemArray
from datagen.layout import layout, require_shape
from datagen.operations import RULES
from datagen.operations.quotients import second_quotient_digit
from datagen.rules import Characters
from datagen.slots import MAX_SOURCES, N_KINDS, NOWHERE, WIDTH, Kind, Layout, Shape, shape_cache
from datagen.splits import next_words, problem_hashes

# Limits of the lines that are written together: the characters of all lines, and the characters of
# one line of each shape. They take some 40 MB.
CHARACTERS, CHARACTERS_OF_SHAPES = 2**21, 2**18
_TO_ONES = bytes.maketrans(b"23456789", b"11111111")

Ints = NDArray[np.int64]


def render_lines(problems: ProblemArray, second_choices: bool = False) -> bytes:
    """Returns a line of ASCII for each problem, `$P(A op B)=WORK=ANSWER$`, with its newline.

    With `second_choices`, a quarter of the quotient digits, chosen by the hash of the problem, are
    the second nearest digit where that is possible. From such lines a model learns to continue
    after any digit.
    """
    prompts = direct.render_lines(problems, has_answers=False).splitlines()
    lines = render(prompts, problem_hashes(problems) if second_choices else None)
    return b"".join(line + b"\n" for line in lines)


def render(prompts: Sequence[bytes], choices: NDArray[np.uint64] | None = None) -> list[bytes]:
    """Returns the lines of prompts, without newlines.

    `choices`, (n,), are random words that decide which quotient digits are the second nearest.
    Raises ValueError if a prompt is not in the notation.
    """
    works, indices = _works(prompts)
    lengths = np.array([len(work.plan) for work in works], np.int64)
    # Sorted by length, then by shape, so that lines of one shape are adjacent.
    order = np.lexsort((indices, lengths[indices]))
    lines = [b""] * len(prompts)
    for part in _parts(lengths[indices[order]], indices[order]):
        rows = order[part]
        words = None if choices is None else choices[rows]
        # The shapes in the order of the lines, and how many lines each has.
        first = np.flatnonzero(np.diff(indices[rows], prepend=-1))
        counts = np.diff(first, append=len(rows))
        shapes = [works[index] for index in indices[rows[first]].tolist()]
        selected = rows.tolist()
        completed = _complete([prompts[row] for row in selected], shapes, counts, words)
        for row, line in zip(selected, completed, strict=True):
            lines[row] = line
    return lines


@dataclass(frozen=True, slots=True)
class _Work:
    """A layout, and the slots of its work as arrays (k,). `sources` are concatenated, slot by slot;
    `ordinals` are the indices of the quotient digits among themselves."""

    plan: Layout
    positions: Ints
    kinds: Ints
    counts: Ints  # of sources
    sources: Ints
    ordinals: Ints


def _works(prompts: Sequence[bytes]) -> tuple[list[_Work], Ints]:
    """Returns the work of each shape, and the index of the work of each prompt, (n,)."""
    works: list[_Work] = []
    index_of_shape: dict[Shape, int] = {}
    index_of_pattern: dict[bytes, int] = {}
    indices = np.empty(len(prompts), np.int64)
    for row, prompt in enumerate(prompts):
        # Other digits than 0 become 1: the shape is the same. The places stay as they are.
        places, parenthesis, operands = prompt.partition(b"(")
        pattern = places + parenthesis + operands.translate(_TO_ONES)
        index = index_of_pattern.get(pattern)
        if index is None:
            shape = require_shape(prompt.decode())
            index = index_of_shape.setdefault(shape, len(works))
            if index == len(works):
                works.append(_work(shape))
            index_of_pattern[pattern] = index
        indices[row] = index
    return works, indices


@shape_cache(lambda work: len(work.plan))
def _work(shape: Shape) -> _Work:
    plan = layout(shape)
    kinds = plan.kinds[plan.prompt_length :].astype(np.int64)
    sources = plan.sources[plan.prompt_length :].astype(np.int64)
    counts = plan.counts[plan.prompt_length :].astype(np.int64)
    return _Work(
        plan=plan,
        positions=np.arange(plan.prompt_length, len(plan)),
        kinds=kinds,
        counts=counts,
        sources=sources[np.arange(MAX_SOURCES) < counts[:, None]],
        ordinals=np.cumsum(kinds == Kind.QUOTIENT_DIGIT) - 1,
    )


def _parts(lengths: Ints, indices: Ints) -> Iterator[slice]:
    """Yields slices of the sorted lines, each to be written together. lengths, indices: (n,)."""
    is_new = np.diff(indices, prepend=-1) != 0
    line_ends, shape_ends = lengths.cumsum(), (lengths * is_new).cumsum()
    start = line_start = shape_start = 0
    while start < len(lengths):
        by_lines = np.searchsorted(line_ends, line_start + CHARACTERS, "right")
        by_shapes = np.searchsorted(shape_ends, shape_start + CHARACTERS_OF_SHAPES, "right")
        end = max(start + 1, int(min(by_lines, by_shapes)))
        yield slice(start, end)
        start, line_start, shape_start = end, line_ends[end - 1], shape_ends[end - 1]


def _complete(
    prompts: Sequence[bytes],
    works: Sequence[_Work],
    counts: Ints,
    choices: NDArray[np.uint64] | None,
) -> list[bytes]:
    """Returns the lines of some prompts; see `render`. `counts`, (S,), are the numbers of lines of
    each shape."""
    lengths = np.array([len(work.plan) for work in works])
    text = np.zeros((lengths.max() + 1, len(prompts)), np.uint8)
    longest = max(work.plan.prompt_length for work in works)
    padded = b"".join([prompt.ljust(longest, b"\0") for prompt in prompts])
    text[:longest] = np.frombuffer(padded, np.uint8).reshape(-1, longest).T
    _write_works(text, works, counts, choices)
    answers = _answers(text, works, counts)
    characters = np.concatenate((text.T, answers), axis=1)  # (n, any number), 0 between the two
    ends = (lengths.repeat(counts) + np.count_nonzero(answers, axis=1)).cumsum().tolist()
    flat = characters[characters != 0].tobytes()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _write_works(
    text: Characters, works: Sequence[_Work], counts: Ints, choices: NDArray[np.uint64] | None
) -> None:
    """Writes the works behind the prompts, in place. text: (W + 1, n); counts: (S,)."""
    n = text.shape[1]
    line_starts = counts.cumsum() - counts  # of a shape
    shapes = np.repeat(np.arange(len(works)), [len(work.kinds) for work in works])  # (K,)
    positions = np.concatenate([work.positions for work in works])
    kinds = np.concatenate([work.kinds for work in works])
    n_sources = np.concatenate([work.counts for work in works])
    sources = np.concatenate([work.sources for work in works]) % len(text)
    first = n_sources.cumsum() - n_sources  # of a slot's sources
    ordinals = np.concatenate([work.ordinals for work in works])
    if choices is not None:
        second = second_digits(choices, int(ordinals.max(initial=-1)) + 1)
    # No slot reads a later one, so positions are written in order. One call of a rule writes all
    # slots of a position that have the same kind and number of sources.
    keys = (positions * N_KINDS + kinds) * len(text) + n_sources
    order = np.argsort(keys, kind="stable")
    bounds = np.flatnonzero(np.diff(keys[order], prepend=-1, append=-1))
    flat = text.reshape(-1)
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        group = order[start:end]
        kind, count = Kind(int(kinds[group[0]])), int(n_sources[group[0]])
        lines = shapes[group]  # (m,), if each shape has one line
        starts = sources[first[group] + np.arange(count)[:, None]] * n  # (count, m)
        if n > len(works):  # all lines of a shape, one shape after another
            sizes = counts[lines]
            ends = sizes.cumsum()
            lines = np.repeat(line_starts[lines] + sizes - ends, sizes) + np.arange(ends[-1])
            starts, group = starts.repeat(sizes, axis=1), group.repeat(sizes)
        inputs = flat.take(starts + lines)
        outputs = RULES[kind](*inputs)
        if kind is Kind.QUOTIENT_DIGIT and choices is not None:
            is_second = second[lines, ordinals[group]]
            outputs = np.where(is_second, second_quotient_digit(*inputs), outputs)
        text[positions[group[0]], lines] = outputs


def second_digits(choices: NDArray[np.uint64], count: int) -> NDArray[np.bool_]:
    """Returns which of `count` quotient digits are the second nearest, (n, count): a quarter.

    Two bits of a word decide about a digit. After 32 digits, `next_words` gives the next word.
    """
    second = np.zeros((len(choices), count), bool)
    words = choices.copy()
    for digit in range(count):
        if digit and digit % 32 == 0:
            words = next_words(words)
        second[:, digit] = words >> np.uint64(2 * (digit % 32)) & np.uint64(3) == 0
    return second


def _answers(text: Characters, works: Sequence[_Work], counts: Ints) -> Characters:
    """Returns the answer fields that follow from the works, with the closing `$`, in a matrix (n,
    any number), in which 0 means that nothing is written."""
    index_of_lines = np.repeat(np.arange(len(works)), counts)  # (n,)
    longest = max(max(work.plan.result_places + 1, len(work.plan.result)) for work in works)
    answers = np.zeros((text.shape[1], longest + WIDTH + 3), np.uint8)  # with point, minus and `$`
    nan = np.frombuffer("nan".ljust(WIDTH, "0").encode() + b"$", np.uint8)
    answers[:, : len(nan)] = nan
    by_places: dict[int, list[int]] = {}
    for index, work in enumerate(works):
        if work.plan.sign != NOWHERE:
            by_places.setdefault(work.plan.result_places, []).append(index)
    for places, indices in by_places.items():
        results = [works[index].plan.result for index in indices]
        count = max(places + 1, *map(len, results))
        positions = np.array([result + [NOWHERE] * (count - len(result)) for result in results])
        sizes, lines = counts[indices], np.flatnonzero(np.isin(index_of_lines, indices))
        digits = text[positions.repeat(sizes, axis=0), lines[:, None]]
        digits = np.where(digits == 0, ord("0"), digits).astype(np.uint8)
        signs = text[np.repeat([works[index].plan.sign for index in indices], sizes), lines]
        fields = _answer_fields(digits, signs, places)
        answers[lines] = 0
        answers[lines, : fields.shape[1]] = fields
    return answers


def _answer_fields(digits: Characters, signs: Characters, places: int) -> Characters:
    """Returns answer fields in a matrix, (n, any number), in which 0 means that nothing is written.

    digits: (n, D), results from the lowest digit on, of which `places` are decimals; signs: (n,).
    """
    n, count, zero = *digits.shape, ord("0")
    index = np.arange(count)
    is_digit = digits != zero
    # The field has all digits from the lowest that is not 0, or the first decimal place, to the
    # highest that is not 0, or the units.
    last_place = np.where(is_digit.any(axis=1), is_digit.argmax(axis=1), count)
    last_place = np.minimum(last_place, max(places - 1, 0))[:, None]
    top = np.maximum(count - 1 - is_digit[:, ::-1].argmax(axis=1), places)[:, None]
    top = np.where(is_digit.any(axis=1, keepdims=True), top, places)
    digits = digits * ((index >= last_place) & (index <= top))
    minus = np.where((signs == ord("-")) & is_digit.any(axis=1), signs, 0)[:, None]  # no -0
    parts = [digits[:, :places], digits[:, places:], minus]
    if places:
        parts.insert(1, np.full((n, 1), ord("."), np.uint8))
    length = sum(np.count_nonzero(part, axis=1) for part in parts)
    padding = np.arange(WIDTH) < WIDTH - np.reshape(length, (n, 1))
    end = np.full((n, 1), ord("$"), np.uint8)
    fields = np.concatenate((*parts, padding * np.uint8(zero), end), axis=1)
    return fields.astype(np.uint8)
