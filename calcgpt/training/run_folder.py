"""The folder of one training run.

metrics.jsonl       one JSON object a line, of training (loss, lr, ...) or of validation
environment.jsonl   one JSON object for each start: versions, machine, seed, data, recipe
step-00000500/      a checkpoint, with what it takes to resume in training.safetensors;
                    the last two are kept, and the best
tensorboard/        event files, where tensorboard is installed
wandb/              with --wandb: what Weights & Biases keeps
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calcgpt import checkpoint
from calcgpt.errors import CheckpointError
from datagen.files import locked

log = logging.getLogger(__name__)
KEEP = 2
METRICS_FILE = "metrics.jsonl"
TRAINING = "training.safetensors"  # what only a resumed run needs


class RunFolder:
    """Checkpoints and metrics of a run, on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def metrics_path(self) -> Path:
        return self.path / METRICS_FILE

    def step_folder(self, step: int) -> Path:
        """Where the checkpoint after `step` steps stands."""
        return self.path / f"step-{step:08d}"

    def checkpoints(self) -> list[Path]:
        """The checkpoints, oldest first."""
        return sorted(self.path.glob("step-????????"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder against a second process; raises ConfigError where one has it."""
        with locked(self.path, "training"):
            for leftover in self.path.glob(".step-*"):  # a checkpoint that a kill cut short
                shutil.rmtree(leftover)
            yield

    def clear(self) -> None:
        """Remove an earlier run's checkpoints and metrics."""
        for folder in self.checkpoints():
            shutil.rmtree(folder)
        self.metrics_path.unlink(missing_ok=True)
        shutil.rmtree(self.path / "tensorboard", ignore_errors=True)

    def prune(self) -> None:
        """Keep the last checkpoints and the best, remove the others."""
        keep = {*self.checkpoints()[-KEEP:], checkpoint.best(self.path)}
        for folder in self.checkpoints():
            if folder not in keep:
                shutil.rmtree(folder)

    def last_good(self) -> Path:
        """The newest checkpoint that loads; a damaged one is passed over with a warning."""
        for folder in reversed(self.checkpoints()):
            try:
                checkpoint.Checkpoint.load(folder)
                checkpoint.load_tensors(folder, TRAINING)
                return folder
            except CheckpointError as error:
                log.warning("passed over %s", error)
        raise CheckpointError(f"nothing to resume in {self.path}: no checkpoint loads")
