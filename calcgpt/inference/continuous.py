"""Continuous batching: sequences that begin and end at different times are decoded together.

It needs a decoder that writes greedily by itself (`GreedyWriter`). Other decoders continue prompts
of one length, which begin together (`calcgpt.inference.generate`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from calcgpt.inference.generate import Completion, GreedyWriter, Ints, room_after, until_end


@dataclass(frozen=True)
class RunResult:
    """The result of writing some tokens."""

    sizes: list[int]  # rows of each forward pass, including passes that read prompts
    finished: dict[int, Completion]  # by row


class ContinuousBatch:
    """Continues sequences greedily. New ones can be added at any time, without waiting for others
    to end (iteration-level scheduling; Yu et al. 2022, Orca).

    A sequence ends with `stop_token`, or when the model's context is full.
    """

    def __init__(self, model: GreedyWriter, stop_token: int) -> None:
        self._model, self._stop_token = model, stop_token
        self._cache = model.new_array_cache(1, model.config.block_size)
        self._cache.select(np.zeros(0, np.int64))
        self._n_added = 0
        self._reads: list[int] = []  # rows of the prompts that were read since the last run
        self._completions: dict[int, Completion] = {}
        self._limits: dict[int, int] = {}  # tokens for which there is room in the context
        self.rows: list[int] = []  # the open ones, in the order of the cache

    def add(self, prompts: Sequence[Sequence[int]]) -> list[int]:
        """Reads prompts of at least one token, those of one length together, and writes the first
        token of each. Returns the new rows, in this order."""
        rows = list(range(self._n_added, self._n_added + len(prompts)))
        self._n_added += len(prompts)
        alike: dict[int, list[int]] = {}
        for row, prompt in zip(rows, prompts, strict=True):
            self._completions[row] = Completion()
            self._limits[row] = room_after(self._model, len(prompt))
            if self._limits[row] > 0:
                alike.setdefault(len(prompt), []).append(row)
        for new in alike.values():
            self._join(new, np.array([prompts[row - rows[0]] for row in new], np.int64))
        self._keep_those_with_room()
        return rows

    def _join(self, rows: list[int], tokens_RP: Ints) -> None:
        tokens_R, probabilities_R = self._model.join(tokens_RP, self._cache, self._stop_token)
        self._reads.append(len(rows))
        written = zip(rows, tokens_R.tolist(), probabilities_R.tolist(), strict=True)
        for row, token, probability in written:
            self._completions[row].extend([token], [probability])
            if token != self._stop_token:
                self.rows.append(row)

    def run(self, length: int) -> RunResult:
        """Adds up to `length` tokens to every open row. Returns what ended since the last time."""
        sizes, self._reads = self._reads, []
        if rows := self.rows:
            last_B1 = np.array([[self._completions[row].ids[-1]] for row in rows], np.int64)
            length = min(length, *(self._n_left(row) for row in rows))
            written = self._model.extend(last_B1, self._cache, self._stop_token, length)
            n_open = (written[0] >= 0).sum(axis=0)
            sizes += n_open[n_open > 0].tolist()  # all rows may end before `length`
            for row, ids, probabilities in zip(rows, *until_end(*written), strict=True):
                self._completions[row].extend(ids, probabilities)
            # The decoder has dropped the rows that stopped.
            self.rows = [row for row in rows if self._completions[row].ids[-1] != self._stop_token]
            self._keep_those_with_room()
        ended = self._completions.keys() - set(self.rows)
        return RunResult(sizes, {row: self._forget(row) for row in sorted(ended)})

    def drop(self, rows: Collection[int]) -> None:
        """Removes these rows, if they are there."""
        self._keep([row for row in self.rows if row not in rows])
        for row in self._completions.keys() & set(rows):
            self._forget(row)

    def _n_left(self, row: int) -> int:
        return self._limits[row] - len(self._completions[row].ids)

    def _keep(self, rows: list[int]) -> None:
        """Removes all rows but these, without forgetting what the others wrote."""
        if len(rows) < len(self.rows):
            indices = [self.rows.index(row) for row in rows]
            self._cache.select(np.array(indices, np.int64))
            self.rows = rows

    def _keep_those_with_room(self) -> None:
        self._keep([row for row in self.rows if self._n_left(row) > 0])

    def _forget(self, row: int) -> Completion:
        del self._limits[row]
        return self._completions.pop(row)
