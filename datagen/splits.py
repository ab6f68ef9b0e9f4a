"""The split of a problem, which depends on the problem alone.

A hash decides, so that a test problem of one seed is never a training problem of another.
Equivalent problems, such as `3 + 5` and `5 + 3`, or `5 / 2` and `5.0 / 2`, have the same hash.
"""

import enum

import numpy as np
from numpy.typing import NDArray

from datagen.arithmetic import USUAL_PLACES, Problem, ProblemArray
from datagen.operations import OPERATIONS


class Split(enum.StrEnum):
    """The three parts of a data set, named as their files are."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


# The values of the highest five bits of the hash that belong to a split.
_SHARES = {Split.VAL: range(0, 1), Split.TEST: range(1, 2), Split.TRAIN: range(2, 32)}
_SHARE_SHIFT = 59
_MASK = 2**64 - 1
_INCREMENT = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: its bits have no pattern
_CONTINUED = 9 * _INCREMENT  # added to the higher words of an operand


def problem_hash(problem: Problem) -> int:
    """Returns 64 bits that depend on the operation and the operands' values, not on how they are
    written, nor on the places of the answer."""
    scale = max(USUAL_PLACES, problem.a.places, problem.b.places)
    code = OPERATIONS.index(problem.op)
    return _hash(code, problem.a.scaled(scale), problem.b.scaled(scale), scale)


def _hash(op: int, a: int, b: int, scale: int) -> int:
    """Returns the hash of an operation on operands in units of 10**-scale."""
    if OPERATIONS[op].commutes and a > b:
        a, b = b, a
    state = (op + 1) * _INCREMENT & _MASK
    for units in (a, b):
        places = scale - USUAL_PLACES  # beyond two
        while places and units % 10 == 0:
            units, places = units // 10, places - 1
        state = _mix(state + units + places * _INCREMENT & _MASK)
        while not -(2**63) <= units < 2**63:  # more than 64 bits
            units >>= 64
            state = _mix(state + units + _CONTINUED & _MASK)
    return state


def problem_hashes(problems: ProblemArray) -> NDArray[np.uint64]:
    """Returns the hashes of an array of problems, (n,)."""
    if problems.a.dtype == object or problems.b.dtype == object:
        columns = (column.tolist() for column in (problems.op, problems.a, problems.b))
        hashes = [_hash(op, a, b, problems.scale) for op, a, b in zip(*columns, strict=True)]
        return np.array(hashes, np.uint64)
    commutative = np.array([operation.commutes for operation in OPERATIONS]).take(problems.op)
    # Swaps a and b: adds the difference to one and takes it from the other (faster than `where`).
    difference = (problems.b - problems.a) * (commutative & (problems.a > problems.b))
    first = _values(problems.a + difference, problems.scale)
    second = _values(problems.b - difference, problems.scale)
    starts = np.arange(1, len(OPERATIONS) + 1, dtype=np.uint64) * np.uint64(_INCREMENT)
    return _mix_array(_mix_array(starts[problems.op] + first) + second)


def _values(units: NDArray[np.int64], scale: int) -> NDArray[np.uint64]:
    """Returns the inputs of the hash for operands in units of 10**-scale, (n,)."""
    if scale == USUAL_PLACES:
        return units.view(np.uint64)
    places = np.full(len(units), scale - USUAL_PLACES, np.uint64)  # beyond two
    for _ in range(scale - USUAL_PLACES):
        shorter, rest = np.divmod(units, 10)
        superfluous = (rest == 0) & (places > 0)
        units = np.where(superfluous, shorter, units)
        places -= superfluous
    return units.view(np.uint64) + places * np.uint64(_INCREMENT)


def next_words(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns words, (n,), that follow from `words` but look independent of them."""
    return _mix_array(words + np.uint64(_INCREMENT))


def split_of_hash(value: int) -> Split:
    """Returns the split of what has this hash, of 64 bits."""
    bits = value >> _SHARE_SHIFT
    return next(split for split, share in _SHARES.items() if bits in share)


def is_in_split(hashes: NDArray[np.uint64], split: Split) -> NDArray[np.bool_]:
    """Returns a mask, (n,), of the `problem_hashes` that belong to a split."""
    bits = hashes >> np.uint64(_SHARE_SHIFT)
    share = _SHARES[split]
    return np.asarray((bits >= share.start) & (bits < share.stop))


def _mix(state: int) -> int:
    """The finaliser of SplitMix64 (Steele et al. 2014): each input bit affects each output bit."""
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
    return state ^ state >> 31


def _mix_array(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The same as `_mix` for an array, in place. Unsigned arithmetic of arrays wraps around."""
    state ^= state >> np.uint64(30)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(27)
    state *= np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return state
