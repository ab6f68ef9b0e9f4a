"""What takes long to make is kept, whole or not at all, and never a wrong file."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calcgpt.inference import cache
from calcgpt.inference.cache import MAX_FILES, cache_folder, read_cached, write_cached

KILLED_WHILE_WRITING = """
import os, pathlib, signal, sys
from calcgpt.inference.cache import write_cached
os.replace = os.rename = pathlib.Path.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
write_cached(pathlib.Path(sys.argv[1]), b"made")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, which does not exist yet."""
    path = tmp_path / "cache"
    monkeypatch.setenv("CALCGPT_CACHE", str(path))
    return path


def counting(made: list[int]) -> Callable[[], bytes]:
    def make() -> bytes:
        made.append(threading.get_ident())
        return bytes(range(256))

    return make


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: bytes([content[0] ^ 1]) + content[1:],  # of the digest
        lambda content: content[:50] + bytes([content[50] ^ 1]) + content[51:],
    ],
    ids=["empty", "short", "truncated", "longer", "digest", "byte"],
)
def test_a_damaged_file_is_made_again(
    damage: Callable[[bytes], bytes], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[int] = []
    contents = [cache.cached("a.o", counting(made), "the code") for _ in range(2)]
    assert len(made) == 1
    path = folder / "a.o"
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    contents.append(cache.cached("a.o", counting(made), "the code"))
    assert f"{path} is damaged" in caplog.text
    assert (len(made), set(contents)) == (2, {bytes(range(256))})
    assert path.read_bytes() == whole


OTHER = 12_345  # a user and a group


def forge(folder: Path) -> None:
    """Writes a file with a right digest, as another user would."""
    folder.mkdir(parents=True, exist_ok=True)
    write_cached(folder / "a.o", b"forged")


def open_to_a_group(path: Path, group: int) -> None:
    os.chown(path, -1, group)
    path.chmod(0o775)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize(
    ("open_to_others", "is_used"),
    [
        (lambda folder: folder.chmod(0o777), False),
        (lambda folder: folder.chmod(0o1777), False),
        (lambda folder: folder.parent.chmod(0o777), False),
        (lambda folder: folder.parent.chmod(0o1777), True),  # as /tmp is
        (lambda folder: os.chown(folder, OTHER, OTHER), False),
        (lambda folder: os.chown(folder.parent, OTHER, OTHER), False),
        (lambda folder: (folder / "a.o").chmod(0o666), False),
        (lambda folder: os.chown(folder / "a.o", OTHER, OTHER), False),
        (lambda folder: open_to_a_group(folder, OTHER), False),
        (lambda folder: open_to_a_group(folder, os.getegid()), True),
        (lambda folder: None, True),
    ],
)
def test_what_others_may_change_is_not_used(
    open_to_others: Callable[[Path], None],
    is_used: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    made: list[int] = []
    for folder in (tmp_path / "of" / "cache", tmp_path / "linked" / "cache"):
        forge(folder)
        open_to_others(folder)
    (tmp_path / "link").symlink_to(tmp_path / "linked" / "cache")
    for folder in (tmp_path / "of" / "cache", tmp_path / "link"):
        monkeypatch.setenv("CALCGPT_CACHE", str(folder))
        content = cache.cached("a.o", counting(made), "the code")
        assert content == (b"forged" if is_used else bytes(range(256)))
    assert len(made) == (0 if is_used else 2)
    assert ("others may change" in caplog.text) == (not is_used)


def test_a_pipe_in_the_cache_is_not_read(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "a.o")
    assert read_cached(folder / "a.o") is None


@pytest.mark.parametrize("has_home", [True, False])
def test_if_nothing_can_be_cached_there_is_one_warning(
    has_home: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    folder.write_text("a file")
    if not has_home:
        monkeypatch.setattr(Path, "home", no_home)
        for name in ("CALCGPT_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
    made: list[int] = []
    for n in (1, 2):
        caplog.clear()
        assert cache.cached("a.o", counting(made), "the code") == bytes(range(256))
        assert len(made) == n
        (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert "cannot cache the code" in warning.getMessage()
    assert folder.read_text() == "a file"


def test_the_least_recently_used_files_are_removed(tmp_path: Path) -> None:
    for age in range(MAX_FILES):
        path = tmp_path / f"{age}.o"
        write_cached(path, b"")
        os.utime(path, (1_000_000_000 - age,) * 2)
    oldest = tmp_path / f"{MAX_FILES - 1}.o"
    read_cached(oldest)  # this counts as a use
    write_cached(tmp_path / "new.o", b"")
    expected = {"new.o", oldest.name, *(f"{age}.o" for age in range(MAX_FILES - 2))}
    assert {file.name for file in tmp_path.iterdir()} == expected


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED_WHILE_WRITING, tmp_path / "a.o"]) as killed:
        assert killed.wait() == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    write_cached(tmp_path / "b.o", b"")  # the process might still be writing
    assert left.exists()
    os.utime(left, (1e9, 1e9))
    write_cached(tmp_path / "b.o", b"")
    assert list(tmp_path.iterdir()) == [tmp_path / "b.o"]


def test_a_file_that_several_threads_write_is_whole_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "mine.o"
    codes = [bytes([i]) * 300_000 for i in range(4)]
    write_cached(path, codes[0])
    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(write_cached, path, codes[i % 4]) for i in range(100)]
        while not all(writer.done() for writer in writers):
            assert read_cached(path) in codes
        for writer in writers:
            writer.result()
    assert list(tmp_path.iterdir()) == [path]


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALCGPT_CACHE", "/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/mine")
    monkeypatch.setenv("CALCGPT_CACHE", "")
    assert cache_folder() == Path("/shared/calcgpt")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/home/me/.cache/calcgpt")
