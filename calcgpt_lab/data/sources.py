"""The data of a run: a folder or a text, a user's own task, or problems that are drawn when needed.

Fresh problems are drawn in blocks, each of which serves a few hundred steps. Writing one takes half
a second with worked steps, and some seconds if its numbers are long.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.base.files import read_json, read_text, sha256, text_sha256
from calcgpt.config import DataConfig, Recipe, TrainConfig
from calcgpt.tokenizer import CharTokenizer, Tokenizer, UnknownCharacterError
from calcgpt_lab.data.batches import (
    Batch,
    BatchSource,
    ProblemBatches,
    ProblemLines,
    StreamBatches,
)
from calcgpt_lab.data.cases import CaseBatches
from calcgpt_lab.data.dataset import MANIFEST
from calcgpt_lab.data.plan import GENERATOR_VERSION
from calcgpt_lab.data.problems import (
    DRAWING_VERSION,
    FreshProblems,
    Line,
    read_problems,
    split_line,
)
from calcgpt_lab.data.task import AnyTask, Task
from calcgpt_lab.data.tokenizers import TOKENIZERS
from datagen import formats
from datagen.splits import Split

PROBLEMS_PER_BLOCK = 16_384  # about; a block serves a few hundred batches
PROBE = 1_024  # problems that are drawn and checked before a run begins
VALIDATION_POOL = 2_000  # fresh problems over which the validation loss is averaged
N_EXAMPLES = 6  # questions of a task that its checkpoints keep


# Name in a recipe -> (text, tokenizer, config, block size) -> batches.
BATCHES: dict[str, Callable[[str, Tokenizer, TrainConfig, int], BatchSource]] = {
    "stream": StreamBatches,
    "problems": ProblemBatches,
    "cases": CaseBatches,
}


class TrainingData(Protocol):
    """Data that a model is trained on."""

    @property
    def fingerprint(self) -> str:
        """A hash of the data."""

    @property
    def train_text(self) -> str:
        """The whole training text, from which a tokenizer is made; empty without files."""

    @property
    def val_text(self) -> str:
        """The whole validation text; empty without files."""

    def batches(
        self, split: Split, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> BatchSource:
        """Returns batches of the training or the validation split."""

    def validation_problems(self, count: int) -> list[Line] | None:
        """Returns the first `count` validation problems; None for data that is plain text."""


@dataclass(frozen=True)
class DataFolder:
    """A folder with `train.txt` and `val.txt`, with problems if it has a `manifest.json`; or a file
    of plain text, whose last tenth is for validation."""

    path: Path
    train_text: str
    val_text: str
    holds_problems: bool  # its lines are arithmetic problems, not plain text
    fingerprint: str  # hash of the manifest, or of both texts if no manifest has their hashes
    has_work: bool | None = None  # whether its problems have worked steps; None: it is not known

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads the folder or the text. Raises DataError if a file is missing, empty or not UTF-8,
        if the manifest is not JSON, or if a text is too short to be divided."""
        if path.is_dir():
            train_text, val_text = read_text(path / "train.txt"), read_text(path / "val.txt")
        else:
            text = read_text(path)
            cut = 9 * len(text) // 10
            train_text, val_text = text[:cut], text[cut:]
            if not train_text:
                raise DataError(f"{path} is too short to be divided: {len(text)} characters")
        hashes = [text_sha256(train_text), text_sha256(val_text)]
        fingerprint = hashlib.sha256(bytes.fromhex("".join(hashes))).hexdigest()
        manifest, has_work = path / MANIFEST, None
        if holds_problems := manifest.is_file():
            content = read_json(manifest)
            recorded, format_name = content.get("sha256"), content.get("format")
            has_work = formats.has_work(format_name) if isinstance(format_name, str) else None
            if isinstance(recorded, dict) and [recorded.get(s) for s in ("train", "val")] == hashes:
                fingerprint = sha256(manifest)  # else a file was edited
        return cls(path, train_text, val_text, holds_problems, fingerprint, has_work)

    def check_recipe(self, recipe: Recipe) -> None:
        """Raises ConfigError if its problems have worked steps and the recipe's have none, or the
        other way round. A stream may be any text."""
        if recipe.train.batches == "stream":
            return
        if self.has_work in (None, recipe.has_work):
            return
        if recipe.has_work:
            raise ConfigError(
                f"{self.path} has no worked steps: `calcgpt datagen --format scratchpad` makes "
                "such data, or leave out --data"
            )
        raise ConfigError(
            f"{self.path} has worked steps, which this recipe does not write: use a recipe such as "
            "'calculator', or data without them (`calcgpt datagen --format direct`)"
        )

    def batches(
        self, split: Split, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> BatchSource:
        text = self.train_text if split == Split.TRAIN else self.val_text
        file, hint = self.path, ""
        if file.is_dir():
            file /= f"{split}.txt"
        try:
            return BATCHES[config.batches](text, tokenizer, config, block_size)
        except DataError as error:
            if config.batches == "problems" and self._is_plain_text():
                hint = "; for plain text: --set tokenizer=chars --set train.batches=stream"
            if isinstance(error, UnknownCharacterError):
                raise DataError(f"{error.in_file(file, text)}{hint}") from None
            raise DataError(f"{file}: {error}{hint}") from None

    def _is_plain_text(self) -> bool:
        """Whether there are no problems: not every line has an `=`."""
        return not all("=" in line for line in self.train_text.splitlines())

    def validation_problems(self, count: int) -> list[Line] | None:
        return read_problems(self.path / "val.txt", count) if self.holds_problems else None


class FreshData:
    """Problems drawn by the [data] section of a recipe, from the seed of its training."""

    train_text = val_text = ""

    def __init__(self, config: DataConfig, seed: int) -> None:
        self.problems = FreshProblems(config, seed)
        content = {
            "data": config.model_dump(),
            "generator": GENERATOR_VERSION,
            "drawing": DRAWING_VERSION,
        }
        self.fingerprint = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def batches(
        self, split: Split, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> BatchSource:
        if config.batches == "cases":
            signs = [sign for sign, weight in self.problems.config.operations.items() if weight]
            return CaseBatches("", tokenizer, config, block_size, signs)
        if config.batches != "problems":
            raise ConfigError("without a data folder, train.batches must be 'problems' or 'cases'")
        if split == Split.TRAIN:
            return FreshBatches(self.problems, tokenizer, block_size)
        pool = self.problems.render(self.problems.validation_problems(VALIDATION_POOL))
        return ProblemBatches(pool, tokenizer, config, block_size)

    def validation_problems(self, count: int) -> list[Line]:
        lines = self.problems.render(self.problems.validation_problems(count)).decode().splitlines()
        return [split_line(line) for line in lines]


class TaskData:
    """A user's own task, with the seed of the training. `train_text` is the task's vocabulary, from
    which the tokenizer is made."""

    val_text = ""

    def __init__(self, task: AnyTask, seed: int) -> None:
        self.task, self.seed = task, seed
        self.fingerprint, self.train_text = task.fingerprint, task.vocabulary

    def batches(
        self, split: Split, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> BatchSource:
        if isinstance(self.task, Task) and split == Split.TRAIN:
            return DrawnBatches(self.task, tokenizer, config, block_size)
        count = VALIDATION_POOL if isinstance(self.task, Task) else None
        lines = self.task.lines(split, self.seed, count)
        return ProblemBatches(_joined(lines), tokenizer, config, block_size)

    def validation_problems(self, count: int) -> list[Line]:
        return self.task.lines(Split.VAL, self.seed, count)


def examples_of(data: TrainingData, val_problems: Sequence[Line]) -> dict[str, list[str]]:
    """Returns questions of a user's own task, for people who do not know what to ask its model."""
    if not isinstance(data, TaskData):
        return {}
    return {"examples": [line.prompt.removesuffix("=") for line in val_problems[:N_EXAMPLES]]}


class DrawnBatches(BatchSource):
    """Lines that the function of a task draws for each step.

    Raises DataError if one of the first lines does not fit in `block_size`. Longer ones that come
    up later are left out.
    """

    def __init__(
        self, task: Task, tokenizer: Tokenizer, config: TrainConfig, block_size: int
    ) -> None:
        self.task, self.seed, self.tokenizer = task, config.seed, tokenizer
        self.max_length = block_size + 1  # the last character is a target only
        ProblemLines(_joined(task.first_lines), tokenizer, block_size)

    def batch(self, step: int, size: int) -> Batch:
        lines = self.task.training_lines(self.seed, step, size, self.max_length)
        return ProblemLines(_joined(lines), self.tokenizer).batch(np.arange(size))


def _joined(lines: Sequence[Line]) -> str:
    return "".join(f"{line.prompt}{line.completion}\n" for line in lines)


def for_task(recipe: Recipe) -> Recipe:
    """Returns a recipe for training on a task: its tokens are the characters of the task, and each
    row of a batch is one line.

    Raises ConfigError if its model computes positions from the notation of arithmetic.
    """
    position = recipe.model.position
    if recipe.model.architecture == "sources":
        raise ConfigError("architecture 'sources' reads the notation of arithmetic: not a task")
    if position.startswith("coupled"):
        raise ConfigError(
            f"positions {position!r} are computed from the notation of arithmetic: for a task, use "
            "a recipe such as 'task' or --set model.position=rope"
        )
    train = recipe.train.model_copy(update={"batches": "problems"})
    return recipe.model_copy(update={"tokenizer": "chars", "data": None, "train": train})


def training_data(recipe: Recipe, source: Path | AnyTask | None) -> TrainingData:
    """Returns the data of a folder or a task. Without a `source`, returns the problems of the
    recipe's [data] section. Raises ConfigError if the recipe has no such section."""
    if isinstance(source, AnyTask):
        return TaskData(source, recipe.train.seed)
    if source is not None:
        folder = DataFolder.load(source)
        folder.check_recipe(recipe)
        return folder
    if recipe.data is None:
        raise ConfigError(
            "the recipe has no [data] section: --data names a folder to train on, "
            "such as data/blog after `calcgpt datagen data/blog`"
        )
    return FreshData(recipe.data, recipe.train.seed)


def tokenizer_for(recipe: Recipe, data: TrainingData, val_problems: Sequence[Line]) -> Tokenizer:
    """Returns the tokenizer of a recipe for its data: `chars` has the characters of both splits,
    `bpe` learns from the training text. Raises ConfigError if it has no text to learn from, or if
    the validation problems or the positions need one token per character."""
    name, text = recipe.tokenizer, data.train_text
    if name == "chars":
        text = "".join({*text, *data.val_text})
    try:
        tokenizer = TOKENIZERS[name](text, recipe.vocab_size)
    except ValueError as error:  # the text is empty
        raise ConfigError(f"tokenizer {name!r} needs a data folder: {error}") from None
    if val_problems and not tokenizer.is_char_level:
        raise ConfigError(
            f"problems are scored by characters, which tokenizer {name!r} joins: "
            f"train.eval_problems must be 0"
        )
    vocabulary = tokenizer.vocabulary if isinstance(tokenizer, CharTokenizer) else ""
    if recipe.model.architecture == "sources" and recipe.model.characters != vocabulary:
        raise ConfigError(
            f"what this model sees is computed from the text: model.characters must be "
            f"{vocabulary!r}, the tokens of tokenizer {name!r}"
        )
    return tokenizer


class FreshBatches(BatchSource):
    """Fresh problems, one per row. Steps share a block of them.

    Raises DataError if one of the first `probe` problems does not fit in `block_size`. Longer
    problems that come up later are left out: they do not end the run.
    """

    def __init__(
        self, problems: FreshProblems, tokenizer: Tokenizer, block_size: int, probe: int = PROBE
    ) -> None:
        self.problems, self.tokenizer, self.block_size = problems, tokenizer, block_size
        ProblemLines(problems.render(problems.block(0, probe)), tokenizer, block_size)
        self._block = -1, 0  # number and size of the block in memory

    def batch(self, step: int, size: int) -> Batch:
        n_steps = max(1, PROBLEMS_PER_BLOCK // size)  # steps that share a block
        number, block_size = block = step // n_steps, n_steps * size
        if block != self._block:
            text = self.problems.render(self.problems.block(number, block_size))
            self._lines, self._block = ProblemLines(text, self.tokenizer), block
            fitting = np.flatnonzero(self._lines.lengths <= self.block_size + 1)
            self._rows = np.resize(fitting, block_size)  # the first replace those left out
        first = step % n_steps * size
        return self._lines.batch(self._rows[first : first + size])
