"""Learned absolute positions inside every attention layer, "integrated" (Al-Rfou et al. 2018,
section 2.3, in the form of the posts)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.positions.base import POSITIONS, PositionalScheme
from calcgpt.model.sizes import Sizes


class IntegratedBase(PositionalScheme):
    """One vector for each position and layer, which queries meet as they meet the keys.

    A score is q (k + p) / sqrt(D): adding p to the keys is the same as adding q p to the scores,
    and leaves the fused kernels usable.
    """

    table: nn.Parameter

    def keys(self, k_BGTD: torch.Tensor, start: int, layer: int) -> torch.Tensor:
        return k_BGTD + self.table[layer, :, start : start + k_BGTD.size(2)]


@POSITIONS.register("integrated")
class IntegratedPositions(IntegratedBase):
    """All heads of a layer share the vectors."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        shape = (config.n_layer, 1, n_positions, config.head_dim)
        self.table = nn.Parameter(0.02 * torch.randn(shape))

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.L * s.N * s.D


@POSITIONS.register("integrated-per-head")
class IntegratedPositionsPerHead(IntegratedBase):
    """Every key/value head has its own vectors."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        shape = (config.n_layer, config.kv_heads, n_positions, config.head_dim)
        self.table = nn.Parameter(0.02 * torch.randn(shape))

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.L * s.G * s.N * s.D
