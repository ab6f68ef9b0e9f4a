"""What a checkpoint holds beside the model so that a run can go on as if nothing had happened."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import torch

from calcgpt.checkpoint import Checkpoint, load_tensors
from calcgpt.config import Recipe
from calcgpt.errors import CheckpointError, ConfigError
from calcgpt.recipe import differences
from calcgpt.training.distributed import sharded_like, whole
from calcgpt.training.optim import Weights
from calcgpt.training.run_folder import TRAINING

# Fields that may differ on resume: what a run is called, how long it is, what it reports, and on
# what it runs. The tokenizer of a run is saved, so that its `vocab_size` has no effect.
MAY_CHANGE = {
    "description",
    "vocab_size",
    "train.steps",
    "train.log_interval",
    "train.eval_interval",
    "train.eval_batches",
    "train.eval_problems",
    "train.checkpoint_interval",
    "train.compile",
    "train.parallel",
}
_RAW = "weights."


@dataclass
class Counters:
    """How far a run has come."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0  # of training alone

    def as_json(self) -> dict[str, Any]:
        """As it stands in `metrics.json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, metrics: dict[str, Any]) -> Self:
        """The counters in a checkpoint's metrics."""
        try:
            return cls(**{field.name: metrics[field.name] for field in fields(cls)})
        except KeyError as error:
            raise CheckpointError(f"metrics.json: {error} is missing") from None


def training_tensors(
    optimizers: list[torch.optim.Optimizer], device: torch.device, raw: Weights
) -> dict[str, torch.Tensor]:
    """Optimizer states and the states of the random generators, as flat named tensors; and the
    `raw` weights, where the model has been given others. All whole, whatever is shared."""
    tensors = {"rng.cpu": torch.get_rng_state()}
    tensors |= {f"{_RAW}{name}": whole(value) for name, value in raw.items()}
    if device.type == "cuda":
        tensors["rng.cuda"] = torch.cuda.get_rng_state(device)
    for index, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state_dict()["state"].items():
            for key, value in state.items():
                tensors[f"optimizer.{index}.{parameter}.{key}"] = whole(torch.as_tensor(value))
    return tensors


def restore(folder: Path, optimizers: list[torch.optim.Optimizer], device: torch.device) -> Weights:
    """Put back what `training_tensors` took; returns the raw weights."""
    tensors = load_tensors(folder, TRAINING)
    raw = {
        name.removeprefix(_RAW): tensors.pop(name) for name in [*tensors] if name.startswith(_RAW)
    }
    torch.set_rng_state(tensors.pop("rng.cpu"))
    cuda = tensors.pop("rng.cuda", None)
    if cuda is not None and device.type == "cuda":
        torch.cuda.set_rng_state(cuda, device)
    states: list[dict[int, dict[str, torch.Tensor]]] = [{} for _ in optimizers]
    for name, value in tensors.items():
        _, index, parameter, key = name.split(".", 3)
        states[int(index)].setdefault(int(parameter), {})[key] = value
    for optimizer, state in zip(optimizers, states, strict=True):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for number, of_parameter in state.items():
            for key, value in of_parameter.items():
                if value.shape == parameters[number].shape:  # a count of steps is never shared
                    of_parameter[key] = sharded_like(value, parameters[number])
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    return raw


def check_same_run(recipe: Recipe, fingerprint: str, saved: Checkpoint) -> None:
    """Raise ConfigError where a resumed run would not be the run that was begun."""
    changed = differences(recipe.model_dump(), saved.recipe.model_dump())
    for field, (value, saved_value) in changed.items():
        if field not in MAY_CHANGE and not field.startswith("data."):  # see the fingerprint
            raise ConfigError(
                f"cannot resume: {field} is {value!r}, the run was begun with {saved_value!r}"
            )
    if fingerprint != saved.metrics.get("data_sha256"):
        raise ConfigError("cannot resume: the run was begun on other data")
