"""Normalisation layers, by name. Each is built from the width it normalises and from whether it may
have a bias."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from calcgpt.registry import Registry


class NormType(Protocol):
    """A class of modules that map (..., width) -> (..., width)."""

    def __call__(self, width: int, bias: bool) -> nn.Module: ...

    def count(self, width: Any, bias: bool) -> Any:
        """Parameters; `width` may be a symbol."""


NORMS: Registry[NormType] = Registry("norm")


@NORMS.register("layernorm")
class LayerNorm(nn.LayerNorm):
    """Layer normalisation with gain and, unless switched off, bias (Ba et al. 2016)."""

    def __init__(self, width: int, bias: bool = True) -> None:
        super().__init__(width, bias=bias)

    @staticmethod
    def count(width: Any, bias: bool) -> Any:
        return 2 * width if bias else width


@NORMS.register("rmsnorm")
class RMSNorm(nn.Module):
    """Root-mean-square normalisation with a gain, never a bias (Zhang & Sennrich 2019, eq. 4)."""

    def __init__(self, width: int, bias: bool = False, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    @staticmethod
    def count(width: Any, bias: bool) -> Any:
        return width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Computed in float32 at least, whatever the input's type."""
        exact = x if x.dtype == torch.float64 else x.float()
        return nn.functional.rms_norm(
            exact, self.weight.shape, self.weight.to(exact.dtype), self.eps
        ).type_as(x)
