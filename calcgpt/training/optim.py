"""Optimizers and learning-rate schedules, by name.

An exponential moving average of a model's weights (Polyak & Juditsky 1992), which is what is
validated and kept while the weights themselves go on being trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from calcgpt.config import TrainConfig
from calcgpt.errors import ConfigError
from calcgpt.training.distributed import sharded_like


def adamw(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """AdamW (Loshchilov & Hutter 2019) over everything."""
    return [_adamw(list(model.parameters()), config)]


def muon(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the matrices inside the blocks, AdamW for the rest:
    embeddings, head, gains and biases. Needs torch 2.9."""
    if not hasattr(torch.optim, "Muon"):
        raise ConfigError(f"optimizer 'muon' needs torch 2.9 or later, this is {torch.__version__}")
    hidden: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_hidden = name.startswith("blocks.") and parameter.dim() == 2
        (hidden if is_hidden else rest).append(parameter)
    if not hidden:  # a model without blocks
        return [_adamw(rest, config)]
    matrices = torch.optim.Muon(
        hidden, lr=config.muon_lr, weight_decay=config.weight_decay, momentum=0.95
    )
    return [matrices, _adamw(rest, config)]


def _adamw(parameters: list[nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    # One fused kernel for all parameters: a tiny model spends its step on launches otherwise.
    return torch.optim.AdamW(
        parameters,
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        weight_decay=config.weight_decay,
        fused=True,
    )


def constant(progress: float) -> float:
    """The peak throughout."""
    return 1.0


def linear(progress: float) -> float:
    """Straight to the end."""
    return 1.0 - progress


def cosine(progress: float) -> float:
    """Half a cosine (Loshchilov & Hutter 2017, eq. 5)."""
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def lr_factor(config: TrainConfig, step: int) -> float:
    """Learning rate of step `step` (from 0) over its peak: a linear warm-up, then the schedule,
    which ends at `min_lr_ratio`."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    decay = SCHEDULES[config.schedule](min(1.0, progress))
    return config.min_lr_ratio + (1.0 - config.min_lr_ratio) * decay


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


# A model and a config -> the optimizers that together own every parameter.
OPTIMIZERS: dict[str, Callable[[nn.Module, TrainConfig], list[torch.optim.Optimizer]]] = {
    "adamw": adamw,
    "muon": muon,
}


# (share of the decay that has passed, from 0 to 1) -> learning rate over its peak, from 1 to 0.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
}
