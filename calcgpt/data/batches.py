"""Text to batches. A batch depends on the seed and the step alone, so a resumed run sees what an
uninterrupted one would have seen, and nothing about the order needs to be saved.

Shapes: B sequences, T tokens. Targets are the next tokens; -100 carries no loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from calcgpt.config import TrainConfig
from calcgpt.data.tokenizer import Tokenizer
from calcgpt.errors import DataError

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets, each int64 (B, T)
NO_LOSS = -100  # what torch's cross-entropy ignores


class BatchSource(ABC):
    """Batches of one split. `batch(step, size)` is a pure function of the seed and these two."""

    @abstractmethod
    def batch(self, step: int, size: int) -> Batch:
        """The batch of step `step` (from 0), `size` sequences."""


class StreamBatches(BatchSource):
    """One endless string, random windows of `block_size`, loss on every token (the blog's)."""

    def __init__(
        self, text: str, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> None:
        self.ids = tokenizer.encode(text.replace("\n", "") if config.join_lines else text)
        self.block_size = block_size
        self.seed = config.seed
        if len(self.ids) <= block_size:
            raise DataError(f"{len(self.ids)} tokens are too few for a block of {block_size}")

    def batch(self, step: int, size: int) -> Batch:
        starts = _rng(self.seed, step).integers(len(self.ids) - self.block_size, size=size)
        windows = self.ids[starts[:, None] + np.arange(self.block_size + 1)].astype(np.int64)
        return torch.from_numpy(windows[:, :-1]), torch.from_numpy(windows[:, 1:])


class ProblemLines:
    """Problems, one a line, as tokens; loss after the first `=` only.

    Raises DataError for a line without an `=`, or one that does not fit in `block_size`.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, block_size: int) -> None:
        lines = text.splitlines()
        self.lengths = np.array([len(line) for line in lines])
        self.starts = np.concatenate(([0], np.cumsum(self.lengths[:-1])))
        self.ids = tokenizer.encode("".join(lines))
        equals = tokenizer.encode("=")[0]
        is_equals = self.ids == equals
        if not np.logical_or.reduceat(is_equals, self.starts).all() or not self.lengths.all():
            raise DataError("batches 'problems' need one problem a line, each with an '='")
        # Index of the first `=` of each line, relative to the line's start.
        places = np.flatnonzero(is_equals)
        self.equals = places[np.searchsorted(places, self.starts)] - self.starts
        if self.lengths.max() - 1 > block_size:
            raise DataError(
                f"a problem of {self.lengths.max()} characters does not fit in {block_size} tokens"
            )

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: npt.NDArray[np.int64]) -> Batch:
        """The lines at these indices, in this order."""
        lengths = self.lengths[rows, None]
        columns = np.arange(lengths.max())
        inside = columns < lengths
        # Past a line's end stands its own last character: never looked at, never a target.
        ids = self.ids[self.starts[rows, None] + np.minimum(columns, lengths - 1)].astype(np.int64)
        has_loss = inside & (columns > self.equals[rows, None])
        targets = np.where(has_loss, ids, NO_LOSS)[:, 1:]
        return torch.from_numpy(ids[:, :-1]), torch.from_numpy(targets)


class ProblemBatches(BatchSource):
    """One problem a row, in an order shuffled anew each epoch."""

    def __init__(
        self, text: str, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> None:
        self.lines = ProblemLines(text, tokenizer, block_size)
        self.seed = config.seed
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def batch(self, step: int, size: int) -> Batch:
        drawn = np.arange(step * size, (step + 1) * size)
        rows = np.empty(size, dtype=np.int64)
        for epoch in np.unique(drawn // len(self.lines)):
            here = drawn // len(self.lines) == epoch
            rows[here] = self._shuffled(int(epoch))[drawn[here] % len(self.lines)]
        return self.lines.batch(rows)

    def _shuffled(self, epoch: int) -> npt.NDArray[np.int64]:
        if epoch != self._epoch:
            self._order = _rng(self.seed, epoch).permutation(len(self.lines))
            self._epoch = epoch
        return self._order


def micro_batches(batch: Batch, count: int) -> list[Batch]:
    """The same rows in `count` parts with equally many rows, each as narrow as its targets allow.

    Rows of about one length share a part, the shortest in the first, so that little is padding.
    One part is the batch itself.
    """
    if count == 1:
        return [batch]
    inputs, targets = batch
    columns = torch.arange(1, targets.size(1) + 1)
    lengths = ((targets != NO_LOSS) * columns).amax(dim=1)  # up to the last target
    parts = lengths.argsort(stable=True).chunk(count)
    widths = [int(lengths[rows].max()) for rows in parts]
    return [
        (inputs[rows, :width], targets[rows, :width])
        for rows, width in zip(parts, widths, strict=True)
    ]


def _rng(seed: int, index: int) -> np.random.Generator:
    """A generator for one step or epoch, independent of all others."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, index))))


# (text, tokenizer, config, block size) -> its batches
BATCHES: dict[str, Callable[[str, Tokenizer, TrainConfig, int], BatchSource]] = {
    "stream": StreamBatches,
    "problems": ProblemBatches,
}
