"""Which split a problem belongs to: a property of the problem alone.

Problems are held out by a hash, not by a list, so that no seed's test problem is another seed's
training problem. Two problems that ask the same thing, `3 + 5` and `5 + 3`, or `5 / 2` and
`5.0 / 2`, have the same hash: knowing the one is knowing the other.
"""

import enum

import numpy as np
from numpy.typing import NDArray

from datagen.arithmetic import ADD, MUL, OPERATIONS, Operation, Problem, ProblemArray


class Split(enum.StrEnum):
    """The three parts of a data set, named as their files are."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


DESCRIPTION = (
    "by a hash of the operation and the operands' values (for + and * in either order): "
    "1/32 of all problems are validation, 1/32 test, the rest training, whatever the seed"
)

# Which values of the hash's highest five bits make a problem belong to a split.
_SHARES = {Split.VAL: range(0, 1), Split.TEST: range(1, 2), Split.TRAIN: range(2, 32)}
_SHARE_SHIFT = 59
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
    # Where to swap, add the difference to one and take it from the other (faster than `where`).
    difference = (problems.b - problems.a) * (commutative & (problems.a > problems.b))
    first = (problems.a + difference).view(np.uint64)
    second = (problems.b - difference).view(np.uint64)
    starts = (np.arange(1, len(OPERATIONS) + 1, dtype=np.uint64)) * np.uint64(_INCREMENT)
    return _mix_array(_mix_array(starts[problems.op] + first) + second)


def split_of(problem: Problem) -> Split:
    """The split that a problem belongs to."""
    bits = problem_hash(problem) >> _SHARE_SHIFT
    return next(split for split, share in _SHARES.items() if bits in share)


def belongs(hashes: NDArray[np.uint64], split: Split) -> NDArray[np.bool_]:
    """Which of these `problem_hashes` belong to a split; (n,)."""
    bits = hashes >> np.uint64(_SHARE_SHIFT)
    share = _SHARES[split]
    return np.asarray((bits >= share.start) & (bits < share.stop))


def _mix(state: int) -> int:
    """The finaliser of the SplitMix64 generator: each input bit changes each output bit."""
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
    return state ^ state >> 31


def _mix_array(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The same for an array, in place; unsigned array arithmetic wraps around by definition."""
    state ^= state >> np.uint64(30)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(27)
    state *= np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return state
