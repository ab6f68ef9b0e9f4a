"""Where a model that writes worked steps should look: the coordinates of every character.

A character has six coordinates: its kind, the kind of the next character, its row and column, and
the row and column of what the next character is computed from (`datagen.layout`). All of them
follow from the text so far: the question decides the layout of the work, the result row decides the
layout of the answer. A model may rotate queries and keys by them, as RoPE does by positions.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from datagen.answer_layout import AnswerShape, answer_shape, answer_slots
from datagen.layout import layout, shape_of
from datagen.operations import SIGNS
from datagen.slots import LOWEST, WIDTH, Kind, Shape, Slot, shape_cache

N_COORDINATES = 6
KIND, NEXT_KIND, ROW, COLUMN, QUERY_ROW, QUERY_COLUMN = range(N_COORDINATES)

# Results of `spread_frequencies` for heads of 16 and 32 channels. Computing them takes longer than
# an answer.
SPREAD = {
    3: (2.458543062210083, 1.8506782054901123, 1.6909761428833008),
    6: (
        1.5918388366699219,
        1.1445722579956055,
        1.4718856811523438,
        2.0576393604278564,
        0.6960059404373169,
        1.726303219795227,
    ),
}

REACH, N_DRAW = 40, 20_000  # see `spread_frequencies`

Coordinates = NDArray[np.int16]  # (T, 6), or (B, T, 6) of a batch
Codes = NDArray[np.uint8]  # ASCII codes, (B, T)


def batch_coordinates(codes_BS: Codes, start: int = 0) -> Coordinates:
    """Returns the coordinates of the lines of a batch from `start` on, (B, T, 6).

    Code 0 stands for a token that is not a character, such as one that an attention scheme inserts.
    Its coordinates are 0.
    """
    n = codes_BS.shape[1]
    return np.stack([code_coordinates(codes_S)[start:n] for codes_S in codes_BS])


def code_coordinates(codes_S: NDArray[np.uint8]) -> Coordinates:
    """Returns the coordinates of a line, and of the later characters that it already determines,
    (S or more, 6). If the line has a code 0 (see `batch_coordinates`), returns those of its S
    characters only."""
    is_character = codes_S != 0
    if is_character.all():
        return determined_coordinates(codes_S.tobytes())
    result_S6 = np.zeros((len(codes_S), N_COORDINATES), np.int16)
    result_S6[is_character] = coordinates(codes_S[is_character].tobytes())
    return result_S6


def coordinates(line: bytes, start: int = 0) -> Coordinates:
    """Returns the coordinates of the characters of a line from `start` on, (T, 6).

    The line may be unfinished, and any text is allowed. In the question, characters that are not in
    the notation, and all characters after them, have coordinates 0. The question alone decides the
    coordinates of the work, whatever its characters are. Characters after the closing `$` have 0.
    """
    return determined_coordinates(line)[start : len(line)]


def determined_coordinates(line: bytes) -> Coordinates:
    """Returns the coordinates of a line, and of the later characters that it already determines,
    (T or more, 6)."""
    shape = question_shape(line)
    if shape is None:
        return question_coordinates(line)
    work = work_coordinates(shape)
    if len(line) <= len(work):  # the layout of the answer depends on the result
        return work
    answer = answer_coordinates(shape, answer_shape(layout(shape), line))
    n_after = max(0, len(line) - len(work) - len(answer))  # characters after the closing `$`
    return np.concatenate((work, answer, np.zeros((n_after, N_COORDINATES), np.int16)))


def question_shape(line: bytes) -> Shape | None:
    """Returns the shape of the question that a line begins with, or None if there is none."""
    prompt = line[: line.find(b"=") + 1]
    return shape_of(prompt.decode("ascii", "replace")) if prompt else None


@shape_cache(len)
def work_coordinates(shape: Shape) -> Coordinates:
    """Returns the coordinates of the question and the work of a shape, without the last character.
    The question itself is not predicted, so its characters before the last have no next kind and no
    query."""
    plan = layout(shape)
    result = _slot_coordinates(plan.slots)
    result[: plan.prompt_length - 1, [NEXT_KIND, QUERY_ROW, QUERY_COLUMN]] = 0
    return result[:-1]


def answer_coordinates(shape: Shape, answer: AnswerShape) -> Coordinates:
    """Returns the coordinates of the last character of the work, and of the answer after it."""
    plan = layout(shape)
    return _slot_coordinates([plan.slots[-1], *answer_slots(plan, answer)])


def _slot_coordinates(slots: list[Slot]) -> Coordinates:
    """Returns the coordinates of slots in order, (T, 6). The last one has no next character."""
    result = np.zeros((len(slots), N_COORDINATES), np.int16)
    result[:, [KIND, ROW, COLUMN]] = [(s.kind, s.row, s.column) for s in slots]
    result[:-1, [NEXT_KIND, QUERY_ROW, QUERY_COLUMN]] = np.reshape(
        [(s.kind, s.query_row, s.query_column) for s in slots[1:]], (-1, 3)
    )
    return result


def question_coordinates(line: bytes) -> Coordinates:
    """Returns the coordinates of the beginning of a question, or of text that has none.

    An operand ends at the first operator after its tenth character.
    """
    result = np.zeros((len(line), N_COORDINATES), np.int16)
    start = line.find(b"(") + 1
    if not line.startswith(b"$") or not 2 <= start <= 6:
        return result
    kind = Kind.A_FIELD
    for position in range(start, len(line)):
        character, index = line[position], position - start
        if kind is Kind.A_FIELD and index >= WIDTH and chr(character) in SIGNS:
            kind, start = Kind.B_FIELD, position + 1
        elif character not in b"0123456789.-":
            break
        else:
            result[position, [KIND, COLUMN]] = kind, LOWEST + index
    return result


def rotary_frequencies(head_dim: int) -> NDArray[np.float32]:
    """Returns the frequencies by which an attention head rotates queries and keys along each axis,
    row and column. Three quarters of the channels are rotated, half of them by each axis."""
    n = max(1, 3 * (head_dim // 2) // 8)
    return np.array(SPREAD[n], np.float32) if n in SPREAD else spread_frequencies(n)


@lru_cache
def spread_frequencies(n: int) -> NDArray[np.float32]:
    """Returns n frequencies, (n,), that distinguish positions up to REACH apart.

    They are the best of N_DRAW random sets: the set whose mean of cos(frequency * distance) has
    the smallest maximum over all distances. Powers of one base, as in RoPE, repeat at some
    distances.
    """
    words = np.random.Philox(1).random_raw(N_DRAW * n) >> 11
    candidates = 0.15 + (np.pi - 0.15) * (words.reshape(N_DRAW, n) / 2.0**53)
    # cos(kx + x) = 2 cos(x) cos(kx) - cos(kx - x), which is faster than a cosine
    twice_cosines = 2 * np.cos(candidates.T)  # (n, N_DRAW)
    previous, cosines = np.ones_like(twice_cosines), twice_cosines / 2
    largest = cosines.sum(axis=0)
    for _ in range(2, REACH + 1):
        previous, cosines = cosines, twice_cosines * cosines - previous
        np.maximum(largest, cosines.sum(axis=0), out=largest)
    frequencies: NDArray[np.float32] = candidates[largest.argmin()].astype(np.float32)
    return frequencies
