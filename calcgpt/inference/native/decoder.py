"""A decoder that runs the kernels, and its cache of keys and values.

It needs NumPy and llvmlite, not torch.

Shapes: B sequences, P prompt tokens, T tokens to read, L tokens to write, V vocabulary.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.inference.generate import shared_prefix
from calcgpt.inference.native import entries as e
from calcgpt.inference.native.machine_code import load_decode
from calcgpt.inference.native.positions import (
    ROTATIONS,
    CoordinatePositions,
    positional_tables,
    rotary_table,
    row_table,
    unsupported_part,
)
from calcgpt.inference.native.weights import (
    PANEL,
    TILE,
    Floats,
    Tensors,
    pack_weights,
    padded,
    scratch_size,
)

SLOTS = 2  # the index in `NativeCache.addresses`
FIRST_CAPACITY = 512  # tokens per sequence; most problems with their work are shorter

Ids = NDArray[np.int64]
EMPTY_IDS, EMPTY_FLOATS = np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32)


class NativeDecoder:
    """A `Decoder` and `GreedyWriter` in machine code. It uses one thread. Several threads may call
    it, each with a cache of its own: they take turns."""

    at_once = 12  # rows whose keys and values fit in the last-level cache of the processor

    def __init__(self, config: ModelConfig, vocab_size: int, tensors: Tensors) -> None:
        """Packs the weights, and loads the kernels or compiles them. `tensors` have the names of
        `model.safetensors`.

        Raises ConfigError if the kernels do not support the model, UserError if a library is
        missing, and CheckpointError if a tensor is missing or has another shape than `config` says.
        """
        if part := unsupported_part(config):
            raise ConfigError(f"engine 'native' does not support {part}: use 'torch'")
        self.config = config
        self.vocab_size, self._n_logit = vocab_size, padded(vocab_size)
        weights = pack_weights(config, vocab_size, tensors, positional_tables(config, tensors))
        row_of_token, rotations = row_table(config), rotary_table(config)
        weights.plan[e.LAST_ID], weights.plan[e.LAST_PLACE] = (
            len(row_of_token) - 1,
            config.n_place - 1,
        )
        weights.plan[e.ROTATION] = ROTATIONS[config.position]
        has_coordinates = config.position == "coordinates"
        self._coordinates = CoordinatePositions(config, vocab_size) if has_coordinates else None
        scratch = np.zeros(scratch_size(config), np.float32)
        self._lock = threading.Lock()  # guards the scratch memory
        self._arrays = (weights.plan, weights.values, row_of_token, rotations, scratch)
        self._addresses = [array.ctypes.data for array in self._arrays]
        self._decode = load_decode()

    def new_array_cache(self, batch: int, n_token: int) -> NativeCache:
        """Returns an empty cache for `batch` sequences of at most `n_token` tokens."""
        return NativeCache(self.config, batch, n_token)

    def __call__(self, tokens_BT: Ids, cache: NativeCache, last_only: bool = False) -> Floats:
        """Returns the logits of tokens that follow those in the cache, and adds the tokens to it.

        The logits are (B, T, V), or (B, 1, V) of the last token with `last_only`. Raises ValueError
        for more than `block_size` tokens, and for ids outside the vocabulary.
        """
        batch, n_token = tokens_BT.shape
        n_row = 1 if last_only else n_token
        # The last tile may write up to TILE rows.
        logits = np.empty((batch * n_row + TILE, self._n_logit), np.float32)
        self._run(tokens_BT, cache, logits, last_only=last_only)
        logits_BTV = logits[: batch * n_row].reshape(batch, n_row, self._n_logit)
        return logits_BTV[..., : self.vocab_size]

    def write(self, prompts_BP: Ids, stop_token: int, length: int) -> tuple[Ids, Floats]:
        """Continues prompts greedily. Each row ends with `stop_token` or after `length` tokens.

        Returns the tokens, -1 after the end of a row, and their probabilities, both (B, length).
        The rows are decoded in groups of `at_once`, one group after the other. Raises ValueError as
        `__call__` does.
        """
        batch, n_prompt = prompts_BP.shape
        output_tokens_BL = np.empty((batch, length), np.int64)
        probabilities_BL = np.empty((batch, length), np.float32)
        n_shared = shared_prefix(prompts_BP) if batch > 1 else 0
        n_slot = min(batch, self.at_once)
        cache = self.new_array_cache(1 if n_shared else n_slot, n_prompt + length - 1)
        if n_shared:
            self(prompts_BP[:1, :n_shared], cache, True)
            cache.select(np.zeros(n_slot, np.int64))
        for start in range(0, batch, self.at_once):
            rows = slice(start, start + self.at_once)
            tokens_BT = prompts_BP[rows, n_shared:]
            cache.reset(len(tokens_BT), n_shared)  # keeps the keys and values of the shared prefix
            cache.tokens[: len(tokens_BT), :n_shared] = prompts_BP[rows, :n_shared]
            outputs = self.extend(tokens_BT, cache, stop_token, length)
            output_tokens_BL[rows], probabilities_BL[rows] = outputs
        return output_tokens_BL, probabilities_BL

    def join(self, tokens_RP: Ids, cache: NativeCache, stop_token: int) -> tuple[Ids, Floats]:
        """Adds sequences of these tokens to the cache as its last rows. Returns the next token of
        each, which is not in the cache yet, and its probability, both (R,).

        Drops the rows whose next token is `stop_token`. Raises ValueError as `__call__` does.
        """
        n_row = len(tokens_RP)
        for _ in range(n_row):
            cache.add_row()
        (others, new), n_slot = np.split(cache.slots, [-n_row]), len(cache.tokens)
        output_tokens = np.empty((n_slot, 1), np.int64)
        probabilities = np.empty((n_slot, 1), np.float32)
        logits = np.empty((n_row + TILE, self._n_logit), np.float32)
        cache.set_slots(new.copy())
        self._run(tokens_RP, cache, logits, output_tokens, probabilities, 0, stop_token)
        cache.set_slots(np.concatenate((others, cache.slots)))
        return output_tokens[new, 0], probabilities[new, 0]

    def extend(
        self, tokens_BT: Ids, cache: NativeCache, stop_token: int, length: int
    ) -> tuple[Ids, Floats]:
        """Reads tokens that follow those in the cache. Then continues each row greedily, up to
        `stop_token` or by `length` tokens. The last of them is not in the cache yet.

        Returns what `write` returns. Drops the rows that end with `stop_token` from the cache.
        Raises ValueError as `__call__` does.
        """
        # If the cache grows, the slots of ended rows are left out: new memory takes time.
        cache.compact(cache.max_length + tokens_BT.shape[1] + length - 1)
        slots_B, n_slot, n_done = cache.slots.copy(), len(cache.tokens), 0
        output_tokens = np.full((n_slot, length), -1)
        probabilities = np.zeros((n_slot, length), np.float32)
        logits = np.empty((len(slots_B) + TILE, self._n_logit), np.float32)
        while len(cache.slots) and n_done < length:
            output = output_tokens, probabilities, n_done, stop_token
            n_done += self._run(tokens_BT, cache, logits, *output)
            tokens_BT = output_tokens[cache.slots, n_done - 1 : n_done]
        return output_tokens[slots_B], probabilities[slots_B]

    def _run(
        self,
        tokens_BT: Ids,
        cache: NativeCache,
        logits: Floats,
        output_tokens: Ids = EMPTY_IDS,
        probabilities: Floats = EMPTY_FLOATS,
        n_done: int = 0,
        stop_token: int = 0,
        last_only: bool = True,
    ) -> int:
        """Reads tokens, and then writes as many tokens per row as possible in one call. Returns
        their number.

        The limits are the length of `output_tokens`, the capacity of the cache, and the coordinates
        that the texts determine. `output_tokens` and `probabilities` are (slots, L), and `n_done`
        of their columns are filled before the call. Rows that end are dropped from the cache. If
        `output_tokens` is empty, no tokens are written.
        """
        batch, n_token = tokens_BT.shape
        stop = cache.max_length + n_token
        if stop > self.config.block_size:
            raise ValueError(f"{stop} tokens do not fit in {self.config.block_size}")
        # A negative id is a large unsigned number.
        if tokens_BT.size and tokens_BT.view(np.uint64).max() >= self.vocab_size:
            raise ValueError(f"token ids must be from 0 to {self.vocab_size - 1}")
        cache.reserve(stop)
        cache.append(tokens_BT)
        length = output_tokens.shape[1]
        plan, weights, row_of_token, rotations, scratch = self._addresses
        n_new = min(length - n_done, min(cache.capacity, self.config.block_size) - stop + 1)
        if self._coordinates:
            n_ahead = cache.locate(self._coordinates, n_token)
            rotations = cache.addresses[0]
            n_new = min(n_new, n_ahead + 1)
        with self._lock:
            n_open = self._decode(
                plan,
                weights,
                row_of_token,
                rotations,
                *cache.addresses[1:],
                scratch,
                logits.ctypes.data,
                output_tokens[:, n_done:].ctypes.data,
                probabilities[:, n_done:].ctypes.data,
                batch,
                n_token,
                len(cache.tokens),
                cache.capacity,
                last_only,
                n_new,
                length,
                stop_token,
            )
        if n_open < batch:
            cache.set_slots(cache.slots[:n_open].copy())
        return int(n_new)


class NativeCache:
    """The keys, values and tokens of sequences. Each sequence has a slot.

    `slots`, (B,), has the slot of each row of the batch. Dropping rows only changes `slots`, and
    copies nothing. `tokens`, (slots, capacity), has the texts, and `lengths`, (slots,), the number
    of tokens of each whose keys and values are stored. The capacity grows with the texts, because
    most are much shorter than the model allows.
    """

    def __init__(self, config: ModelConfig, batch: int, n_token: int) -> None:
        """Makes a cache for `batch` empty sequences of at most `n_token` tokens."""
        self._n_layer, self._n_kv_head = config.n_layer, config.kv_heads
        self._head_dim, self._width = config.head_dim, padded(config.head_dim)
        is_windowed = config.row_window is not None or config.column_window is not None
        self._key_size = self._width if is_windowed else self._head_dim
        self._has_coordinates = config.position == "coordinates"
        self._max_capacity = padded(min(n_token, config.block_size))
        self.capacity = min(self._max_capacity, FIRST_CAPACITY)
        self._allocate(batch)
        self.set_slots(np.arange(batch))

    def set_slots(self, slots: Ids) -> None:
        """Makes these slots, (B,), the rows of the batch."""
        self.slots = slots
        self.addresses[SLOTS] = slots.ctypes.data

    @property
    def max_length(self) -> int:
        """The number of tokens of the longest sequence of the batch."""
        return int(self.lengths[self.slots].max(initial=0))

    def add_row(self) -> None:
        """Adds an empty sequence to the batch, as the last row."""
        slots = self.slots.tolist()
        if len(slots) == len(self.tokens):
            self._reallocate(self.slots, self.capacity, 2 * len(slots) or 1)
            slots = list(range(len(slots)))
        free = next(slot for slot in range(len(self.tokens)) if slot not in slots)
        self.lengths[free] = self.n_located[free] = 0
        self.set_slots(np.array([*slots, free]))

    def select(self, rows: Ids) -> None:
        """Keeps only the rows of the batch at these indices, which may repeat, (new B,)."""
        slots = self.slots[rows]
        if len(slots) > len(self.slots) or len(set(slots.tolist())) < len(slots):
            self._reallocate(slots, self.capacity)  # each copy of a sequence needs its own slot
            slots = np.arange(len(slots))
        self.set_slots(slots)

    def reserve(self, n_token: int) -> None:
        """Increases the capacity if `n_token` tokens do not fit. All slots keep their numbers."""
        if n_token > self.capacity:
            capacity = min(self._max_capacity, padded(2 * n_token))
            self._reallocate(np.arange(len(self.tokens)), capacity)
            self.set_slots(self.slots)

    def compact(self, n_token: int) -> None:
        """Increases the capacity if `n_token` tokens do not fit and some slots are unused. Removes
        the unused slots. The others get the numbers of their rows."""
        if min(n_token, self._max_capacity) > self.capacity and len(self.slots) < len(self.tokens):
            self._reallocate(self.slots, min(self._max_capacity, padded(2 * n_token)))
            self.set_slots(np.arange(len(self.slots)))

    def append(self, tokens_BT: Ids) -> None:
        """Appends tokens to the texts. `lengths` does not change, because their keys and values are
        not stored yet."""
        columns = self.lengths[self.slots][:, None] + np.arange(tokens_BT.shape[1])
        self.tokens[self.slots[:, None], columns] = tokens_BT

    def locate(self, coordinates: CoordinatePositions, n_token: int) -> int:
        """Computes the features and rotations of all texts, including their next `n_token` tokens
        and the tokens after these that the text determines. Returns the least number of tokens
        after these, over all rows."""
        stops, located = self.lengths[self.slots] + n_token, self.n_located[self.slots]
        for row in np.flatnonzero(located < stops).tolist():
            slot, start = int(self.slots[row]), int(located[row])
            features, rotations = coordinates(self.tokens[slot, : stops[row]], start)
            n_new = min(len(rotations), self.capacity - start)
            self.n_located[slot] = located[row] = stop = start + n_new
            self.features[slot, :, start:stop] = features[:, :n_new]
            self.rotations[slot, start:stop] = rotations[:n_new]
        return int((located - stops).min(initial=self.capacity))

    def reset(self, batch: int, length: int) -> None:
        """Makes the first `batch` slots the rows of the batch, and keeps the keys and values of
        their first `length` tokens."""
        self.lengths[:] = length
        self.n_located[:] = 0
        self.set_slots(np.arange(batch))

    def _allocate(self, n_slot: int) -> None:
        """Allocates arrays for `n_slot` empty sequences."""
        capacity = self.capacity
        width = 2 * self._width * capacity
        self.kv = np.empty((self._n_layer, n_slot, self._n_kv_head, width), np.float32)
        self.tokens = np.empty((n_slot, capacity), np.int64)
        self.lengths = np.zeros(n_slot, np.int64)
        # Only the entries of the first `n_located` tokens of a slot are valid.
        n_position = capacity if self._has_coordinates else 0
        self.features = np.empty((n_slot, e.N_FEATURES, n_position), np.float32)
        self.rotations = np.empty((n_slot, n_position, 2, self._head_dim), np.float32)
        self.n_located = np.zeros(n_slot, np.int64)
        arrays = (self.rotations, self.features, self.lengths, self.tokens, self.kv)
        self.addresses = [array.ctypes.data for array in arrays]
        self.addresses.insert(SLOTS, 0)  # of the slots, which `set_slots` knows

    def _reallocate(self, slots: Ids, capacity: int, n_slot: int = 0) -> None:
        """Copies these slots to new arrays of another capacity, which have `n_slot` slots or, if
        that is more, one for each of `slots`. `locate` computes the coordinates again."""
        n_row, n_used = len(slots), int(self.lengths[slots].max(initial=0))
        views, tokens, lengths = self._kv_views(n_used), self.tokens, self.lengths
        self.capacity = capacity
        self._allocate(max(n_row, n_slot))
        for old, new in zip(views, self._kv_views(n_used), strict=True):
            new[:, :n_row] = old[:, slots]
        self.tokens[:n_row, :n_used] = tokens[slots, :n_used]
        self.lengths[:n_row] = lengths[slots]

    def _kv_views(self, n_token: int) -> tuple[Floats, Floats]:
        """Returns views of the keys and of the values of the first `n_token` tokens, padded to
        whole panels. See `attention.store_kv` for the layout."""
        *shape, _ = self.kv.shape  # (n_layer, slots, n_kv_head)
        n_key, n_padded = self._width * self.capacity, padded(n_token)
        values = self.kv[..., n_key:].reshape(*shape, -1, self.capacity, PANEL)
        return self.kv[..., : n_padded * self._key_size], values[..., :n_padded, :]
