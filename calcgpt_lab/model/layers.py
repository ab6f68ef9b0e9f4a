"""The layers of a block that act on each token alone: linear maps, normalisation, feed-forward.

Shapes: B batch, T tokens, C n_embd, F hidden width of the feed-forward network.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.variants import register


def dropout(p: float) -> nn.Module:
    """Returns dropout (Srivastava et al. 2014) with probability `p`, or the identity if p is 0.

    A dropout that drops nothing still takes microseconds, several times per layer and token.
    """
    return nn.Dropout(p) if p else nn.Identity()


class RMSNorm(nn.Module):
    """Root-mean-square normalisation with a gain, without a bias (Zhang & Sennrich 2019, eq. 4).

    Computes in float32 at least.
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        weight = self.weight.to(wide.dtype)
        return F.rms_norm(wide, self.weight.shape, weight, self.eps).type_as(x)


# Name -> (width, whether it may have a bias) -> module that maps (..., width) -> (..., width).
NORMS: dict[str, Callable[[int, bool], nn.Module]] = {
    "layernorm": lambda width, bias: nn.LayerNorm(width, bias=bias),  # Ba et al. 2016
    "rmsnorm": lambda width, bias: RMSNorm(width),
}
register("norm", NORMS)


class FeedForward(nn.Module):
    """f(x W1) W2, (B, T, C) -> (B, T, C) (Vaswani et al. 2017, section 3.3)."""

    def __init__(self, config: ModelConfig, activation: nn.Module) -> None:
        super().__init__()
        self.up = nn.Linear(config.n_embd, config.ff_width, bias=config.ff_bias)
        self.activation = activation
        self.down = nn.Linear(config.ff_width, config.n_embd, bias=config.ff_bias)
        self.dropout = dropout(config.dropout)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        y_BTC: torch.Tensor = self.dropout(self.down(self.activation(self.up(x_BTC))))
        return y_BTC


class GatedFeedForward(nn.Module):
    """(f(x W) * x V) W2, (B, T, C) -> (B, T, C): the gated linear unit and its variants
    (Shazeer 2020, eqs. 5 and 6)."""

    def __init__(self, config: ModelConfig, activation: nn.Module) -> None:
        super().__init__()
        # W and V in one matrix: one large product is faster than two.
        self.gate_up = nn.Linear(config.n_embd, 2 * config.ff_width, bias=config.ff_bias)
        self.activation = activation
        self.down = nn.Linear(config.ff_width, config.n_embd, bias=config.ff_bias)
        self.dropout = dropout(config.dropout)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        gate_BTF, up_BTF = self.gate_up(x_BTC).chunk(2, dim=-1)
        y_BTC: torch.Tensor = self.dropout(self.down(self.activation(gate_BTF) * up_BTF))
        return y_BTC


class SquaredReLU(nn.Module):
    """max(0, x)^2 (Primer; So et al. 2021, section 4)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu().square()


# Name -> (network, activation).
FEEDFORWARDS: dict[str, tuple[type[FeedForward | GatedFeedForward], Callable[[], nn.Module]]] = {
    "relu": (FeedForward, nn.ReLU),
    "relu2": (FeedForward, SquaredReLU),
    "gelu": (FeedForward, nn.GELU),  # Hendrycks & Gimpel 2016
    "gelu-tanh": (FeedForward, lambda: nn.GELU("tanh")),  # ibid., section 2: GPT-2's
    "silu": (FeedForward, nn.SiLU),  # Swish; Ramachandran et al. 2017
    "glu": (GatedFeedForward, nn.Sigmoid),  # Dauphin et al. 2017
    "geglu": (GatedFeedForward, nn.GELU),
    "swiglu": (GatedFeedForward, nn.SiLU),
}
register("feedforward", FEEDFORWARDS)


def feed_forward(config: ModelConfig) -> FeedForward | GatedFeedForward:
    """Returns the network that `config.feedforward` names."""
    network, activation = FEEDFORWARDS[config.feedforward]
    return network(config, activation())
