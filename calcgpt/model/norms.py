"""Normalisation layers, by name. Each is called with the width it normalises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from calcgpt.registry import Registry

NORMS: Registry[Callable[[int], nn.Module]] = Registry("norm")


@NORMS.register("layernorm")
def layer_norm(width: int) -> nn.Module:
    """Layer normalisation with gain and bias (Ba et al. 2016)."""
    return nn.LayerNorm(width)


@NORMS.register("rmsnorm")
class RMSNorm(nn.Module):
    """Root-mean-square normalisation with a gain (Zhang & Sennrich 2019, eq. 4)."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (..., width) -> (..., width), computed in float32 whatever the input's type."""
        return nn.functional.rms_norm(
            x.float(), self.weight.shape, self.weight.float(), self.eps
        ).type_as(x)
