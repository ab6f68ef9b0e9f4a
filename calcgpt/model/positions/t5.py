"""T5's relative bias (Raffel et al. 2020, section 2.1), with a number for each distance or for each
bucket of distances."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.model.positions.base import POSITIONS
from calcgpt.model.positions.distance_bias import DistanceBias
from calcgpt.model.sizes import Sizes


@POSITIONS.register("t5")
class T5Bias(DistanceBias):
    """A learned number for each head and exact distance, shared by all layers (Raffel et al. 2020,
    section 2.1, without the buckets, as in the posts)."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.table = nn.Parameter(torch.zeros(config.n_head, n_positions))

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.H * s.N

    def by_distance(self) -> torch.Tensor:
        return self.table


@POSITIONS.register("t5-buckets")
class T5BucketedBias(DistanceBias):
    """A learned number for each head and bucket of distances, shared by all layers (Raffel et al.
    2020, section 2.1): `n_bucket` of them, the first half one distance each, the rest ever wider,
    up to `max_distance`, from which on all share the last."""

    bucket_N: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.table = nn.Parameter(torch.zeros(config.n_head, config.n_bucket))
        buckets = t5_buckets(n_positions, config.n_bucket, config.max_distance)
        self.register_buffer("bucket_N", buckets, persistent=False)

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        super().check(config)
        if config.max_distance <= config.n_bucket // 2:
            raise ConfigError(
                f"max_distance {config.max_distance} must be above half of n_bucket "
                f"{config.n_bucket}"
            )

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.H * s.K

    def by_distance(self) -> torch.Tensor:
        return self.table[:, self.bucket_N]


def t5_buckets(n_distance: int, n_bucket: int, max_distance: int) -> torch.Tensor:
    """(n_distance,), int64: the bucket of each distance."""
    exact = n_bucket // 2
    distance = torch.arange(n_distance)
    share = (distance.clamp(min=1).float() / exact).log() / math.log(max_distance / exact)
    wide = exact + (share * (n_bucket - exact)).long()
    return torch.where(distance < exact, distance, wide.clamp(max=n_bucket - 1))
