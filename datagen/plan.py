"""What a data set is made from: everything that its bytes depend on.

The text of a data set, in blocks that can be computed anywhere and in any order.

A block is a fixed number of problems with a bit generator of its own. It is the unit of randomness,
so neither who computes it nor how often progress is noted changes a byte.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.random import BitGenerator
from numpy.typing import NDArray

from datagen import distributions
from datagen.arithmetic import OPERATIONS, ProblemArray
from datagen.drawing import bit_generator
from datagen.errors import DataError
from datagen.formats import LineFormat, line_format
from datagen.splits import Split, belongs, problem_hashes

MAX_TRAIN = 10**10  # 370 GB
MAX_HELD_OUT = 10**6  # they are kept in memory, to hold none twice
MAX_SEED = 2**63 - 1

GENERATOR = 1  # to be raised by whatever changes the bytes that a plan stands for


@dataclass(frozen=True)
class DatasetPlan:
    """How many problems of each split, drawn from which seed and distribution, written how.

    Equal plans give equal bytes. DataError, naming the field, where one makes no sense.
    """

    train: int
    val: int
    test: int
    seed: int
    distribution: str = "blog"
    format: str = "direct"
    digits: int | None = None  # of the steps; None: as many as the format has by default, or none

    def __post_init__(self) -> None:
        _check("train", self.train, 1, MAX_TRAIN)
        _check("val", self.val, 1, MAX_HELD_OUT)
        _check("test", self.test, 1, MAX_HELD_OUT)
        _check("seed", self.seed, 0, MAX_SEED)
        distributions.distribution(self.distribution)  # raises if there is none of that name
        object.__setattr__(self, "digits", self.line_format.digits)  # raises if there is no such

    @property
    def line_format(self) -> LineFormat:
        """How the problems are written."""
        return line_format(self.format, self.digits)

    @property
    def counts(self) -> dict[Split, int]:
        """How many problems each split is to have."""
        return {Split.TRAIN: self.train, Split.VAL: self.val, Split.TEST: self.test}


def _check(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise DataError(f"{name} must be an integer from {low:,} to {high:,}, not {value!r}")


BLOCK = 65_536
_DRAWN = BLOCK + BLOCK // 8  # at a time: enough to have BLOCK left when 2/32 are held out
_PATIENCE = 64  # draws in a row that may bring nothing new


@dataclass
class Shard:
    """Some lines of a file, and how many of them there are for each operation."""

    text: list[bytes] = field(default_factory=list)
    operations: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(len(OPERATIONS), np.int64)
    )

    @property
    def problems(self) -> int:
        """The number of lines."""
        return int(self.operations.sum())

    def append(self, problems: ProblemArray, plan: DatasetPlan) -> None:
        """Add the lines of these problems."""
        self.text.append(plan.line_format.render_lines(problems))
        self.operations += np.bincount(problems.op, minlength=len(OPERATIONS))


def train_shard(plan: DatasetPlan, block: int) -> Shard:
    """A block of the training file, cut where the file ends.

    Training problems are drawn independently, as the distribution has them: some occur twice.
    """
    draw = distributions.distribution(plan.distribution)
    bits = _bits(plan, Split.TRAIN, block)
    shard, missing = Shard(), min(BLOCK, plan.train - BLOCK * block)
    for _ in range(_PATIENCE):
        for problems in draw(bits, _DRAWN):
            usable = belongs(problem_hashes(problems), Split.TRAIN) & plan.line_format.fits(
                problems
            )
            rows = np.flatnonzero(usable)[:missing]
            shard.append(problems.take(rows), plan)
            missing -= len(rows)
            if not missing:
                return shard
    raise DataError(f"the distribution {plan.distribution!r} has too few training problems")


def held_out_shard(plan: DatasetPlan, split: Split) -> Shard:
    """The whole of the validation or the test file, in which no problem occurs twice.

    DataError if the distribution does not have that many different problems to hold out.
    """
    draw = distributions.distribution(plan.distribution)
    shard, missing = Shard(), plan.counts[split]
    seen: set[int] = set()
    block, last_new = 0, 0
    while block - last_new < _PATIENCE:
        for problems in draw(_bits(plan, split, block), _DRAWN):
            problems = problems.take(np.flatnonzero(plan.line_format.fits(problems)))
            rows = _new_rows(problem_hashes(problems), split, seen)[:missing]
            shard.append(problems.take(rows), plan)
            missing -= len(rows)
            if not missing:
                return shard
            if len(rows):
                last_new = block
        block += 1
    raise DataError(
        f"the distribution {plan.distribution!r} has too few different problems "
        f"for {split}={plan.counts[split]:,}: found {plan.counts[split] - missing:,}"
    )


def _new_rows(hashes: NDArray[np.uint64], split: Split, seen: set[int]) -> NDArray[np.intp]:
    """The rows that belong to a split and were not seen before; they are added to `seen`."""
    new = []
    rows = np.flatnonzero(belongs(hashes, split))
    for row, key in zip(rows.tolist(), hashes[rows].tolist(), strict=True):
        if key not in seen:
            seen.add(key)
            new.append(row)
    return np.array(new, np.intp)


def _bits(plan: DatasetPlan, split: Split, block: int) -> BitGenerator:
    return bit_generator(plan.seed, list(Split).index(split), block)
