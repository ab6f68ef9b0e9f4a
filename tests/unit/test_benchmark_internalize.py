"""`benchmarks.internalize`: worked steps that are taken away in training."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib", reason="the extra `lab` installs it")
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.internalize import (
    LONGEST,
    NEXT,
    OWN,
    n_removed,
    recipe_of,
    score_lines,
    shorten,
)
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.batches import NO_LOSS, ProblemLines
from calcgpt.data.problems import FreshProblems
from calcgpt.registry import resolve

N = 64
OPERANDS = re.compile(r"([+-]\d+[+-]\d+)([+;-].*)")


@pytest.fixture(scope="module")
def tiny_scratchpad() -> Checkpoint:
    return Checkpoint.load(resolve("scratchpad-tiny"))


@pytest.fixture(scope="module")
def problems(tiny_scratchpad: Checkpoint) -> FreshProblems:
    recipe = recipe_of(tiny_scratchpad, steps=10, seed=1)
    assert recipe.data is not None
    return FreshProblems(recipe.data, seed=1)


@given(st.lists(st.integers(0, LONGEST + 3), min_size=8, max_size=8))
def test_the_first_characters_of_the_work_are_left_out(
    tiny_scratchpad: Checkpoint, problems: FreshProblems, removed: list[int]
) -> None:
    lines = ProblemLines(
        problems.render(problems.validation_problems(N)), tiny_scratchpad.tokenizer
    )
    rows = np.arange(0, N, N // len(removed))
    decode = tiny_scratchpad.tokenizer.decode
    batch = lines.batch(rows)
    coordinates = tiny_scratchpad.model.parse(batch[0])
    assert coordinates is not None
    (inputs, targets), left = shorten(batch, coordinates, torch.tensor(removed))
    assert inputs.shape == targets.shape == left.shape[:2]
    for row, n in enumerate(removed):
        start, length = lines.starts[rows[row]], lines.lengths[rows[row]]
        line = decode(lines.ids[start : start + length].tolist())
        prompt, _, completion = line.partition("=")
        work, mark, answer = completion.partition(":")
        match = OPERANDS.fullmatch(work)
        assert match is not None
        operands, work = match.groups()
        expected = operands + work[n:] + mark + answer
        n_input = len(prompt) + len(expected)  # the last character is only a target
        assert decode(inputs[row, :n_input].tolist()) == f"{prompt}={expected}"[:-1]
        with_loss = targets[row][targets[row] != NO_LOSS]
        assert decode(with_loss.tolist()) == expected
        # What is left has the coordinates that it has in the whole line.
        n_out = min(n, len(work))
        whole = coordinates[row]
        start = len(prompt) + len(operands)  # of the character before the work
        assert left[row, : start + 1, OWN].equal(whole[: start + 1, OWN])
        assert left[row, start + 1 : n_input, OWN].equal(
            whole[start + 1 + n_out : n_input + n_out, OWN]
        )
        assert left[row, start:n_input, NEXT].equal(whole[start + n_out : n_input + n_out, NEXT])


def test_all_of_the_work_goes_in_small_steps() -> None:
    removed = [n_removed(step, 1_000) for step in range(1_001)]
    assert removed[0] == 0
    assert removed[-1] == removed[700] == LONGEST
    assert set(np.diff(removed)) == {0, 1}


def test_a_model_of_steps_writes_all_of_them_or_nothing_right(
    tiny_scratchpad: Checkpoint, problems: FreshProblems
) -> None:
    drawn = problems.validation_problems(N)
    lines = ProblemLines(problems.render(drawn), tiny_scratchpad.tokenizer)
    _, right = score_lines(tiny_scratchpad.model, lines, removed=0)
    assert right[drawn.op < 3].all()  # quotients have other steps that are as good
    loss, right = score_lines(tiny_scratchpad.model, lines, removed=LONGEST)
    assert not right.any()
    assert loss > 1
