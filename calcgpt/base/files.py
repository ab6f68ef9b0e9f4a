"""Files and folders that appear whole or not at all, locks on folders, and JSON that users give."""

import errno
import hashlib
import json
import math
import os
import select
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from calcgpt.base.errors import ConfigError, DataError, UserError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, or a limit of the user's
WRITER_SECONDS = 5.0  # for which a reader of a pipe waits
MAX_JSON_BYTES = 1 << 24  # 16 MiB take at most half a gigabyte when they are read
MAX_TEXT_BYTES = 1 << 31  # 2 GiB: two million lines of 1,000 characters


def write_bytes(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Writes to a temporary file beside `path`, then renames it.

    Each call uses a unique temporary name, so two processes never share a file. A path that is not
    a regular file, such as /dev/stdout or a pipe, is written to, not replaced. `mode` has the most
    permissions of a new file: the umask may remove some.
    """
    if is_stream(path):
        with path.open("ab") as opened:
            opened.write(content)
        return
    temporary = path.with_name(f".{uuid.uuid4().hex}.partial")  # short: a name has 255 bytes
    try:
        temporary.touch(mode)
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            error.filename = str(path)  # the name that the caller knows
        raise


def is_stream(path: Path) -> bool:
    """Returns whether a path names a pipe, a device or an open file, such as /dev/stdout. The
    latter can be a regular file, to which the shell redirects the output."""
    in_memory = path.is_relative_to("/dev/shm")  # nosec B108  # its files are like any others
    is_device = path.is_relative_to("/dev") and not in_memory
    is_open = is_device or path.is_relative_to("/proc")
    return is_open or (path.exists() and not path.is_file())


def check_output_file(path: Path) -> None:
    """Raises UserError if a file cannot be written to `path`, before the work for it begins."""
    if path.is_dir():
        raise UserError(f"{path} is a folder, and a file is needed")
    if not is_stream(path):
        if not path.parent.is_dir():
            raise UserError(f"{path.parent} is not a folder: cannot write {path.name} there")
        _check_writable(path.parent)


def check_output_folder(path: Path) -> None:
    """Raises UserError if `path` cannot be a folder to write to, before the work for it begins."""
    if path.is_symlink() and not path.exists():
        raise UserError(f"{path} is a link to nothing")
    existing = next(folder for folder in (path, *path.parents, Path()) if folder.exists())
    if not existing.is_dir():
        raise UserError(f"{existing} is a file, and a folder is needed")
    _check_writable(existing)


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise UserError(f"cannot write to the folder {folder}: {os.strerror(errno.EACCES)}")


def write_text(path: Path, text: str) -> None:
    """Writes `text` as UTF-8, like `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, content: Any) -> None:
    """Writes `content` as indented JSON, like `write_bytes`."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def sha256(path: Path) -> str:
    """Returns the hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_sha256(text: str) -> str:
    """Returns the hexadecimal SHA-256 of a text in UTF-8. For a text read from a file, this is the
    hash of the file. It also works for a pipe, which can be read only once."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def check_file(path: Path, max_bytes: int | None = None) -> None:
    """Raises OSError unless `path` is a regular file of at most `max_bytes` bytes: reading a pipe
    or a device might never end."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if max_bytes is not None and status.st_size > max_bytes:
        raise OSError(errno.EFBIG, f"more than {max_bytes:,} bytes")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields a temporary folder, which becomes `path` if the block ends without an error.

    It replaces a folder at `path`. If the process is killed between the two renames, the old folder
    keeps its temporary name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name[:40]}.", dir=path.parent))
    try:
        yield staging
        for file in staging.rglob("*"):
            if file.is_file():
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
        staging.chmod(0o755)
        _swap_in(staging, path)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _swap_in(staging: Path, path: Path) -> None:
    """Renames `staging` to `path`. Removes the old folder, or puts it back if that fails."""
    if not path.exists():
        staging.replace(path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name[:40]}.old.", dir=path.parent))
    try:
        path.replace(old / path.name)
        try:
            staging.replace(path)
        except BaseException:
            (old / path.name).replace(path)
            raise
    except BaseException:
        with suppress(OSError):
            old.rmdir()  # not empty if the old folder could not be put back
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def locked(
    folder: Path, doing: str, error: type[UserError] = ConfigError, timeout: float = 0.0
) -> Iterator[None]:
    """Makes `folder` and locks it against other processes until the block or this process ends.
    Leaves no trace of a block that has written nothing.

    Raises `error`, which says that another process is `doing` something there, if the folder is
    still locked after `timeout` seconds.
    """
    from filelock import FileLock, Timeout

    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):  # nothing to protect, and no place for a lock file
        yield
        return
    file = folder / ".lock"
    lock = FileLock(file)
    try:
        lock.acquire(timeout)
    except Timeout:
        raise error(f"another process is {doing} in {folder}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            if [*folder.iterdir()] == [file]:
                file.unlink()  # still locked: a process that waits for it makes another one
                for path in made:
                    path.rmdir()
        lock.release()


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Returns the content of a file or of a pipe, or the first `max_bytes` + 1 bytes of more.

    Raises OSError for a pipe to which no process begins to write within WRITER_SECONDS: reading
    might wait for ever.
    """

    def open_at_once(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)

    with open(path, "rb", opener=open_at_once) as file:
        is_pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
        # A process that opens the pipe to write may have waited for this one.
        is_ready = not is_pipe or select.select([file], [], [], WRITER_SECONDS)[0]
        os.set_blocking(file.fileno(), True)
        content = file.read(max_bytes + 1) if is_ready else b""
    if is_pipe and not content:
        raise OSError(errno.EPIPE, "nothing was written to this pipe")
    return content


def read_text(path: Path, max_bytes: int | None = None) -> str:
    """Returns the text of a file with its line endings unchanged. Raises DataError if the file is
    empty, has more than `max_bytes` bytes (by default MAX_TEXT_BYTES), is not UTF-8, or cannot be
    read."""
    if max_bytes is None:
        max_bytes = MAX_TEXT_BYTES
    try:
        content = read_bytes(path, max_bytes)
        if len(content) > max_bytes:
            raise DataError(f"{path} has more than {max_bytes:,} bytes")
        text = content.decode("utf-8")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: byte {error.start}") from None
    if not text:
        raise DataError(f"{path} is empty")
    return text


def read_json(
    path: Path, error: type[UserError] = DataError, digest: str | None = None
) -> dict[str, Any]:
    """Returns the object in a JSON file. Raises `error`, whose message is one line that begins with
    the path, if the file cannot be read, is too large, has another SHA-256 than `digest`, or does
    not hold a JSON object."""
    try:
        check_file(path, MAX_JSON_BYTES)
        data = path.read_bytes()
        if digest is not None and hashlib.sha256(data).hexdigest() != digest:
            raise error(f"{path}: content differs from its SHA-256")
        text = data.decode("utf-8")
    except OSError as reason:
        raise error(f"{path}: {reason.strerror}") from None
    except UnicodeDecodeError:
        raise error(f"{path}: not UTF-8 text") from None
    content = parse_json(text, str(path), error)
    if not isinstance(content, dict):
        raise error(f"{path}: not a JSON object")
    return content


def parse_json(text: str, source: str, error: type[UserError] = DataError) -> Any:
    """Returns what `strict_json` does. Raises `error`, whose message is one line that begins with
    `source`, if the text is not JSON."""
    try:
        return strict_json(text)
    except (ValueError, RecursionError) as reason:
        raise error(f"{source}: not JSON: {reason}") from None


def strict_json(text: str, max_members: float = math.inf) -> Any:
    """Returns the JSON value in `text`.

    Raises ValueError or RecursionError for other text, and for what `json.loads` takes beyond it:
    NaN, infinities, two members of one name. `max_members` is of each object.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > max_members:
            raise ValueError(f"an object has more than {max_members} members")
        if len(content := dict(pairs)) < len(pairs):
            raise ValueError("an object has a duplicate member")
        return content

    return json.loads(text, object_pairs_hook=members, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
