"""Circuits: ablation, attention to sources and the neuron of the carry, each done another way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.checkpoint import Checkpoint
from calcgpt.cli import cli
from calcgpt.errors import ConfigError, DataError
from calcgpt.lab import case_lines
from calcgpt.lab.carry_neurons import (
    CarryPositions,
    ablated_neurons,
    auc,
    best_neuron,
    carry_positions,
    clear_neurons,
)
from calcgpt.lab.circuits import (
    RULES,
    ablated_heads,
    attention_to_sources,
    find_circuits,
    n_passes,
    sample_lines,
    sources_of,
)
from calcgpt.lab.inspection import attention_weights
from calcgpt.model.gpt import GPT, build_model
from datagen.line_cases import line_cases
from datagen.work import render

SHIPPED = Path(__file__).parents[4] / "checkpoints" / "scratchpad-long"
LINE = b"$(0000000025-0000000007)=+520-700-819:810+=8100000000$"


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return Checkpoint.load(SHIPPED)


@torch.no_grad()
def test_a_head_without_output_is_one_whose_output_nobody_reads(checkpoint: Checkpoint) -> None:
    model = checkpoint.model
    assert isinstance(model, GPT)
    tokens = torch.from_numpy(checkpoint.tokenizer.encode(LINE.decode()).astype(np.int64))[None]
    whole = model(tokens)
    with ablated_heads(model, 1, range(2, 3)):
        ablated = model(tokens)
    assert torch.equal(model(tokens), whole)
    unread = Checkpoint.load(SHIPPED).model
    width = model.config.head_dim
    weight = dict(unread.named_parameters())["blocks.1.attn.out.weight"]
    weight[:, 2 * width : 3 * width] = 0
    torch.testing.assert_close(ablated, unread(tokens), rtol=0, atol=1e-4)
    assert not torch.allclose(ablated, whole, atol=1e-2)


def test_the_sources_of_a_digit_of_a_difference(checkpoint: Checkpoint) -> None:
    text = LINE.decode()
    position = text.index("-819") + 2  # the middle digit, 1
    sources = {name: text[at] for name, written, at in sources_of(LINE) if written == position}
    names = ("operation", "A", "B", "A before", "B before", "sum before")
    assert sources == {
        f"digit of a sum: {name}": value for name, value in zip(names, "-20578", strict=True)
    }
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    assert isinstance(model, GPT)
    weights = attention_weights(model, torch.from_numpy(tokenizer.encode(text).astype(np.int64)))
    means = attention_to_sources(model, tokenizer.require_characters(), [LINE])
    positions = [
        (at, source) for name, at, source in sources_of(LINE) if name == "digit of a sum: A"
    ]
    expected = np.mean([weights[:, :, at - 1, source].numpy() for at, source in positions], axis=0)
    np.testing.assert_allclose(means["digit of a sum: A"], expected, atol=1e-5)


@torch.no_grad()
def test_a_neuron_is_replaced_by_its_mean_where_it_was_recorded(checkpoint: Checkpoint) -> None:
    model = checkpoint.model
    assert isinstance(model, GPT)
    tokens = torch.from_numpy(checkpoint.tokenizer.encode(LINE.decode()).astype(np.int64))[None]
    values = [np.full((2, 8), layer, np.float32) for layer in range(4)]
    values[1][:, 5] = 1.0, 4.0
    positions = CarryPositions(np.array([True, False]), np.array([True, True]), values)
    taken: list[torch.Tensor] = []
    whole = model(tokens)
    with ablated_neurons(model, [(1, 5), (3, 2), (1, 0)], positions):
        down = model.blocks[1].ff.down
        handle = down.register_forward_pre_hook(lambda _, args: taken.append(args[0]))
        ablated = model(tokens)
        handle.remove()
    assert torch.equal(model(tokens), whole)
    assert not torch.equal(ablated, whole)
    assert taken[0][..., 5].unique().tolist() == [2.5]
    assert taken[0][..., 0].unique().tolist() == [1.0]
    assert len(taken[0][..., 1].unique()) > 10


def test_clear_neurons_tell_a_carry_or_a_borrow() -> None:
    carried = np.array([True, False] * 200)
    is_sum = np.arange(400) < 200
    noise = np.random.Generator(np.random.PCG64(0)).normal(size=(400, 4)).astype(np.float32)
    noise[is_sum, 1] = carried[is_sum]  # in sums only
    noise[~is_sum, 2] = ~carried[~is_sum]  # in differences, the other way round
    noise[:, 3] = 2 * carried + noise[:, 0]  # an AUC of about 0.92
    assert clear_neurons(CarryPositions(carried, is_sum, [noise, noise[:, ::-1]])) == [
        *((0, 1), (0, 2)),
        *((1, 1), (1, 2)),
    ]


@given(st.integers(1000, 9999), st.integers(1000, 9999), st.sampled_from("+-"))
def test_carries_are_those_of_the_columns_of_a_sum(a: int, b: int, op: str) -> None:
    a, b = max(a, b), min(a, b)
    [line] = render([f"$({a:010}{op}{b:010})=".encode()])
    [cases] = line_cases([line])
    columns = carry_positions(cases, [])
    powers = (10, 100, 1_000, 10_000)
    if op == "+":
        expected = [a % power + b % power >= power for power in powers]
    else:
        expected = [a % power < b % power for power in powers]
    assert columns.carried.tolist() == expected[: len(columns.carried)]
    assert len(columns.carried) >= 3
    assert (columns.is_sum == (op == "+")).all()


def test_a_neuron_may_be_lower_with_a_carry() -> None:
    carried, is_sum = np.array([True, False] * 4), np.arange(8) < 4
    values = np.where(carried, 1.0, 2.0).astype(np.float32)[:, None]
    values[6] = 3.0  # of a difference
    neuron = best_neuron(*[CarryPositions(carried, is_sum, [values])] * 2, "+")
    assert (neuron.direction, neuron.auc) == ("lower", {"+": 1.0, "-": 0.5})
    with_borrow, without = neuron.values["-"]
    assert (with_borrow.tolist(), without.tolist()) == ([1.0, 3.0], [2.0, 2.0])


def test_auc_counts_pairs() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    values, positive = rng.normal(size=(40, 3)), rng.random(40) < 0.3
    pairs = values[positive][:, None] > values[~positive][None]
    np.testing.assert_allclose(auc(values, positive), pairs.mean(axis=(0, 1)))
    assert np.isnan(auc(values, np.ones(40, bool))).all()
    activations = np.maximum(values, 0)  # as of ReLU: half of them are equal
    ties = activations[positive][:, None] == activations[~positive][None]
    pairs = (activations[positive][:, None] > activations[~positive][None]) + ties / 2
    np.testing.assert_allclose(auc(activations, positive), pairs.mean(axis=(0, 1)))


def test_the_shipped_model_is_whole_only_with_its_heads(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(case_lines, "BLOCK", 20)
    steps: list[int] = []
    circuits = find_circuits(checkpoint, 20, progress=steps.append)
    assert circuits.intact.sum() < 3
    assert max(wrong.sum() for wrong in circuits.ablated.values()) > 50
    n_head, n_layer = checkpoint.recipe.model.n_head, checkpoint.recipe.model.n_layer
    assert len(circuits.ablated) == n_layer * (n_head + 1)
    assert sum(steps) == n_passes(checkpoint.recipe.model)
    lines = sample_lines(20, 0, 1025)[1::2]
    assert circuits.n_position.sum() == sum(len(line) - line.index(b"=") - 1 for line in lines)
    record = json.loads(json.dumps(circuits.record()))
    assert [row["rule"] for row in record["rules"]] == RULES
    assert record["clear_neurons"]["n"] == circuits.n_clear > 1
    assert f"{circuits.n_clear} that tell a carry" in circuits.table()


def test_a_context_too_short_for_any_problem_is_refused() -> None:
    with pytest.raises(DataError, match="no problem fits in the model's context, 20 characters"):
        sample_lines(10, 0, 21)


def test_a_model_whose_attention_inserts_tokens_is_refused(checkpoint: Checkpoint) -> None:
    changes = {"attention": "landmark", "landmark_block": 16}
    config = checkpoint.recipe.model.model_copy(update=changes)
    recipe = checkpoint.recipe.model_copy(update={"model": config})
    model = build_model(config, len(checkpoint.tokenizer))
    other = Checkpoint.from_model("other", recipe, checkpoint.tokenizer, model, {})
    with pytest.raises(ConfigError, match="attention 'landmark' inserts tokens"):
        find_circuits(other, 10)


def test_a_model_without_worked_steps_is_refused(tiny_folder: Path) -> None:
    ended = CliRunner().invoke(cli, ["circuits", str(tiny_folder)])
    assert ended.exit_code == 2
    assert "does not write worked steps" in ended.output
