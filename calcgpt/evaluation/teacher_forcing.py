"""Many answers from one forward pass each.

Greedy decoding writes the reference line exactly if, at every place of the work and the answer, the
model's most probable character is that of the line. One pass over the line shows all places at
once. Only where they differ is the answer decoded, since work with other quotient digits may be
right, too.

Shapes: B lines, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from calcgpt.data.batches import NO_LOSS, ProblemLines
from calcgpt.data.problems import split_line
from calcgpt.data.tokenizer import Tokenizer
from calcgpt.evaluation.evaluate import answer_field, evaluate
from calcgpt.inference.results import confidence
from calcgpt.model.gpt import LanguageModel

TOKENS = 16_384  # of a batch, padding included


@dataclass(frozen=True)
class Answers:
    """n answers: whether each is right, how sure the model was, and what it wrote if it was not
    the line itself."""

    right: NDArray[np.bool_]  # (n,)
    confidence: NDArray[np.float64]  # (n,), `Confidence.whole`
    outputs: dict[int, str]  # by row: work and answer, where they differ from the line


@torch.inference_mode()
def answer_all(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: bytes,
    progress: Callable[[int], Any] = lambda n: None,
) -> Answers:
    """Answers the problems of a text, one a line, greedily. `progress` gets numbers of lines.

    A line that does not fit in the model's context counts as wrong. Raises DataError for a line
    without `=`, and for one that is not a problem if it has to be decoded.
    """
    lines = ProblemLines(text, tokenizer)
    texts = text.decode("ascii").splitlines()
    n = len(lines)
    right, sure = np.zeros(n, bool), np.zeros(n)
    device = next(model.parameters()).device
    for rows in _batches(lines.lengths, model.config.block_size):
        inputs, targets = lines.batch(rows)
        logits_BTV = model(inputs.to(device)).float().cpu()
        counted = targets != NO_LOSS
        best, chosen = logits_BTV.max(dim=2)
        probabilities_BT = (best - logits_BTV.logsumexp(dim=2)).exp()
        right[rows] = ((chosen == targets) | ~counted).all(dim=1).numpy()
        for row, probs_T, counted_T in zip(rows, probabilities_BT, counted, strict=True):
            prompt, equals, written = texts[row].partition("=")
            sure[row] = confidence(prompt + equals, written, probs_T[counted_T].tolist()).whole
        progress(len(rows))
    outputs: dict[int, str] = {}
    fits = lines.lengths <= model.config.block_size + 1
    others = np.flatnonzero(~right & fits).tolist()
    if others:
        problems = [split_line(texts[row]) for row in others]
        evaluation = evaluate(model, tokenizer, problems)
        written = zip(problems, evaluation.outputs, evaluation.probabilities, strict=True)
        for row, (line, output, probabilities) in zip(others, written, strict=True):
            outputs[row] = output
            right[row] = answer_field(line, output) == line.field
            sure[row] = confidence(line.prompt, output, probabilities).whole
    return Answers(right, sure, outputs)


def _batches(lengths: NDArray[np.int64], block_size: int) -> Iterator[NDArray[np.int64]]:
    """Yields the rows of each batch: lines of like lengths, that fit in the context."""
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] <= block_size + 1]
    while len(order):
        # As many as fit, if all were as long as the longest of the next 32.
        count = max(1, TOKENS // int(lengths[order[:32]].max()))
        yield order[:count]
        order = order[count:]
