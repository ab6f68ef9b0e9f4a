"""Which split a problem belongs to."""

from collections import Counter
from dataclasses import replace

import numpy as np
from datagen_strategies import any_problems, problems
from hypothesis import given
from hypothesis import strategies as st

from datagen.arithmetic import Number, Problem, ProblemArray
from datagen.operations import ADDITION, MULTIPLICATION, OPERATIONS, SUBTRACTION
from datagen.splits import Split, is_in_split, problem_hash, problem_hashes, split_of_hash


def twin(number: Number) -> Number:
    """The same number, written the other way if it can be."""
    is_whole = number.units % 10**number.places == 0
    return Number.from_units(number.units, number.places, not (number.point and is_whole))


@given(st.lists(problems, max_size=20) | st.lists(any_problems, max_size=5))
def test_arrays_agree_with_single_problems(batch: list[Problem]) -> None:
    hashes = problem_hashes(ProblemArray.from_problems(batch))
    assert hashes.tolist() == [problem_hash(problem) for problem in batch]
    for split in Split:
        assert is_in_split(hashes, split).tolist() == [
            split_of_hash(problem_hash(problem)) == split for problem in batch
        ]


@given(problems | any_problems)
def test_twins_and_mirror_images_are_in_the_same_split(problem: Problem) -> None:
    same = [Problem(twin(problem.a), problem.op, twin(problem.b))]
    if problem.op in (ADDITION, MULTIPLICATION):
        same.append(Problem(problem.b, problem.op, problem.a))
    same += [replace(other, places=places) for other in same for places in (1, 9)]
    assert {problem_hash(other) for other in same} == {problem_hash(problem)}


def test_different_problems_have_different_hashes() -> None:
    operands = [Number(n) for n in range(40)]
    hashes = {
        problem_hash(Problem(a, op, b)) for a in operands for op in OPERATIONS for b in operands
    }
    ordered, unordered = 40 * 40, 40 * 41 // 2
    assert len(hashes) == 2 * ordered + 2 * unordered


def test_the_places_of_an_operand_and_its_digits_beyond_64_bits_count() -> None:
    operands = [Number(n, places) for n in (1, 2, 11) for places in range(2, 10)]
    operands += [Number(n + 2**64 * k) for n in range(4) for k in (-2, -1, 0, 1, 2, 2**64)]
    pairs = [(a, b) for a in operands for b in operands]
    assert len({problem_hash(Problem(a, SUBTRACTION, b)) for a, b in pairs}) == len(pairs)


def test_one_problem_in_32_is_held_out_for_each() -> None:
    n = 1000
    a, b = np.divmod(np.arange(n * n), n)
    for code in range(4):
        whole = np.zeros(n * n, np.bool_)
        array = ProblemArray(100 * a, whole, np.full(n * n, code, np.uint8), 100 * b, whole)
        counts = Counter(
            {split: int(is_in_split(problem_hashes(array), split).sum()) for split in Split}
        )
        assert counts.total() == n * n
        for split in (Split.VAL, Split.TEST):
            assert abs(counts[split] - n * n / 32) < 1500  # six standard deviations and more


def test_hashes_never_change() -> None:
    # A data set made today must not overlap one made years ago: these hashes must never change.
    three, five = Number(3), Number(-525, 2)
    assert [problem_hash(Problem(three, op, five)) for op in OPERATIONS] == [
        0x8CB84086638F58EF,
        0x1FFABFD14578A3D0,
        0x9B457AD5FCD038D2,
        0xB02016D6AF7634D9,
    ]
