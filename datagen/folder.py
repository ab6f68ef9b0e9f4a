"""The folder that a data set is made in: one process at a time, one data set at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datagen.errors import DatasetError
from datagen.records import JOURNAL, MANIFEST, SOURCE
from datagen.split_file import final_path, partial_path
from datagen.splits import Split


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Make the folder, and keep other processes from writing to it; the system lifts the lock if
    we die. An OSError in the block becomes a DatasetError of one line."""
    try:
        if out.exists() and not out.is_dir():
            raise DatasetError(f"{out} is not a folder")
        out.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(out, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DatasetError(f"{out}: another process is writing to it") from error
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise DatasetError(f"{error.filename or out}: {error.strerror or error}") from error


def clear(out: Path) -> None:
    """Remove whatever data set `out` holds, what vouches for it first."""
    finals = [final_path(out, split) for split in Split]
    partials = [partial_path(out, split) for split in Split]
    for file in (out / MANIFEST, out / SOURCE, *finals, *partials, out / JOURNAL):
        file.unlink(missing_ok=True)
