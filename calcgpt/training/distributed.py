"""Several processes that train one model: who they are, and how they share the work of a step.

A step has one batch, whatever their number. Each process makes the whole of it, which is cheap and
needs no communication, and takes its share of the micro-batches.
"""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import distributed as dist
from torch import nn

from calcgpt.config import TrainConfig
from calcgpt.data.batches import Batch, micro_batches
from calcgpt.errors import ConfigError, TrainingError, UserError
from calcgpt.model.gpt import Block, LanguageModel, build_model
from calcgpt.training.interruption import Interrupted

# What gloo says of a process that is no longer there.
_PEER_GONE = re.compile(r"Connection (closed|reset) by peer|Connection refused|Broken pipe")

# Of DistributedDataParallel: the name that torch has had for it since 2.13, and before.
_SYNC_BUFFERS = "forward_sync_buffers"
if _SYNC_BUFFERS not in inspect.signature(nn.parallel.DistributedDataParallel).parameters:
    _SYNC_BUFFERS = "broadcast_buffers"


class Replica:
    """A model, all of which this process has, and which it trains alone."""

    def __init__(self, model: LanguageModel, device: torch.device) -> None:
        self.model = model
        self.forward: nn.Module = model  # what is called in training

    def accumulating(self) -> AbstractContextManager[None]:
        """Gradients are added up in each process meanwhile, and not yet over the processes."""
        return nullcontext()

    def whole(self) -> LanguageModel:
        """A model with all parameters in this process, which can be called here alone. All
        processes must ask for it."""
        return self.model


class DataParallel(Replica):
    """Every process has the whole model (Li et al. 2020)."""

    def __init__(self, model: LanguageModel, device: torch.device) -> None:
        super().__init__(model, device)
        options: dict[str, Any] = {_SYNC_BUFFERS: False}  # they are constants
        self._ddp = nn.parallel.DistributedDataParallel(
            model,
            device_ids=[device.index] if device.type == "cuda" else None,
            **options,
        )
        self.forward = self._ddp

    def accumulating(self) -> AbstractContextManager[None]:
        return self._ddp.no_sync()


class FullySharded(Replica):
    """Every process keeps a part of each parameter, of its gradient and of its optimizer state; it
    has the parameters of one block at a time (Rajbhandari et al. 2020, ZeRO-3; Zhao et al. 2023).
    """

    def __init__(self, model: LanguageModel, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        super().__init__(model, device)
        # Logits are a view, but nobody changes them in place.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for block in [module for module in model.modules() if isinstance(module, Block)]:
            fully_shard(block, mesh=mesh)
        self._sharded = fully_shard(model, mesh=mesh)  # in place

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        self._sharded.set_requires_gradient_sync(False)
        yield
        self._sharded.set_requires_gradient_sync(True)

    @torch.no_grad()
    def whole(self) -> LanguageModel:
        with torch.random.fork_rng(devices=[]):  # its first weights are drawn in vain
            copy = build_model(self.model.config, self.model.vocab_size)
        shards = dict(self.model.named_parameters())
        copy = copy.to(next(iter(shards.values())).device)
        for name, parameter in copy.named_parameters():
            parameter.copy_(whole(shards[name]))
        return copy.train(self.model.training)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that `tensor` is this process's shard of. All processes must ask for it."""
    gather = getattr(tensor, "full_tensor", None)  # asking for the type costs a second of import
    return tensor if gather is None else gather()


def sharded_like(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """This process's shard of a whole `tensor`, where it has but a shard of `parameter`, which has
    the same shape. All processes must ask for it."""
    if hasattr(tensor, "full_tensor") or not hasattr(parameter, "full_tensor"):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(parameter, DTensor)
    return distribute_tensor(
        tensor.to(parameter.device), parameter.device_mesh, parameter.placements
    )


class World:
    """The processes that train together, as one of them sees it. This one is alone."""

    rank, size = 0, 1

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def device_name(self, name: str) -> str:
        """The device of this process, where the user named `name`."""
        return name

    def share_model(self, model: LanguageModel, how: str, device: torch.device) -> Replica:
        """The model, to be trained by all; `how` is a name in PARALLEL."""
        return Replica(model, device)

    def check(self, config: TrainConfig) -> None:
        """Raise ConfigError for a batch that cannot be shared out evenly."""

    def micro_batches(self, batch: Batch, count: int) -> tuple[list[Batch], list[Batch]]:
        """The parts of a batch, `count` for each process: all of them, and those of this one."""
        parts = micro_batches(batch, count * self.size)
        return parts, parts[self.rank :: self.size]

    def seed(self, seed: int, step: int) -> None:
        """Begin a step. The main process draws its random numbers in one stream, which a checkpoint
        continues; each other one begins a stream of its own at each step."""

    def sum(self, number: torch.Tensor) -> float:
        """Of a number that each process has."""
        return float(number)

    def highest(self, number: int) -> int:
        """Of a number that each process has."""
        return number

    def from_main(self, value: Any) -> Any:
        """The main process's value."""
        return value

    def wait(self) -> None:
        """For all processes to come here."""

    def together(self) -> AbstractContextManager[None]:
        """Work in which the processes do not communicate: a UserError in one ends it in all."""
        return nullcontext()


class Processes(World):
    """One of several processes, which are a process group of torch.distributed."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # What is agreed upon between steps does not wait for a GPU.
        self._group = dist.new_group(backend="gloo")

    def device_name(self, name: str) -> str:
        if name.startswith("cuda:"):
            raise ConfigError(f"each process takes a GPU of its own: --device cuda, not {name!r}")
        if name not in ("auto", "cuda") or not torch.cuda.is_available():
            return name
        return f"cuda:{_environment('LOCAL_RANK', 0)}"

    def share_model(self, model: LanguageModel, how: str, device: torch.device) -> Replica:
        if device.type == "cuda":
            torch.cuda.set_device(device)  # for what NCCL does on its own
        return PARALLEL[how](model, device)

    def check(self, config: TrainConfig) -> None:
        if config.batch_size % (config.grad_accum * self.size):
            raise ConfigError(
                f"batch_size {config.batch_size} is not divisible by grad_accum "
                f"{config.grad_accum} times {self.size} processes"
            )

    def seed(self, seed: int, step: int) -> None:
        if not self.is_main:
            state = np.random.SeedSequence((seed, self.rank, step)).generate_state(1, np.uint64)
            torch.manual_seed(int(state[0]))

    def sum(self, number: torch.Tensor) -> float:
        return float(self._reduce(number.double().cpu(), dist.ReduceOp.SUM))

    def highest(self, number: int) -> int:
        return int(self._reduce(torch.tensor(number), dist.ReduceOp.MAX))

    def _reduce(self, number: torch.Tensor, operation: Any) -> torch.Tensor:
        dist.all_reduce(number, operation, group=self._group)
        return number

    def from_main(self, value: Any) -> Any:
        holder = [value]
        dist.broadcast_object_list(holder, src=0, group=self._group)
        return holder[0]

    def wait(self) -> None:
        dist.barrier(self._group)

    @contextmanager
    def together(self) -> Iterator[None]:
        mine: UserError | OSError | None = None
        try:
            yield
        except (UserError, OSError) as error:
            mine = error
        said: list[str | None] = [None] * self.size
        dist.all_gather_object(said, mine and str(mine), group=self._group)
        if self.is_main and mine:
            raise mine
        for rank, message in enumerate(said):
            if message is not None:
                raise TrainingError(f"process {rank}: {message}")


@contextmanager
def processes() -> Iterator[World]:
    """The processes that this one trains with: those of the process group that is there, or those
    that torchrun has started, or none. Raises ConfigError where they do not find each other, and
    TrainingError where another one ends before its time."""
    grouped = dist.is_available() and dist.is_initialized()
    size = dist.get_world_size() if grouped else _environment("WORLD_SIZE", 1)
    if size == 1:
        yield World()
        return
    if not grouped:
        _join()
    try:
        yield Processes()
    except Interrupted:  # in good order, unlike after an error: others may be waiting then
        _leave(grouped)
        raise
    except RuntimeError as error:
        if _PEER_GONE.search(str(error)):
            raise TrainingError("another process of this run has ended before it") from None
        raise
    _leave(grouped)


def launched_rank() -> int:
    """Which of the processes this one is, as its launcher says; 0 where it is alone."""
    return _environment("RANK", 0) if _environment("WORLD_SIZE", 1) > 1 else 0


def _environment(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isascii() or not value.isdigit():
        raise ConfigError(f"the environment variable {name} is {value!r}, not a number")
    return int(value)


def _join() -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        dist.init_process_group(backend)
    except (ValueError, RuntimeError) as error:  # a variable is missing, or nobody answers
        reason = str(error).splitlines()[0]
        raise ConfigError(f"the processes do not find each other: {reason}") from None


def _leave(was_there: bool) -> None:
    if not was_there:
        dist.destroy_process_group()


# How processes share a model. The gradient of each parameter is the mean of theirs.
PARALLEL: dict[str, type[Replica]] = {
    "ddp": DataParallel,
    "fsdp2": FullySharded,
}
