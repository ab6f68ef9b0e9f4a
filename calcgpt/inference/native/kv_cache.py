"""The cache of keys and values of the native engine.

Shapes: B sequences, S their tokens, D head width, N places.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.inference.native.positions import Coordinates
from calcgpt.inference.native.weights import MARKS, PANEL, Floats, padded

FIRST_CAPACITY = 128  # tokens; most problems with their work are shorter

Ids = NDArray[np.int64]


class NativeCache:
    """Keys and values in slots, one for each sequence, and the tokens themselves, (B, capacity).

    A row of the batch names its slot, so that dropping rows moves nothing. The capacity grows with
    the text, because most texts are much shorter than the model allows.
    """

    def __init__(self, config: ModelConfig, batch: int, n_token: int) -> None:
        """`n_token` is the most tokens that a sequence may have."""
        self._n_layer, self._n_group = config.n_layer, config.kv_heads
        self._key_width, self._value_width = config.head_dim, padded(config.head_dim)
        self._by_text = config.position == "coordinates"
        self._limit, self.length = padded(n_token), 0
        self.capacity = min(self._limit, FIRST_CAPACITY)
        self._make(batch)
        self.use(np.arange(batch))

    def use(self, slots: Ids) -> None:
        """Makes these slots the rows of the batch."""
        self.slots = slots
        arrays = (self.rotations, self.marks, slots, self.tokens, self.values)
        self.addresses = [array.ctypes.data for array in arrays]

    def select(self, rows: Ids) -> None:
        """Keeps only these rows of the batch: indices of any number, which may repeat."""
        slots = self.slots[rows]
        if len(slots) > len(self.slots) or len(set(slots.tolist())) < len(slots):
            self._move(slots, self.capacity)  # the sequences go different ways from now on
            slots = np.arange(len(slots))
        self.use(slots)

    def reserve(self, n_token: int) -> None:
        """Makes room for sequences of so many tokens. All slots keep their numbers."""
        if n_token > self.capacity:
            self._move(np.arange(len(self.tokens)), min(self._limit, padded(2 * n_token)))
            self.use(self.slots)

    def compact(self, n_token: int) -> None:
        """Makes room for sequences of so many tokens, if there is too little, and leaves unused
        slots behind. The others get new numbers, in their order."""
        if min(n_token, self._limit) > self.capacity and len(self.slots) < len(self.tokens):
            self._move(self.slots, min(self._limit, padded(2 * n_token)))
            self.use(np.arange(len(self.slots)))

    def locate(self, coordinates: Coordinates, stop: int) -> None:
        """Fills in the coordinates of all texts up to `stop`, and of what is certain to follow."""
        for slot in self.slots[self.n_known[self.slots] < stop].tolist():
            marks, rotations = coordinates(self.tokens[slot, :stop])
            n = self.n_known[slot] = min(len(marks), self.capacity)
            self.marks[slot, :n], self.rotations[slot, :n] = marks[:n], rotations[:n]

    def restart(self, batch: int, length: int) -> None:
        """Uses the first `batch` slots for other sequences, of which they have `length` tokens."""
        self.length = length
        self.n_known[:] = 0
        self.use(np.arange(batch))

    def _make(self, batch: int) -> None:
        """Makes arrays for so many slots."""
        capacity = self.capacity
        width = (self._key_width + self._value_width) * capacity
        self.values = np.empty((self._n_layer, batch, self._n_group, width), np.float32)
        self.tokens = np.empty((batch, capacity), np.int64)
        # Where the text determines them: the coordinates of the first `n_known` tokens of a slot.
        n_place = capacity if self._by_text else 0
        self.marks = np.empty((batch, n_place, MARKS), np.int64)
        self.rotations = np.empty((batch, n_place, 2, self._key_width), np.float32)
        self.n_known = np.zeros(batch, np.int64)

    def _move(self, slots: Ids, capacity: int) -> None:
        """Copies these slots, which become the only ones, into arrays with another capacity. The
        coordinates are found again."""
        parts, tokens = self._parts(), self.tokens
        self.capacity = capacity
        self._make(len(slots))
        for old, new in zip(parts, self._parts(), strict=True):
            new[...] = old[:, slots]
        self.tokens[:, : self.length] = tokens[slots, : self.length]

    def _parts(self) -> tuple[Floats, Floats]:
        """Returns views of the keys and of the values so far, in whole panels (`attention.remember`
        says how these lie)."""
        *first, _ = self.values.shape
        n_key, n_used = self._key_width * self.capacity, padded(self.length)
        keys = self.values[..., :n_key].reshape(*first, -1, self._key_width * PANEL)
        rest = self.values[..., n_key:].reshape(*first, -1, self.capacity, PANEL)
        return keys[..., : n_used // PANEL, :], rest[..., :n_used, :]
