"""Optimizers, learning-rate schedules, and which weights are final: averaged or rounded ones."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from inspect import unwrap
from typing import Any

import torch
from torch import nn

from calcgpt.config import TrainConfig
from calcgpt.tensors import LARGEST, SCALE_MASK
from calcgpt.variants import register
from calcgpt_lab.training.run_folder import OPTIMIZER

Named = tuple[str, nn.Parameter]


def adamw(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """AdamW (Loshchilov & Hutter 2019) for all parameters."""
    return [_adamw(list(model.named_parameters()), config)]


def muon(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the matrices in the blocks, AdamW for everything else."""
    hidden: list[nn.Parameter] = []
    rest: list[Named] = []
    for name, parameter in model.named_parameters():
        if name.startswith("blocks.") and parameter.dim() == 2:
            hidden.append(parameter)
        else:
            rest.append((name, parameter))
    if not hidden:  # a model without blocks
        return [_adamw(rest, config)]
    matrices = _without_dynamo(Muon)(
        hidden, lr=config.muon_lr, weight_decay=config.weight_decay, momentum=0.95
    )
    return [matrices, _adamw(rest, config)]


class Muon(torch.optim.Optimizer):
    """Momentum with an orthogonalised update (Jordan et al. 2024), for matrices of a shape at once.

    `torch.optim.Muon` takes one matrix after the other, in bfloat16, which few CPUs multiply fast.
    A small model has many small matrices. Here, the matrices of a shape are one batch, on a CPU in
    float32.
    """

    def __init__(
        self, parameters: list[nn.Parameter], lr: float, weight_decay: float, momentum: float
    ) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Updates the parameters that have gradients. `closure` is ignored."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in by_shape.items():
                directions = [self._direction(p, group["momentum"]) for p in parameters]
                lr = group["lr"] * math.sqrt(max(1, shape[0] / shape[1]))
                updates = orthogonalise(torch.stack(directions))
                for p, update in zip(parameters, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.sub_(update, alpha=lr)

    def _direction(self, parameter: nn.Parameter, momentum: float) -> torch.Tensor:
        """Returns the gradient with Nesterov's momentum, and updates the average."""
        gradient = parameter.grad
        assert gradient is not None
        state = self.state[parameter]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        average = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(average, momentum)


def orthogonalise(matrices: torch.Tensor, n_step: int = 5) -> torch.Tensor:
    """Returns matrices, (N, R, C), with the singular vectors of `matrices`, (N, R, C), and singular
    values near 1, by Newton-Schulz iterations with Jordan's coefficients."""
    dtype = matrices.dtype
    x = matrices if matrices.device.type == "cpu" else matrices.bfloat16()
    tall = x.size(1) > x.size(2)
    x = x.mT if tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(n_step):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    update: torch.Tensor = x.mT if tall else x
    return update.to(dtype)


def _adamw(parameters: list[Named], config: TrainConfig) -> Any:
    # One fused kernel for all parameters: launches would take most of a tiny model's step.
    return _without_dynamo(torch.optim.AdamW)(
        _groups(parameters, config),
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        weight_decay=config.weight_decay,
        fused=True,
    )


def _groups(parameters: list[Named], config: TrainConfig) -> list[dict[str, Any]]:
    """Returns the parameters in one group, or in two: with weight decay the matrices of the blocks
    and the head, without it gains, biases and embeddings."""
    if config.decayed == "all":
        return [{"params": [parameter for _, parameter in parameters]}]
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in parameters:
        in_block = name.startswith("blocks.") or name == "head.weight"
        groups[in_block and parameter.dim() == 2].append(parameter)
    decay = {True: config.weight_decay, False: 0.0}
    return [{"params": group, "weight_decay": decay[key]} for key, group in groups.items() if group]


@cache
def _without_dynamo(optimizer: type[torch.optim.Optimizer]) -> Any:
    """Returns the optimizer without the wrappers that torch puts around its methods.

    The wrappers serve compiled steps, and our steps are never compiled. The first call of a wrapper
    imports torch._dynamo, which takes seconds.
    """
    names = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
    methods = {name: unwrap(getattr(optimizer, name)) for name in names}
    step = torch.no_grad()(unwrap(optimizer.step))
    return type(optimizer.__name__, (optimizer,), {**methods, "step": step})


def lr_factor(config: TrainConfig, step: int) -> float:
    """Returns the learning rate of step `step` (from 0) divided by its peak: a linear warm-up, then
    the schedule, which would reach `min_lr_ratio` in the step after the last one."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    decay = SCHEDULES[config.schedule](min(1.0, progress))
    return config.min_lr_ratio + (1.0 - config.min_lr_ratio) * decay


Weights = dict[str, torch.Tensor]  # by name


class FinalWeights:
    """The weights that are validated and saved: by default, those in training."""

    differ = False  # whether they may differ from those in training

    @contextmanager
    def applied(self) -> Iterator[Weights]:
        """Within the block, the model has the final weights. Yields its own if they may differ."""
        yield {}

    def for_gradients(self) -> AbstractContextManager[Weights]:
        """Returns a context within which gradients are computed."""
        return nullcontext({})

    def update(self, step: int) -> None:
        """Takes the weights after step `step` (from 0)."""

    def resume(self, raw: Weights) -> None:
        """Takes the final weights from the model, and loads `raw`, those in training, into it."""


class WeightAverage(FinalWeights):
    """The exponential moving average of a model's weights (Polyak & Juditsky 1992), in fp32.

    Validation and checkpoints use the average; training goes on with the weights themselves.
    """

    differ = True

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._parameters = dict(model.named_parameters())  # a tied parameter once
        self._average = _copies(self._parameters)

    def update(self, step: int) -> None:
        """Adds the weights after step `step` (from 0). The decay rises from 0.1 to its final value,
        so that the random initial weights are soon forgotten."""
        decay = min(self.decay, (step + 1) / (step + 10))
        for name, parameter in self._parameters.items():
            self._average[name].lerp_(parameter.detach().float(), 1.0 - decay)

    @contextmanager
    def applied(self) -> Iterator[Weights]:
        raw = _copies(self._parameters)
        load_weights(self._parameters, self._average)
        try:
            yield raw
        finally:
            load_weights(self._parameters, raw)

    def resume(self, raw: Weights) -> None:
        self._average = _copies(self._parameters)
        load_weights(self._parameters, raw)


class WeightRounding(FinalWeights):
    """Matrices rounded to 8 bits a number, each row to multiples of its own scale.

    Gradients are those of the rounded weights, and change the weights themselves, as if rounding
    were the identity (straight-through estimator; Bengio et al. 2013, section 3).
    """

    differ = True

    def __init__(self, model: nn.Module) -> None:
        self._parameters = dict(model.named_parameters())

    @contextmanager
    def applied(self) -> Iterator[Weights]:
        raw = _copies(self._parameters)
        matrices = {name: rounded(p) for name, p in raw.items() if p.dim() == 2}
        load_weights(self._parameters, raw | matrices)
        try:
            yield raw
        finally:
            load_weights(self._parameters, raw)

    def for_gradients(self) -> AbstractContextManager[Weights]:
        return self.applied()

    def resume(self, raw: Weights) -> None:
        load_weights(self._parameters, raw)


def rounded(matrix: torch.Tensor) -> torch.Tensor:
    """Returns a matrix as `calcgpt.tensors.pack` stores it: in whole multiples of a scale for each
    row. Rounding a second time changes nothing."""
    scale = matrix.abs().amax(dim=1, keepdim=True) / LARGEST
    scale = scale.view(torch.int32).bitwise_and(SCALE_MASK).view(torch.float32)
    multiples = (matrix / scale.clamp(min=torch.finfo(torch.float32).tiny)).round()
    return multiples.clamp(-LARGEST, LARGEST) * scale


def final_weights(model: nn.Module, config: TrainConfig) -> FinalWeights:
    """Returns what the config asks for."""
    if config.weights == "int8":
        return WeightRounding(model)
    return WeightAverage(model, config.ema_decay) if config.ema_decay else FinalWeights()


def _copies(parameters: Mapping[str, nn.Parameter]) -> Weights:
    return {name: p.detach().float().clone() for name, p in parameters.items()}


@torch.no_grad()
def load_weights(
    parameters: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor]
) -> None:
    """Copies `weights` into the parameters. Raises KeyError if one is missing."""
    for name, parameter in parameters.items():
        parameter.copy_(weights[name])


def optimizer_tensors(optimizers: Sequence[torch.optim.Optimizer]) -> Weights:
    """Returns the states of the optimizers as tensors with flat names."""
    return {
        f"{OPTIMIZER}{index}.{parameter}.{key}": torch.as_tensor(value)
        for index, optimizer in enumerate(optimizers)
        for parameter, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
    }


def state_shapes(
    optimizers: Sequence[torch.optim.Optimizer], tensors: Mapping[str, torch.Tensor]
) -> dict[str, torch.Size]:
    """Returns the names and shapes of all states that the optimizers need: each has the shape of
    its parameter. If one parameter of an optimizer has a state among the tensors, all of its
    parameters need that state."""
    shapes: dict[str, torch.Size] = {}
    for index, optimizer in enumerate(optimizers):
        prefix = f"{OPTIMIZER}{index}."
        keys = {name.rpartition(".")[2] for name in tensors if name.startswith(prefix)} or {"*"}
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for number, parameter in enumerate(parameters):
            shapes |= {f"{prefix}{number}.{key}": parameter.shape for key in keys}
    return shapes


def load_optimizer_tensors(
    optimizers: Sequence[torch.optim.Optimizer], tensors: Mapping[str, torch.Tensor]
) -> None:
    """Restores the states from the result of `optimizer_tensors`, among other tensors."""
    states: list[dict[int, dict[str, torch.Tensor]]] = [{} for _ in optimizers]
    for name, tensor in tensors.items():
        if name.startswith(OPTIMIZER):
            index, number, key = name.removeprefix(OPTIMIZER).split(".", 2)
            states[int(index)].setdefault(int(number), {})[key] = tensor
    for optimizer, state in zip(optimizers, states, strict=True):
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})


# Name in a recipe -> (model, config) -> the optimizers of all parameters.
OPTIMIZERS: dict[str, Callable[[nn.Module, TrainConfig], list[torch.optim.Optimizer]]] = {
    "adamw": adamw,
    "muon": muon,
}
register("optimizer", OPTIMIZERS)


# Name in a recipe -> (progress of the decay, 0 to 1) -> learning rate over its peak, 1 to 0.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    # Half a period (Loshchilov & Hutter 2017, eq. 5).
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
}
register("schedule", SCHEDULES)
