"""The micro-batches of each step, on the device that trains on them.

While a GPU computes a step, the micro-batches of the next step are copied to it.
"""

from typing import NamedTuple

import torch

from calcgpt.config import TrainConfig
from calcgpt_lab.data.batches import BatchSource, has_loss
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.training.distributed import SingleProcess


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
        """Makes the batch of a step."""
        batch = self.batches.batch(step, self.config.batch_size)
        # The loss is the mean over the whole batch: micro-batches may differ in targets.
        n_target = int(has_loss(batch[1]).sum())
        parts, local_parts = self.group.micro_batches(batch, self.config.grad_accum)
        shapes = [(len(inputs), inputs.size(1)) for inputs, _ in parts]
        micro_batches = [
            self._to_device(MicroBatch(*part, self.model.text_features(part[0])))
            for part in local_parts
        ]
        return StepBatch(micro_batches, n_target, shapes)

    def _to_device(self, batch: MicroBatch) -> MicroBatch:
        if self._copy_stream is None:
            return batch
        with torch.cuda.stream(self._copy_stream):
            features = None if batch.features is None else self._copy(batch.features)
            return MicroBatch(self._copy(batch.inputs), self._copy(batch.targets), features)

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begins a copy to the GPU. A copy from pinned memory does not block."""
        return tensor.pin_memory().to(self.device, non_blocking=True)
