import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.base.errors import DataError
from calcgpt.config import TrainConfig
from calcgpt_lab.data.batches import (
    NO_LOSS,
    BatchSource,
    ProblemBatches,
    StreamBatches,
    micro_batches,
)
from calcgpt_lab.data.sources import BATCHES
from calcgpt_lab.data.tokenizers import TOKENIZERS

TOKENIZER = TOKENIZERS["arithmetic"]("")
CONFIG = TrainConfig()
LINES = [f"$(000000000{i}+000000000{i})={2 * i:010}"[:-1] + "$" for i in range(10)]
TEXT = "\n".join(LINES) + "\n"


def decode(ids: torch.Tensor) -> str:
    return TOKENIZER.decode(ids.numpy())


def test_stream_windows_are_consecutive_text_without_newlines() -> None:
    source = StreamBatches(TEXT, TOKENIZER, CONFIG, block_size=50)
    inputs, targets = source.batch(0, 64)
    assert inputs.shape == targets.shape == (64, 50)
    joined = "".join(LINES)
    starts = set()
    for row, target in zip(inputs, targets, strict=True):
        assert decode(row) in joined
        assert decode(target[:-1]) == decode(row[1:])
        assert decode(row) + decode(target[-1:]) in joined
        starts.add(joined.index(decode(row)))
    assert len(starts) > 30


def test_stream_keeps_newlines_where_the_recipe_says_so() -> None:
    tokenizer = TOKENIZERS["chars"]("ab\n")
    keep = StreamBatches("a\nb\n" * 50, tokenizer, TrainConfig(join_lines=False), 8)
    drop = StreamBatches("a\nb\n" * 50, tokenizer, TrainConfig(join_lines=True), 8)
    assert "\n" in tokenizer.decode(keep.batch(0, 1)[0][0])
    assert "\n" not in tokenizer.decode(drop.batch(0, 1)[0][0])


def test_problems_carry_loss_exactly_on_the_answer() -> None:
    source = ProblemBatches(TEXT, TOKENIZER, CONFIG, block_size=64)
    inputs, targets = source.batch(0, 10)
    rows = []
    for row, target in zip(inputs, targets, strict=True):
        line = decode(row) + "$"
        rows.append(line)
        answer = line[line.index("=") + 1 :]
        assert decode(target[target != NO_LOSS]) == answer
        assert (target[: line.index("=")] == NO_LOSS).all()
    assert sorted(rows) == sorted(LINES)  # an epoch holds each problem once


def test_problems_of_unlike_lengths_share_a_batch() -> None:
    lines = ["$(1+1)=2$", "$(1000+1000)=0002$", "$(5+5)=01$"]
    source = ProblemBatches("\n".join(lines), TOKENIZER, CONFIG, block_size=64)
    inputs, targets = source.batch(0, 3)
    answers = {decode(t[t != NO_LOSS]) for t in targets}
    assert answers == {"2$", "0002$", "01$"}
    for row, target in zip(inputs, targets, strict=True):  # targets are the next inputs
        scored = (target != NO_LOSS).nonzero().squeeze(1)[:-1]
        assert (row[scored + 1] == target[scored]).all()


def test_worked_steps_carry_loss_from_the_first_equals_sign() -> None:
    source = ProblemBatches("$(1+1)=11=2$", TOKENIZER, CONFIG, block_size=64)
    _, targets = source.batch(0, 1)
    assert decode(targets[targets != NO_LOSS]) == "11=2$"


@pytest.mark.parametrize("text", [TEXT.encode(), TEXT[:-1], TEXT.replace("\n", "\r\n")])
def test_bytes_and_all_line_ends_give_the_same_batches(text: str | bytes) -> None:
    actual = ProblemBatches(text, TOKENIZER, CONFIG, 64).batch(0, 10)
    expected = ProblemBatches(TEXT, TOKENIZER, CONFIG, 64).batch(0, 10)
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


@given(size=st.integers(1, 23), steps=st.integers(1, 9))
def test_each_epoch_is_every_problem_once_in_a_new_order(size: int, steps: int) -> None:
    source = ProblemBatches(TEXT, TOKENIZER, CONFIG, block_size=64)
    seen = [decode(row) for step in range(steps) for row in source.batch(step, size)[0]]
    epochs = [seen[i : i + 10] for i in range(0, len(seen) - 9, 10)]
    assert all(len(set(epoch)) == 10 for epoch in epochs)
    assert len(set(map(tuple, epochs))) == len(epochs)


def made(name: str, config: TrainConfig) -> BatchSource:
    if name == "cases":
        return BATCHES[name]("", TOKENIZERS["scratchpad"](), config, 40)
    return BATCHES[name](TEXT, TOKENIZER, config, 40)


@pytest.mark.parametrize("name", list(BATCHES))
def test_a_batch_depends_on_seed_and_step_alone(name: str) -> None:
    def source(seed: int):
        return made(name, TrainConfig(seed=seed))

    forwards = [source(1).batch(step, 7) for step in range(5)]
    one = source(1)
    backwards = [one.batch(step, 7) for step in reversed(range(5))][::-1]
    for first, second in zip(forwards, backwards, strict=True):
        assert torch.equal(first[0], second[0])
        assert torch.equal(first[1], second[1])
    other = [source(2).batch(step, 7)[0] for step in range(5)]
    assert any(not torch.equal(a[0], b) for a, b in zip(forwards, other, strict=True))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("problems", "$(1+1)\n", "each with an '='"),
        ("problems", "$(1+1)=2$\n$(1+2)=\n", "need an answer"),
        ("problems", "$(1+1)=2$\n\n$(1+1)=2$\n", "one problem per line"),
        ("problems", "$(1+1)=" + "2" * 80 + "$", "does not fit in 40"),
        ("problems", "$(1+x)=2$", "'x' at position 4"),
        ("stream", "$(1+1)=2$", "needs a longer text than 9 tokens"),
        ("cases", "$(1+1)=2$", "made without a data folder"),
    ],
)
def test_text_that_makes_no_batches_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        BATCHES[name](text, TOKENIZER, CONFIG, 40)


def test_a_text_may_be_one_character_longer_than_the_context() -> None:
    line = "$(1+1)=2$"
    inputs, _ = ProblemBatches(line, TOKENIZER, CONFIG, len(line) - 1).batch(0, 1)
    assert decode(inputs[0]) == line[:-1]
    with pytest.raises(DataError, match=r"model\.block_size must be at least 8"):
        ProblemBatches(line, TOKENIZER, CONFIG, len(line) - 2)
    inputs, targets = StreamBatches(line, TOKENIZER, CONFIG, len(line) - 1).batch(0, 1)
    assert (decode(inputs[0]), decode(targets[0])) == (line[:-1], line[1:])
    with pytest.raises(DataError, match="needs a longer text than 9 tokens"):
        StreamBatches(line, TOKENIZER, CONFIG, len(line))


def test_windows_reach_both_ends_of_the_text() -> None:
    source = StreamBatches("$" + "1" * 30 + "=", TOKENIZER, CONFIG, block_size=30)
    starts = np.concatenate([source.batch(step, 16)[0][:, 0].numpy() for step in range(5)])
    ends = np.concatenate([source.batch(step, 16)[1][:, -1].numpy() for step in range(5)])
    assert TOKENIZER.encode("$")[0] in starts
    assert TOKENIZER.encode("=")[0] in ends


@given(
    answers=st.lists(st.integers(0, 10**12), min_size=1, max_size=30).map(
        lambda some: some[: len(some) // 3 * 3 or 1]
    )
)
def test_micro_batches_are_the_same_rows_by_length_without_padding(answers: list[int]) -> None:
    lines = [f"$(1+1)={answer}$" for answer in answers]
    batch = ProblemBatches("\n".join(lines), TOKENIZER, CONFIG, 64).batch(0, len(lines))
    count = min(3, len(lines))
    parts = micro_batches(batch, count)
    assert len(parts) == count
    rows = []
    for inputs, targets in parts:
        assert inputs.shape == targets.shape
        assert (targets[:, -1] != NO_LOSS).any()  # as narrow as can be
        for row, target in zip(inputs, targets, strict=True):
            end = int((target != NO_LOSS).nonzero().max()) + 1
            rows.append(decode(row[:end]) + decode(target[end - 1 : end]))
            assert decode(target[target != NO_LOSS]) == rows[-1].partition("=")[2]
    assert sorted(rows) == sorted(lines)
    if len(parts) > 1:
        assert [len(row) for row in rows] == sorted(map(len, lines))


def test_one_micro_batch_is_the_batch_itself() -> None:
    batch = ProblemBatches(TEXT, TOKENIZER, CONFIG, 64).batch(0, 10)
    assert micro_batches(batch, 1) == [batch]


def test_rows_of_one_length_stay_in_order() -> None:
    for name in BATCHES:
        inputs, targets = made(name, CONFIG).batch(0, 8)
        parts = micro_batches((inputs, targets), 4)
        assert torch.equal(torch.cat([part[0] for part in parts]), inputs)
        assert torch.equal(torch.cat([part[1] for part in parts]), targets)
