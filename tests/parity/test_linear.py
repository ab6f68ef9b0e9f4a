"""Linear layers through oneDNN against torch's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from calcgpt.model import layers
from calcgpt.model.layers import Linear

sizes = st.integers(1, 40)

needs_onednn = pytest.mark.skipif(not layers.AVAILABLE, reason="this torch has no oneDNN")


@pytest.fixture(autouse=True, scope="module")
def every_size() -> Iterator[None]:
    """Small products, too, take the way that is tested."""
    patch = pytest.MonkeyPatch()
    patch.setattr(layers, "MIN_PRODUCTS", 1)
    yield
    patch.undo()


@needs_onednn
@given(sizes, sizes, sizes, sizes, st.booleans(), st.booleans(), st.booleans())
def test_values_and_gradients_are_torchs(
    batch: int, rows: int, n_in: int, n_out: int, bias: bool, transposed: bool, summed: bool
) -> None:
    torch.manual_seed(0)
    layer = Linear(n_in, n_out, bias=bias)
    x = (
        torch.randn(rows, batch, n_in).transpose(0, 1)
        if transposed
        else torch.randn(batch, rows, n_in)
    )
    x.requires_grad_()
    assert layers._goes_by_onednn(x, layer.weight)
    parameters = [x, *layer.parameters()]
    results = []
    for y in (layer(x), F.linear(x, layer.weight, layer.bias)):
        loss = y.sum() if summed else y.square().sum()
        results.append((y, *torch.autograd.grad(loss, parameters)))
    for actual, expected in zip(*results, strict=True):
        error = (actual - expected).abs().max() / expected.abs().max().clamp(min=1)
        assert error < 1e-5
    with torch.inference_mode():
        assert torch.equal(layer(x), results[0][0])


@needs_onednn
def test_what_does_not_learn_gets_no_gradient() -> None:
    layer = Linear(8, 4)
    layer.weight.requires_grad_(False)
    layer(torch.randn(3, 8)).sum().backward()
    assert layer.weight.grad is None
    assert torch.equal(layer.bias.grad, torch.full((4,), 3.0))


def test_all_else_is_torchs_own() -> None:
    weight = torch.randn(4, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert not layers._goes_by_onednn(torch.randn(3, 8), weight)
    assert not layers._goes_by_onednn(torch.randn(3, 8).double(), weight.double())
    assert not layers._goes_by_onednn(torch.randn(0, 8), weight)
    assert not layers._goes_by_onednn(torch.randn(3, 8, device="meta"), weight)
