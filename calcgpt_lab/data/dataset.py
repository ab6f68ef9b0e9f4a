"""Data sets on disk: `train.txt`, `val.txt`, `test.txt` and `manifest.json` in a folder.

The files are written to a temporary folder within it, and replace those of another data set when
all are whole, the manifest last. After an interruption, the same call begins again.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np
from pydantic import model_validator
from tqdm import tqdm

from calcgpt import __version__
from calcgpt.base.errors import DataError, file_error
from calcgpt.base.files import locked, read_json, sha256, write_json
from calcgpt.base.progress import progress_bar
from calcgpt.metrics import PartialModel
from calcgpt.section import build
from calcgpt_lab.data.plan import (
    BLOCK,
    GENERATOR_VERSION,
    DatasetPlan,
    Shard,
    held_out_shard,
    train_shard,
)
from calcgpt_lab.parallel import WorkersDiedError, parallel_map
from datagen.operations import OPERATIONS, SIGNS
from datagen.splits import Split

__all__ = ["DatasetPlan", "Manifest", "generate", "load_manifest"]

MANIFEST = "manifest.json"
NAMES = (MANIFEST, *(f"{split}.txt" for split in Split))
# How the manifest explains `datagen.splits`.
SPLITS = (
    "by a hash of the operation and the operands' values (for + and * in either order): "
    "1/32 of all problems are validation, 1/32 test, the rest training, whatever the seed"
)
STAGING = ".new"

T = TypeVar("T")


class BySplit(PartialModel, Generic[T]):
    """A value for each file."""

    train: T
    val: T
    test: T


class Manifest(PartialModel):
    """`manifest.json` of a data set: its plan, and the content of each file."""

    seed: int
    distribution: str
    format: str
    places: int | None = None
    counts: BySplit[int]
    operations: BySplit[dict[str, int]]
    bytes: BySplit[int]
    sha256: BySplit[str]
    splits: str = SPLITS
    generator: int
    package_version: str

    @property
    def plan(self) -> DatasetPlan:
        """The plan that the data set was made from."""
        fields = self.model_dump(include={"seed", "distribution", "format", "places"})
        return DatasetPlan(**fields, **dict(self.counts))

    @model_validator(mode="after")
    def _has_a_plan(self) -> Self:
        _ = self.plan  # raises ConfigError
        return self


def load_manifest(folder: Path) -> Manifest:
    """Returns the manifest of a data set. Raises DataError if it is missing or damaged."""
    path = folder / MANIFEST
    return build(Manifest, read_json(path), str(path), wrong=DataError)


def generate(
    out: Path,
    plan: DatasetPlan,
    *,
    workers: int = 1,
    force: bool = False,
    progress: bool = True,
) -> Manifest:
    """Makes the data set of a plan in the folder `out`, unless it is there. Returns its manifest.

    The bytes depend on the plan alone, not on the number of `workers`, the processes that compute.
    `progress` shows a bar on stderr. `force` replaces another data set in `out`, once the new one
    is whole.

    Raises DataError for any failure. Nothing in `out` is changed then, also if it holds another
    data set and `force` is False.
    """
    blocks = range(-(-plan.train // BLOCK))
    shards = parallel_map(partial(train_shard, plan), blocks, workers)
    with _replacing(out) as folder:
        try:
            if manifest := _present(out, plan):
                if progress:
                    tqdm.write(f"{out} is already complete", file=sys.stderr)
                return manifest
        except DataError as error:
            if not force:
                raise DataError(f"{error} (--force replaces it)") from error
        folder.mkdir()
        manifest = _make(folder, plan, shards, progress)
        write_json(folder / MANIFEST, manifest.model_dump(exclude_none=True))
    return manifest


def _present(out: Path, plan: DatasetPlan) -> Manifest | None:
    """Returns the manifest of the data set in `out`, None if there is none. Raises DataError if it
    is another one or damaged."""
    if not (out / MANIFEST).exists():
        if left := [name for name in NAMES if (out / name).exists()]:
            raise DataError(f"{out} holds a {left[0]} of unknown origin")
        return None
    manifest = load_manifest(out)
    if manifest.plan != plan or manifest.generator != GENERATOR_VERSION:
        raise DataError(f"{out} holds a different data set")
    for split in Split:
        path = out / f"{split}.txt"
        if not path.exists():
            raise DataError(f"{path} is missing")
        if sha256(path) != getattr(manifest.sha256, split):
            raise DataError(f"{path} is damaged: its SHA-256 is not the recorded one")
    return manifest


class _Content(NamedTuple):
    """The content of a file."""

    counts: int
    operations: dict[str, int]
    bytes: int
    sha256: str


def _make(
    folder: Path, plan: DatasetPlan, shards: Generator[Shard, None, None], progress: bool
) -> Manifest:
    """Writes the files; `shards` are those of the training file. The held-out ones come first: a
    small distribution fails there."""
    files = {}
    total = sum(plan.counts.values())
    with progress_bar(total, progress, unit=" problems", unit_scale=True) as bar:
        for split in (Split.VAL, Split.TEST):
            held_out = [held_out_shard(plan, split)]
            files[split] = _write(folder / f"{split}.txt", held_out, bar.update)
        with closing(shards):
            files[Split.TRAIN] = _write(folder / "train.txt", shards, bar.update)
    by_split = {f: {s: getattr(files[s], f) for s in Split} for f in _Content._fields}
    versions = {"generator": GENERATOR_VERSION, "package_version": __version__}
    return Manifest.model_validate({**plan.model_dump(), **by_split, **versions})


def _write(path: Path, shards: Iterable[Shard], advance: Callable[[int], object]) -> _Content:
    """Writes the lines of the shards. `advance` is called with their numbers of problems."""
    digest, operations, size = hashlib.sha256(), np.zeros(len(OPERATIONS), np.int64), 0
    with path.open("wb") as file:
        for shard in shards:
            for text in shard.text:
                size += file.write(text)
                digest.update(text)
            operations += shard.operations
            advance(shard.problems)
        file.flush()
        os.fsync(file.fileno())
    by_sign = dict(zip(SIGNS, operations.tolist(), strict=True))
    return _Content(int(operations.sum()), by_sign, size, digest.hexdigest())


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """Makes `out`, locks it and yields a temporary folder in it. If the block ends without an
    error, the files in that folder replace those in `out`, the manifest last. Other files stay."""
    folder = out / STAGING
    try:
        with locked(out, "writing a data set", DataError):
            shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
            try:
                yield folder
                if folder.exists():
                    (out / MANIFEST).unlink(missing_ok=True)
                    for name in reversed(NAMES):
                        (folder / name).replace(out / name)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except WorkersDiedError as error:
        raise DataError(f"{error}: nothing was written") from error
    except OSError as error:
        raise DataError(file_error(error, out)) from error
