"""Batches of fresh problems, made ahead of the steps that train on them.

A block serves some hundred steps. To write it out takes from 50 ms to half a minute, by its format.
So it is made in chunks, and once that has cost as much as it takes to start a process, worker
processes make the next chunks during training (`calcgpt.data.workers`). If several processes train
together, they take turns at the chunks. The batches are the same, whoever makes them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcgpt.data.batches import Batch, BatchSource, ProblemLines, Team
from calcgpt.data.problems import FreshProblems
from calcgpt.data.tokenizer import Tokenizer
from calcgpt.data.workers import Chunk, Workers, make

BLOCK = 16_384  # problems, about: some hundred batches
CHUNK = 512  # problems that are written at a time: at most about a second of work
PROBE = 1_024  # problems that are drawn and checked before a run begins
START = 1.0  # seconds that a worker takes to start, about


class _Block(NamedTuple):
    """Number and size of a block."""

    number: int
    size: int


class FreshBatches(BatchSource):
    """Fresh problems, one a row. Steps share a block of them.

    Raises DataError if one of the first `probe` problems does not fit in `block_size`. Longer
    problems that come up later are left out: they do not end the run.
    """

    def __init__(
        self, problems: FreshProblems, tokenizer: Tokenizer, block_size: int, probe: int = PROBE
    ) -> None:
        self.problems, self.tokenizer, self.block_size = problems, tokenizer, block_size
        ProblemLines(problems.render(problems.block(0, probe)), tokenizer, block_size)
        self._block: _Block | None = None  # the one in memory, as far as it was needed
        self._source: _Ahead | None = None

    def batch(self, step: int, size: int) -> Batch:
        n_steps = max(1, BLOCK // size)  # steps that share a block
        block = _Block(step // n_steps, n_steps * size)
        if block != self._block:
            self._lines = self._lines_of(block, 0)
            self._block, self._n_chunk = block, 1
        first = step % n_steps * size
        while (rows := self._fitting()).size < first + size and self._n_chunk < n_chunks(block):
            self._lines.extend(self._lines_of(block, self._n_chunk))
            self._n_chunk += 1
        if rows.size < first + size:  # the first ones replace those that do not fit
            rows = np.resize(rows, block.size)
        return self._lines.batch(rows[first : first + size])

    @contextmanager
    def ahead(self, steps: int, size: int, n_worker: int, team: Team) -> Iterator[None]:
        n_steps = max(1, BLOCK // size)
        stop = -(-steps // n_steps) * n_chunks(_Block(0, n_steps * size))
        with _Ahead(self.problems, n_worker, team, stop) as self._source:
            try:
                yield
            finally:
                self._source = None

    def _fitting(self) -> NDArray[np.intp]:
        """Returns the lines in memory that fit in the context, (n,)."""
        return np.flatnonzero(self._lines.lengths <= self.block_size + 1)

    def _lines_of(self, block: _Block, number: int) -> ProblemLines:
        """Returns the lines of a chunk."""
        if self._source is None:
            text = make(self.problems, chunk_of(block, number))
        else:
            text = self._source.text(block, number)
        return ProblemLines(text, self.tokenizer)


def n_chunks(block: _Block) -> int:
    """Returns the number of chunks of a block."""
    return -(-block.size // CHUNK)


def chunk_of(block: _Block, number: int) -> Chunk:
    """Returns the chunk of that number, from 0. The last one of a block may be shorter."""
    return Chunk(*block, number * CHUNK, min(block.size, (number + 1) * CHUNK))


class _Ahead:
    """The chunks of a run up to number `stop`, counted over all blocks. Workers make the next ones
    of this process."""

    def __init__(self, problems: FreshProblems, n_worker: int, team: Team, stop: int) -> None:
        self.problems, self.team, self.stop = problems, team, stop
        self.workers = Workers(problems, n_worker)
        self.seconds = 0.0  # spent on chunks in this process

    def __enter__(self) -> _Ahead:
        return self

    def __exit__(self, *error: object) -> None:
        self.workers.close()

    def text(self, block: _Block, number: int) -> bytes:
        """Returns the text of a chunk."""
        counted = block.number * n_chunks(block) + number
        return self.team.in_turn(counted, lambda: self._own(block, counted))

    def _own(self, block: _Block, counted: int) -> bytes:
        """Returns the text of a chunk that this process makes. Asks workers for its next ones."""
        per_block, world = n_chunks(block), self.team.world_size
        if self.seconds > START:
            ahead = range(counted + world, self.stop, world)[: self.workers.capacity]
            for number in ahead:
                of, at = divmod(number, per_block)
                self.workers.ask(chunk_of(_Block(of, block.size), at))
        chunk = chunk_of(block, counted % per_block)
        if (text := self.workers.answer(chunk)) is None:
            began = time.perf_counter()
            text = make(self.problems, chunk)
            self.seconds += time.perf_counter() - began
        return text
