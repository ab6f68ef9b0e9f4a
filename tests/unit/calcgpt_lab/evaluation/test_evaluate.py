"""Scores against hand-computed ones, and what must hold for any output."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.base.errors import DataError, NotationError
from calcgpt.checkpoint import Checkpoint
from calcgpt_lab.data.batches import NO_LOSS, Batch, BatchSource
from calcgpt_lab.data.problems import read_problems, split_line
from calcgpt_lab.data.task import Task
from calcgpt_lab.evaluation.evaluate import answer, evaluate, score
from calcgpt_lab.evaluation.losses import mean_loss
from calcgpt_lab.model import decoding
from calcgpt_lab.model.decoding import Completion, Sampling
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.recipe import load_recipe
from datagen.notation import ALPHABET

TWO = "$(0000000001+0000000001)=2000000000$"
ADD = "$(0000000782+0000000021)=3080000000$"
SUB = "$(0000002.08-0000136.22)=41.431-000$"
MUL = "$(0000000573*0000351.77)=12.4651020$"
DIV = "$(0000000471/0000000299)=85.1000000$"
STEPS = "$(0000000782+0000000021)=1+2-3=3080000000$"  # work between two `=`
PLACES = "$4(0000000001/0000000003)=3333.00000$"
LONG = "$(9999999999*0000000010)=09999999999$"  # an answer of eleven digits is not padded


@pytest.mark.parametrize(
    ("output", "matching", "exact"),
    [
        ("3080000000$", 11, True),
        ("3080000001$", 10, False),
        ("0380000000$", 9, False),
        ("308$", 3, False),  # the `$` stands where a 0 belongs
        ("308", 3, False),  # too short: what is missing is wrong
        ("", 0, False),
        ("3080000000", 10, False),  # not closed
        ("3080000000$$$", 11, False),  # too long: cut for the characters, never exact
        ("30800000000$", 10, False),
        ("(((((((((((", 0, False),
        ("1+2-3=3080000000$", 11, True),  # the answer follows the last `=`
        ("3080000000$=", 0, False),
        ("3080000000$=3080000000$", 11, True),
        ("9=308", 3, False),
    ],
)
def test_one_output_scores_as_counted_by_hand(output: str, matching: int, exact: bool) -> None:
    scores = score([split_line(ADD)], [output])
    assert scores.char_accuracy == matching / 11
    assert scores.exact_match == float(exact)
    assert scores.n == 1


def test_each_operation_is_scored_by_itself() -> None:
    lines = [split_line(text) for text in (ADD, SUB, ADD, DIV)]
    scores = score(lines, ["3080000000$", "41.431-00", "", "85.1000000$"])
    operations = {key: accuracy.model_dump() for key, accuracy in scores.by_operation.items()}
    assert operations == {
        "+": {"n": 2, "char_accuracy": 11 / 22, "exact_match": 0.5},
        "-": {"n": 1, "char_accuracy": 9 / 11, "exact_match": 0.0},
        "/": {"n": 1, "char_accuracy": 1.0, "exact_match": 1.0},
    }
    assert scores.n == 4


outputs = st.lists(
    st.tuples(st.sampled_from([ADD, SUB, MUL, DIV, STEPS]), st.text(ALPHABET, max_size=30)),
    min_size=1,
)


@given(outputs)
def test_scores_are_shares_and_operations_add_up(rows: list[tuple[str, str]]) -> None:
    lines, written = [split_line(text) for text, _ in rows], [output for _, output in rows]
    scores = score(lines, written)
    groups = scores.by_operation.values()
    for part in (scores, *groups):
        # All fields here are of one length, so that a whole match is at least its characters.
        assert 0 <= part.exact_match <= part.char_accuracy <= 1
    assert scores.n == len(rows) == sum(group.n for group in groups)
    exact = sum(group.exact_match * group.n for group in groups)
    assert scores.exact_match * len(rows) == pytest.approx(exact)


@pytest.mark.parametrize(
    ("text", "prompt", "field", "operation"),
    [
        (ADD, "$(0000000782+0000000021)=", "3080000000$", "+"),
        (STEPS, "$(0000000782+0000000021)=", "3080000000$", "+"),
        (LONG, "$(9999999999*0000000010)=", "09999999999$", "*"),
        (PLACES, "$4(0000000001/0000000003)=", "3333.00000$", "/"),
    ],
)
def test_a_line_is_cut_at_its_first_and_its_last_equals_sign(
    text: str, prompt: str, field: str, operation: str
) -> None:
    line = split_line(text)
    assert (line.prompt, line.answer, line.operation) == (prompt, field, operation)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("hello", 0),
        ("$(0000000001/0000000003)=333.000000$", 28),  # three places
        ("$3(0000000001/0000000003)=3333.00000$", 30),
        ("$2(0000000001/0000000003)=33.0000000$", 2),
        ("$(0000000782+0000000021)", 24),
        ("$(0000000782^0000000021)=3080000000$", 12),
        ("$(0000000782+0000000021)=3080000000", 35),
        ("$(0000000782+0000000021)=30800x0000$", 30),
        ("$(0000000782+0000000021)=", 25),
        ("$(0000000782+0000000021)=3080000000$=", 37),
    ],
)
def test_what_is_no_problem_is_refused_with_the_position(text: str, position: int) -> None:
    with pytest.raises(NotationError) as caught:
        split_line(text)
    assert caught.value.position == position


def test_problems_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "test.txt"
    path.write_text(f"{ADD}\n{SUB}\n{MUL}\n")
    assert read_problems(path) == [split_line(text) for text in (ADD, SUB, MUL)]
    assert read_problems(path, limit=2) == [split_line(text) for text in (ADD, SUB)]


def test_a_bad_line_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "test.txt"
    path.write_text(f"{ADD}\n{SUB[:-1]}\n{MUL}\n")
    with pytest.raises(DataError) as caught:
        read_problems(path)
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert "'$'" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "is empty"), (b"\xff\xfe", "not UTF-8"), (b"\n", "line 1")]
)
def test_a_file_without_problems_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "test.txt"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_problems(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)


def test_sampled_evaluation_follows_its_seed(tiny: Checkpoint, data_folder: Path) -> None:
    lines = read_problems(data_folder / "test.txt")

    def outputs(seed: int) -> list[str]:
        return evaluate(tiny.model, tiny.tokenizer, lines, Sampling(1.0, seed=seed)).outputs

    assert outputs(3) == outputs(3)
    assert outputs(3) != outputs(4)
    assert outputs(3) != evaluate(tiny.model, tiny.tokenizer, lines).outputs


def test_a_model_that_is_always_right_scores_one(
    tiny: Checkpoint, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = read_problems(data_folder / "test.txt")
    right = {line.prompt: line.answer for line in lines}

    def oracle(model: Any, prompts_BP: torch.Tensor, *_: Any, **__: Any) -> list[Completion]:
        prompts = [tiny.tokenizer.decode(ids) for ids in prompts_BP]
        answers = [tiny.tokenizer.encode(right[prompt]).tolist() for prompt in prompts]
        return [Completion(ids, [1.0] * len(ids)) for ids in answers]

    monkeypatch.setattr(decoding, "generate", oracle)
    evaluation = evaluate(tiny.model, tiny.tokenizer, lines)
    scores = evaluation.scores
    assert scores.exact_match == scores.char_accuracy == 1.0
    assert scores.n == 40
    assert evaluation.right == [True] * 40


def test_each_character_has_its_probability_in_any_order_of_batches(
    tiny: Checkpoint, data_folder: Path
) -> None:
    # Prompts of two lengths, so that they are answered in another order.
    lines = read_problems(data_folder / "test.txt", 6)
    shorter = [dataclasses.replace(line, prompt=line.prompt[1:]) for line in lines[::2]]
    mixed = [line for pair in zip(lines[1::2], shorter, strict=True) for line in pair]
    together = answer(tiny.model, tiny.tokenizer, mixed, batch_size=2)
    for row, line in enumerate(mixed):
        [alone] = answer(tiny.model, tiny.tokenizer, [line])
        assert together[row].text == alone.text
        assert together[row].probabilities == pytest.approx(alone.probabilities, rel=1e-4)
        assert len(together[row].probabilities) == len(together[row].text) > 0


def test_the_model_is_never_shown_the_answer(
    tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[str] = []

    def spy(model: Any, prompts_BP: torch.Tensor, *_: Any, **__: Any) -> list[Completion]:
        prompts.extend(tiny.tokenizer.decode(ids) for ids in prompts_BP)
        return [Completion() for _ in prompts_BP]

    monkeypatch.setattr(decoding, "generate", spy)
    scores = evaluate(tiny.model, tiny.tokenizer, [split_line(STEPS), split_line(SUB)]).scores
    assert sorted(prompts) == ["$(0000000782+0000000021)=", "$(0000002.08-0000136.22)="]
    assert scores.char_accuracy == scores.exact_match == 0.0


class TwoBatches(BatchSource):
    """Rows with different numbers of targets."""

    def batch(self, step: int, size: int) -> Batch:
        inputs = torch.arange(size * 6).reshape(size, 6).remainder(21) + step % 2
        targets = inputs.roll(-1, 1).clone()
        targets[:, : 1 + step] = NO_LOSS
        return inputs, targets


def test_the_mean_loss_is_over_targets() -> None:
    model = build_model(load_recipe("nano", ["model.dropout=0.5"]).model, 22)
    losses = []
    for step in range(2):
        inputs, targets = TwoBatches().batch(step, 3)
        log_p = model.eval()(inputs).detach().double().log_softmax(-1).numpy()
        for row, column in np.argwhere(targets.numpy() != NO_LOSS):
            losses.append(-log_p[row, column, targets[row, column]])
    model.train()
    assert mean_loss(model, TwoBatches(), 2, 3) == pytest.approx(np.mean(losses), abs=1e-6)
    assert model.training


def test_a_check_decides_the_exact_match() -> None:
    task = Task(lambda random: "12=2", lambda q, a: a.isdigit() and 12 % int(a) == 0)
    (line, *_) = task.lines("all", 0, 1)
    assert score([line, line], ["3$", "5$"]).exact_match == 0.5


def test_a_model_in_training_stays_in_training(tiny: Checkpoint) -> None:
    model = copy.deepcopy(tiny.model).train()
    evaluate(model, tiny.tokenizer, [split_line(TWO)])
    assert model.training
