"""Fixed sinusoidal positions, added to the token embeddings (Vaswani et al. 2017, section 3.5)."""

from __future__ import annotations

import torch

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.model.positions.base import POSITIONS, PositionalScheme

BASE = 10_000.0


@POSITIONS.register("sinusoidal")
class SinusoidalPositions(PositionalScheme):
    """Channel 2i of position t is sin(t / 10000^(2i/C)), channel 2i + 1 the cosine of the same."""

    table_NC: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        half = config.n_embd // 2
        frequencies = BASE ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies
        table = torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)  # (N, C)
        # Computed once, from the config: not part of a checkpoint.
        self.register_buffer("table_NC", table.float(), persistent=False)

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        super().check(config)
        if config.n_embd % 2:
            raise ConfigError(f"sinusoidal positions need an even n_embd, not {config.n_embd}")

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        return x_BTC + self.table_NC[start : start + x_BTC.size(1)]
