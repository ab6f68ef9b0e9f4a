"""Dropout that costs nothing where there is none."""

from __future__ import annotations

from torch import nn


def dropout(p: float) -> nn.Module:
    """Dropout (Srivastava et al. 2014) with probability `p`; with none, no operation at all: one
    that does nothing still takes microseconds, several times a layer and token."""
    return nn.Dropout(p) if p else nn.Identity()
