"""Greedy decoding on a GPU without waiting for Python: CUDA graphs, and coordinates ahead of time.

A small model spends a decoding step on launching kernels, not on running them. A CUDA graph runs
all kernels of a step with one launch, but always at the same addresses and with the same sizes. So
the keys, values and tokens of all rows stay where they are, and there is a graph for each position
and number of rows. The model itself is not changed: in each graph, the position is a constant.

Shapes: B rows, P prompt tokens, L tokens to write, N tokens in memory.
"""

import logging
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from calcgpt.inference.generate import Floats, Ints
from calcgpt.model.attention import KVCache
from calcgpt.model.base import LanguageModel
from datagen.coordinates import N_COORDINATES, code_coordinates

CHECK_EVERY = 8  # tokens between checks for rows that have ended; a check waits for the GPU
MAX_TOKENS = 2**20  # of all rows, some of which are not in use when the memory grows
MAX_GRAPHS = 2**12  # each takes memory of the driver; later steps run without one
NEVER_NEEDED = np.iinfo(np.int64).max  # larger than any position

log = logging.getLogger(__name__)


class GraphDecoder(nn.Module):
    """A LanguageModel that writes greedily by replaying CUDA graphs.

    A step that occurs for the first time runs as usual. The second time it is captured in a graph,
    and from then on replayed. On other devices, and if a step cannot be captured, all steps run as
    usual. Rows that have ended stay in the batch until half of it can be dropped.

    A model that reads coordinates from the text gets them for all later tokens that the text
    already determines: those of worked steps follow from the question. So Python reads a line
    twice, not after each token.

    It implements `BatchWriter` and, for sampling, the calls of a model. The model must be in
    evaluation mode.
    """

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model, self.config = model, model.config
        self._memory: _Memory | None = None
        self._lock = threading.Lock()

    def forward(self, tokens_BT: torch.Tensor, cache: KVCache, last_only: bool) -> torch.Tensor:
        logits_BTV: torch.Tensor = self.model(tokens_BT, cache, last_only)
        return logits_BTV

    def new_cache(self, batch: int, n_token: int) -> KVCache:
        """Returns an empty cache, as the model does."""
        return self.model.new_cache(batch, n_token)

    @torch.inference_mode()
    def write(self, prompts_BP: Ints, stop_token: int, length: int) -> tuple[Ints, Floats]:
        """Continues each row up to `stop_token`, by at most `length` tokens. Returns the tokens, -1
        after the end of a row, and their probabilities, both (B, L), where L is not much longer
        than the longest row. Raises ValueError if a row does not fit in the context. Threads that
        call it take turns.
        """
        if not len(prompts_BP):
            return np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32)
        with self._lock:
            try:
                return self._write(prompts_BP, stop_token, length)
            except BaseException:
                self._memory = None  # a part of it may have grown, and another part not
                raise

    def _write(self, prompts_BP: Ints, stop_token: int, length: int) -> tuple[Ints, Floats]:
        batch, n_prompt = prompts_BP.shape
        n_slot = _power_of_two(batch)
        if self._memory is None or not self._memory.fits(n_slot):
            self._memory = None  # before new memory is taken
            self._memory = _Memory(self.model, n_slot)
        memory = self._memory
        rows = _Rows(memory, prompts_BP, n_slot, stop_token)
        for end in range(n_prompt, n_prompt + length):
            rows.locate(end)
            memory.run(rows.n_slot, end - 1 if end > n_prompt else 0, end)
            is_last = end + 1 == n_prompt + length
            if is_last or (end - n_prompt) % CHECK_EVERY == CHECK_EVERY - 1:
                rows.fetch(end + 1)
                if rows.ended_B.all():
                    break
                rows.drop_ended(end + 1)
        return rows.outputs()


def decoder_of(model: LanguageModel) -> LanguageModel | GraphDecoder:
    """Returns what decodes with a model fastest: on a GPU a GraphDecoder, elsewhere the model."""
    return GraphDecoder(model) if model.device.type == "cuda" else model


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


class _Memory:
    """What the steps of a batch read and write: tensors that stay where they are, and the graphs
    that use them. A graph serves the first rows of the memory, so smaller batches need no other."""

    def __init__(self, model: LanguageModel, n_slot: int) -> None:
        self.model, self.device = model, model.device
        size = model.config.block_size
        self.has_inserted_tokens = model.n_positions(size) != size  # by the attention scheme
        self.cache: KVCache = model.new_cache(n_slot, model.config.block_size)
        n_token = self.cache.tokens.size(1) + 1  # the last token is written, but never read
        self.tokens_BN = torch.zeros((n_slot, n_token), dtype=torch.int64, device=self.device)
        self.probs_BN = torch.zeros((n_slot, n_token), device=self.device)
        self.features_BN6: torch.Tensor | None = None  # coordinates, if the model reads them
        if model.ascii_codes(self.tokens_BN[:1, :1]) is not None:
            shape = (n_slot, n_token, N_COORDINATES)
            self.features_BN6 = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self._can_capture = self.device.type == "cuda"
        self._stream: torch.cuda.Stream | None = None
        self._forget_graphs()
        self._state = self._captured_state()

    def fits(self, n_slot: int) -> bool:
        """Whether a batch of this size can use the memory, and its graphs are still right."""
        return n_slot <= len(self.tokens_BN) and self._state == self._captured_state()

    def _captured_state(self) -> list[Any]:
        """Returns what a graph depends on, apart from the memory."""
        tensors = (*self.model.parameters(), *self.model.buffers())
        kind = self.device.type
        autocast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
        precision = torch.get_float32_matmul_precision()
        return [*autocast, precision, *(tensor.data_ptr() for tensor in tensors)]

    def _forget_graphs(self) -> None:
        # By number of rows and position. None: not captured yet.
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph | None] = {}
        # A memory pool cannot be used again after its last graph is deleted.
        self._pool = torch.cuda.graph_pool_handle() if self._can_capture else None

    def reserve(self, n_slot: int, n_token: int) -> None:
        """Makes room for `n_token` tokens in each of the first `n_slot` rows. If there is too
        little, tensors move, so all graphs are lost. The other rows are kept for larger batches,
        unless all rows together would have more than MAX_TOKENS."""
        n_before, n_position = self.cache.tokens.size(1), self.model.n_positions(n_token)
        if n_position <= n_before:
            return
        self._forget_graphs()
        n_row = len(self.tokens_BN)
        if n_row * max(n_position, 2 * n_before) > MAX_TOKENS:
            n_row = n_slot
        self.cache = self.cache.first(n_row, n_before)
        self.cache.reserve(n_position)
        n_more = self.cache.tokens.size(1) - n_before
        self.tokens_BN = nn.functional.pad(self.tokens_BN[:n_row], (0, n_more))
        self.probs_BN = nn.functional.pad(self.probs_BN[:n_row], (0, n_more))
        if self.features_BN6 is not None:
            self.features_BN6 = nn.functional.pad(self.features_BN6[:n_row], (0, 0, 0, n_more))

    def run(self, n_slot: int, start: int, end: int) -> None:
        """Reads the tokens from `start` to `end` of the first rows, and writes token `end`."""
        key = (n_slot, end)
        if not self._can_capture or end - start > 1:  # a prompt is not worth a graph
            self._step(n_slot, start, end)
        elif key not in self._graphs:
            self._step(n_slot, start, end)  # loads the kernels, which a capture must not
            if len(self._graphs) < MAX_GRAPHS:
                self._graphs[key] = None
        else:
            graph = self._graphs[key] or self._capture(n_slot, start, end)
            if graph is None:
                self._step(n_slot, start, end)
            else:
                self._graphs[key] = graph
                graph.replay()

    def _capture(self, n_slot: int, start: int, end: int) -> torch.cuda.CUDAGraph | None:
        """Returns the graph of a step, which has not run; None if the step cannot be captured."""
        graph = torch.cuda.CUDAGraph()
        if self._stream is None:  # always the same: each takes memory for its products
            self._stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream = self._stream
        stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=self._pool)
                try:
                    self._step(n_slot, start, end)
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            log.warning("decoding without CUDA graphs: %s", str(error).splitlines()[0])
            self._can_capture = False
            return None
        torch.cuda.current_stream(self.device).wait_stream(stream)
        return graph

    def _step(self, n_slot: int, start: int, end: int) -> None:
        n_read, n_position = self.model.n_positions(start), self.model.n_positions(end)
        cache = self.cache.first(n_slot, n_read)
        features = None if self.features_BN6 is None else self.features_BN6[:n_slot, :n_position]
        kind = self.device.type
        # Autocast must not keep weights that it has cast for one step: they are in its graph.
        with torch.autocast(
            kind,
            torch.get_autocast_dtype(kind),
            enabled=torch.is_autocast_enabled(kind),
            cache_enabled=False,
        ):
            logits_BV = self.model(self.tokens_BN[:n_slot, start:end], cache, True, features)[:, -1]
        logits_BV = logits_BV.float()
        next_B1 = logits_BV.argmax(dim=1, keepdim=True)
        self.tokens_BN[:n_slot, end] = next_B1[:, 0]
        self.probs_BN[:n_slot, end] = logits_BV.softmax(dim=1).gather(1, next_B1)[:, 0]

    def select(self, slots: Iterable[int], n_token: int) -> None:
        """Moves these rows, with their first `n_token` tokens, to the beginning of the memory."""
        index = torch.tensor(list(slots), device=self.device)
        n, n_position = len(index), self.model.n_positions(n_token)
        for store in (*self.cache.k, *self.cache.v):
            store[:n, :, :n_position] = store[index, :, :n_position]
        self.cache.tokens[:n, :n_position] = self.cache.tokens[index, :n_position]
        self.tokens_BN[:n, :n_token] = self.tokens_BN[index, :n_token]
        if self.features_BN6 is not None:
            self.features_BN6[:n] = self.features_BN6[index]


class _Rows:
    """The rows of a batch: their text, which the GPU writes, and in which slots of the memory they
    are. Slots without a row of their own repeat the last one."""

    def __init__(self, memory: _Memory, prompts_BP: Ints, n_slot: int, stop_token: int) -> None:
        batch, self._n_prompt = prompts_BP.shape
        self._memory, self._stop_token = memory, stop_token
        # The first `_n_fetched` columns are those of the memory. A row that was dropped ends there.
        self._text_BN = np.array(prompts_BP, np.int64)
        self._probs_BN = np.zeros(self._text_BN.shape, np.float32)
        self._n_fetched = self._n_prompt
        self.ended_B: NDArray[np.bool_] = np.zeros(batch, np.bool_)
        self._row_of_slot = np.minimum(np.arange(n_slot), batch - 1)
        # Positions of each slot whose coordinates are in memory.
        self._n_located = np.zeros(n_slot, np.int64)
        memory.reserve(n_slot, self._n_prompt)
        memory.tokens_BN[:n_slot, : self._n_prompt] = self._on_device(prompts_BP[self._row_of_slot])

    @property
    def n_slot(self) -> int:
        """Slots in use."""
        return len(self._row_of_slot)

    def _on_device(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(array).to(self._memory.device)

    def locate(self, end: int) -> None:
        """Makes room for the tokens before `end`. Computes the coordinates that are not in memory
        yet."""
        memory = self._memory
        memory.reserve(self.n_slot, end)
        features_BN6, n_position = memory.features_BN6, memory.model.n_positions(end)
        if features_BN6 is None or (self._n_located >= n_position).all():
            return
        self.fetch(end)
        self._n_located[self.ended_B[self._row_of_slot]] = NEVER_NEEDED
        slots = np.flatnonzero(self._n_located < n_position)
        if not len(slots):
            return
        text_BN = self._text_BN[self._row_of_slot[slots], :end]
        codes_BS = memory.model.ascii_codes(torch.from_numpy(text_BN))
        assert codes_BS is not None  # the model reads text
        lines = [code_coordinates(codes_S) for codes_S in codes_BS]
        if memory.has_inserted_tokens:  # the later characters of the lines lack them
            lines = [line[:n_position] for line in lines]
        width = min(features_BN6.size(1), max(map(len, lines)))
        padded = np.zeros((len(lines), width, N_COORDINATES), np.int16)
        for row, line in zip(padded, lines, strict=True):
            row[: len(line)] = line[:width]
        features_BN6[self._on_device(slots), :width] = self._on_device(padded).long()
        self._n_located[slots] = np.minimum([len(line) for line in lines], width)

    def fetch(self, n_token: int) -> None:
        """Copies the tokens of each row before `n_token` from the GPU, if it has not done so."""
        new = slice(self._n_fetched, n_token)
        if new.start >= n_token:
            return
        memory, rows = self._memory, self._row_of_slot
        if n_token > (width := self._text_BN.shape[1]):
            more = ((0, 0), (0, max(n_token, 2 * width) - width))
            self._text_BN = np.pad(self._text_BN, more, constant_values=self._stop_token)
            self._probs_BN = np.pad(self._probs_BN, more)
        self._text_BN[rows, new] = memory.tokens_BN[: self.n_slot, new].cpu().numpy()
        self._probs_BN[rows, new] = memory.probs_BN[: self.n_slot, new].cpu().numpy()
        self.ended_B[rows] |= (self._text_BN[rows, new] == self._stop_token).any(axis=1)
        self._n_fetched = n_token

    def drop_ended(self, n_token: int) -> None:
        """Drops rows that have ended, if half of the slots suffice for the others."""
        open_rows, slots = np.unique(self._row_of_slot, return_index=True)
        slots = slots[~self.ended_B[open_rows]]
        n_slot = _power_of_two(len(slots))
        if n_slot >= self.n_slot:
            return
        slots = np.pad(slots, (0, n_slot - len(slots)), mode="edge")
        self._memory.select(slots.tolist(), n_token)
        self._row_of_slot, self._n_located = self._row_of_slot[slots], self._n_located[slots]

    def outputs(self) -> tuple[Ints, Floats]:
        """Returns what `GraphDecoder.write` returns."""
        written = slice(self._n_prompt, self._n_fetched)
        tokens_BL = self._text_BN[:, written].copy()
        is_stop_BL = tokens_BL == self._stop_token
        is_after_BL = (is_stop_BL.cumsum(axis=1) - is_stop_BL) > 0
        tokens_BL[is_after_BL] = -1
        return tokens_BL, np.where(is_after_BL, 0, self._probs_BN[:, written])
