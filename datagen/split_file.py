"""The file of one split while it is being written."""

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from datagen.records import FileRecord, Journal, hash_prefix
from datagen.shards import Shard
from datagen.splits import Split
from datagen.vectorised import OPERATIONS


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
