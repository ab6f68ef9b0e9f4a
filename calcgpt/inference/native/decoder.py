"""A decoder that runs the kernels, and its cache of keys and values.

It needs NumPy and llvmlite, not torch.

Shapes: B sequences, P prompt tokens, T new tokens, L tokens to write, V vocabulary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.inference.generate import shared_prefix
from calcgpt.inference.native.machine_code import decode
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
    MARKS,
    PANEL,
    ROTATION,
    TILE,
    Floats,
    Tensors,
    lay_out,
    padded,
    scratch_size,
)

FIRST_CAPACITY = 128  # tokens of the cache; most problems with their work are shorter

Ids = NDArray[np.int64]
NO_IDS, NO_FLOATS = np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32)


class NativeDecoder:
    """A `Decoder` in machine code, for one core."""

    at_once = 12  # rows whose keys and values stay in the processor's last cache

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
        by_text = config.position == "coordinates"
        self._coordinates = Coordinates(config, vocab_size) if by_text else None
        scratch = np.zeros(scratch_size(config), np.float32)
        self._arrays = (weights.plan, weights.values, row_of_token, rotations, scratch)
        self._addresses = [array.ctypes.data for array in self._arrays]
        self._decode = decode()

    def new_array_cache(self, batch: int, n_token: int) -> NativeCache:
        """Returns an empty cache for `batch` sequences of at most `n_token` tokens."""
        return NativeCache(self.config, batch, n_token)

    def __call__(self, tokens_BT: Ids, cache: NativeCache, last_only: bool = False) -> Floats:
        """Returns the logits of tokens that follow those in the cache, and adds them to it.

        They are (B, T, V), or (B, 1, V) of the last token with `last_only`. Raises ValueError for
        more than `block_size` tokens, and for ids that no token has.
        """
        batch, n_token = tokens_BT.shape
        n_row = 1 if last_only else n_token
        # There is room for a whole last tile.
        logits = np.empty((batch * n_row + TILE, self._n_logit), np.float32)
        self._run(tokens_BT, cache, logits, last_only=last_only)
        by_row = logits[: batch * n_row].reshape(batch, n_row, self._n_logit)
        return by_row[..., : self.vocab_size]

    def write(self, prompts_BP: Ids, stop_token: int, length: int) -> tuple[Ids, Floats]:
        """Continues prompts greedily. Each row ends with `stop_token` or after `length` tokens.

        Returns the tokens, -1 after the end of a row, and their probabilities, both (B, length).
        `at_once` rows are decoded to their end before the next ones begin.
        """
        batch, n_prompt = prompts_BP.shape
        written_BL = np.empty((batch, length), np.int64)
        probabilities_BL = np.empty((batch, length), np.float32)
        n_shared = shared_prefix(prompts_BP) if batch > 1 else 0
        n_slot = min(batch, self.at_once)
        cache = self.new_array_cache(1 if n_shared else n_slot, n_prompt + length - 1)
        if n_shared:
            self(prompts_BP[:1, :n_shared], cache, True)
            cache.select(np.zeros(n_slot, np.int64))
        for first in range(0, batch, self.at_once):
            part = slice(first, first + self.at_once)
            tokens_BT = prompts_BP[part, n_shared:]
            cache.restart(len(tokens_BT), n_shared)  # what is shared stays in its slots
            cache.tokens[: len(tokens_BT), :n_shared] = prompts_BP[part, :n_shared]
            answers = self.extend(tokens_BT, cache, stop_token, length)
            written_BL[part], probabilities_BL[part] = answers
        return written_BL, probabilities_BL

    def join(self, tokens_P: Ids, cache: NativeCache, stop_token: int) -> tuple[int, float]:
        """Adds a sequence of these tokens to the cache as its last row. Returns the next token and
        its probability. After `stop_token` the row is dropped."""
        cache.add()
        rows, n_slot = cache.slots, len(cache.tokens)
        slot = rows[-1]
        written, probabilities = np.empty((n_slot, 1), np.int64), np.empty((n_slot, 1), np.float32)
        logits = np.empty((1 + TILE, self._n_logit), np.float32)
        cache.use(rows[-1:].copy())
        self._run(tokens_P[None], cache, logits, written, probabilities, 0, stop_token)
        token = int(written[slot, 0])
        cache.use(rows if token != stop_token else rows[:-1].copy())
        return token, float(probabilities[slot, 0])

    def extend(
        self, tokens_BT: Ids, cache: NativeCache, stop_token: int, length: int
    ) -> tuple[Ids, Floats]:
        """Reads tokens that follow those in the cache. Then each row writes greedily up to
        `stop_token`, or `length` tokens, the last of which is not in the cache yet.

        Returns what `write` does. Rows that wrote `stop_token` are dropped from the cache.
        """
        # Most rows may have ended. Memory that is new to the process costs time.
        cache.compact(cache.n_used + tokens_BT.shape[1] + length - 1)
        slots_B, n_slot, n_done = cache.slots.copy(), len(cache.tokens), 0
        written = np.full((n_slot, length), -1)
        probabilities = np.zeros((n_slot, length), np.float32)
        logits = np.empty((len(slots_B) + TILE, self._n_logit), np.float32)
        while len(cache.slots) and n_done < length:
            answer = written, probabilities, n_done, stop_token
            n_done += self._run(tokens_BT, cache, logits, *answer)
            tokens_BT = written[cache.slots, n_done - 1 : n_done]
        return written[slots_B], probabilities[slots_B]

    def _run(
        self,
        tokens_BT: Ids,
        cache: NativeCache,
        logits: Floats,
        written_BL: Ids = NO_IDS,
        probabilities_BL: Floats = NO_FLOATS,
        n_done: int = 0,
        stop_token: int = 0,
        last_only: bool = True,
    ) -> int:
        """Reads tokens. Then writes as many as room and coordinates allow, behind `n_done` of each
        row, and drops the rows that end. Returns the number of tokens written."""
        batch, n_token = tokens_BT.shape
        stop = cache.n_used + n_token
        if stop > self.config.block_size:
            raise ValueError(f"{stop} tokens do not fit in {self.config.block_size}")
        # A negative id is a large one without its sign.
        if tokens_BT.size and tokens_BT.view(np.uint64).max() >= self.vocab_size:
            raise ValueError(f"token ids must be from 0 to {self.vocab_size - 1}")
        cache.reserve(stop)
        cache.append(tokens_BT)
        length = written_BL.shape[1]
        plan, weights, row_of_token, rotations, scratch = self._addresses
        n_new = min(length - n_done, cache.capacity - stop + 1)
        if self._coordinates:
            n_known = cache.locate(self._coordinates, n_token)
            rotations = cache.addresses[0]
            n_new = min(n_new, n_known + 1)
        n_open = self._decode(
            plan,
            weights,
            row_of_token,
            rotations,
            *cache.addresses[1:],
            scratch,
            logits.ctypes.data,
            written_BL[:, n_done:].ctypes.data,
            probabilities_BL[:, n_done:].ctypes.data,
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
            cache.use(cache.slots[:n_open].copy())
        return int(n_new)


class NativeCache:
    """Keys and values in slots, one for each sequence, and the tokens, (slots, capacity).

    A row of the batch names its slot, so that dropping rows moves nothing. `lengths` has the number
    of tokens of each slot. The capacity grows with the texts, because most are much shorter than
    the model allows.
    """

    def __init__(self, config: ModelConfig, batch: int, n_token: int) -> None:
        """`n_token` is the most tokens that a sequence may have."""
        self._n_layer, self._n_group = config.n_layer, config.kv_heads
        self._key_width, self._value_width = config.head_dim, padded(config.head_dim)
        self._by_text = config.position == "coordinates"
        self._limit = padded(n_token)
        self.capacity = min(self._limit, FIRST_CAPACITY)
        self._make(batch)
        self.use(np.arange(batch))

    def use(self, slots: Ids) -> None:
        """Makes these slots the rows of the batch."""
        self.slots = slots
        arrays = (self.rotations, self.marks, slots, self.lengths, self.tokens, self.values)
        self.addresses = [array.ctypes.data for array in arrays]

    @property
    def n_used(self) -> int:
        """The number of tokens of the longest sequence of the batch."""
        return int(self.lengths[self.slots].max(initial=0))

    def add(self) -> None:
        """Adds an empty sequence to the batch, as the last row."""
        free = np.setdiff1d(np.arange(len(self.tokens)), self.slots)
        if not len(free):
            n_row = len(self.slots)
            self._move(self.slots, self.capacity, 2 * n_row or 1)
            self.slots, free = np.arange(n_row), np.arange(n_row, n_row + 1)
        self.lengths[free[0]] = self.n_known[free[0]] = 0
        self.use(np.append(self.slots, free[0]))

    def select(self, rows: Ids) -> None:
        """Keeps only these rows of the batch: indices of any number, which may repeat."""
        slots = self.slots[rows]
        if len(slots) > len(self.slots) or len(set(slots.tolist())) < len(slots):
            self._move(slots, self.capacity)  # the sequences go different ways from now on
            slots = np.arange(len(slots))
        self.use(slots)

    def reserve(self, n_token: int) -> None:
        """Makes room for sequences of `n_token` tokens. All slots keep their numbers."""
        if n_token > self.capacity:
            self._move(np.arange(len(self.tokens)), min(self._limit, padded(2 * n_token)))
            self.use(self.slots)

    def compact(self, n_token: int) -> None:
        """Makes room for sequences of `n_token` tokens, if there is too little, and leaves unused
        slots behind. The others get new numbers, in their order."""
        if min(n_token, self._limit) > self.capacity and len(self.slots) < len(self.tokens):
            self._move(self.slots, min(self._limit, padded(2 * n_token)))
            self.use(np.arange(len(self.slots)))

    def append(self, tokens_BT: Ids) -> None:
        """Puts tokens behind each text. Its length remains: they have no keys and values yet."""
        columns = self.lengths[self.slots][:, None] + np.arange(tokens_BT.shape[1])
        self.tokens[self.slots[:, None], columns] = tokens_BT

    def locate(self, coordinates: Coordinates, n_token: int) -> int:
        """Fills in the coordinates of all texts with their next `n_token` tokens, and of what is
        certain to follow. Returns how many tokens that are, at least, beyond these."""
        stops = self.lengths[self.slots] + n_token
        for row in np.flatnonzero(self.n_known[self.slots] < stops).tolist():
            slot = self.slots[row]
            start = self.n_known[slot]
            marks, rotations = coordinates(self.tokens[slot, : stops[row]], start)
            n = min(len(rotations), self.capacity - start)
            self.n_known[slot] = stop = start + n
            self.marks[slot, :, start:stop] = marks[:, :n]
            self.rotations[slot, start:stop] = rotations[:n]
        return int((self.n_known[self.slots] - stops).min(initial=self.capacity))

    def restart(self, batch: int, length: int) -> None:
        """Uses the first `batch` slots for other sequences, of which they have `length` tokens."""
        self.lengths[:] = length
        self.n_known[:] = 0
        self.use(np.arange(batch))

    def _make(self, n_slot: int) -> None:
        """Makes arrays for `n_slot` empty sequences."""
        capacity = self.capacity
        width = (self._key_width + self._value_width) * capacity
        self.values = np.empty((self._n_layer, n_slot, self._n_group, width), np.float32)
        self.tokens = np.empty((n_slot, capacity), np.int64)
        self.lengths = np.zeros(n_slot, np.int64)
        # Where the text determines them: the coordinates of the first `n_known` tokens of a slot.
        n_place = capacity if self._by_text else 0
        self.marks = np.empty((n_slot, MARKS, n_place), np.int64)
        self.rotations = np.empty((n_slot, n_place, 2, self._key_width), np.float32)
        self.n_known = np.zeros(n_slot, np.int64)

    def _move(self, slots: Ids, capacity: int, n_slot: int = 0) -> None:
        """Copies these slots into new arrays with another capacity, as the first of `n_slot`, or as
        the only ones. The coordinates are found again."""
        n_row, n_used = len(slots), int(self.lengths[slots].max(initial=0))
        parts, tokens, lengths = self._parts(n_used), self.tokens, self.lengths
        self.capacity = capacity
        self._make(max(n_row, n_slot))
        for old, new in zip(parts, self._parts(n_used), strict=True):
            new[:, :n_row] = old[:, slots]
        self.tokens[:n_row, :n_used] = tokens[slots, :n_used]
        self.lengths[:n_row] = lengths[slots]

    def _parts(self, n_token: int) -> tuple[Floats, Floats]:
        """Returns views of the keys and of the values of the first tokens, in whole panels
        (`layers.remember` says how these lie)."""
        *first, _ = self.values.shape
        n_key, n_used = self._key_width * self.capacity, padded(n_token)
        keys = self.values[..., :n_key].reshape(*first, -1, self._key_width * PANEL)
        rest = self.values[..., n_key:].reshape(*first, -1, self.capacity, PANEL)
        return keys[..., : n_used // PANEL, :], rest[..., :n_used, :]
