"""What a data set is made from: everything that its bytes depend on."""

from dataclasses import dataclass

from datagen import sampling
from datagen.errors import DatasetError
from datagen.formats import LineFormat, line_format
from datagen.splits import Split

MAX_TRAIN = 10**10  # 370 GB
MAX_HELD_OUT = 10**6  # they are kept in memory, to hold none twice
MAX_SEED = 2**63 - 1

GENERATOR = 1  # to be raised by whatever changes the bytes that a plan stands for


@dataclass(frozen=True)
class DatasetPlan:
    """How many problems of each split, drawn from which seed and distribution, written how.

    Equal plans give equal bytes. DatasetError, naming the field, where one makes no sense.
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
        sampling.distribution(self.distribution)  # raises if there is none of that name
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
        raise DatasetError(f"{name} must be an integer from {low:,} to {high:,}, not {value!r}")
