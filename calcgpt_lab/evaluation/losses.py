"""The loss of a model: over batches in training, and over a whole text.

Shapes: B sequences, T tokens, V vocabulary.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from calcgpt.base.errors import DataError
from calcgpt.tokenizer import Tokenizer
from calcgpt_lab.data.batches import BatchSource, has_loss, micro_batches
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.records import perplexity

Loss = Callable[..., torch.Tensor]  # see `summed_loss`


def summed_loss(forward: Callable[..., torch.Tensor]) -> Loss:
    """Returns a function that computes the loss of `forward`, which is a model or stands for one.

    The function takes inputs and targets, each (B, T), and `features`: the result of
    `model.text_features(inputs)`, if you have it. It returns the cross-entropy in nats, summed over
    the targets; a scalar. Targets (B, T, V) are flags of right tokens: the loss is that of all of
    them together.
    """

    def loss(
        inputs: torch.Tensor, targets: torch.Tensor, features: torch.Tensor | None = None
    ) -> torch.Tensor:
        logits_BTV = forward(inputs, features=features)
        if targets.dim() == 3:
            logprobs_BTV = logits_BTV.float().log_softmax(dim=2)
            return -logprobs_BTV.masked_fill(~targets, -math.inf).logsumexp(dim=2).sum()
        return F.cross_entropy(logits_BTV.flatten(0, 1).float(), targets.flatten(), reduction="sum")

    return loss


class TextScores(NamedTuple):
    """How well a model predicts a text."""

    loss: float  # nats per token
    n_tokens: int
    n_characters: int

    @property
    def perplexity(self) -> float:
        """`metrics.perplexity` of the loss."""
        return perplexity(self.loss)

    @property
    def bits_per_character(self) -> float:
        """The loss of all tokens in bits, per character, which tokenizers do not change."""
        return self.loss * self.n_tokens / math.log(2) / self.n_characters


@torch.no_grad()
def score_text(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    progress: Callable[[int], Any] = lambda n: None,
    batch_size: int = 16,
) -> TextScores:
    """Scores the prediction of every token of a text but the first.

    The text is cut into blocks of the model's context. A token is predicted from the tokens before
    it in its block. Raises DataError if the text has fewer than two tokens, or a character
    that the tokenizer does not know.
    """
    ids = torch.from_numpy(tokenizer.encode(text).astype(np.int64))
    n_targets, block = len(ids) - 1, model.config.block_size
    if n_targets < 1:
        raise DataError("the text is too short: it needs two tokens")
    cut = n_targets - n_targets % block
    inputs, targets = ids[:cut].view(-1, block), ids[1 : cut + 1].view(-1, block)
    parts = [
        (inputs[row : row + batch_size], targets[row : row + batch_size])
        for row in range(0, len(inputs), batch_size)
    ]
    if cut < n_targets:
        parts.append((ids[None, cut:-1], ids[None, cut + 1 :]))
    device, total = model.device, 0.0
    model.eval()
    loss = summed_loss(model)
    for inputs, targets in parts:
        total += float(loss(inputs.to(device), targets.to(device)))
        progress(targets.numel())
    return TextScores(total / n_targets, n_targets, len(text))


@torch.no_grad()
def mean_loss(
    model: LanguageModel,
    batches: BatchSource,
    count: int,
    size: int,
    *,
    n_parts: int = 1,
    loss: Loss | None = None,
) -> float:
    """Returns the cross-entropy in nats per target over `count` batches of `size` sequences.

    Each batch is split into `n_parts` micro-batches. `loss` is the model's `summed_loss`, if it
    exists already, for example compiled.
    """
    loss = loss or summed_loss(model)
    was_training, device = model.training, model.device
    model.eval()
    total, n_target = 0.0, 0
    for index in range(count):
        batch = batches.batch(index, size)
        for inputs, targets in micro_batches(batch, n_parts):
            total += float(loss(inputs.to(device), targets.to(device)))
        n_target += int(has_loss(batch[1]).sum())
    model.train(was_training)
    return total / n_target
