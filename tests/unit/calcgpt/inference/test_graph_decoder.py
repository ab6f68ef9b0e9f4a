"""Decoding in fixed memory writes what step by step decoding writes. On a GPU, also with graphs."""

import copy
from typing import NoReturn
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.data.sources import training_data
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.evaluation.evaluate import evaluate
from calcgpt.inference import graph_decoder
from calcgpt.inference.drafts import torch_model
from calcgpt.inference.generate import NO_TOKEN, Completion, complete, generate
from calcgpt.inference.graph_decoder import GraphDecoder
from calcgpt.model.attention import FIRST_CAPACITY
from calcgpt.model.base import LanguageModel
from calcgpt.model.gpt import build_model
from calcgpt.recipe import load_recipe
from calcgpt.registry import resolve
from tools.agreement import variants

VOCAB = 21
VARIANTS = variants()
QUESTIONS = [
    *(("7", "+", "5"), ("12.25", "-", "99999"), ("640", "*", "25.5"), ("1", "/", "7")),
    *(("87654.32", "*", "-23456.7"), ("1000000", "/", "3"), ("0", "/", "0"), ("99.9", "*", "0")),
    *(("123456789.01", "*", "987654321.09"), ("987654321.09", "+", "123456789.01")),
]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def assert_same(actual: list[Completion], expected: list[Completion]) -> None:
    assert [row.ids for row in actual] == [row.ids for row in expected]
    for row, other in zip(actual, expected, strict=True):
        assert row.probabilities == pytest.approx(other.probabilities, rel=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_writes_the_same(name: str, device: str) -> None:
    torch.manual_seed(0)
    config = VARIANTS[name].model_copy(update={"n_layer": 2, "block_size": 40})
    model: LanguageModel = build_model(config, VOCAB).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # rows differ, and end at different times
    decoder = GraphDecoder(model.to(device))
    for seed, n_prompt in enumerate((6, 6, 6, 1, 11)):
        prompts = np.random.default_rng(seed).integers(VOCAB, size=(9 - seed, n_prompt))
        written = generate(model, prompts, VOCAB)
        stop = written[0].ids[7]
        assert_same(generate(decoder, prompts, VOCAB), written)
        assert_same(generate(decoder, prompts, stop, 25), generate(model, prompts, stop, 25))


class Graph:
    """Replays a step in the memory of the time when it was captured, as a CUDA graph does."""

    n_replayed = 0

    def __init__(self, memory: graph_decoder._Memory, *step: int) -> None:
        self.memory, self.step = copy.copy(memory), step

    def replay(self) -> None:
        Graph.n_replayed += 1
        self.memory._step(*self.step)


def test_steps_are_replayed_where_their_memory_still_is(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    tokenizer, stop = checkpoint.tokenizer, int(checkpoint.tokenizer.encode("$")[0])
    prompts = [f"$({a:0>10}{op}{b:0>10})=" for a, op, b in QUESTIONS]
    expected = complete(checkpoint.model.eval(), tokenizer, prompts, stop)
    decoder = GraphDecoder(checkpoint.model)
    monkeypatch.setattr(graph_decoder._Memory, "_capture", lambda *step: Graph(*step))
    monkeypatch.setattr("torch.cuda.graph_pool_handle", lambda: None)
    n_short = 6  # their answers fit in the memory that there is at first
    for n in (n_short, n_short, n_short, len(prompts), n_short, n_short, n_short):
        assert_same(complete(decoder, tokenizer, prompts[:n], stop), expected[:n])
        assert decoder._memory
        decoder._memory._can_capture = True
    assert Graph.n_replayed > 500
    before = Graph.n_replayed
    for parameter in decoder.parameters():
        parameter.data = torch.zeros_like(parameter)
    complete(decoder, tokenizer, prompts[:n_short], stop)
    assert Graph.n_replayed == before  # a graph reads weights where they were


class Unused(GraphDecoder):
    def write(self, *arguments: object) -> NoReturn:
        raise AssertionError("the answers were decoded")


def test_right_answers_are_read_in_one_pass() -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    lines = training_data(checkpoint.recipe, None).validation_problems(20)
    assert lines
    decoder = Unused(checkpoint.model)
    assert torch_model(decoder) is checkpoint.model
    assert evaluate(decoder, checkpoint.tokenizer, lines).scores.exact_match == 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block", [16, 64])  # shorter and longer than the prompt
def test_coordinates_between_landmarks(block: int, device: str) -> None:
    recipe = load_recipe("calculator-tiny")
    changes = {"attention": "landmark", "landmark_block": block, "block_size": 200}
    config = recipe.model.model_copy(update={**changes, "row_window": None, "column_window": None})
    torch.manual_seed(0)
    model: LanguageModel = build_model(config, len(config.characters)).eval()
    tokenizer = CharTokenizer(config.characters)
    prompts = [f"$({a:0>10}{op}{b:0>10})=" for a, op, b in QUESTIONS[:6]]
    expected = complete(model, tokenizer, prompts, NO_TOKEN)
    decoder = GraphDecoder(model.to(device))
    for _ in range(3):
        assert_same(complete(decoder, tokenizer, prompts, NO_TOKEN), expected)


def test_memory_is_that_of_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text after many short ones needs no memory for as many long ones."""
    monkeypatch.setattr(graph_decoder, "MAX_TOKENS", 128 * FIRST_CAPACITY)
    config = ModelConfig(n_layer=1, n_embd=8, n_head=1, block_size=3 * FIRST_CAPACITY)
    model: LanguageModel = build_model(config, VOCAB).eval()
    decoder = GraphDecoder(model)
    prompts = np.ones((100, 5), np.int64)
    for n_row, length in ((100, 3), (3, 2 * FIRST_CAPACITY), (50, 4)):
        expected = generate(model, prompts[:n_row], NO_TOKEN, length)
        assert_same(generate(decoder, prompts[:n_row], NO_TOKEN, length), expected)
        assert decoder._memory
        n_slot, n_token = decoder._memory.tokens_BN.shape
        assert n_slot * n_token < 128 * 2 * FIRST_CAPACITY


def test_a_decoder_works_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(n_layer=1, n_embd=8, n_head=1, block_size=3 * FIRST_CAPACITY)
    model: LanguageModel = build_model(config, VOCAB).eval()
    decoder, prompts = GraphDecoder(model), np.ones((2, 5), np.int64)
    generate(decoder, prompts, NO_TOKEN, 3)
    with monkeypatch.context() as patch:
        patch.setattr("torch.nn.functional.pad", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            generate(decoder, prompts, NO_TOKEN, 2 * FIRST_CAPACITY)
    for length in (3, 2 * FIRST_CAPACITY):
        expected = generate(model, prompts, NO_TOKEN, length)
        assert_same(generate(decoder, prompts, NO_TOKEN, length), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_worked_steps_of_different_lengths(device: str) -> None:
    """Answers end at different times, and the longest need more memory than there is at first."""
    checkpoint = Checkpoint.load(resolve("calculator"))
    tokenizer, stop = checkpoint.tokenizer, int(checkpoint.tokenizer.encode("$")[0])
    prompts = [f"$({a:0>10}{op}{b:0>10})=" for a, op, b in QUESTIONS]
    expected = complete(checkpoint.model.eval(), tokenizer, prompts, stop)
    lengths = {len(row.ids) for row in expected}
    assert len(lengths) > 4
    assert max(lengths) > FIRST_CAPACITY
    decoder = GraphDecoder(checkpoint.model.to(device))
    for _ in range(3):  # on a GPU: as usual, captured, replayed
        assert_same(complete(decoder, tokenizer, prompts, stop), expected)
