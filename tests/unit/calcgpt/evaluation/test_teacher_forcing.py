"""Answers by one pass are those of greedy decoding."""

import numpy as np
import torch

from calcgpt.checkpoint import Checkpoint, resolve
from calcgpt.data.problems import split_line
from calcgpt.evaluation.evaluate import evaluate
from calcgpt.evaluation.teacher_forcing import answer_all
from calcgpt.inference.results import confidence
from datagen.distributions import distribution
from datagen.drawing import bit_generator
from datagen.formats import line_format


def test_right_and_confident_as_by_decoding() -> None:
    checkpoint = Checkpoint.load(resolve("steps"))
    chosen = line_format("steps", 7)
    [problems] = distribution("calculator")(bit_generator(1, 0, 0), 60)
    problems = problems.take(np.flatnonzero(chosen.fits(problems))[:40])
    text = chosen.render_lines(problems)
    torch.manual_seed(0)
    with torch.no_grad():  # a damaged model, so that some answers are wrong
        for parameter in checkpoint.model.parameters():
            parameter += 0.03 * torch.randn_like(parameter)
    batches: list[int] = []
    answers = answer_all(checkpoint.model, checkpoint.tokenizer, text, batches.append)
    lines = [split_line(line) for line in text.decode().splitlines()]
    decoded = evaluate(checkpoint.model, checkpoint.tokenizer, lines)
    assert answers.right.tolist() == decoded.right
    assert 0 < sum(decoded.right) < len(lines)
    written = zip(lines, decoded.outputs, decoded.probabilities, strict=True)
    expected = [confidence(line.prompt, output, p).whole for line, output, p in written]
    np.testing.assert_allclose(answers.confidence, expected, rtol=1e-3, atol=1e-6)
    assert sum(batches) == len(lines)
    for row, output in answers.outputs.items():
        assert output == decoded.outputs[row]


def test_a_line_beyond_the_context_is_wrong() -> None:
    checkpoint = Checkpoint.load(resolve("direct"))
    text = line_format("direct").render_lines(next(distribution("blog")(bit_generator(1, 0, 0), 3)))
    long = b"$(" + b"1" * 40 + b"+" + b"1" * 40 + b")=" + b"2" * 40 + b"$\n"
    answers = answer_all(checkpoint.model, checkpoint.tokenizer, text + long)
    assert not answers.right[3]
    assert answers.confidence[3] == 0
