"""Feed-forward networks, by name. All map (B, T, C) -> (B, T, C).

Shapes: B batch, T tokens, C n_embd, F hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.dropout import dropout
from calcgpt.model.linear import Linear
from calcgpt.model.sizes import Sizes
from calcgpt.registry import Registry


class FeedForward(nn.Module):
    """f(x W1) W2, hidden width 4 n_embd by default (Vaswani et al. 2017, section 3.3)."""

    def __init__(self, config: ModelConfig, activation: nn.Module) -> None:
        super().__init__()
        hidden = self.hidden(config)
        self.up = Linear(config.n_embd, hidden, bias=config.ff_bias)
        self.activation = activation
        self.down = Linear(hidden, config.n_embd, bias=config.ff_bias)
        self.dropout = dropout(config.dropout)

    @staticmethod
    def hidden(config: ModelConfig) -> int:
        """The hidden width, F."""
        return config.ff_hidden or 4 * config.n_embd

    @staticmethod
    def count(config: ModelConfig, s: Sizes) -> Any:
        """Parameters of one layer."""
        return 2 * s.C * s.F + (s.F + s.C if config.ff_bias else 0)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        y_BTC: torch.Tensor = self.dropout(self.down(self.activation(self.up(x_BTC))))
        return y_BTC


class GatedFeedForward(FeedForward):
    """(f(x W) * x V) W2: the gated linear unit and its variants (Shazeer 2020, eqs. 5 and 6).

    Three matrices instead of two: the hidden width is 2/3 of 4 n_embd by default, so that the
    parameters match those of the plain network (ibid., section 2).
    """

    def __init__(self, config: ModelConfig, activation: nn.Module) -> None:
        nn.Module.__init__(self)
        hidden = self.hidden(config)
        # W and V in one matrix: one larger product is faster than two.
        self.gate_up = Linear(config.n_embd, 2 * hidden, bias=config.ff_bias)
        self.activation = activation
        self.down = Linear(hidden, config.n_embd, bias=config.ff_bias)
        self.dropout = dropout(config.dropout)

    @staticmethod
    def hidden(config: ModelConfig) -> int:
        return config.ff_hidden or 4 * int(2 * config.n_embd / 3)

    @staticmethod
    def count(config: ModelConfig, s: Sizes) -> Any:
        return 3 * s.C * s.F + (2 * s.F + s.C if config.ff_bias else 0)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        gate_BTF, up_BTF = self.gate_up(x_BTC).chunk(2, dim=-1)
        y_BTC: torch.Tensor = self.dropout(self.down(self.activation(gate_BTF) * up_BTF))
        return y_BTC


class SquaredReLU(nn.Module):
    """max(0, x)^2 (Primer; So et al. 2021, section 4)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu().square()


# name -> (the network around the nonlinearity, the nonlinearity)
FEEDFORWARDS: Registry[tuple[type[FeedForward], Callable[[], nn.Module]]] = Registry("feedforward")
FEEDFORWARDS.register("relu")((FeedForward, nn.ReLU))
FEEDFORWARDS.register("relu2")((FeedForward, SquaredReLU))
# Hendrycks & Gimpel 2016; `gelu-tanh` is their approximation, section 2, which GPT-2 uses.
FEEDFORWARDS.register("gelu")((FeedForward, nn.GELU))
FEEDFORWARDS.register("gelu-tanh")((FeedForward, lambda: nn.GELU("tanh")))
FEEDFORWARDS.register("silu")((FeedForward, nn.SiLU))  # Swish; Ramachandran et al. 2017
FEEDFORWARDS.register("glu")((GatedFeedForward, nn.Sigmoid))  # Dauphin et al. 2017
FEEDFORWARDS.register("geglu")((GatedFeedForward, nn.GELU))
FEEDFORWARDS.register("swiglu")((GatedFeedForward, nn.SiLU))


def feed_forward(config: ModelConfig) -> FeedForward:
    """The network that the config names."""
    network, activation = FEEDFORWARDS[config.feedforward]
    return network(config, activation())
