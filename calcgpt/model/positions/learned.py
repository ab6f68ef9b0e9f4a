"""Learned absolute positions, added to the token embeddings (GPT; Radford et al. 2018)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.positions.base import POSITIONS, PositionalScheme
from calcgpt.model.sizes import Sizes


@POSITIONS.register("learned")
class LearnedPositions(PositionalScheme):
    """One vector for each position."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.table = nn.Embedding(n_positions, config.n_embd)

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return super().count(config, s) + s.N * s.C

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        return x_BTC + self.table.weight[start : start + x_BTC.size(1)]
