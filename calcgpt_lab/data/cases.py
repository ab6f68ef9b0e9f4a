"""Batches of cases: what the rules of worked steps read and write (`datagen.cases`), without text.

A model whose next character is a function of the case (`calcgpt_lab.model.sources`) learns from
them all that it would learn from lines.

Shapes: n cases, B of a batch, R MAX_SOURCES, V tokens.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from calcgpt.base.errors import DataError
from calcgpt.config import TrainConfig
from calcgpt.tokenizer import Tokenizer
from calcgpt_lab.data.batches import Batch, BatchSource
from datagen.cases import Cases, all_cases
from datagen.operations import OPERATIONS, SIGNS

HARD_SHARE = 0.25  # of a batch that is drawn from hard cases
MOST_DRAWS = 8  # of a hard case in a batch, on average
LEAST_SHARE = 0.004  # of a kind
HARD = "batches.hard"  # in the state of a run


class CaseBatches(BatchSource):
    """Random cases of some operations. The share of a kind grows with the root of its number of
    cases. A quarter of a batch are hard cases, if there are some (`set_hard`)."""

    one_width = True

    def __init__(
        self,
        text: str,
        tokenizer: Tokenizer,
        config: TrainConfig,
        block_size: int,
        operations: Collection[str] = SIGNS,
    ) -> None:
        if text:
            raise DataError("batches 'cases' are made without a data folder")
        self.seed = config.seed
        self.features, self.right = case_arrays(cases_of(operations), tokenizer)
        rng = np.random.default_rng(config.seed)
        #: Which cases are never drawn, (n,).
        self.held_out = rng.random(len(self.features)) >= config.case_share
        self._rows = np.flatnonzero(~self.held_out)
        counts = np.unique(self.features[self._rows, 0], return_counts=True)[1]
        shares = np.sqrt(counts) / np.sqrt(counts).sum()
        self._shares = np.maximum(shares, LEAST_SHARE) / np.maximum(shares, LEAST_SHARE).sum()
        self._ends = counts.cumsum()
        self._counts = counts
        self.set_hard(np.zeros(len(self.features), bool))

    def set_hard(self, flags: npt.NDArray[np.bool_]) -> None:
        """Says which cases are hard, (n,)."""
        import torch

        self.state = {HARD: torch.from_numpy(flags & ~self.held_out)}

    def batch(self, step: int, size: int) -> Batch:
        import torch

        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence((self.seed, step))))
        hard = np.flatnonzero(self.state[HARD].numpy())
        n_hard = min(int(size * HARD_SHARE), MOST_DRAWS * len(hard))
        kinds = rng.choice(len(self._counts), size - n_hard, p=self._shares)
        rows = self._rows[self._ends[kinds] - 1 - rng.integers(self._counts[kinds])]
        if n_hard:
            rows = np.concatenate((rows, hard[rng.integers(len(hard), size=n_hard)]))
        features = self.features[rows, None].astype(np.int64)
        return torch.from_numpy(features), torch.from_numpy(self.right[rows, None])


def cases_of(operations: Collection[str]) -> Cases:
    """Returns the cases of all rules but those that only other operations have."""
    kinds = {op: {kind for step in op.rules.values() for kind in step} for op in OPERATIONS}
    kept = set[int]().union(*(kinds[op] for op in OPERATIONS if op in operations))
    others = set[int]().union(*kinds.values()) - kept
    cases = all_cases()
    rows = ~np.isin(cases.kinds, list(others))
    return Cases(*(column[rows] for column in cases))


def case_arrays(
    cases: Cases, tokenizer: Tokenizer
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Returns cases as a model takes them, (n, 1 + R): kinds, and tokens, -1 for none. Also returns
    flags of the tokens that are right, (n, V)."""
    vocabulary = tokenizer.require_characters().vocabulary
    tokens = np.full(256, -1, np.int8)
    tokens[np.frombuffer(vocabulary.encode("ascii"), np.uint8)] = np.arange(len(vocabulary))
    features = np.empty((len(cases.kinds), 1 + cases.sources.shape[1]), np.int8)
    features[:, 0], features[:, 1:] = cases.kinds, tokens[cases.sources]
    right = np.zeros((len(features), len(vocabulary)), bool)
    for column in tokens[cases.right].T:
        right[np.arange(len(right)), column] = True
    return features, right
