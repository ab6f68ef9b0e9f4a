"""The loss of a model: of one batch, and its mean over many.

Shapes: B sequences, T tokens, V vocabulary.
"""

import math
from collections.abc import Callable

import torch
from torch.nn import functional as F

from calcgpt_lab.data.batches import BatchSource, has_loss, micro_batches
from calcgpt_lab.model.base import LanguageModel

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
