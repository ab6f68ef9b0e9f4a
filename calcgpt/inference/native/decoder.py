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
from calcgpt.inference.native.positions import POSITIONS
from calcgpt.inference.native.weights import (
    ACTIVATIONS,
    IS_ROTATED,
    N_ADDED,
    Floats,
    Tensors,
    lay_out,
    padded,
    scratch_size,
)


def check_covered(config: ModelConfig) -> None:
    """Raises ConfigError, which names another engine, if the kernels cannot run the model."""
    covered = {
        "architecture": ("gpt",),
        "position": tuple(POSITIONS),
        "attention": ("full",),
        "feedforward": tuple(ACTIVATIONS),
        "norm_position": ("pre",),
    }
    for name, values in covered.items():
        if (value := getattr(config, name)) not in values:
            raise ConfigError(f"engine 'native' does not cover {name} {value!r}: take 'torch'")


class NativeCache:
    """Keys and values in slots, one for each sequence, and the tokens themselves, (B, capacity).

    A row of the batch names its slot, so that dropping rows moves nothing.
    """

    def __init__(self, config: ModelConfig, batch: int, n_token: int) -> None:
        self.capacity = padded(n_token)
        head = config.head_dim + padded(config.head_dim)  # keys, and values in panels
        shape = (config.n_layer, batch, config.kv_heads * head * self.capacity)
        self.values = np.empty(shape, np.float32)
        self.tokens = np.empty((batch, self.capacity), np.int64)
        self.slots = np.arange(batch)
        self.length = 0

    def select(self, rows: NDArray[np.int64]) -> None:
        """Keeps only these rows of the batch: indices of any number, which may repeat."""
        slots = self.slots[rows]
        if len(np.unique(slots)) < len(slots):  # the sequences go different ways from now on
            self.values, self.tokens = self.values.take(slots, axis=1), self.tokens[slots]
            slots = np.arange(len(slots))
        self.slots = slots


class NativeDecoder:
    """A `Decoder` in machine code, for one core."""

    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        """Lays out the weights, which have the names of `model.safetensors`, and compiles or loads
        the kernels.

        Raises ConfigError if the kernels do not cover the model, UserError if a library is missing,
        and CheckpointError if `tensors` are not those of the model.
        """
        check_covered(config)
        self.config = config
        self.vocab_size = len(tensors["token_embedding.weight"])
        self._positions = POSITIONS[config.position](config, tensors)
        tables = [tensors["token_embedding.weight"], *self._positions.tables]
        self._weights = lay_out(config, tensors, tables)
        self._bases = np.cumsum([0, *(len(table) for table in tables[:-1])])
        self._weights.plan[N_ADDED] = len(tables)
        self._weights.plan[IS_ROTATED] = self._positions.rotates
        self._scratch = np.empty(scratch_size(config), np.float32)
        self._forward = forward()

    def new_array_cache(self, batch: int, n_token: int) -> NativeCache:
        """Returns an empty cache for `batch` sequences of at most `n_token` tokens."""
        return NativeCache(self.config, batch, n_token)

    def __call__(
        self, tokens_BT: NDArray[np.int64], cache: NativeCache, last_only: bool = False
    ) -> Floats:
        """Returns the logits of tokens that follow those in the cache, and adds them to it.

        They are (B, T, V), or (B, 1, V) of the last token with `last_only`. Raises ValueError for
        more than `block_size` tokens.
        """
        batch, n_token = tokens_BT.shape
        start, stop = cache.length, cache.length + n_token
        if stop > self.config.block_size:
            raise ValueError(f"{stop} tokens do not fit in {self.config.block_size}")
        cache.tokens[cache.slots, start:stop] = tokens_BT
        located = self._positions.locate(cache.tokens[cache.slots, :stop], start)
        parts = np.broadcast_arrays(tokens_BT, *located.added)
        added = np.stack(parts, axis=2) + self._bases  # (B, T, N_ADDED)
        first = batch * (n_token - 1) if last_only else 0
        n_row = batch * n_token - first
        logits = np.empty((n_row, padded(self.vocab_size)), np.float32)
        arrays = (
            self._weights.plan,
            self._weights.values,
            np.ascontiguousarray(added.swapaxes(0, 1)),
            located.rotations,
            np.ascontiguousarray(located.rotated.swapaxes(0, 1)),
            cache.slots,
            cache.values,
            self._scratch,
            logits,
        )
        sizes = (batch, n_token, start, cache.values.shape[1], cache.capacity, first)
        self._forward(*(array.ctypes.data for array in arrays), *sizes)
        cache.length = stop
        return logits.reshape(-1, batch, logits.shape[1]).swapaxes(0, 1)[..., : self.vocab_size]
