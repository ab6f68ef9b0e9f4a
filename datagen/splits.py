"""Which split a problem belongs to: a property of the problem alone.

Problems are held out by a hash, not by a list, so that no seed's test problem is another seed's
training problem. Two problems that ask the same thing, `3 + 5` and `5 + 3`, or `5 / 2` and
`5.0 / 2`, have the same hash: knowing the one is knowing the other.
"""

import enum

import numpy as np
from numpy.typing import NDArray

from datagen.arithmetic import Operation, Problem
from datagen.vectorised import ADD, MUL, OPERATIONS, ProblemArray


class Split(enum.StrEnum):
    """The three parts of a data set, named as their files are."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


DESCRIPTION = (
    "by a hash of the operation and the operands' values (for + and * in either order): "
    "1/32 of all problems are validation, 1/32 test, the rest training, whatever the seed"
)

# Of the 32 values of the hash's highest five bits, one each is held out.
_SPLITS = (Split.VAL, Split.TEST, *[Split.TRAIN] * 30)
_SPLIT_SHIFT = 59
_MASK = 2**64 - 1
_INCREMENT = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: far from any pattern


def problem_hash(problem: Problem) -> int:
    """64 bits that depend on what is asked, not on how it is written."""
    operands = problem.a.hundredths, problem.b.hundredths
    if problem.op in (Operation.ADD, Operation.MUL):
        operands = min(operands), max(operands)
    state = (OPERATIONS.index(problem.op) + 1) * _INCREMENT & _MASK
    for operand in operands:
        state = _mix(state + operand & _MASK)
    return state


def problem_hashes(problems: ProblemArray) -> NDArray[np.uint64]:
    """The same for an array of problems; (n,)."""
    commutative = (problems.op == ADD) | (problems.op == MUL)
    swap = commutative & (problems.a > problems.b)
    first = np.where(swap, problems.b, problems.a).view(np.uint64)
    second = np.where(swap, problems.a, problems.b).view(np.uint64)
    starts = (np.arange(1, len(OPERATIONS) + 1, dtype=np.uint64)) * np.uint64(_INCREMENT)
    return _mix_array(_mix_array(starts[problems.op] + first) + second)


def split_of(problem: Problem) -> Split:
    """The split that a problem belongs to."""
    return _SPLITS[problem_hash(problem) >> _SPLIT_SHIFT]


def belongs(hashes: NDArray[np.uint64], split: Split) -> NDArray[np.bool_]:
    """Which of these `problem_hashes` belong to a split; (n,)."""
    is_split = np.array([s == split for s in _SPLITS])
    return np.asarray(is_split[hashes >> np.uint64(_SPLIT_SHIFT)])


def _mix(state: int) -> int:
    """The finaliser of the SplitMix64 generator: each input bit changes each output bit."""
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
    return state ^ state >> 31


def _mix_array(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The same for an array; unsigned array arithmetic wraps around by definition."""
    state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return state ^ state >> np.uint64(31)
