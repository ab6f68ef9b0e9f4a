"""Attention with linear biases (ALiBi; Press et al. 2022)."""

from __future__ import annotations

import math

import torch

from calcgpt.config import ModelConfig
from calcgpt.model.positions.base import POSITIONS
from calcgpt.model.positions.distance_bias import DistanceBias


@POSITIONS.register("alibi")
class ALiBi(DistanceBias):
    """A fixed penalty that grows with the distance, steeper or flatter by head (section 3)."""

    slope_H: torch.Tensor
    distance_N: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        slopes = torch.tensor(alibi_slopes(config.n_head))
        self.register_buffer("slope_H", slopes, persistent=False)
        self.register_buffer("distance_N", torch.arange(n_positions), persistent=False)

    def by_distance(self) -> torch.Tensor:
        return -self.slope_H[:, None] * self.distance_N


def alibi_slopes(n_head: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), ... for n heads. Where n is no power of two: those of the power below
    it, then every other one of those of the power above (the authors' code)."""
    power = 2 ** int(math.log2(n_head))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * i / power) for i in range(1, 2 * power, 2)]
    return slopes + between[: n_head - power]
