"""Text to batches.

A batch depends on the seed and the step only. A resumed run therefore sees the batches of an
uninterrupted run, and checkpoints do not store the order of the data.

Shapes: B sequences, T tokens. Targets are the next tokens; the target -100 carries no loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from calcgpt.base.errors import DataError
from calcgpt.config import TrainConfig
from calcgpt.tokenizer import Tokenizer, code_points

if TYPE_CHECKING:  # scoring by another engine takes lines as arrays
    import torch

Ints = npt.NDArray[np.int64]
# Inputs and targets, each int64 (B, T). Targets may also be flags of all tokens that are right, (B,
# T, V): where several are, any of them will do.
Batch: TypeAlias = "tuple[torch.Tensor, torch.Tensor]"
NO_LOSS = -100  # the target that torch's cross-entropy ignores


class BatchSource(ABC):
    """Batches of one split."""

    one_width = False  # whether all batches have the same width
    # Tensors that batches depend on beside the seed, by name. A run saves and restores them.
    state: Mapping[str, torch.Tensor] = {}

    @abstractmethod
    def batch(self, step: int, size: int) -> Batch:
        """Returns the batch of step `step` (from 0), `size` sequences. A pure function of the seed,
        the state and the two arguments."""


class StreamBatches(BatchSource):
    """Random windows of `block_size` tokens from one long text, with loss on every token.

    These are the batches of the blog. Raises DataError if the text is too short for a window.
    """

    one_width = True

    def __init__(
        self, text: str, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> None:
        self.ids = tokenizer.encode(text.replace("\n", "") if config.join_lines else text)
        self.block_size = block_size
        self.seed = config.seed
        if len(self.ids) <= block_size:
            raise DataError(
                f"a block of {block_size} tokens needs a longer text than {len(self.ids)} tokens"
            )

    def batch(self, step: int, size: int) -> Batch:
        starts = _rng(self.seed, step).integers(len(self.ids) - self.block_size, size=size)
        windows = self.ids[starts[:, None] + np.arange(self.block_size + 1)].astype(np.int64)
        return _as_tensors(windows[:, :-1], windows[:, 1:])


class ProblemLines:
    """Problems, one per line, as tokens, with loss after the first `=` only.

    `text` is a string, or ASCII bytes that end in a newline. Raises DataError for a line without
    `=` or one that does not fit in `block_size`, and if a token may be longer than one character.

    Shapes: `starts`, `lengths` and `equals` are (n,); `ids` holds all characters without newlines.
    """

    def __init__(
        self, text: str | bytes, tokenizer: Tokenizer, block_size: int | None = None
    ) -> None:
        tokenizer = tokenizer.require_characters()
        if isinstance(text, str):  # line ends of other systems
            text = "".join(f"{line}\n" for line in text.splitlines())
        points = code_points(text)
        is_newline = points == ord("\n")
        self.lengths = np.diff(np.flatnonzero(is_newline), prepend=-1) - 1
        self.starts = np.cumsum(self.lengths) - self.lengths  # in `ids`, which has no newlines
        characters = points[~is_newline]
        self.ids = tokenizer.encode_points(characters)
        is_equals = characters == ord("=")
        if not self.lengths.all() or not np.logical_or.reduceat(is_equals, self.starts).all():
            raise DataError("batches 'problems' need one problem per line, each with an '='")
        # Index of the first `=` of each line, relative to the line's start.
        positions = np.flatnonzero(is_equals)
        self.equals = positions[np.searchsorted(positions, self.starts)] - self.starts
        longest = self.lengths.max()
        if block_size is not None and longest - 1 > block_size:  # the last is only a target
            raise DataError(
                f"a problem of {longest} characters does not fit in {block_size} tokens: "
                f"model.block_size must be at least {longest - 1}"
            )

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: npt.NDArray[np.intp]) -> Batch:
        """Returns the lines at these indices, in this order."""
        return _as_tensors(*self.arrays(rows))

    def arrays(self, rows: npt.NDArray[np.intp]) -> tuple[Ints, Ints]:
        """Returns the same as `batch`, as arrays."""
        lengths = self.lengths[rows, None]
        columns = np.arange(lengths.max())
        # Shorter lines are padded with their own last character, which is never a target.
        ids = self.ids[self.starts[rows, None] + np.minimum(columns, lengths - 1)].astype(np.int64)
        has_loss = (columns < lengths) & (columns > self.equals[rows, None])
        targets = np.where(has_loss, ids, NO_LOSS)[:, 1:]
        return ids[:, :-1], targets


class ProblemBatches(BatchSource):
    """One problem per row, shuffled in every epoch.

    Raises DataError for a line without `=` or an answer, or one that does not fit in `block_size`.
    """

    def __init__(
        self, text: str | bytes, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> None:
        self.lines = ProblemLines(text, tokenizer, block_size)
        if (self.lines.equals == self.lines.lengths - 1).any():  # nothing to learn: no targets
            raise DataError("batches 'problems' need an answer after the '=' of each line")
        self.seed = config.seed
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def batch(self, step: int, size: int) -> Batch:
        epochs, positions = np.divmod(np.arange(step * size, (step + 1) * size), len(self.lines))
        rows = [self._shuffled(int(e))[positions[epochs == e]] for e in np.unique(epochs)]
        return self.lines.batch(np.concatenate(rows))

    def _shuffled(self, epoch: int) -> npt.NDArray[np.int64]:
        if epoch != self._epoch:
            self._order = _rng(self.seed, epoch).permutation(len(self.lines))
            self._epoch = epoch
        return self._order


def has_loss(targets: torch.Tensor) -> torch.Tensor:
    """Returns which positions have a target, (B, T)."""
    return targets.any(dim=2) if targets.dim() == 3 else targets != NO_LOSS


def micro_batches(batch: Batch, count: int) -> list[Batch]:
    """Returns the rows in `count` parts of about as many rows, each as narrow as its targets allow.

    Rows of similar length share a part, which saves padding; the first part has the shortest. With
    a count of 1, returns the batch itself.
    """
    if count == 1:
        return [batch]
    import torch

    inputs, targets = batch
    columns = torch.arange(1, targets.size(1) + 1)
    lengths = (has_loss(targets) * columns).amax(dim=1)  # up to the last target
    order = lengths.argsort(stable=True)
    parts = zip(order.tensor_split(count), lengths[order].tensor_split(count), strict=True)
    return [(inputs[rows, : width[-1]], targets[rows, : width[-1]]) for rows, width in parts]


def _as_tensors(inputs: Ints, targets: Ints) -> Batch:
    import torch

    return torch.from_numpy(inputs), torch.from_numpy(targets)


def _rng(seed: int, index: int) -> np.random.Generator:
    """Returns a generator for one step or epoch, independent of all others."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, index))))
