"""What is measured of a model on batches: its mean loss, and in how many cases it is wrong, of all
that the rules of worked steps may have."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from calcgpt_lab.data.batches import BatchSource, has_loss, micro_batches
from calcgpt_lab.data.cases import CaseBatches
from calcgpt_lab.model.base import LanguageModel, Loss, summed_loss

HARD_MARGIN = 2.0  # logits; cases with a lower margin are hard
AT_ONCE = 8_192


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


@torch.no_grad()
def case_margins(model: LanguageModel, cases: CaseBatches) -> NDArray[np.float32]:
    """Returns by how many logits the best right token exceeds the best wrong one, (n,): not
    positive where the model is wrong."""
    was_training = model.training
    model.eval()
    parts = []
    for start in range(0, len(cases.features), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        features = torch.from_numpy(cases.features[part, None].astype(np.int64)).to(model.device)
        right = torch.from_numpy(cases.right[part]).to(model.device)
        logits_NV = model(features)[:, 0].float()
        best_right = logits_NV.masked_fill(~right, -torch.inf).amax(dim=1)
        best_wrong = logits_NV.masked_fill(right, -torch.inf).amax(dim=1)
        parts.append((best_right - best_wrong).cpu().numpy())
    model.train(was_training)
    return np.concatenate(parts)


def count_cases(model: LanguageModel, batches: BatchSource) -> dict[str, Any]:
    """Returns how many cases there are, in how many the model is wrong and its least margin, if it
    learns from cases. Notes which are hard, so that batches have more of them."""
    if not isinstance(batches, CaseBatches):
        return {}
    margins = case_margins(model, batches)
    batches.set_hard(margins < HARD_MARGIN)
    wrong, held_out = ~(margins > 0), batches.held_out
    counts = {"n": len(margins), "wrong": int(wrong.sum()), "least_margin": float(margins.min())}
    if held_out.any():
        counts |= {"held_out": int(held_out.sum()), "held_out_wrong": int(wrong[held_out].sum())}
    return {"cases": counts}
