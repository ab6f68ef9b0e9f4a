"""An exponential moving average of a model's weights (Polyak & Juditsky 1992), which is what is
validated and kept while the weights themselves go on being trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from calcgpt.distributed import sharded_like

Weights = dict[str, torch.Tensor]  # parameters by name


class WeightAverage:
    """The average of the weights that `model` has had, in fp32."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._parameters = dict(model.named_parameters())  # a shared one is here once
        self._average = self._copies()

    def update(self, step: int) -> None:
        """Take in the weights after step `step` (from 0). The first weights, which are random, are
        forgotten fast: the decay begins at 0.1 and rises to what it is to be."""
        decay = min(self.decay, (step + 1) / (step + 10))
        for name, parameter in self._parameters.items():
            self._average[name].lerp_(parameter.detach().float(), 1.0 - decay)

    @contextmanager
    def applied(self) -> Iterator[Weights]:
        """The model has the average for weights meanwhile; yields those it has otherwise."""
        raw = self._copies()
        load_weights(self._parameters, self._average)
        try:
            yield raw
        finally:
            load_weights(self._parameters, raw)

    def resume(self, raw: Weights) -> None:
        """Take the model's weights for the average, and give it the `raw` ones."""
        self._average = self._copies()
        load_weights(self._parameters, raw)

    def _copies(self) -> Weights:
        return {name: p.detach().float().clone() for name, p in self._parameters.items()}


@torch.no_grad()
def load_weights(parameters: Mapping[str, torch.Tensor], weights: Weights) -> None:
    """Give the parameters these numbers, all of which must be there."""
    for name, parameter in parameters.items():
        parameter.copy_(sharded_like(weights[name], parameter))
