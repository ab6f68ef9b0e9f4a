"""Linear layers through oneDNN equal torch's own."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from calcgpt_lab.model import layers
from calcgpt_lab.model.layers import Linear

sizes = st.integers(1, 40)

needs_onednn = pytest.mark.skipif(not layers.HAS_ONEDNN, reason="this torch has no oneDNN")


class SmallLinear(Linear):
    """Uses oneDNN for small products, too."""

    min_products = 1


@needs_onednn
@given(sizes, sizes, sizes, sizes, st.booleans(), st.booleans(), st.booleans())
def test_values_and_gradients_are_torchs(
    batch: int, rows: int, n_in: int, n_out: int, bias: bool, transposed: bool, summed: bool
) -> None:
    torch.manual_seed(0)
    layer = SmallLinear(n_in, n_out, bias=bias)
    x = (
        torch.randn(rows, batch, n_in).transpose(0, 1)
        if transposed
        else torch.randn(batch, rows, n_in)
    )
    x.requires_grad_()
    assert layer.uses_onednn(x)
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
def test_a_frozen_weight_gets_no_gradient() -> None:
    layer = SmallLinear(8, 4)
    layer.weight.requires_grad_(False)
    layer(torch.randn(3, 8)).sum().backward()
    assert layer.weight.grad is None
    assert torch.equal(layer.bias.grad, torch.full((4,), 3.0))


def test_all_other_products_are_torchs_own() -> None:
    layer = SmallLinear(8, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert not layer.uses_onednn(torch.randn(3, 8))
    assert not layer.uses_onednn(torch.randn(0, 8))
    assert not layer.uses_onednn(torch.randn(3, 8, device="meta"))
    assert not layer.double().uses_onednn(torch.randn(3, 8).double())
    assert not Linear(8, 4).uses_onednn(torch.randn(3, 8))
