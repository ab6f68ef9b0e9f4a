"""The folder of a data set: a manifest if it is finished, a journal and partial files if not.

One process at a time writes to a folder. The journal says how much of each file is on the disk.
"""

import hashlib
import importlib.metadata
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from datagen.errors import DataError, file_error
from datagen.files import locked, read_json, sha256, write_json
from datagen.operations import SIGNS
from datagen.plan import GENERATOR_VERSION, DatasetPlan, Shard
from datagen.splits import DESCRIPTION, Split

MANIFEST = "manifest.json"
JOURNAL = "journal.json"
SOURCE = "source.json"  # of a text

_READ_BYTES = 1 << 20

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)


def _package_version() -> str:
    try:
        return importlib.metadata.version("calcgpt")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _require_each_split(value: dict[Split, T]) -> dict[Split, T]:
    if missing := [split for split in Split if split not in value]:
        raise ValueError(f"{missing[0]} is missing")
    return value


def _require_each_operation(value: dict[str, int]) -> dict[str, int]:
    if value.keys() != set(SIGNS):
        raise ValueError(f"the operations are not {' '.join(SIGNS)}")
    return value


Count = Annotated[StrictInt, Field(ge=0)]
BySplit = Annotated[dict[Split, T], AfterValidator(_require_each_split)]


class FileRecord(BaseModel):
    """The content of a file, or of the part that is written so far."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    problems: Count = 0
    bytes: Count = 0
    sha256: StrictStr = hashlib.sha256().hexdigest()
    operations: Annotated[dict[StrictStr, Count], AfterValidator(_require_each_operation)] = (
        dict.fromkeys(SIGNS, 0)
    )


class Manifest(BaseModel):
    """`manifest.json` of a finished data set: its plan, and the content of each file."""

    model_config = ConfigDict(frozen=True)

    seed: StrictInt
    distribution: StrictStr
    format: StrictStr
    places: StrictInt | None = None
    counts: BySplit[StrictInt]
    operations: BySplit[dict[StrictStr, StrictInt]]
    bytes: BySplit[StrictInt]
    sha256: BySplit[StrictStr]
    splits: StrictStr = DESCRIPTION
    generator: StrictInt
    package_version: StrictStr

    @classmethod
    def from_files(cls, plan: DatasetPlan, files: dict[Split, FileRecord]) -> Self:
        """Returns the manifest of a data set that this version has written."""
        return cls(
            seed=plan.seed,
            distribution=plan.distribution,
            format=plan.format,
            places=plan.places,
            counts={split: files[split].problems for split in Split},
            operations={split: files[split].operations for split in Split},
            bytes={split: files[split].bytes for split in Split},
            sha256={split: files[split].sha256 for split in Split},
            generator=GENERATOR_VERSION,
            package_version=_package_version(),
        )

    @property
    def plan(self) -> DatasetPlan:
        """The plan that the data set was made from."""
        counts = {str(split): count for split, count in self.counts.items()}
        return DatasetPlan(
            **counts,
            seed=self.seed,
            distribution=self.distribution,
            format=self.format,
            places=self.places,
        )

    @property
    def files(self) -> dict[Split, FileRecord]:
        """The content of each file."""
        return {
            split: FileRecord(
                problems=self.counts[split],
                bytes=self.bytes[split],
                sha256=self.sha256[split],
                operations=self.operations[split],
            )
            for split in Split
        }

    @model_validator(mode="after")
    def _has_a_plan(self) -> Self:
        _ = self.plan  # raises DataError
        return self

    def save(self, folder: Path) -> None:
        """Writes `manifest.json`."""
        write_json(folder / MANIFEST, self.model_dump(exclude_none=True))


def load_manifest(folder: Path) -> Manifest:
    """Returns the manifest of a finished data set. Raises DataError if it is missing or damaged."""
    return load(Manifest, folder / MANIFEST, "a manifest")


def load(model: type[Model], path: Path, description: str) -> Model:
    """Reads a JSON file as `model`. Raises DataError if it is missing, or not `description`."""
    content = read_json(path)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = ".".join(map(str, first["loc"]))
        reason = first["msg"].removeprefix("Value error, ")
        raise DataError(f"{path}: not {description}: {location}: {reason}") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


class _JournalFile(BaseModel):
    plan: dict[str, Any]
    files: dict[Split, FileRecord]


@dataclass
class Journal:
    """`journal.json` of an unfinished data set: what the file of each split holds so far."""

    folder: Path
    plan: DatasetPlan
    files: dict[Split, FileRecord] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, plan: DatasetPlan) -> Self | None:
        """Returns the journal in `folder`, if any. Raises DataError if it is of another plan."""
        path = folder / JOURNAL
        if not path.exists():
            return None
        content = load(_JournalFile, path, "a journal")
        if content.plan != _identity(plan):
            raise DataError(f"{folder} holds the beginning of a different data set")
        return cls(folder, plan, content.files)

    def save(self) -> None:
        """Writes the journal."""
        content = _JournalFile(plan=_identity(self.plan), files=self.files)
        write_json(self.folder / JOURNAL, content.model_dump())

    def remove(self) -> None:
        """Removes the journal of a data set that is finished."""
        (self.folder / JOURNAL).unlink(missing_ok=True)


def _identity(plan: DatasetPlan) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(plan).items() if value is not None}
    return {**fields, "generator": GENERATOR_VERSION}


def is_intact(path: Path, n_bytes: int, digest: str) -> bool:
    """Whether the file exists and has this size and this SHA-256."""
    return path.is_file() and path.stat().st_size == n_bytes and sha256(path) == digest


def _hash_start(path: Path, length: int) -> "hashlib._Hash":
    """Returns the SHA-256 of the first `length` bytes of a file, or of all if it is shorter."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while length > 0 and (data := file.read(min(length, _READ_BYTES))):
            digest.update(data)
            length -= len(data)
    return digest


def final_path(folder: Path, split: Split) -> Path:
    """The path of a finished file."""
    return folder / f"{split}.txt"


def partial_path(folder: Path, split: Split) -> Path:
    """The path of an unfinished file."""
    return folder / f"{split}.txt.partial"


class SplitFile:
    """A context manager that continues the file of a split where the journal says it ends.

    If the block ends without an error, the file is complete and gets its final name. `record`
    describes the content so far. `advance` is called with the number of problems in the file at
    first, and then with the number in each shard. The journal is saved after every `interval`
    problems.
    """

    def __init__(
        self, journal: Journal, split: Split, interval: int, advance: Callable[[int], object]
    ) -> None:
        self.record = journal.files.get(split, FileRecord())
        self._journal, self._split = journal, split
        self._interval, self._advance = interval, advance
        self._partial = partial_path(journal.folder, split)

    def __enter__(self) -> Self:
        self._partial.touch()
        self._digest = _hash_start(self._partial, self.record.bytes)
        if self._digest.hexdigest() != self.record.sha256:  # for example after a power failure
            self.record = FileRecord()
            self._digest = hashlib.sha256()
        os.truncate(self._partial, self.record.bytes)
        # Unbuffered: closing the file after a failed write must not write the rest.
        self._file = self._partial.open("ab", buffering=0)
        self._journaled = self.record.problems
        self._advance(self.record.problems)
        return self

    def append(self, shard: Shard) -> None:
        """Writes the lines of a shard."""
        for text in shard.text:
            rest = memoryview(text)
            while rest:
                rest = rest[self._file.write(rest) :]
            self._digest.update(text)
        before, new = self.record.operations, shard.operations.tolist()
        self.record = FileRecord(
            problems=self.record.problems + shard.problems,
            bytes=self.record.bytes + sum(map(len, shard.text)),
            sha256=self._digest.hexdigest(),
            operations={op: before[op] + n for op, n in zip(SIGNS, new, strict=True)},
        )
        self._advance(shard.problems)
        if self.record.problems - self._journaled >= self._interval:
            self._save_journal()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._file:
            if kind is not None:
                return
            self._save_journal()
        self._partial.replace(final_path(self._journal.folder, self._split))

    def _save_journal(self) -> None:
        """Saves the journal once the file's content is on the disk."""
        os.fsync(self._file.fileno())
        self._journal.files[self._split] = self.record
        self._journal.save()
        self._journaled = self.record.problems


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Makes the folder of a data set and locks it. Raises DataError if another process has locked
    it, or in place of an OSError in the block."""
    try:
        with locked(out, "writing a data set", DataError):
            for leftover in out.glob(".*.partial"):  # of a process that was killed while writing
                leftover.unlink()
            yield
    except OSError as error:
        raise DataError(file_error(error, out)) from error


def clear(out: Path) -> None:
    """Removes the data set in `out`, the manifest first and the journal last."""
    finals = [final_path(out, split) for split in Split]
    partials = [partial_path(out, split) for split in Split]
    for file in (out / MANIFEST, out / SOURCE, *finals, *partials, out / JOURNAL):
        file.unlink(missing_ok=True)
