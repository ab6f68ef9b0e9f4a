"""The processes that train one model, and how they share the work of a step.

A step has one batch, independent of the number of processes. Every process builds the whole batch
and computes its share of the micro-batches.
"""

import inspect
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import distributed as dist
from torch import nn

from calcgpt.base.errors import ConfigError, UserError
from calcgpt.config import TrainConfig
from calcgpt_lab.data.batches import Batch, by_length, micro_batches
from calcgpt_lab.records import TrainingError
from calcgpt_lab.training.stopping import Interrupted

# Messages of gloo about a process that has ended.
_PEER_GONE = re.compile(r"Connection (closed|reset) by peer|Connection refused|Broken pipe")

# An option of DistributedDataParallel, which torch 2.13 renamed.
_SYNC_BUFFERS = "forward_sync_buffers"
if _SYNC_BUFFERS not in inspect.signature(nn.parallel.DistributedDataParallel).parameters:
    _SYNC_BUFFERS = "broadcast_buffers"


class ProcessEndedError(TrainingError):
    """Another process of the run has ended too early."""


class MicroBatch(NamedTuple):
    """Inputs and targets, each (B, T), and what the model parses from them."""

    inputs: torch.Tensor
    targets: torch.Tensor
    features: torch.Tensor | None = None


class StepBatch(NamedTuple):
    """The micro-batches of this process in one step, and counts over all processes."""

    micro_batches: list[MicroBatch]
    n_target: int
    shapes: list[tuple[int, int]]  # (B, T) of all micro-batches


class SingleProcess:
    """A process that trains alone, with the interface of a group."""

    rank, world_size = 0, 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and messages."""
        return self.rank == 0

    def device_name(self, name: str) -> str:
        """Returns the device of this process, for the `name` that the user gave."""
        return name

    def wrap_model(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Returns what training calls: the model, whose gradients are then those of all
        processes."""
        return model

    def no_sync(self, module: nn.Module) -> AbstractContextManager[None]:
        """Returns a context in which gradients are accumulated without communication. `module` is
        what `wrap_model` returned."""
        return nullcontext()

    def check_batch_size(self, config: TrainConfig) -> None:
        """Raises ConfigError if the processes cannot have equal shares of a batch."""

    def micro_batches(self, batch: Batch, count: int) -> tuple[list[Batch], list[Batch]]:
        """Splits a batch into `count` parts per process. Returns the parts of all processes, and
        the parts of this process. Rows are dealt out by length, so that all have about as many
        tokens."""
        if self.world_size == 1:
            return 2 * (micro_batches(batch, count),)
        inputs, targets = batch
        order, _ = by_length(targets)
        dealt = [order[rank :: self.world_size] for rank in range(self.world_size)]
        shares = [micro_batches((inputs[rows], targets[rows]), count) for rows in dealt]
        return [part for share in shares for part in share], shares[self.rank]

    def cores_per_process(self, cores: int) -> int:
        """Returns how many of the machine's cores each of its processes may use, at least 1."""
        return max(1, cores // _environment_int("LOCAL_WORLD_SIZE", 1))

    def seed_step(self, seed: int, step: int) -> None:
        """Seeds torch for a step. The main process has one random stream for the whole run, which
        checkpoints save. Each other process starts a stream of its own at each step."""

    def all_reduce_sum(self, value: torch.Tensor) -> float:
        """Returns the sum of the processes' values."""
        return float(value)

    def all_reduce_max(self, value: int) -> int:
        """Returns the largest of the processes' values."""
        return value

    def broadcast(self, value: Any) -> Any:
        """Returns the value of the main process."""
        return value

    def barrier(self) -> None:
        """Waits for all processes."""

    def share_errors(self) -> AbstractContextManager[None]:
        """Returns a context for work without communication. If any process raises a UserError or
        an OSError in the block, all raise: TrainingError, except that the main process raises its
        own error."""
        return nullcontext()


class ProcessGroup(SingleProcess):
    """One of several processes in a process group of torch.distributed."""

    def __init__(self) -> None:
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        # Communication between steps does not wait for a GPU.
        self._group = dist.new_group(backend="gloo")

    def device_name(self, name: str) -> str:
        if name.startswith("cuda:"):
            raise ConfigError(f"each process needs its own GPU: use --device cuda, not {name!r}")
        if name not in ("auto", "cuda") or not torch.cuda.is_available():
            return name
        return f"cuda:{_environment_int('LOCAL_RANK', 0)}"

    def wrap_model(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Returns the model in DistributedDataParallel (Li et al. 2020): every process has all of
        it, and gradients are means over the processes."""
        if device.type == "cuda":
            torch.cuda.set_device(device)  # the default device of NCCL
        devices = [device.index] if device.type == "cuda" else None
        options: dict[str, Any] = {_SYNC_BUFFERS: False}  # buffers are constants
        return nn.parallel.DistributedDataParallel(model, device_ids=devices, **options)

    def no_sync(self, module: nn.Module) -> AbstractContextManager[None]:
        assert isinstance(module, nn.parallel.DistributedDataParallel)
        return module.no_sync()

    def check_batch_size(self, config: TrainConfig) -> None:
        if config.batch_size % (config.grad_accum * self.world_size):
            raise ConfigError(
                f"batch_size {config.batch_size} is not divisible by grad_accum "
                f"{config.grad_accum} times {self.world_size} processes"
            )

    def seed_step(self, seed: int, step: int) -> None:
        if not self.is_main:
            state = np.random.SeedSequence((seed, self.rank, step)).generate_state(1, np.uint64)
            torch.manual_seed(int(state[0]))

    def all_reduce_sum(self, value: torch.Tensor) -> float:
        return float(self._all_reduce(value.double().cpu(), dist.ReduceOp.SUM))

    def all_reduce_max(self, value: int) -> int:
        return int(self._all_reduce(torch.tensor(value), dist.ReduceOp.MAX))

    def _all_reduce(self, value: torch.Tensor, operation: Any) -> torch.Tensor:
        dist.all_reduce(value, operation, group=self._group)
        return value

    def broadcast(self, value: Any) -> Any:
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._group)
        return values[0]

    def barrier(self) -> None:
        dist.barrier(self._group)

    @contextmanager
    def share_errors(self) -> Iterator[None]:
        local_error: UserError | OSError | None = None
        try:
            yield
        except (UserError, OSError) as error:
            local_error = error
        messages: list[str | None] = [None] * self.world_size
        dist.all_gather_object(messages, local_error and str(local_error), group=self._group)
        if self.is_main and local_error:
            raise local_error
        for rank, message in enumerate(messages):
            if message is not None:
                raise TrainingError(f"process {rank}: {message}")


@contextmanager
def process_group() -> Iterator[SingleProcess]:
    """The processes that train together: an existing process group, the processes of torchrun, or
    this process alone.

    Raises ConfigError if the processes do not find each other, and ProcessEndedError if another
    process ends during the block.
    """
    is_joined = dist.is_available() and dist.is_initialized()
    world_size = dist.get_world_size() if is_joined else _environment_int("WORLD_SIZE", 1)
    if world_size == 1:
        yield SingleProcess()
        return
    if not is_joined:
        _join(world_size)
    try:
        yield ProcessGroup()
    except Interrupted:  # all processes end here; after an error, others may still wait
        if not is_joined:
            dist.destroy_process_group()
        raise
    except RuntimeError as error:
        if _PEER_GONE.search(str(error)):
            raise ProcessEndedError("another process of this run ended too early") from None
        raise
    if not is_joined:
        dist.destroy_process_group()


def _join(world_size: int) -> None:
    if (rank := launched_rank()) >= world_size:  # torch would wait for half an hour
        raise ConfigError(
            f"the environment variable RANK is {rank}, not below WORLD_SIZE, {world_size}: "
            f"torchrun sets both; for one process, unset WORLD_SIZE"
        )
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        dist.init_process_group(backend)
    except (ValueError, RuntimeError) as error:  # a variable is missing, or no process answers
        reason = str(error).splitlines()[0]
        raise ConfigError(f"the processes do not find each other: {reason}") from None


def wait_for_main() -> None:
    """Waits until the main process has ended. Call it in another one, after an error that all of
    them have."""
    if dist.is_available() and dist.is_initialized():
        with suppress(RuntimeError):  # the connection is closed
            dist.recv(torch.empty(1), src=0)


def launched_rank() -> int:
    """Returns the rank of this process that its launcher set; 0 for a single process."""
    return _environment_int("RANK", 0) if _environment_int("WORLD_SIZE", 1) > 1 else 0


def _environment_int(name: str, least: int) -> int:
    """Returns a number from the environment, `least` if it is not set. Raises ConfigError for
    anything but a number from `least` on."""
    value = os.environ.get(name, str(least))
    if not value.isascii() or not value.isdigit() or int(value) < least:
        reason = f"the environment variable {name} is {value!r}, not a number from {least}"
        raise ConfigError(reason)
    return int(value)
