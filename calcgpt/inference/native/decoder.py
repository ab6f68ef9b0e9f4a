"""A decoder that runs the kernels: its cache, and where its tokens are.

It needs NumPy and llvmlite, not torch.

Shapes: B sequences, T new tokens, S all tokens, C n_embd, D head width, V vocabulary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.inference.native.machine_code import forward
from calcgpt.inference.native.positions import (
    ROTATION_OF,
    Coordinates,
    not_covered,
    rotations_of,
    rows_of,
    tables_of,
)
from calcgpt.inference.native.weights import (
    LAST_ID,
    LAST_PLACE,
    PANEL,
    ROTATION,
    Floats,
    Tensors,
    lay_out,
    padded,
    scratch_size,
)

FIRST_CAPACITY = 128  # tokens; most problems with their work are shorter


class NativeCache:
    """Keys and values in slots, one for each sequence, and the tokens themselves, (B, capacity).

    A row of the batch names its slot, so that dropping rows moves nothing. The capacity grows with
    the text, because most texts are much shorter than the model allows.
    """

    def __init__(self, config: ModelConfig, batch: int, n_token: int) -> None:
        """`n_token` is the most tokens that a sequence may have."""
        self._n_layer, self._n_group = config.n_layer, config.kv_heads
        self._key_width, self._value_width = config.head_dim, padded(config.head_dim)
        self._limit, self.length = padded(n_token), 0
        self.capacity = min(self._limit, FIRST_CAPACITY)
        self.values = self._empty(batch, self.capacity)
        self.tokens = np.empty((batch, self.capacity), np.int64)
        self._use(np.arange(batch))

    def select(self, rows: NDArray[np.int64]) -> None:
        """Keeps only these rows of the batch: indices of any number, which may repeat."""
        slots = self.slots[rows]
        if len(slots) > len(self.slots) or len(set(slots.tolist())) < len(slots):
            self._move(slots, self.capacity)  # the sequences go different ways from now on
        else:
            self._use(slots)

    def reserve(self, n_token: int) -> None:
        """Makes room for sequences of so many tokens."""
        if n_token > self.capacity:
            self._move(self.slots, min(self._limit, padded(2 * n_token)))

    def _move(self, slots: NDArray[np.int64], capacity: int) -> None:
        """Copies these slots, which become the only ones, into arrays with another capacity."""
        values, tokens = (
            self._empty(len(slots), capacity),
            np.empty((len(slots), capacity), np.int64),
        )
        for old, new in zip(
            self._parts(self.values, self.capacity), self._parts(values, capacity), strict=True
        ):
            new[...] = old[:, slots]
        tokens[:, : self.length] = self.tokens[slots, : self.length]
        self.values, self.tokens, self.capacity = values, tokens, capacity
        self._use(np.arange(len(slots)))

    def _empty(self, batch: int, capacity: int) -> Floats:
        width = (self._key_width + self._value_width) * capacity
        return np.empty((self._n_layer, batch, self._n_group, width), np.float32)

    def _parts(self, values: Floats, capacity: int) -> tuple[Floats, Floats]:
        """Returns views of the keys and of the values so far, in whole panels (`kernels.remember`
        says how these lie)."""
        *first, _ = values.shape
        n_key, n_used = self._key_width * capacity, padded(self.length)
        keys = values[..., :n_key].reshape(*first, -1, self._key_width * PANEL)
        rest = values[..., n_key:].reshape(*first, -1, capacity, PANEL)
        return keys[..., : n_used // PANEL, :], rest[..., :n_used, :]

    def _use(self, slots: NDArray[np.int64]) -> None:
        self.slots = slots
        self.addresses = [a.ctypes.data for a in (slots, self.tokens, self.values)]


class NativeDecoder:
    """A `Decoder` in machine code, for one core."""

    def __init__(self, config: ModelConfig, vocab_size: int, tensors: Tensors) -> None:
        """Lays out the weights, which have the names of `model.safetensors`, and compiles or loads
        the kernels.

        Raises ConfigError if the kernels do not cover the model, UserError if a library is missing,
        and CheckpointError if `tensors` are not those of the model.
        """
        if part := not_covered(config):
            raise ConfigError(f"engine 'native' does not cover {part}: take 'torch'")
        self.config = config
        self.vocab_size, self._n_logit = vocab_size, padded(vocab_size)
        weights = lay_out(config, vocab_size, tensors, tables_of(config, tensors))
        row_of_token, rotations = rows_of(config), rotations_of(config)
        weights.plan[LAST_ID], weights.plan[LAST_PLACE] = len(row_of_token) - 1, config.n_place - 1
        weights.plan[ROTATION] = ROTATION_OF[config.position]
        self._coordinates = Coordinates(config) if config.position == "coordinates" else None
        scratch = np.empty(scratch_size(config), np.float32)
        self._arrays = (weights.plan, weights.values, row_of_token, rotations, scratch)
        self._addresses = [array.ctypes.data for array in self._arrays]
        self._forward = forward()

    def new_array_cache(self, batch: int, n_token: int) -> NativeCache:
        """Returns an empty cache for `batch` sequences of at most `n_token` tokens."""
        return NativeCache(self.config, batch, n_token)

    def __call__(
        self, tokens_BT: NDArray[np.int64], cache: NativeCache, last_only: bool = False
    ) -> Floats:
        """Returns the logits of tokens that follow those in the cache, and adds them to it.

        They are (B, T, V), or (B, 1, V) of the last token with `last_only`. Raises ValueError for
        more than `block_size` tokens, and for ids that no token has.
        """
        batch, n_token = tokens_BT.shape
        start, stop = cache.length, cache.length + n_token
        if stop > self.config.block_size:
            raise ValueError(f"{stop} tokens do not fit in {self.config.block_size}")
        # A negative id is a large one without its sign.
        if tokens_BT.size and tokens_BT.view(np.uint64).max() >= self.vocab_size:
            raise ValueError(f"token ids must be from 0 to {self.vocab_size - 1}")
        cache.reserve(stop)
        cache.tokens[cache.slots, start:stop] = tokens_BT
        plan, weights, row_of_token, rotations, scratch = self._addresses
        kinds = 0
        if self._coordinates:
            located = self._coordinates(cache.tokens[cache.slots, :stop], start)
            kinds, rotations = (array.ctypes.data for array in located)
        first = batch * (n_token - 1) if last_only else 0
        logits = np.empty((batch * n_token - first, self._n_logit), np.float32)
        self._forward(
            plan,
            weights,
            row_of_token,
            rotations,
            kinds,
            *cache.addresses,
            scratch,
            logits.ctypes.data,
            batch,
            n_token,
            start,
            len(cache.tokens),
            cache.capacity,
            first,
        )
        cache.length = stop
        by_token = logits.reshape(-1, batch, self._n_logit)[..., : self.vocab_size]
        return by_token.swapaxes(0, 1)
