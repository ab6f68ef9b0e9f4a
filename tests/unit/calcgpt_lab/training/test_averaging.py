"""The moving average of weights."""

import pytest
import torch
from torch import nn

from calcgpt_lab.training.optim import WeightAverage


def test_the_average_is_the_weighted_sum_of_all_weights() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.5)
    expected = model.weight.detach().double()
    for step in range(12):
        with torch.no_grad():
            model.weight.normal_()
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.weight.detach().double()
    before = model.weight.detach().clone()
    with average.applied() as raw:
        torch.testing.assert_close(model.weight.double(), expected)
        assert torch.equal(raw["weight"], before)
    assert torch.equal(model.weight, before)


def test_the_weights_come_back_after_an_error() -> None:
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.5)
    with torch.no_grad():
        model.weight.normal_()
    before = model.weight.detach().clone()

    def fail() -> None:
        with average.applied():
            assert not torch.equal(model.weight, before)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert torch.equal(model.weight, before)
