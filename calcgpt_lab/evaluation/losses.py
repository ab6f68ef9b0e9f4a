"""The mean loss of a model over many batches."""

import torch

from calcgpt_lab.data.batches import BatchSource, has_loss, micro_batches
from calcgpt_lab.model.base import LanguageModel, Loss, summed_loss


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
