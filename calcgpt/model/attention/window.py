"""Sliding-window attention (Longformer; Beltagy et al. 2020, section 3.1. Mistral 7B; Jiang et al.
2023, section 2)."""

from __future__ import annotations

import torch

from calcgpt.config import ModelConfig
from calcgpt.model.attention.base import ATTENTIONS, AttentionScheme, causal


@ATTENTIONS.register("window")
class WindowAttention(AttentionScheme):
    """A query sees the last `window` tokens, itself included."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        self.window = config.window

    def visible(self, n_query: int, n_key: int, device: torch.device) -> torch.Tensor | None:
        past = causal(n_query, n_key, device)
        return past.triu(n_key - n_query - self.window + 1)
