"""Files that are whole or absent.

Folders that are whole or absent, as `datagen.files` has it for files, and those that one process
has to itself; and JSON from outside.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datagen.errors import ConfigError, DataError, UserError


def write_bytes(path: Path, content: bytes) -> None:
    """Write to a temporary name beside `path`, then rename."""
    temporary = path.with_name(f"{path.name}.partial")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        error.filename = str(path)  # what was asked for, not the temporary name
        temporary.unlink(missing_ok=True)
        raise
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """`write_bytes` of UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, content: Any) -> None:
    """`write_text` of indented JSON."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill, which becomes `path` when the block ends without an error.

    A folder that stands at `path` is replaced; between the two renames only a crash of the whole
    machine can leave it under its temporary name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield staging
        for file in staging.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        staging.chmod(0o755)
        _swap_in(staging, path)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _swap_in(staging: Path, path: Path) -> None:
    """Rename `staging` to `path`; what stood there is removed, or put back if that fails."""
    if not path.exists():
        staging.replace(path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    try:
        path.replace(old / path.name)
        try:
            staging.replace(path)
        except BaseException:
            (old / path.name).replace(path)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Make `folder` and hold it against a second process; raises ConfigError, saying that another
    one is `doing` something there. The system lifts the lock if we die."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another process is {doing} in {folder}") from None
        yield


def read_json(path: Path, error: type[UserError] = DataError) -> dict[str, Any]:
    """Returns the object in a JSON file. Raises `error`, one line with the file's name."""
    try:
        text = path.read_text("utf-8")
    except OSError as reason:
        raise error(f"{path}: {reason.strerror}") from None
    except UnicodeDecodeError:
        raise error(f"{path}: not UTF-8 text") from None
    content = parse_json(text, str(path), error)
    if not isinstance(content, dict):
        raise error(f"{path}: not a JSON object")
    return content


def parse_json(text: str, source: str, error: type[UserError] = DataError) -> Any:
    """Returns the JSON value in `text`. Raises `error`, one line that begins with `source`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise error(f"{source}: not JSON: {reason}") from None
