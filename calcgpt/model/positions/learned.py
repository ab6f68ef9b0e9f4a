"""Learned absolute positions, added to the token embeddings (GPT; Radford et al. 2018)."""

from __future__ import annotations

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.positions.base import POSITIONS, PositionalScheme


@POSITIONS.register("learned")
class LearnedPositions(PositionalScheme):
    """One vector for each of `block_size` positions."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.table = nn.Embedding(config.block_size, config.n_embd)

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        return x_BTC + self.table.weight[start : start + x_BTC.size(1)]
