"""Where the tokens are: the positional schemes that the native engine covers, in NumPy.

Each is the scheme of the same name in `calcgpt.model.positions`, which has the sources. What
follows from the number of a token, and the rows of `coupled`, the kernels compute by themselves.

Shapes: R rows, one for each new token, C n_embd, D head width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.inference.native.weights import (
    ACTIVATIONS,
    BY_POSITION,
    BY_ROW,
    CENTER_COLUMN,
    CENTER_ROW,
    FIELD_AXIS,
    KIND_OF_NEXT,
    KINDS,
    MARKS,
    NEXT_KINDS,
    NOT_ROTATED,
    NOWHERE,
    OWN_COLUMN,
    OWN_KIND,
    OWN_ROW,
    PLACES,
    POSITIONS,
    ROWS,
    WHOLE_ROWS,
    Floats,
    Reader,
    Tensors,
)
from datagen.coordinates import (
    COLUMN,
    KIND,
    N_COORDINATES,
    NEXT_KIND,
    QUERY_COLUMN,
    QUERY_ROW,
    ROW,
    coordinates,
    known_coordinates,
    rotary_frequencies,
)
from datagen.slots import COPIES, FAR, FIELDS, ROW_ENDS, Kind

BASE = 10_000.0  # of the sinusoidal frequencies
MAX_ID = 2**8 - 1  # larger ids are no characters
ROTATION_OF = {
    "none": NOT_ROTATED,
    "learned": NOT_ROTATED,
    "sinusoidal": NOT_ROTATED,
    "rope": BY_POSITION,
    "learned+rope": BY_POSITION,
    "coupled": NOT_ROTATED,
    "coupled+rope": BY_POSITION,
    "coordinates": BY_ROW,
}


def not_covered(config: ModelConfig) -> str | None:
    """Returns the first part of the model that the native engine, and the one in the browser,
    cannot run, such as "attention 'mla'"; or None."""
    covered = {
        "architecture": ("gpt",),
        "position": tuple(ROTATION_OF),
        "attention": ("full",),
        "feedforward": tuple(ACTIVATIONS),
        "norm_position": ("pre",),
    }
    for name, values in covered.items():
        if (value := getattr(config, name)) not in values:
            return f"{name} {value!r}"
    return None


def tables_of(config: ModelConfig, tensors: Tensors) -> dict[int, Floats]:
    """Returns what is added to the token embeddings, each (n, C), by its entry of the plan.

    Raises CheckpointError if a table is missing or has another shape than `config` says.
    """
    if config.position == "sinusoidal":
        angles = _angles(BASE, config.n_embd // 2, config.block_size)
        table = np.stack((np.sin(angles), np.cos(angles)), axis=2).reshape(len(angles), -1)
        return {POSITIONS: table.astype(np.float32)}
    learned = {POSITIONS: ("table", config.block_size)}
    coupled = {PLACES: ("places", config.n_place), ROWS: ("rows", len(config.row_marks) + 1)}
    by_text = {KINDS: ("kinds", len(Kind)), NEXT_KINDS: ("next_kinds", len(Kind))}
    tables = {
        "learned": learned,
        "learned+rope": learned,
        "coupled": coupled,
        "coupled+rope": coupled,
        "coordinates": by_text,
    }.get(config.position, {})
    reader = Reader(config, tensors)
    return {
        entry: reader.tensor(f"positions.{name}.weight", n, config.n_embd)
        for entry, (name, n) in tables.items()
    }


def rotations_of(config: ModelConfig) -> Floats:
    """Returns the cosines and sines of each position, (N, D), if the model rotates by them."""
    if ROTATION_OF[config.position] != BY_POSITION:
        return np.zeros((1, config.head_dim), np.float32)
    return _cos_sin(_angles(config.rope_base, config.head_dim // 2, config.block_size))


def rows_of(config: ModelConfig) -> NDArray[np.int64]:
    """Returns the number of the row that each token id starts, from 1, or 0. The last entry serves
    all larger ids."""
    row_of_token = np.zeros(max(config.row_marks, default=-1) + 2, np.int64)
    row_of_token[config.row_marks] = np.arange(1, len(config.row_marks) + 1)
    return row_of_token


class Coordinates:
    """Finds the coordinates of tokens: those of worked steps, from the text."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        self._are_characters = len(config.characters) == vocab_size
        self._characters = np.zeros(MAX_ID + 1, np.uint8)
        self._characters[: len(config.characters)] = list(config.characters.encode())
        self._is_field, self._is_copy, self._is_row_end = (
            np.array([kind in kinds for kind in Kind]) for kinds in (FIELDS, COPIES, ROW_ENDS)
        )
        whole_rows = [sum(1 << kind for kind in FAR.get(reader, ())) for reader in Kind]
        self._whole_rows = np.array(whole_rows)
        self._frequencies = rotary_frequencies(config.head_dim)
        self._n_unrotated = config.head_dim // 2 - 2 * len(self._frequencies)

    def __call__(
        self, tokens_S: NDArray[np.int64], start: int = 0
    ) -> tuple[NDArray[np.int64], Floats]:
        """Returns the marks (7, N) of the tokens of a text from `start` on (`weights.MARKS`), and
        the rotations (N, 2, D) of their queries and keys.

        N is at least S - start: tokens after the text are included as far as theirs are certain
        already.
        """
        where_N6 = self._where(self._characters[np.minimum(tokens_S, MAX_ID)])[start:]
        axes = where_N6[:, [QUERY_ROW, QUERY_COLUMN, ROW, COLUMN]].astype(np.float32)
        angles = axes.reshape(-1, 2, 1) * self._frequencies  # (2 N, 2, F)
        unrotated = np.zeros((len(angles), self._n_unrotated), np.float32)
        rotations = _cos_sin(np.concatenate((angles.reshape(len(angles), -1), unrotated), axis=1))
        return self._marks(where_N6), rotations.reshape(len(where_N6), 2, -1)

    def _marks(self, where_N6: NDArray[np.int16]) -> NDArray[np.int64]:
        """Returns the marks of tokens, (7, N), by their coordinates."""
        marks = np.empty((MARKS, len(where_N6)), np.int64)
        marks[:WHOLE_ROWS] = where_N6.T[[KIND, NEXT_KIND, ROW, QUERY_ROW, COLUMN, QUERY_COLUMN]]
        for own, center in ((OWN_ROW, CENTER_ROW), (OWN_COLUMN, CENTER_COLUMN)):
            np.copyto(marks[center], marks[own], where=marks[center] == 0)
            np.copyto(marks[center], NOWHERE, where=marks[center] == 0)
        marks[OWN_COLUMN, self._is_field[marks[OWN_KIND]]] += FIELD_AXIS
        marks[CENTER_COLUMN, self._is_copy[marks[KIND_OF_NEXT]]] += FIELD_AXIS
        marks[OWN_COLUMN, self._is_row_end[marks[KIND_OF_NEXT]]] = 0  # seen by all
        marks[WHOLE_ROWS] = self._whole_rows[marks[KIND_OF_NEXT]]
        return marks

    def _where(self, codes_S: NDArray[np.uint8]) -> NDArray[np.int16]:
        """Returns the coordinates of a text and of what follows it, (N, 6). Tokens that are no
        characters have coordinates 0, and the others are those of the text without them."""
        if self._are_characters:
            return known_coordinates(codes_S.tobytes())
        where = np.zeros((len(codes_S), N_COORDINATES), np.int16)
        is_character = codes_S != 0
        where[is_character] = coordinates(codes_S[is_character].tobytes())
        return where


def _angles(base: float, n: int, n_position: int) -> NDArray[np.float64]:
    """Returns the angle of each position for n frequencies, (n_position, n)."""
    angles: NDArray[np.float64] = np.arange(n_position)[:, None] * base ** (-np.arange(n) / n)
    return angles


def _cos_sin(angles: NDArray[np.floating]) -> Floats:
    """Returns the cosines of angles, (n, D / 2), and then their sines: (n, D)."""
    return np.concatenate((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32)
