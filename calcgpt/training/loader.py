"""The micro-batches of each step, on the device that trains on them.

The micro-batches of the next step are copied to a GPU while it still computes the current step.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from calcgpt.config import TrainConfig
from calcgpt.data.batches import NO_LOSS, Batch, BatchSource
from calcgpt.model.gpt import LanguageModel
from calcgpt.training.distributed import SingleProcess


class MicroBatch(NamedTuple):
    """Inputs and targets, each (B, T), and what the model parses from them."""

    inputs: torch.Tensor
    targets: torch.Tensor
    parsed: torch.Tensor | None


class StepBatch(NamedTuple):
    """The micro-batches of this process in one step, and counts over all processes."""

    micro_batches: list[MicroBatch]
    n_target: int
    shapes: list[tuple[int, int]]  # (B, T) of all micro-batches


class BatchLoader:
    """Loads the batches of one process, in the order of the steps."""

    def __init__(
        self,
        batches: BatchSource,
        config: TrainConfig,
        model: LanguageModel,
        group: SingleProcess,
        device: torch.device,
    ) -> None:
        self.batches, self.config, self.model = batches, config, model
        self.group, self.device = group, device
        self._prefetched: dict[int, StepBatch] = {}  # by step: one at most
        self._copy_stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._copy_stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def load(self, step: int) -> StepBatch:
        """Returns the batch of a step."""
        batch = self._prefetched.pop(step, None) or self._load(step)
        if self._copy_stream is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_stream(self._copy_stream)
            for tensor in (tensor for part in batch.micro_batches for tensor in part):
                if tensor is not None:
                    tensor.record_stream(stream)
        return batch

    def prefetch(self, step: int) -> None:
        """Begins to copy the batch of the next step to a GPU. On a CPU there is nothing to copy."""
        if self._copy_stream is not None and step < self.config.steps:
            self._prefetched = {step: self._load(step)}

    def _load(self, step: int) -> StepBatch:
        batch = self.batches.batch(step, self.config.batch_size)
        # The loss is the mean over the whole batch: micro-batches may differ in targets.
        n_target = int((batch[1] != NO_LOSS).sum())
        parts, local_parts = self.group.micro_batches(batch, self.config.grad_accum)
        shapes = [(len(inputs), inputs.size(1)) for inputs, _ in parts]
        return StepBatch([self._to_device(part) for part in local_parts], n_target, shapes)

    def _to_device(self, batch: Batch) -> MicroBatch:
        inputs, targets = batch
        parsed = self.model.parse(inputs)
        if self._copy_stream is None:
            return MicroBatch(inputs, targets, parsed)
        with torch.cuda.stream(self._copy_stream):
            copied = None if parsed is None else self._copy(parsed)
            return MicroBatch(self._copy(inputs), self._copy(targets), copied)

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begins a copy to the GPU. A copy from pinned memory does not block."""
        return tensor.pin_memory().to(self.device, non_blocking=True)
