"""The micro-batches of each step, on the device that trains on them.

While a GPU computes a step, the micro-batches of the next step are copied to it, and other
processes read the text of the steps after that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from calcgpt.config import TrainConfig
from calcgpt.data.batches import Batch, BatchSource, has_loss
from calcgpt.model.base import LanguageModel
from calcgpt.training.distributed import SingleProcess
from datagen.coordinates import Codes, Coordinates, batch_coordinates
from datagen.parallel import Pool

_AHEAD = 4  # steps whose text is read in advance
_MAX_WORKERS = 8  # with worked steps, one reads the text of about 40 batches of 24 per second


class MicroBatch(NamedTuple):
    """Inputs and targets, each (B, T), and what the model parses from them."""

    inputs: torch.Tensor
    targets: torch.Tensor
    features: torch.Tensor | None


class StepBatch(NamedTuple):
    """The micro-batches of this process in one step, and counts over all processes."""

    micro_batches: list[MicroBatch]
    n_target: int
    shapes: list[tuple[int, int]]  # (B, T) of all micro-batches


class _SplitBatch(NamedTuple):
    """The batch of a step before it is on the device."""

    parts: list[tuple[Batch, Codes | None]]  # of this process, with the text to read
    n_target: int
    shapes: list[tuple[int, int]]


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
        self._split: dict[int, _SplitBatch] = {}  # by step: those whose text is being read
        self._workers: Pool[Coordinates] | None = None
        self._copy_stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._copy_stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @contextmanager
    def reading(self, n_process: int) -> Iterator[None]:
        """Within the block, at most `n_process` other processes read the text of later steps, if
        the model needs that."""
        if n_process:
            self._workers = Pool(batch_coordinates, min(n_process, _MAX_WORKERS))
        try:
            yield
        finally:
            if self._workers:
                self._workers.close()
            self._workers = None

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
        split = self._split.pop(step, None) or self._split_batch(step)
        if self._workers:
            for later in range(step + 1, min(step + 1 + _AHEAD, self.config.steps)):
                if later not in self._split:
                    self._split[later] = self._split_batch(later)
                for number, (_, codes) in enumerate(self._split[later].parts):
                    if codes is not None:
                        self._workers.request((later, number), codes)
        parts = [
            self._to_device(part, self._parsed(part, codes, (step, number)))
            for number, (part, codes) in enumerate(split.parts)
        ]
        return StepBatch(parts, split.n_target, split.shapes)

    def _split_batch(self, step: int) -> _SplitBatch:
        """Makes the batch of a step."""
        batch = self.batches.batch(step, self.config.batch_size)
        # The loss is the mean over the whole batch: micro-batches may differ in targets.
        n_target = int(has_loss(batch[1]).sum())
        parts, local_parts = self.group.micro_batches(batch, self.config.grad_accum)
        shapes = [(len(inputs), inputs.size(1)) for inputs, _ in parts]
        readable = [
            self.model.ascii_codes(inputs) if self._workers else None for inputs, _ in local_parts
        ]
        return _SplitBatch(list(zip(local_parts, readable, strict=True)), n_target, shapes)

    def _parsed(
        self, batch: Batch, codes: Codes | None, key: tuple[int, int]
    ) -> torch.Tensor | None:
        """Returns what the model parses from a micro-batch, from another process if its text was
        to be read there."""
        if self._workers is None or codes is None:
            return self.model.text_features(batch[0])
        if (coordinates_BT6 := self._workers.receive(key)) is None:
            coordinates_BT6 = batch_coordinates(codes)
        return torch.tensor(coordinates_BT6, dtype=torch.int64)

    def _to_device(self, batch: Batch, features: torch.Tensor | None) -> MicroBatch:
        inputs, targets = batch
        if self._copy_stream is None:
            return MicroBatch(inputs, targets, features)
        with torch.cuda.stream(self._copy_stream):
            copied = None if features is None else self._copy(features)
            return MicroBatch(self._copy(inputs), self._copy(targets), copied)

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begins a copy to the GPU. A copy from pinned memory does not block."""
        return tensor.pin_memory().to(self.device, non_blocking=True)
