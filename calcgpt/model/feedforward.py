"""Feed-forward networks, by name. All map (B, T, C) -> (B, T, C)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.registry import Registry

FEEDFORWARDS: Registry[type[nn.Module]] = Registry("feedforward")


@FEEDFORWARDS.register("relu")
class ReLUFeedForward(nn.Module):
    """max(0, x W1) W2, hidden width 4 n_embd by default (Vaswani et al. 2017, section 3.3)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden = config.ff_hidden or 4 * config.n_embd
        self.up = nn.Linear(config.n_embd, hidden, bias=config.ff_bias)
        self.down = nn.Linear(hidden, config.n_embd, bias=config.ff_bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        y_BTC: torch.Tensor = self.dropout(self.down(F.relu(self.up(x_BTC))))
        return y_BTC


@FEEDFORWARDS.register("swiglu")
class SwiGLUFeedForward(nn.Module):
    """(silu(x W) * x V) W2 (Shazeer 2020, eq. 6).

    Three matrices instead of two: the hidden width is 2/3 of 4 n_embd by default, so that the
    parameters match those of the ReLU network (ibid., section 2).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden = config.ff_hidden or 4 * int(2 * config.n_embd / 3)
        # W and V in one matrix: one larger product is faster than two.
        self.gate_up = nn.Linear(config.n_embd, 2 * hidden, bias=config.ff_bias)
        self.down = nn.Linear(hidden, config.n_embd, bias=config.ff_bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x_BTC).chunk(2, dim=-1)
        y_BTC: torch.Tensor = self.dropout(self.down(F.silu(gate) * up))
        return y_BTC
