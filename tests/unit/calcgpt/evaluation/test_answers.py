"""Answers by one pass are those of decoding."""

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.data.problems import Line, split_line
from calcgpt.evaluation import evaluate as module
from calcgpt.evaluation.evaluate import answer
from calcgpt.inference import drafts
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import Completion, generate
from calcgpt.registry import resolve
from datagen.distributions import distribution
from datagen.formats import renderer
from datagen.sampling import bit_generator
from datagen.work import render


def problem_lines(name: str, format_: str, n: int) -> list[Line]:
    [problems] = distribution(name)(bit_generator(1, 0, 0), n)
    return [split_line(line) for line in renderer(format_)(problems).decode().splitlines()]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the prompts that were decoded."""
    lengths: list[int] = []

    def spy(model: Any, prompts_BP: Any, *args: Any, **kwargs: Any) -> list[Completion]:
        lengths.extend([prompts_BP.shape[1]] * len(prompts_BP))
        return generate(model, prompts_BP, *args, **kwargs)

    monkeypatch.setattr(module, "generate", spy)
    return lengths


@pytest.mark.parametrize(
    ("distribution", "noise", "engine"), [("calculator", 0.03, "torch"), ("blog", 0.0, "native")]
)
def test_answers_by_one_pass_are_those_of_decoding(
    distribution: str, noise: float, engine: str, decoded: list[int]
) -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    lines = problem_lines(distribution, "scratchpad", 16)
    torch.manual_seed(0)
    with torch.no_grad():  # a damaged model, so that some answers are wrong
        for parameter in checkpoint.model.parameters():
            parameter += noise * torch.randn_like(parameter)
    counts: list[int] = []
    _, decoder = load_decoder(checkpoint, engine)
    quick = answer(decoder, checkpoint.tokenizer, lines, progress=counts.append)
    assert sum(counts) == len(lines)
    assert len(decoded) < 4
    is_other = [one.output != line.completion for one, line in zip(quick, lines, strict=True)]
    assert any(is_other) or not noise
    plain = answer(checkpoint.model, checkpoint.tokenizer, lines, plain=True)
    for one, other in zip(quick, plain, strict=True):
        assert one.output == other.output
        assert one.probabilities == pytest.approx(other.probabilities, rel=1e-3, abs=1e-6)


def test_other_quotient_digits_are_read_in_another_pass(decoded: list[int]) -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    _, decoder = load_decoder(checkpoint, "native")
    lines = [line for line in problem_lines("blog", "scratchpad", 40) if line.operation == "/"]
    # All digits are the second nearest, where they can be.
    words = np.zeros(len(lines), np.uint64)
    loose = render([line.prompt.encode() for line in lines], words)
    others = [split_line(line.decode()) for line in loose]
    assert others != lines
    answers, expected = (answer(decoder, checkpoint.tokenizer, texts) for texts in (others, lines))
    assert [one.output for one in answers] == [one.output for one in expected]
    assert not decoded


def test_a_line_is_read_only_so_often(decoded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    _, decoder = load_decoder(checkpoint, "native")
    line = problem_lines("blog", "scratchpad", 1)[0]
    wrong = dataclasses.replace(line, completion=line.completion.replace("=", "0=", 1))
    monkeypatch.setattr(drafts, "MAX_DRAFTS", 1)
    [expected] = answer(decoder, checkpoint.tokenizer, [line])
    [one] = answer(decoder, checkpoint.tokenizer, [wrong])
    assert one.output == expected.output
    assert decoded == [len(line.prompt)]


def test_lines_that_no_pass_can_read_are_decoded(tiny: Checkpoint, decoded: list[int]) -> None:
    [line] = problem_lines("blog", "direct", 1)
    long = dataclasses.replace(line, completion="1" * 64 + "$")
    unknown = dataclasses.replace(line, completion=f"x=é={line.answer}")
    early = dataclasses.replace(line, completion=f"1$={line.answer}")
    lines = [long, unknown, early]
    answers = answer(tiny.model, tiny.tokenizer, lines)
    assert len(decoded) == 3
    [expected] = answer(tiny.model, tiny.tokenizer, [line], plain=True)
    assert [one.output for one in answers] == [expected.output] * 3


def test_where_two_characters_are_equally_probable_decoding_decides(
    tiny: Checkpoint, decoded: list[int]
) -> None:
    model = copy.deepcopy(tiny.model)
    torch.nn.init.zeros_(model.get_submodule("head").weight)  # type: ignore[arg-type]
    lines = problem_lines("blog", "direct", 1)
    prompt = lines[0].prompt
    first = tiny.tokenizer.decode([0])
    lines = [Line(prompt, first * 10 + "$", "+"), Line(prompt, "1" * 10 + "$", "+")]
    one, other = answer(model, tiny.tokenizer, lines)
    assert one == other
    assert len(decoded) == 2


def test_a_model_that_is_mostly_wrong_reads_few_lines(
    tiny: Checkpoint, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "N_TRIED", 4)
    monkeypatch.setattr(drafts, "TOKENS_OF_CPU", 80)  # two lines
    model, passes = copy.deepcopy(tiny.model), []
    model.register_forward_hook(lambda module, inputs, output: passes.append(output.shape[1]))
    lines = problem_lines("blog", "direct", 20)
    answer(model, tiny.tokenizer, lines)
    assert len(decoded) == 20
    assert passes.count(35) == 2
