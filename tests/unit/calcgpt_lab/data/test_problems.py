"""Problems drawn as they are needed: the same for a seed and a step, and none that is held out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt.base.errors import DataError, NotationError
from calcgpt.base.files import text_sha256
from calcgpt.config import DataConfig
from calcgpt_lab.data import sources as module
from calcgpt_lab.data.batches import NO_LOSS
from calcgpt_lab.data.problems import (
    DRAWING_VERSION,
    FreshProblems,
    read_problems,
    split_line,
)
from calcgpt_lab.data.sources import FreshBatches
from calcgpt_lab.data.tokenizers import TOKENIZERS
from datagen.arithmetic import ProblemArray
from datagen.distributions import DISTRIBUTIONS, Distribution
from datagen.notation import render
from datagen.operations import OPERATIONS
from datagen.splits import Split, problem_hash, split_of_hash

MIXTURE = dict.fromkeys(DISTRIBUTIONS, 1.0)
TOKENIZER = TOKENIZERS["scratchpad"]("")


def problems(seed: int = 1, **config: object) -> FreshProblems:
    # Set without validation: a test may add a distribution, whose name a config would refuse.
    names = {key: config.pop(key) for key in ("mixture", "validation") if key in config}
    data = DataConfig.model_validate({"mixture": MIXTURE, "format": "direct", **config})
    return FreshProblems(data.model_copy(update=names), seed)


def lines(drawn: FreshProblems, index: int, size: int) -> list[str]:
    return drawn.render(drawn.block(index, size)).decode().splitlines()


def shares(codes: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(codes, minlength=count) / len(codes)


def near(size: int) -> float:
    """Returns how far a share may be off: at most five standard deviations."""
    return 5 * 0.5 / size**0.5


@pytest.fixture
def add_distribution(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, range, list[int]], None]:
    """Makes a distribution of whole operands in a range and some of the operations."""

    def add(name: str, operands: range, codes: list[int]) -> None:
        def draw(words: np.ndarray) -> ProblemArray:
            a, b = (
                100 * (operands.start + (w % len(operands)).astype(np.int64)) for w in words[:2]
            )
            op = np.array(codes, np.uint8)[words[2] % len(codes)]
            return ProblemArray(a, np.zeros(len(a), bool), op, b, np.zeros(len(b), bool))

        monkeypatch.setitem(DISTRIBUTIONS, name, Distribution(3, draw))

    return add


@settings(max_examples=10)
@given(seed=st.integers(0, 2**63 - 1), index=st.integers(0, 2**31), size=st.integers(1, 3000))
def test_a_block_depends_on_seed_index_and_size_alone(seed: int, index: int, size: int) -> None:
    one, other = (problems(seed, mixture={"blog": 1.0, "tricky-5": 1.0}) for _ in range(2))
    other.block(index + 1, 10)  # what was drawn before does not matter
    drawn = lines(one, index, size)
    assert len(drawn) == size
    assert drawn == lines(other, index, size) == lines(one, index, size)


def test_other_blocks_and_other_seeds_have_other_problems() -> None:
    blocks = [
        set(lines(problems(seed, mixture={"blog": 1.0}), i, 5000))
        for seed, i in ((1, 0), (1, 1), (2, 0))
    ]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        # The blog's distribution has some 10**10 problems: two blocks share a few by chance.
        assert len(blocks[i] & blocks[j]) < 50


def test_a_config_gives_the_recorded_problems() -> None:
    """A change of these problems makes other data: it needs another DRAWING_VERSION."""
    drawn = problems(mixture={"blog": 2.0, "calculator": 1.0})
    digest = text_sha256(drawn.render(drawn.block(1, 1_000)).decode())
    assert (DRAWING_VERSION, digest[:16]) == (1, "eac64d5a948cb8dd")


@settings(max_examples=10)
@given(
    calls=st.lists(
        st.tuples(st.integers(0, 3000), st.sampled_from([1, 8, 32, 1_200])), min_size=1, max_size=6
    )
)
def test_a_batch_does_not_depend_on_what_was_asked_before(calls: list[tuple[int, int]]) -> None:
    def drawn() -> FreshProblems:
        return problems(mixture={"blog": 1.0, "tricky-5": 1.0})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PROBLEMS_PER_BLOCK", 1_000)
        used = FreshBatches(drawn(), TOKENIZER, 200, probe=100)
        for step, size in calls:
            actual = used.batch(step, size)
            expected = FreshBatches(drawn(), TOKENIZER, 200, probe=100).batch(step, size)
            assert actual[0].shape[0] == size
            assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


def test_the_batches_of_a_block_are_its_problems_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBLEMS_PER_BLOCK", 100)
    drawn = problems()
    source = FreshBatches(drawn, TOKENIZER, 200)
    expected = [line for index in range(3) for line in lines(drawn, index, 96)]
    seen = []
    for step in range(9):  # three steps of 32 share a block of 96
        inputs, targets = source.batch(step, 32)
        ends = (targets == TOKENIZER.encode("$")[0]).int().argmax(dim=1)
        seen += [
            TOKENIZER.decode(row[: end + 1]) + "$" for row, end in zip(inputs, ends, strict=True)
        ]
    assert seen == expected


def test_no_held_out_problem_is_ever_drawn() -> None:
    drawn = problems()
    for index in range(3):
        block = drawn.block(index, 5_000).to_problems()
        assert {split_of_hash(problem_hash(problem)) for problem in block} == {Split.TRAIN}


def test_operations_have_their_weights() -> None:
    weights = {"+": 1.0, "-": 0.0, "*": 5.0, "/": 2.0}
    block = problems(operations=weights).block(0, 40_000)
    expected = np.array([weights[op] for op in OPERATIONS]) / 8
    assert shares(block.op, 4) == pytest.approx(expected, abs=near(40_000))
    assert not (block.op == OPERATIONS.index("-")).any()


def test_distributions_have_their_weights(
    add_distribution: Callable[[str, range, list[int]], None],
) -> None:
    # Each has another share of the operations, which must not matter.
    add_distribution("few", range(1, 100), [0, 1, 2, 3])
    add_distribution("many", range(1000, 1100), [0, 1, 2, 2, 2, 2, 3])
    block = problems(mixture={"many": 3.0, "few": 1.0}).block(0, 40_000)
    many = block.a >= 100_000
    assert ((block.b >= 100_000) == many).all()
    assert many.mean() == pytest.approx(0.75, abs=near(40_000))
    for which in (many, ~many):
        assert shares(block.op[which], 4) == pytest.approx(np.full(4, 0.25), abs=near(10_000))
    # Neither comes in runs: each half of the block holds its share.
    assert many[:20_000].mean() == pytest.approx(0.75, abs=near(20_000))


@pytest.mark.parametrize("largest", [10**9, 10**25])
def test_distributions_may_differ_in_scale_places_and_size(
    monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    def wide(words: np.ndarray) -> ProblemArray:
        a, b = (np.array([int(w) * largest // 2**64 for w in row], object) for row in words[:2])
        if largest < 2**63:
            a, b = a.astype(np.int64), b.astype(np.int64)
        op, points = (words[2] % 4).astype(np.uint8), np.ones(len(a), bool)
        places = (words[2] >> np.uint64(32)) % np.uint64(9) + np.uint64(1)
        return ProblemArray(a, points, op, b, points, places.astype(np.uint8), scale=7)

    monkeypatch.setitem(DISTRIBUTIONS, "wide", Distribution(3, wide))
    drawn = problems(mixture={"wide": 1.0, "blog": 1.0}, validation="wide")
    block = drawn.block(0, 2000)
    assert block.scale == 7
    assert set(block.places.tolist()) == set(range(1, 10))
    assert drawn.render(block).decode().splitlines() == [
        render(problem) for problem in block.to_problems()
    ]
    usual = block.take(np.flatnonzero(block.places == 2))
    assert 0.5 < len(usual) / len(block) < 0.6  # half, and a ninth of the other half
    held_out = drawn.validation_problems(30)
    hashes = map(problem_hash, held_out.to_problems())
    assert {split_of_hash(value) for value in hashes} == {Split.VAL}


def test_an_operation_that_a_distribution_lacks_is_named(
    add_distribution: Callable[[str, range, list[int]], None],
) -> None:
    add_distribution("sums", range(1, 100), [0, 1])
    assert (
        len(problems(mixture={"sums": 1.0}, operations={"*": 0.0, "/": 0.0}).block(0, 100)) == 100
    )
    with pytest.raises(DataError, match=r"'sums' has too few training problems with '[*/]'"):
        problems(mixture={"sums": 1.0}).block(0, 100)


def test_held_out_problems_are_different_validation_problems() -> None:
    drawn = problems(validation="blog")
    some = drawn.validation_problems(700).to_problems()
    assert {split_of_hash(problem_hash(problem)) for problem in some} == {Split.VAL}
    assert len({(p.a.scaled(2), p.op, p.b.scaled(2)) for p in some}) == len(some) == 700
    assert drawn.validation_problems(20).to_problems() == some[:20]
    assert problems(seed=2).validation_problems(20).to_problems() != some[:20]


def test_what_is_never_trained_is_not_held_out() -> None:
    weights = {"+": 1.0, "-": 0.0, "*": 0.0, "/": 2.0}
    held_out = problems(operations=weights).validation_problems(50).to_problems()
    assert {problem.op for problem in held_out} == {"+", "/"}


def test_a_small_distribution_gives_the_held_out_problems_it_has(
    add_distribution: Callable[[str, range, list[int]], None],
) -> None:
    add_distribution("tiny", range(1, 20), [0, 1, 2, 3])
    add_distribution("single", range(1, 2), [0])
    few = problems(validation="tiny").validation_problems(10_000).to_problems()
    assert 5 < len(few) < 19 * 19 * 4 / 16
    with pytest.raises(DataError, match="'single' has no validation problems"):
        problems(validation="single").validation_problems(1)


def test_a_context_too_short_is_refused_before_the_first_step() -> None:
    with pytest.raises(DataError, match="does not fit in 30 tokens"):
        FreshBatches(problems(), TOKENIZER, 30)


def test_a_long_problem_that_comes_up_after_the_probe_is_left_out() -> None:
    drawn = problems(format="scratchpad", mixture={"blog": 1.0})
    # A few in a hundred are longer than 133 characters.
    expected = [line for line in lines(drawn, 0, module.PROBLEMS_PER_BLOCK) if len(line) <= 133]
    assert 0.9 * module.PROBLEMS_PER_BLOCK < len(expected) < module.PROBLEMS_PER_BLOCK
    source = FreshBatches(drawn, TOKENIZER, 132, probe=1)
    seen = []
    for step in range(module.PROBLEMS_PER_BLOCK // 1024):
        inputs, targets = source.batch(step, 1024)
        assert len(inputs) == 1024
        ends = (targets != NO_LOSS).cumsum(dim=1).argmax(dim=1)
        seen += [TOKENIZER.decode(row[: end + 1]) for row, end in zip(inputs, ends, strict=True)]
    assert [f"{line}$" for line in seen[: len(expected)]] == expected


def test_a_limit_is_at_least_one(tmp_path: Path) -> None:
    file = tmp_path / "test.txt"
    file.write_text("$(0000000001+0000000002)=3000000000$\n" * 3)
    assert len(read_problems(file, 2)) == 2
    with pytest.raises(DataError, match=r"limit must be an integer from 1 .* not 0"):
        read_problems(file, 0)


@pytest.mark.parametrize("wrong", ["30000x0000$", "11=30000x0000$", "3000000000"])
def test_a_wrong_answer_is_named_with_its_position_in_the_line(wrong: str) -> None:
    line = f"$(0000000001+0000000002)={wrong}"
    with pytest.raises(NotationError) as caught:
        split_line(line)
    assert caught.value.position == (line.index("x") if "x" in line else len(line))
