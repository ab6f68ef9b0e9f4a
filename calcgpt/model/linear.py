"""Linear layers whose products go through oneDNN on a CPU.

torch gives float32 products to MKL, which on processors that are not Intel's uses half of what they
can do; oneDNN, which comes with torch as well, uses it all (docs/LOG.md). All else is torch's own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

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
