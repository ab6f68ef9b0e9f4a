"""The loss of a model: over batches in training, and over a whole text.

Shapes: B sequences, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from calcgpt.data.batches import NO_LOSS, Batch, BatchSource, micro_batches
from calcgpt.data.tokenizer import Tokenizer
from calcgpt.errors import DataError
from calcgpt.metrics import perplexity
from calcgpt.model.gpt import LanguageModel

Forward = Callable[[torch.Tensor], torch.Tensor]  # tokens (B, T) -> logits (B, T, V)


def loss_sum(forward: Forward, batch: Batch, device: torch.device) -> torch.Tensor:
    """Returns the cross-entropy of a batch in nats, summed over its targets; a scalar."""
    inputs, targets = (tensor.to(device, non_blocking=True) for tensor in batch)
    logits_BTV = forward(inputs)
    return F.cross_entropy(logits_BTV.flatten(0, 1).float(), targets.flatten(), reduction="sum")


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
    device, total = next(model.parameters()).device, 0.0
    model.eval()
    for part in parts:
        total += float(loss_sum(model, part, device))
        progress(part[1].numel())
    return TextScores(total / n_targets, n_targets, len(text))


@torch.no_grad()
def mean_loss(
    model: LanguageModel,
    batches: BatchSource,
    count: int,
    size: int,
    *,
    n_parts: int = 1,
    forward: Forward | None = None,
) -> float:
    """Returns the cross-entropy in nats per target over `count` batches of `size` sequences.

    Each batch is split into `n_parts` micro-batches. `forward` is called in place of the model.
    """
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    total, n_target = 0.0, 0
    for index in range(count):
        batch = batches.batch(index, size)
        parts = micro_batches(batch, n_parts)
        total += sum(
            float(loss_sum(model if forward is None else forward, part, device)) for part in parts
        )
        n_target += int((batch[1] != NO_LOSS).sum())
    model.train(was_training)
    return total / n_target
