"""Decoding in fixed memory writes what step by step decoding writes. On a GPU, also with graphs."""

from typing import NoReturn

import numpy as np
import pytest
import torch

from benchmarks.variants import variants
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.sources import training_data
from calcgpt.evaluation.evaluate import evaluate
from calcgpt.inference.drafts import torch_model
from calcgpt.inference.generate import Completion, complete, generate
from calcgpt.inference.graph_decoder import GraphDecoder
from calcgpt.model.attention import FIRST_CAPACITY
from calcgpt.model.gpt import LanguageModel, build_model
from calcgpt.registry import resolve

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
        torch.nn.init.normal_(parameter, std=0.5)  # rows differ, and end at unlike times
    decoder = GraphDecoder(model.to(device))
    for seed, n_prompt in enumerate((6, 6, 6, 1, 11)):
        prompts = np.random.default_rng(seed).integers(VOCAB, size=(9 - seed, n_prompt))
        written = generate(model, prompts, VOCAB)
        stop = written[0].ids[7]
        assert_same(generate(decoder, prompts, VOCAB), written)
        assert_same(generate(decoder, prompts, stop, 25), generate(model, prompts, stop, 25))


class Unused(GraphDecoder):
    def write(self, *arguments: object) -> NoReturn:
        raise AssertionError("the answers were decoded")


def test_right_answers_are_read_in_one_pass() -> None:
    checkpoint = Checkpoint.load(resolve("scratchpad-tiny"))
    lines = training_data(checkpoint.recipe, None).validation_problems(20)
    assert lines
    decoder = Unused(checkpoint.model)
    assert torch_model(decoder) is checkpoint.model
    assert evaluate(decoder, checkpoint.tokenizer, lines).scores.exact_match == 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["scratchpad-long", "scratchpad-tiny"])  # without and with windows
def test_worked_steps_of_unlike_lengths(name: str, device: str) -> None:
    """Answers end at unlike times, and the longest need more memory than there is at first."""
    checkpoint = Checkpoint.load(resolve(name))
    tokenizer, stop = checkpoint.tokenizer, int(checkpoint.tokenizer.encode("$")[0])
    prompts = [f"$({a:0>10}{op}{b:0>10})=" for a, op, b in QUESTIONS]
    expected = complete(checkpoint.model.eval(), tokenizer, prompts, stop)
    lengths = {len(row.ids) for row in expected}
    assert len(lengths) > 4
    assert max(lengths) > FIRST_CAPACITY
    decoder = GraphDecoder(checkpoint.model.to(device))
    for _ in range(3):  # on a GPU: as usual, captured, replayed
        assert_same(complete(decoder, tokenizer, prompts, stop), expected)
