"""The micro-batches of each step, on the device that trains on them.

On a GPU, those of the next step are copied while it still computes the current one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from calcgpt.config import TrainConfig
from calcgpt.data.batches import NO_LOSS, Batch, BatchSource
from calcgpt.model.gpt import LanguageModel
from calcgpt.training.distributed import SingleProcess


class Part(NamedTuple):
    """One micro-batch: inputs and targets, each (B, T), and what the model reads from the text."""

    inputs: torch.Tensor
    targets: torch.Tensor
    read: torch.Tensor | None


class Share(NamedTuple):
    """What a process does in a step, and the counts of all processes."""

    parts: list[Part]
    n_target: int
    shapes: list[tuple[int, int]]  # (B, T) of all micro-batches


class Feed:
    """The shares of one process, in the order of the steps."""

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
        self._next: tuple[int, Share] | None = None
        self._copies: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def take(self, step: int) -> Share:
        """Returns the share of a step."""
        number, share = self._next or (None, None)
        self._next = None
        if number != step or share is None:
            share = self._load(step)
        if self._copies is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_stream(self._copies)
            for tensor in (tensor for part in share.parts for tensor in part if tensor is not None):
                tensor.record_stream(stream)
        return share

    def prepare(self, step: int) -> None:
        """Begins to copy the share of the next step to a GPU. On a CPU there is nothing to copy."""
        if self._copies is not None and step < self.config.steps:
            self._next = step, self._load(step)

    def _load(self, step: int) -> Share:
        batch = self.batches.batch(step, self.config.batch_size)
        # The loss is the mean over the whole batch: micro-batches may differ in targets.
        n_target = int((batch[1] != NO_LOSS).sum())
        parts, own = self.group.micro_batches(batch, self.config.grad_accum)
        shapes = [(len(inputs), inputs.size(1)) for inputs, _ in parts]
        return Share([self._moved(part) for part in own], n_target, shapes)

    def _moved(self, batch: Batch) -> Part:
        inputs, targets = batch
        read = self.model.read(inputs)
        if self._copies is None:
            return Part(inputs, targets, read)
        with torch.cuda.stream(self._copies):
            copied = None if read is None else self._copy(read)
            return Part(self._copy(inputs), self._copy(targets), copied)

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begins a copy to the GPU. Only one from pinned memory does not wait."""
        return tensor.pin_memory().to(self.device, non_blocking=True)
