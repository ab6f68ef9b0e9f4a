"""The text of a data set, in pieces that can be computed anywhere and in any order.

The unit of randomness is a block of a fixed number of problems, each block with a bit generator of
its own; so neither the size of a shard (a run of blocks) nor who computes it changes a byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import BitGenerator

from datagen import sampling
from datagen.errors import DatasetError
from datagen.plan import DatasetPlan
from datagen.splits import Split, belongs, problem_hashes
from datagen.vectorised import OPERATIONS, ProblemArray, render_lines

BLOCK = 65_536
_DRAWN = BLOCK + BLOCK // 8  # at a time: enough to have BLOCK left when 2/32 are held out
_PATIENCE = 64  # draws in a row that may bring nothing new


@dataclass(frozen=True)
class Shard:
    """Some lines of a file, and how many problems of each operation they hold."""

    text: bytes
    operations: dict[str, int]

    @property
    def problems(self) -> int:
        """The number of lines."""
        return sum(self.operations.values())


def train_shard(plan: DatasetPlan, blocks: range) -> Shard:
    """Consecutive blocks of the training file, the last one cut where the file ends.

    Training problems are drawn independently, as the distribution has them: some occur twice.
    """
    parts = [_train_block(plan, block)[: plan.train - BLOCK * block] for block in blocks]
    return _shard(parts)


def held_out_shard(plan: DatasetPlan, split: Split) -> Shard:
    """The whole of the validation or the test file, in which no problem occurs twice.

    DatasetError if the distribution does not have that many different problems to hold out.
    """
    draw = sampling.distribution(plan.distribution)
    missing = plan.counts[split]
    seen: set[int] = set()
    parts: list[ProblemArray] = []
    block, fruitless = 0, 0
    while missing and fruitless < _PATIENCE:
        problems = draw(_bits(plan, split, block), _DRAWN)
        hashes = problem_hashes(problems)
        new: list[int] = []
        rows = np.flatnonzero(belongs(hashes, split))
        for row, key in zip(rows.tolist(), hashes[rows].tolist(), strict=True):
            if key not in seen:
                seen.add(key)
                new.append(row)
        new = new[:missing]
        missing -= len(new)
        parts.append(problems[np.array(new, np.intp)])
        block, fruitless = block + 1, 0 if new else fruitless + 1
    if missing:
        raise DatasetError(
            f"the distribution {plan.distribution!r} has too few different problems "
            f"for {split}={plan.counts[split]:,}: found {plan.counts[split] - missing:,}"
        )
    return _shard(parts)


def _train_block(plan: DatasetPlan, block: int) -> ProblemArray:
    """BLOCK problems, none of them held out."""
    draw = sampling.distribution(plan.distribution)
    bits = _bits(plan, Split.TRAIN, block)
    parts: list[ProblemArray] = []
    for _ in range(_PATIENCE):
        problems = draw(bits, _DRAWN)
        parts.append(problems[belongs(problem_hashes(problems), Split.TRAIN)])
        if sum(map(len, parts)) >= BLOCK:
            return ProblemArray.concatenate(parts)[:BLOCK]
    raise DatasetError(f"the distribution {plan.distribution!r} has too few training problems")


def _bits(plan: DatasetPlan, split: Split, block: int) -> BitGenerator:
    return sampling.bit_generator(plan.seed, list(Split).index(split), block)


def _shard(parts: Sequence[ProblemArray]) -> Shard:
    text = b"".join(render_lines(part) for part in parts)
    codes = np.concatenate([part.op for part in parts])
    counts = np.bincount(codes, minlength=len(OPERATIONS)).tolist()
    return Shard(text, {str(op): n for op, n in zip(OPERATIONS, counts, strict=True)})
