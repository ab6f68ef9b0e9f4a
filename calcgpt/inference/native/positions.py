"""Where the tokens are: the positional schemes that the native engine covers, in NumPy.

Each is the scheme of the same name in `calcgpt.model.positions`, which has the sources.

Shapes: B sequences, T new tokens, S all tokens, C n_embd, D head width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.inference.native.weights import Floats, Tensors
from calcgpt.model.frequencies import spread_frequencies
from datagen.coordinates import COLUMN, KIND, NEXT_KIND, QUERY_COLUMN, QUERY_ROW, ROW, coordinates

Ints = NDArray[np.int64]
BASE = 10_000.0  # of the sinusoidal frequencies
MAX_ID = 2**8 - 1  # larger ids are no characters


class Located(NamedTuple):
    """Where the new tokens are.

    `added` has a row of each of the scheme's tables, (B, T) or (T,). `rotated` (B, T, 2) has rows
    of `rotations` (n, D), cosines before sines, for the queries and the keys of each token.
    """

    added: list[Ints]
    rotations: Floats
    rotated: Ints


class NoPositions:
    """The interface. `tables`, each (n, C), are those whose rows are added to the token
    embeddings."""

    rotates = False

    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        self.tables: list[Floats] = []
        self.rotations = np.zeros((1, config.head_dim), np.float32)

    def locate(self, tokens_BS: Ints, start: int) -> Located:
        """Returns where the tokens from `start` on are."""
        index_T = np.arange(start, tokens_BS.shape[1])
        added = self.places(tokens_BS, index_T)
        rotated = np.broadcast_to(index_T[:, None], (len(tokens_BS), len(index_T), 2))
        return Located(added, self.rotations, rotated)

    def places(self, tokens_BS: Ints, index_T: Ints) -> list[Ints]:
        """Returns the row of each table for each token."""
        return []


class LearnedPositions(NoPositions):
    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        super().__init__(config, tensors)
        self.tables.append(tensors["positions.table.weight"])

    def places(self, tokens_BS: Ints, index_T: Ints) -> list[Ints]:
        return [index_T]


class SinusoidalPositions(LearnedPositions):
    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        NoPositions.__init__(self, config, tensors)
        angles = _angles(BASE, config.n_embd // 2, config.block_size)
        table = np.stack((np.sin(angles), np.cos(angles)), axis=2).reshape(len(angles), -1)
        self.tables.append(table.astype(np.float32))


class RotaryPositions(NoPositions):
    rotates = True

    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        super().__init__(config, tensors)
        angles = _angles(config.rope_base, config.head_dim // 2, config.block_size)
        self.rotations = _cos_sin(angles)


class LearnedAndRotaryPositions(LearnedPositions, RotaryPositions):
    pass


class CoupledPositions(NoPositions):
    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        super().__init__(config, tensors)
        self.tables += [tensors["positions.places.weight"], tensors["positions.rows.weight"]]
        self._last_place = config.n_place - 1
        marks = config.row_marks
        self._row_of_token = np.zeros(max(marks, default=-1) + 2, np.int64)
        self._row_of_token[marks] = np.arange(1, len(marks) + 1)

    def places(self, tokens_BS: Ints, index_T: Ints) -> list[Ints]:
        row_BS = self._row_of_token[np.minimum(tokens_BS, len(self._row_of_token) - 1)]
        marks_BS = np.where(row_BS > 0, np.arange(row_BS.shape[1]), 0)
        last_mark_BT = np.maximum.accumulate(marks_BS, axis=1)[:, index_T[0] :]
        places_BT = np.minimum(index_T - last_mark_BT, self._last_place)
        return [places_BT, np.take_along_axis(row_BS, last_mark_BT, axis=1)]


class CoupledAndRotaryPositions(CoupledPositions, RotaryPositions):
    pass


class CoordinatePositions(NoPositions):
    rotates = True

    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        super().__init__(config, tensors)
        self.tables += [tensors["positions.kinds.weight"], tensors["positions.next_kinds.weight"]]
        self._characters = np.zeros(MAX_ID + 1, np.uint8)
        self._characters[: len(config.characters)] = list(config.characters.encode())
        half = config.head_dim // 2
        self._frequencies = spread_frequencies(max(1, 3 * half // 8))
        self._n_still = half - 2 * len(self._frequencies)

    def locate(self, tokens_BS: Ints, start: int) -> Located:
        lines = self._characters[np.minimum(tokens_BS, MAX_ID)]
        where_BT6 = np.stack([_coordinates(line, start) for line in lines])
        axes = where_BT6[..., [QUERY_ROW, QUERY_COLUMN, ROW, COLUMN]].astype(np.float32)
        angles = axes.reshape(-1, 2, 1) * self._frequencies  # (B T 2, 2, F)
        still = np.zeros((len(angles), self._n_still), np.float32)
        rotations = _cos_sin(np.concatenate((angles.reshape(len(angles), -1), still), axis=1))
        rotated = np.arange(len(angles)).reshape(*where_BT6.shape[:2], 2)
        kinds = where_BT6.astype(np.int64)
        return Located([kinds[..., KIND], kinds[..., NEXT_KIND]], rotations, rotated)


def _coordinates(codes_S: NDArray[np.uint8], start: int) -> NDArray[np.int16]:
    """Returns the coordinates of a sequence from `start` on, (T, 6). Tokens that are no characters
    have coordinates 0."""
    is_character = codes_S != 0
    if is_character.all():
        return coordinates(codes_S.tobytes(), start)
    where = np.zeros((len(codes_S), 6), np.int16)
    where[is_character] = coordinates(codes_S[is_character].tobytes())
    return where[start:]


def _angles(base: float, n: int, n_position: int) -> NDArray[np.float64]:
    """Returns the angle of each position for n frequencies, (n_position, n)."""
    angles: NDArray[np.float64] = np.arange(n_position)[:, None] * base ** (-np.arange(n) / n)
    return angles


def _cos_sin(angles: NDArray[np.floating]) -> Floats:
    """Returns the cosines of angles, (n, D / 2), and then their sines: (n, D)."""
    return np.concatenate((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32)


POSITIONS: dict[str, type[NoPositions]] = {
    "none": NoPositions,
    "learned": LearnedPositions,
    "sinusoidal": SinusoidalPositions,
    "rope": RotaryPositions,
    "learned+rope": LearnedAndRotaryPositions,
    "coupled": CoupledPositions,
    "coupled+rope": CoupledAndRotaryPositions,
    "coordinates": CoordinatePositions,
}
