"""Files that take long to make and are made again if they are lost: machine code.

They are in $CALCGPT_CACHE, or else in `calcgpt` within $XDG_CACHE_HOME or ~/.cache. A file is the
SHA-256 of its content followed by the content.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from datagen.errors import UserError
from datagen.files import locked, write_bytes

LOCK_TIMEOUT = 60.0  # seconds to wait for another process that makes a file
MAX_FILES = 16  # of one kind in the cache; the least recently used are removed
WRITE_SECONDS = 3_600  # maximum time of a write; older temporary files are removed
DIGEST_SIZE = hashlib.sha256().digest_size

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Returns the folder of the cache, which need not exist."""
    if folder := os.environ.get("CALCGPT_CACHE"):
        return Path(folder)
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder, "calcgpt")
    try:
        return Path.home() / ".cache" / "calcgpt"
    except RuntimeError:  # a user without a home directory: nothing can be cached
        return Path(os.devnull, "calcgpt")


def cached(name: str, make: Callable[[], bytes], what: str) -> bytes:
    """Returns the content of the cache file `name`. If there is none, calls `make` and adds its
    result. If several processes call it at once, one makes the content. `what` describes it in
    the log."""
    path = cache_folder() / name
    content = read_cached(path)
    if content is not None:
        return content
    with ExitStack() as stack:
        with suppress(OSError, UserError):  # no folder, or the other process takes too long
            stack.enter_context(locked(path.parent, "writing", timeout=LOCK_TIMEOUT))
            if (content := read_cached(path)) is not None:
                return content
        log.info("making %s, once: %s", what, path)
        content = make()
        try:
            write_cached(path, content)
        except OSError as error:
            log.warning("cannot cache %s; it will be made again next time: %s", what, error)
    return content


def read_cached(path: Path) -> bytes | None:
    """Returns the content of a cache file, or None if the file is missing or damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, content = stored[:DIGEST_SIZE], stored[DIGEST_SIZE:]
    if hashlib.sha256(content).digest() != digest:
        log.warning("%s is damaged; it is made again", path)
        return None
    with suppress(OSError):  # the folder may be read-only
        os.utime(path)
    return content


def write_cached(path: Path, content: bytes) -> None:
    """Writes a cache file. Then removes the least recently used files of its kind beyond MAX_FILES,
    and temporary files of processes that were killed while writing.

    The file is whole or absent, even if several processes write it at once.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, hashlib.sha256(content).digest() + content)
    with suppress(OSError):  # another process may be removing the same files
        for partial in path.parent.glob(".*.partial"):
            if time.time() - partial.stat().st_mtime > WRITE_SECONDS:
                partial.unlink()
        files = path.parent.glob(f"*{path.suffix}")
        for old in sorted(files, key=lambda file: file.stat().st_mtime)[:-MAX_FILES]:
            old.unlink()
