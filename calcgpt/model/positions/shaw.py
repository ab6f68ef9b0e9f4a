"""Relative position embeddings (Shaw et al. 2018, section 3.2), by the skew of Huang et al. 2018
(Music Transformer, section 3.4.1)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.model.positions.base import POSITIONS, PositionalScheme
from calcgpt.model.sizes import Sizes


@POSITIONS.register("shaw")
class ShawPositions(PositionalScheme):
    """One vector for each distance and layer, shared by the heads, that queries meet beside the
    keys: eq. 5. Distances from `max_distance` on share the last one.

    The paper's second set of vectors, for the values, is left out: its ablation (table 3) finds
    that it adds nothing.
    """

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.scale = 1 / math.sqrt(config.head_dim)
        n_distance = min(config.max_distance + 1, n_positions)
        self.table = nn.Parameter(0.02 * torch.randn(config.n_layer, n_distance, config.head_dim))

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.L * s.M * s.D

    def scores(self, q_BHTD: torch.Tensor, start: int, layer: int) -> torch.Tensor | None:
        T = q_BHTD.size(2)
        S = start + T
        last = self.table.size(1) - 1
        # Column c holds the score at distance S - 1 - c: no (T, S, D) tensor is needed.
        distance_S = torch.arange(S - 1, -1, -1, device=q_BHTD.device).clamp(max=last)
        by_distance = q_BHTD @ self.table[layer, distance_S].T * self.scale  # (B,H,T,S)
        return skew(by_distance)


def skew(x_BHTS: torch.Tensor) -> torch.Tensor:
    """Row t moved left by T - 1 - t, so that columns by falling distance become columns by key;
    what moves in from the right lies in the future."""
    B, H, T, S = x_BHTS.shape
    flat = F.pad(x_BHTS, (0, 1)).flatten(-2)  # one more column: each row starts one further left
    return flat[..., T - 1 : T - 1 + T * S].reshape(B, H, T, S)
