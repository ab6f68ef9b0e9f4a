"""Dropout that costs nothing where there is none.

Linear layers whose products go through oneDNN on a CPU.

torch gives float32 products to MKL, which on processors that are not Intel's uses half of what they
can do; oneDNN, which comes with torch as well, uses it all (docs/LOG.md). All else is torch's own.

Normalisation layers, by name. Each is built from the width it normalises and from whether it may
have a bias.

Feed-forward networks, by name. All map (B, T, C) -> (B, T, C).

Shapes: B batch, T tokens, C n_embd, F hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.model.sizes import Sizes


def dropout(p: float) -> nn.Module:
    """Dropout (Srivastava et al. 2014) with probability `p`; with none, no operation at all: one
    that does nothing still takes microseconds, several times a layer and token."""
    return nn.Dropout(p) if p else nn.Identity()


# The operator that torch's own compiler writes for a product on a CPU, where torch has oneDNN.
AVAILABLE = hasattr(torch.ops.mkldnn, "_linear_pointwise")
MIN_PRODUCTS = 2**22  # of two numbers; with fewer, a call costs more than what it saves


class Linear(nn.Linear):
    """y = x W^T + b, (..., in) -> (..., out)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not _goes_by_onednn(x, self.weight):
            return F.linear(x, self.weight, self.bias)
        if torch.is_grad_enabled():
            y: torch.Tensor = _Product.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return y
        return by_onednn(x.contiguous(), self.weight, self.bias)


def _goes_by_onednn(x: torch.Tensor, weight: torch.Tensor) -> bool:
    return (
        AVAILABLE
        and not torch.compiler.is_compiling()  # nor exported: sizes are symbols then
        and x.numel() * weight.size(0) >= MIN_PRODUCTS
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
    )


def by_onednn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """x W^T + b, for x without gaps; a matrix may be a transposed one."""
    y: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y


class _Product(torch.autograd.Function):
    """The three products of a linear layer in training: forward, and both of backward."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x, weight)
        return by_onednn(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()  # a sum's gradient is one number, expanded
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows = grad.flatten(0, -2)
        return (
            by_onednn(grad, weight.t(), None) if of_x else None,
            by_onednn(rows.t(), x.flatten(0, -2).t(), None) if of_weight else None,
            rows.sum(dim=0) if of_bias else None,
        )


class NormType(Protocol):
    """A class of modules that map (..., width) -> (..., width)."""

    def __call__(self, width: int, bias: bool) -> nn.Module: ...

    def count(self, width: Any, bias: bool) -> Any:
        """Parameters; `width` may be a symbol."""


class LayerNorm(nn.LayerNorm):
    """Layer normalisation with gain and, unless switched off, bias (Ba et al. 2016)."""

    def __init__(self, width: int, bias: bool = True) -> None:
        super().__init__(width, bias=bias)

    @staticmethod
    def count(width: Any, bias: bool) -> Any:
        return 2 * width if bias else width


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


def feed_forward(config: ModelConfig) -> FeedForward:
    """The network that the config names."""
    network, activation = FEEDFORWARDS[config.feedforward]
    return network(config, activation())


NORMS: dict[str, NormType] = {
    "layernorm": LayerNorm,
    "rmsnorm": RMSNorm,
}


# name -> (the network around the nonlinearity, the nonlinearity)
FEEDFORWARDS: dict[str, tuple[type[FeedForward], Callable[[], nn.Module]]] = {
    "relu": (FeedForward, nn.ReLU),
    "relu2": (FeedForward, SquaredReLU),
    # Hendrycks & Gimpel 2016; `gelu-tanh` is their approximation, section 2, which GPT-2 uses.
    "gelu": (FeedForward, nn.GELU),
    "gelu-tanh": (FeedForward, lambda: nn.GELU("tanh")),
    "silu": (FeedForward, nn.SiLU),  # Swish; Ramachandran et al. 2017
    "glu": (GatedFeedForward, nn.Sigmoid),  # Dauphin et al. 2017
    "geglu": (GatedFeedForward, nn.GELU),
    "swiglu": (GatedFeedForward, nn.SiLU),
}
