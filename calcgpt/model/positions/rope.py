"""Rotary position embedding (RoFormer; Su et al. 2021, section 3.4.2)."""

from __future__ import annotations

import torch

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.model.positions.base import POSITIONS, PositionalScheme


@POSITIONS.register("rope")
class RotaryPositions(PositionalScheme):
    """Channel i of a head and channel i + D/2 are a point in the plane, turned by the angle
    t * base^(-2i/D) at position t: scores depend on the distance of two tokens alone.

    The pairing by halves is that of GPT-NeoX and Llama; the paper's, by neighbours, is the same
    up to a permutation of channels.
    """

    cos_TD: torch.Tensor
    sin_TD: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        half = config.head_dim // 2
        frequencies = config.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies
        # Each table holds its half twice, so that a rotation is two products and one roll.
        # Computed once, from the config: not part of a checkpoint.
        self.register_buffer("cos_TD", angles.cos().repeat(1, 2).float(), persistent=False)
        sin = angles.sin().float()
        self.register_buffer("sin_TD", torch.cat((-sin, sin), dim=1), persistent=False)

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        super().check(config)
        if config.head_dim % 2:
            raise ConfigError(f"rope needs an even head width, not {config.head_dim}")

    def rotate(self, x_BHTD: torch.Tensor, start: int) -> torch.Tensor:
        stop = start + x_BHTD.size(2)
        swapped = x_BHTD.roll(x_BHTD.size(3) // 2, dims=3)
        turned = torch.addcmul(x_BHTD * self.cos_TD[start:stop], swapped, self.sin_TD[start:stop])
        return turned.type_as(x_BHTD)
