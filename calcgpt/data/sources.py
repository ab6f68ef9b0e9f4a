"""What a run learns from: a folder of text, or problems that are drawn as they are needed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from calcgpt.config import DataConfig, Recipe, TrainConfig
from calcgpt.data.batches import BATCHES, BatchSource, ProblemBatches
from calcgpt.data.problems import (
    DRAWING,
    FreshBatches,
    FreshProblems,
    Line,
    read_problems,
    split_line,
)
from calcgpt.data.tokenizer import Tokenizer
from calcgpt.errors import ConfigError
from datagen.files import read_text
from datagen.plan import GENERATOR
from datagen.splits import Split

VALIDATION_POOL = 2_000  # fresh problems that the validation loss is taken from


class TrainingData(Protocol):
    """What the trainer asks of its data."""

    @property
    def fingerprint(self) -> str:
        """A hash that tells this data from other data."""

    @property
    def train_text(self) -> str:
        """The whole training text, for a tokenizer to be made from; empty where there is none."""

    def batches(
        self, split: Split, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> BatchSource:
        """Batches of the training or of the validation split."""

    def validation_problems(self, count: int) -> list[Line] | None:
        """The first `count` validation problems, which can be answered right or wrong; None where
        the data does not hold problems."""


@dataclass(frozen=True)
class DataFolder:
    """A folder with `train.txt` and `val.txt`; with `manifest.json` it holds problems."""

    path: Path
    train_text: str
    val_text: str
    manifest_sha256: str | None

    @property
    def holds_problems(self) -> bool:
        """Whether its lines are arithmetic problems, which can be answered right or wrong."""
        return self.manifest_sha256 is not None

    @property
    def fingerprint(self) -> str:
        return self.manifest_sha256 or hashlib.sha256(self.train_text.encode()).hexdigest()

    @classmethod
    def load(cls, path: Path) -> DataFolder:
        """Raises DataError where a file is missing, empty or not UTF-8."""
        manifest = path / "manifest.json"
        return cls(
            path,
            read_text(path / "train.txt"),
            read_text(path / "val.txt"),
            hashlib.sha256(manifest.read_bytes()).hexdigest() if manifest.is_file() else None,
        )

    def batches(
        self, split: Split, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> BatchSource:
        text = self.train_text if split == Split.TRAIN else self.val_text
        return BATCHES[config.batches](text, tokenizer, config, block_size)

    def validation_problems(self, count: int) -> list[Line] | None:
        return read_problems(self.path / "val.txt", count) if self.holds_problems else None


class FreshData:
    """Problems drawn as a recipe's [data] section says, from the seed of its training."""

    train_text = ""

    def __init__(self, config: DataConfig, seed: int) -> None:
        self.problems = FreshProblems(config, seed)
        data = {**config.model_dump(), "digits": self.problems.format.digits}
        content = {"data": data, "generator": GENERATOR, "drawing": DRAWING}
        self.fingerprint = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def batches(
        self, split: Split, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> BatchSource:
        if config.batches != "problems":
            raise ConfigError("without a data folder, train.batches must be 'problems'")
        if split == Split.TRAIN:
            return FreshBatches(self.problems, tokenizer, block_size)
        text = self.problems.text(self.problems.held_out(VALIDATION_POOL))
        return ProblemBatches(text, tokenizer, config, block_size)

    def validation_problems(self, count: int) -> list[Line]:
        text = self.problems.text(self.problems.held_out(count))
        return [split_line(line) for line in text.splitlines()]


def training_data(recipe: Recipe, folder: Path | None) -> TrainingData:
    """The data in `folder` or, without one, of the recipe's own [data] section; raises ConfigError
    where there is neither."""
    if folder is not None:
        return DataFolder.load(folder)
    if recipe.data is None:
        raise ConfigError("the recipe has no [data] section: --data names a folder to train on")
    return FreshData(recipe.data, recipe.train.seed)
