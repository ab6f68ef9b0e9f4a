"""A compiled forward pass: one graph for batches of all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from calcgpt.model.gpt import LanguageModel


def compiled(
    module: nn.Module, model: LanguageModel, **options: Any
) -> Callable[..., torch.Tensor]:
    """Returns a function that calls `module`, the model or what wraps it, compiled: tokens (B, T),
    and what the model reads from them if that was read before, to logits (B, T, V).

    What Python reads from the text is read before the graph begins. Sizes are symbols in the graph:
    batches of problems have many widths. `options` are those of `torch.compile`.
    """
    graph = torch.compile(module, dynamic=True, **options)

    def forward(tokens_BT: torch.Tensor, read: torch.Tensor | None = None) -> torch.Tensor:
        read = model.read(tokens_BT) if read is None else read
        logits_BTV: torch.Tensor = graph(tokens_BT, read=read)
        return logits_BTV

    return forward
