"""Files that take long to make and are made again if they are lost: tables of cases, proofs.

They are in $CALCGPT_CACHE, or else in `calcgpt` within $XDG_CACHE_HOME or ~/.cache. A file is the
SHA-256 of its content followed by the content. Answers come from them, so a
folder or a file that others may change is not used.
"""

import hashlib
import logging
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from calcgpt.base.files import check_file, write_bytes

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
    result. `what` describes it in the log."""
    path = cache_folder() / name
    with suppress(OSError):
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if others := changeable(path.parent):
        log.warning("%s is not used to cache %s: others may change %s", path.parent, what, others)
        return make()
    if (content := read_cached(path)) is None:
        log.debug("making %s: %s", what, path)
        content = make()
        try:
            write_cached(path, content)
        except OSError as error:
            log.warning("cannot cache %s; it will be made again next time: %s", what, error)
    return content


def read_cached(path: Path) -> bytes | None:
    """Returns the content of a cache file, or None if the file is missing or damaged, or if others
    may change it."""
    try:
        check_file(path)
        if _is_changeable(path.stat()):
            log.warning("%s is made again: others may change it", path)
            return None
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
    write_bytes(path, hashlib.sha256(content).digest() + content, mode=0o644)
    with suppress(OSError):  # another process may be removing the same files
        for partial in path.parent.glob(".*.partial"):
            if time.time() - partial.stat().st_mtime > WRITE_SECONDS:
                partial.unlink()
        files = path.parent.glob(f"*{path.suffix}")
        for old in sorted(files, key=lambda file: file.stat().st_mtime)[:-MAX_FILES]:
            old.unlink()


def changeable(folder: Path) -> Path | None:
    """Returns the part of a folder's path that other users may change, or None. In a folder with
    the sticky bit, such as /tmp, they cannot replace what is not theirs."""
    paths = (folder.absolute(), folder.resolve())
    for part in dict.fromkeys(part for path in paths for part in (path, *path.parents)):
        with suppress(OSError):  # what is missing or no folder is of no use either
            status = part.stat()
            is_sticky = bool(status.st_mode & stat.S_ISVTX) and part not in paths
            if stat.S_ISDIR(status.st_mode) and _is_changeable(status, is_sticky):
                return part
    return None


def _is_changeable(status: os.stat_result, is_sticky: bool = False) -> bool:
    """Returns whether others than root and this user own a file, or may write to it."""
    if status.st_uid not in (0, os.geteuid()):
        return True
    if is_sticky or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    return bool(status.st_mode & stat.S_IWOTH) or not _is_private(status.st_gid)


def _is_private(group: int) -> bool:
    """Returns whether a group is this user's alone: many systems give each user one."""
    import grp
    import pwd

    if group != os.getegid():
        return False
    users = {user.pw_uid for user in pwd.getpwall() if user.pw_gid == group}
    with suppress(KeyError):
        users |= {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group).gr_mem}
    return users <= {0, os.geteuid()}
