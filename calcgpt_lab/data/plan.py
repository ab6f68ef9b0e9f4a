"""The plan of a data set, which determines all its bytes, and the shards that it consists of.

The training file consists of blocks. Each block has a fixed number of problems and a separate bit
generator, so blocks can be computed by any process and in any order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from calcgpt.base.errors import DataError
from calcgpt.config import Distribution, Format
from calcgpt.section import Section
from calcgpt.variants import Variant
from datagen import distributions
from datagen.arithmetic import MAX_ASKED_PLACES, ProblemArray
from datagen.formats import FORMATS
from datagen.operations import OPERATIONS
from datagen.sampling import MAX_SEED, bit_generator
from datagen.splits import Split, is_in_split, problem_hashes

MAX_TRAIN = 10**10  # 370 GB
MAX_HELD_OUT = 10**6  # their hashes are kept in memory, so that none occurs twice

GENERATOR_VERSION = 3  # the version of the bytes of a plan: raise it with every change to them

BLOCK = 65_536  # problems
_DRAWN = BLOCK + BLOCK // 8  # problems drawn at a time: BLOCK are left when 2/32 are held out
_MAX_FAILURES = 64  # draws in a row without a new problem


class DatasetPlan(Section):
    """The sizes, seed, distribution and format of a data set. Equal plans give equal bytes.

    All problems ask for `places` places, or for as many as the distribution draws if it is None.
    """

    train: int = Field(ge=1, le=MAX_TRAIN)
    val: int = Field(ge=1, le=MAX_HELD_OUT)
    test: int = Field(ge=1, le=MAX_HELD_OUT)
    seed: int = Field(0, ge=0, le=MAX_SEED)
    distribution: Variant[Distribution] = "blog"
    format: Variant[Format] = "direct"
    places: int | None = Field(None, ge=0, le=MAX_ASKED_PLACES)

    @property
    def counts(self) -> dict[Split, int]:
        """The number of problems in each split."""
        return {Split.TRAIN: self.train, Split.VAL: self.val, Split.TEST: self.test}


@dataclass
class Shard:
    """Lines of a file, and the number of lines of each operation."""

    text: list[bytes] = field(default_factory=list)
    operations: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(len(OPERATIONS), np.int64)
    )

    @property
    def problems(self) -> int:
        """The number of lines."""
        return int(self.operations.sum())

    def append(self, problems: ProblemArray, plan: DatasetPlan) -> None:
        """Adds the lines of these problems."""
        if plan.places is not None:
            problems = replace(problems, places=np.array(plan.places, np.uint16))
        self.text.append(FORMATS[plan.format](problems))
        self.operations += np.bincount(problems.op, minlength=len(OPERATIONS))


def train_shard(plan: DatasetPlan, block: int) -> Shard:
    """Returns a block of the training file. The last block may be shorter than BLOCK.

    Training problems are drawn independently, so some occur twice. Raises DataError if the
    distribution has too few training problems.
    """
    draw = distributions.distribution(plan.distribution)
    bits = bit_generator(plan.seed, list(Split).index(Split.TRAIN), block)
    shard, missing = Shard(), min(BLOCK, plan.train - BLOCK * block)
    for _ in range(_MAX_FAILURES):
        for problems in draw(bits, _DRAWN):
            is_training = is_in_split(problem_hashes(problems), Split.TRAIN)
            rows = np.flatnonzero(is_training)[:missing]
            shard.append(problems.take(rows), plan)
            missing -= len(rows)
            if not missing:
                return shard
    raise DataError(f"the distribution {plan.distribution!r} has too few training problems")


def held_out_shard(plan: DatasetPlan, split: Split) -> Shard:
    """Returns the whole validation or test file. No problem occurs twice.

    Raises DataError if the distribution has too few different problems.
    """
    shard, count = Shard(), plan.counts[split]
    for problems in held_out_problems(plan.distribution, plan.seed, split, count, _DRAWN):
        shard.append(problems, plan)
    if shard.problems < count:
        raise DataError(
            f"the distribution {plan.distribution!r} has too few different problems "
            f"for {split}={count:,}: only {shard.problems:,}"
        )
    return shard


def held_out_problems(
    name: str,
    seed: int,
    split: Split,
    count: int,
    n_drawn: int,
    allowed: NDArray[np.bool_] | None = None,
) -> Iterator[ProblemArray]:
    """Yields `count` validation or test problems of a distribution, all different, in parts. Yields
    fewer if the distribution hardly has more.

    `n_drawn` problems are drawn at a time. `allowed` says of each operation whether it may occur.
    """
    draw, stream = distributions.distribution(name), list(Split).index(split)
    seen: set[int] = set()  # hashes
    missing, block, last_new = count, 0, 0
    while missing and block - last_new < _MAX_FAILURES:
        for problems in draw(bit_generator(seed, stream, block), n_drawn):
            hashes = problem_hashes(problems)
            usable = is_in_split(hashes, split)
            if allowed is not None:
                usable &= allowed[problems.op]
            rows = new_rows(hashes, usable, seen)[:missing]
            yield problems.take(rows)
            missing -= len(rows)
            last_new = block if len(rows) else last_new
        block += 1


def new_rows(
    hashes: NDArray[np.uint64], usable: NDArray[np.bool_], seen: set[int]
) -> NDArray[np.intp]:
    """Returns the indices of the usable rows whose hashes are not in `seen`, and adds their hashes
    to it. `usable` is a mask, (n,)."""
    new = []
    rows = np.flatnonzero(usable)
    for row, value in zip(rows.tolist(), hashes[rows].tolist(), strict=True):
        if value not in seen:
            seen.add(value)
            new.append(row)
    return np.array(new, np.intp)
