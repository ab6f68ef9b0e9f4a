"""What is on disk: the manifest of finished problems, the journal of unfinished ones.

The file of one split while it is being written.

The folder that a data set is made in: one process at a time, one data set at a time.
"""

import hashlib
import importlib.metadata
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from datagen import splits
from datagen.arithmetic import OPERATIONS
from datagen.errors import DataError
from datagen.files import locked, read_json, write_json
from datagen.plan import GENERATOR, DatasetPlan, Shard
from datagen.splits import Split

MANIFEST = "manifest.json"
JOURNAL = "journal.json"
SOURCE = "source.json"  # of a text

_EMPTY_SHA256 = hashlib.sha256().hexdigest()
_READ = 1 << 20


@dataclass(frozen=True)
class FileRecord:
    """What a file (or the part of it written so far) holds."""

    problems: int = 0
    bytes: int = 0
    sha256: str = _EMPTY_SHA256
    operations: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OPERATIONS, 0))


@dataclass(frozen=True)
class Manifest:
    """A finished data set: its plan, and what each split's file holds."""

    plan: DatasetPlan
    files: dict[Split, FileRecord]
    generator: int = GENERATOR
    package_version: str = field(default_factory=lambda: _package_version())

    def save(self, folder: Path) -> None:
        """Write `manifest.json`, atomically."""
        entries = {
            "seed": self.plan.seed,
            "distribution": self.plan.distribution,
            "format": self.plan.format,
            **({} if self.plan.digits is None else {"digits": self.plan.digits}),
            "counts": {split: record.problems for split, record in self.files.items()},
            "operations": {split: record.operations for split, record in self.files.items()},
            "bytes": {split: record.bytes for split, record in self.files.items()},
            "sha256": {split: record.sha256 for split, record in self.files.items()},
            "splits": splits.DESCRIPTION,
            "generator": self.generator,
            "package_version": self.package_version,
        }
        write_json(folder / MANIFEST, entries)


def load_manifest(folder: Path) -> Manifest:
    """The manifest of a finished data set; DataError if it is missing or not readable."""
    path = folder / MANIFEST
    entries = read_json(path)
    try:
        counts = {split: entries["counts"][split] for split in Split}
        files = {
            split: FileRecord(
                problems=counts[split],
                bytes=entries["bytes"][split],
                sha256=entries["sha256"][split],
                operations=entries["operations"][split],
            )
            for split in Split
        }
        names = {str(split): count for split, count in counts.items()}
        choices = {name: entries[name] for name in ("seed", "distribution", "format")}
        plan = DatasetPlan(**names, **choices, digits=entries.get("digits"))
        return Manifest(plan, files, entries["generator"], entries["package_version"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: not a manifest: {error}") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


@dataclass
class Journal:
    """How far an unfinished data set has got: for each split begun, what its file holds."""

    folder: Path
    plan: DatasetPlan
    files: dict[Split, FileRecord] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, plan: DatasetPlan) -> Self | None:
        """The journal of that plan in the folder, if any; DataError if it is of another."""
        path = folder / JOURNAL
        if not path.exists():
            return None
        entries = read_json(path)
        if entries.get("plan") != _identity(plan):
            raise DataError(f"{folder} holds the beginning of a different data set")
        try:
            files = {Split(name): FileRecord(**record) for name, record in entries["files"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not a journal: {error}") from error
        return cls(folder, plan, files)

    def save(self) -> None:
        """Write the journal, atomically."""
        files = {split: asdict(record) for split, record in self.files.items()}
        write_json(self.folder / JOURNAL, {"plan": _identity(self.plan), "files": files})

    def remove(self) -> None:
        """Remove the journal: the data set is finished."""
        (self.folder / JOURNAL).unlink(missing_ok=True)


def hash_prefix(path: Path, length: int) -> "hashlib._Hash":
    """A SHA-256 that has read the first `length` bytes of a file (or all, if it is shorter)."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while length > 0 and (data := file.read(min(length, _READ))):
            digest.update(data)
            length -= len(data)
    return digest


def is_intact(path: Path, record: FileRecord) -> bool:
    """Whether a file is exactly what its record says."""
    size = path.stat().st_size
    return size == record.bytes and hash_prefix(path, size).hexdigest() == record.sha256


def _identity(plan: DatasetPlan) -> dict[str, Any]:
    return {**asdict(plan), "generator": GENERATOR}


def _package_version() -> str:
    try:
        return importlib.metadata.version("calcgpt")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def final_path(folder: Path, split: Split) -> Path:
    """Where a split's file is once it is whole."""
    return folder / f"{split}.txt"


def partial_path(folder: Path, split: Split) -> Path:
    """Where a split's file is until then."""
    return folder / f"{split}.txt.partial"


class SplitFile:
    """Takes a split's file up where the journal says, and renames it when it is left whole.

    A context manager. `record` says what the file holds; `advance` is told of each problem that it
    holds at first or receives; the journal is saved each time `interval` problems have come.
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
        self._digest = hash_prefix(self._partial, self.record.bytes)
        if self._digest.hexdigest() != self.record.sha256:  # lost in a power failure, say
            self.record = FileRecord()
            self._digest = hash_prefix(self._partial, 0)
        os.truncate(self._partial, self.record.bytes)
        # Unbuffered: what a failed write has left is not written when the file is closed.
        self._file = self._partial.open("ab", buffering=0)
        self._journaled = self.record.problems
        self._advance(self.record.problems)
        return self

    def append(self, shard: Shard) -> None:
        """Write the lines of a shard."""
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
            operations={op: before[op] + n for op, n in zip(OPERATIONS, new, strict=True)},
        )
        self._advance(shard.problems)
        if self.record.problems - self._journaled >= self._interval:
            self._note()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._file:
            if kind is not None:
                return
            self._note()
        self._partial.replace(final_path(self._journal.folder, self._split))

    def _note(self) -> None:
        """Vouch for what is in the file, once it is on the disk."""
        os.fsync(self._file.fileno())
        self._journal.files[self._split] = self.record
        self._journal.save()
        self._journaled = self.record.problems


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Makes the folder of a data set and locks it. Raises DataError if another process has it, and
    in place of any OSError in the block."""
    try:
        with locked(out, "writing a data set", DataError):
            for leftover in out.glob(".*.partial"):  # of a process that was killed while writing
                leftover.unlink()
            yield
    except OSError as error:
        raise DataError(f"{error.filename or out}: {error.strerror or error}") from error


def clear(out: Path) -> None:
    """Remove whatever data set `out` holds, what vouches for it first."""
    finals = [final_path(out, split) for split in Split]
    partials = [partial_path(out, split) for split in Split]
    for file in (out / MANIFEST, out / SOURCE, *finals, *partials, out / JOURNAL):
        file.unlink(missing_ok=True)
