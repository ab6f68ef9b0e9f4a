"""The folder of one training run.

metrics.jsonl       one JSON object per line, of training (loss, lr, ...) or of validation
environment.jsonl   one JSON object for each start: versions, machine, seed, data, recipe
step-00000500/      a checkpoint, and in training.safetensors the state that only training needs;
                    the last two and the best are kept
wandb/              with --wandb: the files of Weights & Biases
"""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field

from calcgpt.base.errors import ConfigError, one_line
from calcgpt.base.files import NO_SPACE, locked
from calcgpt.checkpoint import METRICS, Checkpoint
from calcgpt.config import MAX_STEPS, Recipe
from calcgpt.errors import CheckpointError
from calcgpt.metrics import Count, PartialModel
from calcgpt.registry import ENVIRONMENT_FILE, best
from calcgpt.section import build
from calcgpt_lab.recipe import differences
from calcgpt_lab.records import TrainingError, step_lines

if TYPE_CHECKING:  # tables of runs need no torch
    import torch

log = logging.getLogger(__name__)
NONE_YET = "there is no checkpoint yet: --force starts the run again"
N_RECENT = 2  # checkpoints that are kept beside the best
METRICS_FILE = "metrics.jsonl"
TRAINING = "training.safetensors"
RNG_CPU, RNG_CUDA = "rng.cpu", "rng.cuda"  # in it: the states of random generators
OPTIMIZER = "optimizer."  # in it: prefix of the states of optimizers

# Fields that may differ on resume: the description, the length of a run (unless its schedule
# depends on it), its reports, and the hardware it runs on. The tokenizer of a run is saved, so
# `vocab_size` has no effect.
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
}


class FullDiskError(TrainingError):
    """There is no space for the files of a run."""


@dataclass
class Counters:
    """The progress of a run."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0  # of training, without validation and saving


class StoredCounters(PartialModel):
    """The counters in a checkpoint's `metrics.json`."""

    step: Annotated[int, Field(ge=0, le=MAX_STEPS)]
    tokens: Count
    seconds: Annotated[float, Field(ge=0)]


@dataclass
class SavedState:
    """A checkpoint, its weights and the tensors of its training, as loaded from a folder."""

    folder: Path
    checkpoint: Checkpoint
    weights: dict[str, torch.nn.Parameter]
    tensors: dict[str, torch.Tensor]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Loads a folder. Raises CheckpointError if a file is missing or damaged."""
        from calcgpt_lab.model.stored import load_tensors

        loaded = Checkpoint.load(folder)
        weights = dict(loaded.model.named_parameters())
        return cls(folder, loaded, weights, load_tensors(folder, TRAINING))

    def check_same_run(self, recipe: Recipe, fingerprint: str) -> None:
        """Raises ConfigError if the recipe or the data differ from those of the run."""
        changed = differences(recipe.model_dump(), self.checkpoint.recipe.model_dump())
        schedule = recipe.train.schedule
        if "train.steps" in changed and schedule != "constant":
            new, old = changed["train.steps"]
            raise ConfigError(
                f"cannot resume: train.steps is {new:,}, the run started with {old:,}; that "
                f"would change the learning rates of its schedule, {schedule!r}"
            )
        for field, (new, old) in changed.items():
            if field not in MAY_CHANGE and not field.startswith("data."):  # see the fingerprint
                raise ConfigError(
                    f"cannot resume: {field} is {new!r}, the run started with {old!r}"
                )
        if fingerprint != self.checkpoint.metrics.get("data_sha256"):
            raise ConfigError("cannot resume: the run started on other data")

    def counters(self) -> Counters:
        """Returns the progress of the run. Raises CheckpointError if it is missing, wrong, or not
        that of the folder's name."""
        path = self.folder / METRICS
        metrics = self.checkpoint.metrics
        stored = build(StoredCounters, metrics, str(path), wrong=CheckpointError)
        if (name := step_name(stored.step)) != self.folder.name:
            raise CheckpointError(f"{path}: step is {stored.step:,}: that is not {name}")
        return Counters(**stored.model_dump())

    def check_tensors(self, shapes: Mapping[str, torch.Size]) -> None:
        """Raises CheckpointError as `check_shapes` does, and if there are other states of
        optimizers."""
        self.check_shapes(shapes)
        states = {name for name in self.tensors if name.startswith(OPTIMIZER)}
        if others := states - shapes.keys():
            raise CheckpointError(
                f"{self.folder / TRAINING}: tensor {min(others)!r:.80} is not of this run"
            )

    def check_shapes(self, shapes: Mapping[str, torch.Size]) -> None:
        """Raises CheckpointError if one of these tensors is not in `training.safetensors`, or has
        another shape and is no count of steps."""
        file = self.folder / TRAINING
        for name, shape in sorted(shapes.items()):
            tensor = self.tensors.get(name)
            if tensor is None:
                raise CheckpointError(f"{file}: tensor {name!r} is missing")
            if tensor.dim() == 0 and 0 <= tensor.item() <= MAX_STEPS:
                continue
            if tensor.shape != shape:
                sizes = tuple(tensor.shape), tuple(shape)
                raise CheckpointError(f"{file}: tensor {name!r} is {sizes[0]}, not {sizes[1]}")

    def restore_random_state(self, device: torch.device) -> None:
        """Restores the states of the random generators. Raises CheckpointError if one is wrong."""
        import torch

        self.check_shapes({RNG_CPU: torch.get_rng_state().shape})
        try:
            torch.set_rng_state(self.tensors[RNG_CPU])
            if RNG_CUDA in self.tensors and device.type == "cuda":
                torch.cuda.set_rng_state(self.tensors[RNG_CUDA], device)
        except (RuntimeError, TypeError) as error:
            reason = one_line(str(error).splitlines()[0])
            raise CheckpointError(f"{self.folder / TRAINING}: {reason}") from None


def step_name(step: int) -> str:
    """Returns the name of the folder of the checkpoint after `step` steps."""
    return f"step-{step:08d}"


def random_states(device: torch.device) -> dict[str, torch.Tensor]:
    """Returns the states of the random generators of a training on `device`."""
    import torch

    states = {RNG_CPU: torch.get_rng_state()}
    return states | ({RNG_CUDA: torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


class RunFolder:
    """Checkpoints and metrics of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def metrics_path(self) -> Path:
        return self.path / METRICS_FILE

    def step_folder(self, step: int) -> Path:
        """Returns the folder of the checkpoint after `step` steps."""
        return self.path / step_name(step)

    def checkpoints(self) -> list[Path]:
        """Returns the folders of the checkpoints, oldest first."""
        return sorted(self.path.glob(f"step-{'[0-9]' * 8}"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder. Raises ConfigError if another process trains in it."""
        for name in (METRICS_FILE, ENVIRONMENT_FILE):
            if (self.path / name).exists() and not (self.path / name).is_file():
                raise ConfigError(f"{self.path / name} is not a regular file")
        with locked(self.path, "training"):
            for old in self.path.glob(".step-*.old.*/step-*"):  # was about to be replaced
                if not (self.path / old.name).exists():
                    old.replace(self.path / old.name)
            for leftover in self.path.glob(".step-*"):  # of a process that was killed while saving
                shutil.rmtree(leftover)
            yield

    def check_start(self, resume: bool, interval: int) -> None:
        """Raises ConfigError if the folder holds what a start without `force` would remove.

        With `resume`, metrics without a checkpoint are an error, except for a run that was killed
        before its first checkpoint, due after `interval` steps: such a run begins again.
        """
        if self.checkpoints():
            if not resume:
                raise ConfigError(
                    f"{self.path} holds a run: --resume continues it, --force replaces it"
                )
            return
        has_rows = self.metrics_path.exists() and self.metrics_path.stat().st_size > 0
        if has_rows and not (resume and self._is_killed_early(interval)):
            raise ConfigError(
                f"{self.path} holds {METRICS_FILE}, but no checkpoint: --force replaces it"
            )

    def _is_killed_early(self, interval: int) -> bool:
        steps = [row["step"] for _, row in step_lines(self.metrics_path)]
        return (self.path / ENVIRONMENT_FILE).exists() and max(steps, default=0) <= interval

    def clear(self, resume: bool) -> None:
        """Removes the checkpoints and metrics of an earlier run. With `resume`, logs that there is
        nothing to resume, for a user who meant another folder."""
        if resume:
            log.info("no checkpoint in %s: a new run begins", self.path)
        for folder in self.checkpoints():
            shutil.rmtree(folder)
        self.metrics_path.unlink(missing_ok=True)

    def prune(self, saved: Path) -> None:
        """Removes all checkpoints except the newest ones, the best one and `saved`. Damaged
        checkpoints of an earlier start may have later steps than `saved`."""
        keep = {*self.checkpoints()[-N_RECENT:], best(self.path), saved}
        for folder in self.checkpoints():
            if folder not in keep:
                shutil.rmtree(folder)

    def check_finite(self, value: float, name: str, step: int) -> None:
        """Raises TrainingError for infinity and NaN."""
        if math.isfinite(value):
            return
        saved = self.checkpoints()
        newest = f"the newest checkpoint is {saved[-1]}" if saved else NONE_YET
        raise TrainingError(
            f"{name} is {value} at step {step}: a lower learning rate may help; {newest}"
        )

    @contextmanager
    def explains_full_disk(self, n_bytes: int) -> Iterator[None]:
        """Raises FullDiskError if the block ends for want of space. `n_bytes` are to be freed: for
        the weights, at most two states of the optimizer, and an average."""
        try:
            yield
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            saved = self.checkpoints()
            kept = f"{saved[-1].name} is kept" if saved else "there is no checkpoint yet"
            what_to_do = f"free at least {-(-n_bytes // 10**6):,} MB, and --resume continues"
            raise FullDiskError(f"{self.path}: {error.strerror}; {kept}; {what_to_do}") from error

    def load_last(self) -> SavedState:
        """Loads the newest checkpoint that is not damaged; logs a warning for each damaged one.
        Raises CheckpointError if no checkpoint loads."""
        for folder in reversed(self.checkpoints()):
            try:
                return SavedState.load(folder)
            except CheckpointError as error:
                log.warning("skipped %s", error)
        raise CheckpointError(f"nothing to resume in {self.path}: no checkpoint loads")
