"""Which split a problem belongs to."""

from collections import Counter

import numpy as np
from datagen_strategies import problems
from hypothesis import given
from hypothesis import strategies as st

from datagen.arithmetic import Number, Operation, Problem, ProblemArray
from datagen.splits import Split, belongs, problem_hash, problem_hashes, split_of


def twin(number: Number) -> Number:
    """The same number, written the other way if it can be."""
    return Number(number.hundredths, not number.point or number.hundredths % 100 != 0)


@given(st.lists(problems, max_size=20))
def test_arrays_agree_with_single_problems(batch: list[Problem]) -> None:
    hashes = problem_hashes(ProblemArray.from_problems(batch))
    assert hashes.tolist() == [problem_hash(problem) for problem in batch]
    for split in Split:
        assert belongs(hashes, split).tolist() == [split_of(problem) == split for problem in batch]


@given(problems)
def test_twins_and_mirror_images_are_on_the_same_side(problem: Problem) -> None:
    same = [Problem(twin(problem.a), problem.op, twin(problem.b))]
    if problem.op in (Operation.ADD, Operation.MUL):
        same.append(Problem(problem.b, problem.op, problem.a))
    assert {problem_hash(other) for other in same} == {problem_hash(problem)}


def test_different_problems_have_different_hashes() -> None:
    operands = [Number(100 * n, False) for n in range(40)]
    hashes = {
        problem_hash(Problem(a, op, b)) for a in operands for op in Operation for b in operands
    }
    ordered, unordered = 40 * 40, 40 * 41 // 2
    assert len(hashes) == 2 * ordered + 2 * unordered


def test_one_problem_in_32_is_held_out_for_each() -> None:
    n = 1000
    a, b = np.divmod(np.arange(n * n), n)
    for code in range(4):
        whole = np.zeros(n * n, np.bool_)
        array = ProblemArray(100 * a, whole, np.full(n * n, code, np.uint8), 100 * b, whole)
        counts = Counter(
            {split: int(belongs(problem_hashes(array), split).sum()) for split in Split}
        )
        assert counts.total() == n * n
        for split in (Split.VAL, Split.TEST):
            assert abs(counts[split] - n * n / 32) < 1500  # six standard deviations and more


def test_the_sides_never_change() -> None:
    # A data set made today must not overlap one made years ago: these hashes are for ever.
    three, five = Number(300, False), Number(-525, True)
    assert [problem_hash(Problem(three, op, five)) for op in Operation] == [
        0x8CB84086638F58EF,
        0x1FFABFD14578A3D0,
        0x9B457AD5FCD038D2,
        0xB02016D6AF7634D9,
    ]
