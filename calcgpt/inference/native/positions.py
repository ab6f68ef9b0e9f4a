"""The positional schemes that the native engine covers, in NumPy.

They have the names of the schemes in `calcgpt.model.positions`, which gives the sources. This
module makes the tables and reads coordinates from the text. The kernels look up the tables, and
compute the places and rows of `coupled`.

Shapes: S tokens of a text, N tokens with coordinates, F frequencies, C n_embd, D head width.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.inference.native import entries as e
from calcgpt.inference.native.weights import Floats, Reader, Tensors
from datagen.answer_layout import AnswerShape, answer_shape
from datagen.coordinates import (
    COLUMN,
    KIND,
    N_COORDINATES,
    NEXT_KIND,
    QUERY_COLUMN,
    QUERY_ROW,
    ROW,
    answer_coordinates,
    coordinates,
    question_coordinates,
    question_shape,
    rotary_frequencies,
    work_coordinates,
)
from datagen.layout import layout
from datagen.slots import COPIES, FIELDS, N_KINDS, Kind, Shape, ShapeCache

BASE = 10_000.0  # of the sinusoidal frequencies
MAX_CHARACTER_ID = 2**8 - 1  # larger token ids are not characters
ROTATIONS = {
    "none": e.NO_ROTATION,
    "learned": e.NO_ROTATION,
    "sinusoidal": e.NO_ROTATION,
    "rope": e.ROTATE_BY_POSITION,
    "learned+rope": e.ROTATE_BY_POSITION,
    "coupled": e.NO_ROTATION,
    "coupled+rope": e.ROTATE_BY_POSITION,
    "coordinates": e.ROTATE_BY_COORDINATES,
}


def unsupported_part(config: ModelConfig) -> str | None:
    """Returns the first option of the model that the native engine does not support, such as
    "attention 'window'", or None. The engine in the browser supports the same options."""
    covered = {
        "architecture": ("gpt",),
        "position": tuple(ROTATIONS),
        "attention": ("full",),
        "feedforward": tuple(e.ACTIVATIONS),
        "norm": ("layernorm", "rmsnorm"),
        "norm_position": ("pre",),
    }
    for name, values in covered.items():
        if (value := getattr(config, name)) not in values:
            return f"{name} {value!r}"
    return None


def positional_tables(config: ModelConfig, tensors: Tensors) -> dict[int, Floats]:
    """Returns the tables that are added to the token embeddings, each (n, C), by their plan entry.

    Raises CheckpointError if a table is missing or has another shape than `config` says.
    """
    if config.position == "sinusoidal":
        angles = _angles(BASE, config.n_embd // 2, config.block_size)
        table = np.stack((np.sin(angles), np.cos(angles)), axis=2).reshape(len(angles), -1)
        return {e.POSITIONS: table.astype(np.float32)}
    learned = {e.POSITIONS: ("table", config.block_size)}
    coupled = {e.PLACES: ("places", config.n_place), e.ROWS: ("rows", len(config.row_marks) + 1)}
    kinds = {e.KINDS: ("kinds", N_KINDS), e.NEXT_KINDS: ("next_kinds", N_KINDS)}
    tables = {
        "learned": learned,
        "learned+rope": learned,
        "coupled": coupled,
        "coupled+rope": coupled,
        "coordinates": kinds,
    }.get(config.position, {})
    reader = Reader(config, tensors)
    return {
        entry: reader.tensor(f"positions.{name}.weight", n, config.n_embd)
        for entry, (name, n) in tables.items()
    }


def rotary_table(config: ModelConfig) -> Floats:
    """Returns the cosines and then the sines of each position, (block_size, D), or a row of zeros
    if the model does not rotate by position."""
    if ROTATIONS[config.position] != e.ROTATE_BY_POSITION:
        return np.zeros((1, config.head_dim), np.float32)
    return _cos_sin(_angles(config.rope_base, config.head_dim // 2, config.block_size))


def row_table(config: ModelConfig) -> NDArray[np.int64]:
    """Returns, for each token id, the index of the kind of row that it starts, from 1, or 0 if it
    starts none. The last entry applies to all larger ids."""
    row_of_token = np.zeros(max(config.row_marks, default=-1) + 2, np.int64)
    row_of_token[config.row_marks] = np.arange(1, len(config.row_marks) + 1)
    return row_of_token


# Features (6, N) of tokens, and the rotations (N, 2, D) of their queries and keys.
Located: TypeAlias = tuple[Floats, Floats]


class CoordinatePositions:
    """Computes the features and rotations of tokens from the text (`datagen.coordinates`)."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        self._all_characters = len(config.characters) == vocab_size
        self._characters = np.zeros(MAX_CHARACTER_ID + 1, np.uint8)
        self._characters[: len(config.characters)] = list(config.characters.encode())
        self._is_field, self._is_copy = (
            np.array([kind in kinds for kind in Kind]) for kinds in (FIELDS, COPIES)
        )
        self._frequencies = rotary_frequencies(config.head_dim)
        self._n_unrotated = config.head_dim // 2 - 2 * len(self._frequencies)
        # These depend only on the shapes. Computing them for each line would take 0.1 ms.
        self._work = ShapeCache(self._located_work, n_slots=lambda work: len(work[1]))
        self._answer = ShapeCache(self._located_answer, n_slots=lambda answer: len(answer[1]))

    def __call__(self, tokens_S: NDArray[np.int64], start: int = 0) -> Located:
        """Returns the features (6, N) of the tokens of a text from `start` on, and the rotations
        (N, 2, D) of their queries and keys, cosines before sines. See `weights` for the features.

        N is at least S - start. It is larger if the text already determines the coordinates of
        tokens that follow it.
        """
        codes_S = self._characters[np.minimum(tokens_S, MAX_CHARACTER_ID)]
        if not self._all_characters:
            # Tokens that are not characters have coordinates 0. The characters have the coordinates
            # that they would have in the text without those tokens.
            coordinates_S6 = np.zeros((len(codes_S), N_COORDINATES), np.int16)
            is_character = codes_S != 0
            coordinates_S6[is_character] = coordinates(codes_S[is_character].tobytes())
            return self._located(coordinates_S6[start:])
        line = codes_S.tobytes()
        shape = question_shape(line)
        if shape is None:
            return self._located(question_coordinates(line)[start:])
        work = self._work(shape)
        n_work = len(work[1])
        if len(line) <= n_work:  # the layout of the answer depends on the result
            return work[0][:, start:], work[1][start:]
        answer = self._answer((shape, answer_shape(layout(shape), line)))
        n_after = max(0, len(line) - n_work - len(answer[1]))  # characters after the closing `$`
        if start >= n_work and not n_after:
            return answer[0][:, start - n_work :], answer[1][start - n_work :]
        after = [self._located(np.zeros((n_after, N_COORDINATES), np.int16))] if n_after else []
        features, rotations = zip(work, answer, *after, strict=True)
        return np.concatenate(features, axis=1)[:, start:], np.concatenate(rotations)[start:]

    def _located_work(self, shape: Shape) -> Located:
        return self._located(work_coordinates(shape))

    def _located_answer(self, shapes: tuple[Shape, AnswerShape]) -> Located:
        return self._located(answer_coordinates(*shapes))

    def _located(self, coordinates_N6: NDArray[np.int16]) -> Located:
        """Returns the features and rotations of tokens from their coordinates, (N, 6)."""
        axes = coordinates_N6[:, [QUERY_ROW, QUERY_COLUMN, ROW, COLUMN]].astype(np.float32)
        angles = axes.reshape(-1, 2, 1) * self._frequencies  # (2 N, 2, F)
        unrotated = np.zeros((len(angles), self._n_unrotated), np.float32)
        rotations = _cos_sin(np.concatenate((angles.reshape(len(angles), -1), unrotated), axis=1))
        return self._features(coordinates_N6), rotations.reshape(len(coordinates_N6), 2, -1)

    def _features(self, coordinates_N6: NDArray[np.int16]) -> Floats:
        """Returns the features of tokens, (6, N), from their coordinates, (N, 6)."""
        order = [KIND, NEXT_KIND, ROW, QUERY_ROW, COLUMN, QUERY_COLUMN]
        features = coordinates_N6.T[order].astype(np.float32)
        kinds, next_kinds = coordinates_N6[:, KIND], coordinates_N6[:, NEXT_KIND]
        for feature, center in ((e.TOKEN_ROW, e.CENTER_ROW), (e.TOKEN_COLUMN, e.CENTER_COLUMN)):
            np.copyto(features[center], features[feature], where=features[center] == 0)
            np.copyto(features[center], e.NO_CENTER, where=features[center] == 0)
        features[e.TOKEN_COLUMN, self._is_field[kinds]] += e.FIELD_OFFSET
        features[e.CENTER_COLUMN, self._is_copy[next_kinds]] += e.FIELD_OFFSET
        return features


def _angles(base: float, n: int, n_position: int) -> NDArray[np.float64]:
    """Returns the angle of each position for n frequencies, (n_position, n)."""
    angles: NDArray[np.float64] = np.arange(n_position)[:, None] * base ** (-np.arange(n) / n)
    return angles


def _cos_sin(angles: NDArray[np.floating]) -> Floats:
    """Returns the cosines of angles (n, D / 2) and then their sines, (n, D)."""
    return np.concatenate((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32)
