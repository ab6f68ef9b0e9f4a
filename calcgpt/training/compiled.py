"""A compiled forward pass: one graph for batches of all sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from calcgpt.evaluation.evaluate import Forward
from calcgpt.model.gpt import LanguageModel


def compiled(module: nn.Module, model: LanguageModel, **options: Any) -> Forward:
    """Returns a function that calls `module`, the model or what wraps it, compiled.

    What Python reads from the text is read before the graph begins. Sizes are symbols in the graph:
    batches of problems have many widths. `options` are those of `torch.compile`.
    """
    graph = torch.compile(module, dynamic=True, **options)

    def forward(tokens_BT: torch.Tensor) -> torch.Tensor:
        logits_BTV: torch.Tensor = graph(tokens_BT, read=model.read(tokens_BT))
        return logits_BTV

    return forward
