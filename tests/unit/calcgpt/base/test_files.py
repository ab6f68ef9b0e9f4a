"""Files and folders appear whole or not at all; locks; JSON from outside."""

import errno
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calcgpt.base import files
from calcgpt.base.errors import ConfigError, DataError, UserError, file_error
from calcgpt.base.files import (
    check_output_file,
    check_output_folder,
    locked,
    new_folder,
    read_json,
    read_text,
    sha256,
    text_sha256,
    write_json,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_replaces_what_was_there_or_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "a lone surrogate cannot be written: \ud800")
    assert path.read_text() == "before"
    write_text(path, "12 × 3\n")
    assert path.read_bytes() == "12 × 3\n".encode()
    assert names(tmp_path) == ["file.txt"]


def test_a_file_that_cannot_be_replaced_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError("no")

    (tmp_path / "file.txt").write_text("before")
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no"):
        write_text(tmp_path / "file.txt", "after")
    assert names(tmp_path) == ["file.txt"]
    assert (tmp_path / "file.txt").read_text() == "before"


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    write_text(tmp_path / ("x" * 255), "text")
    with new_folder(tmp_path / ("÷" * 127)) as staging:
        (staging / "a").write_text("1")
    assert names(tmp_path) == ["x" * 255, "÷" * 127]


def test_the_reason_of_a_failed_write_is_the_one_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, *arguments: object, **options: object) -> None:
        raise OSError(self.name, "the second error")

    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "absent" / "file.txt", "text")
    assert caught.value.filename == str(tmp_path / "absent" / "file.txt")


def test_what_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_output_file(tmp_path / "new.json")
    check_output_file(Path("/dev/stdout"))
    check_output_folder(tmp_path / "new" / "folder")
    check_output_folder(Path("new"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    for check in (check_output_file, check_output_folder):
        with pytest.raises(UserError, match=f"^cannot write to the folder {tmp_path}: Permission"):
            check(tmp_path / "new.json")
    check_output_file(Path("/dev/stdout"))


def test_a_link_to_nothing_is_no_folder_to_write_to(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "absent")
    with pytest.raises(UserError, match="link is a link to nothing"):
        check_output_folder(link)


def test_two_writers_of_one_file_have_temporary_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, temporary = Path.replace, []

    def replace(self: Path, target: Path) -> Path:
        temporary.append(self.name)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    for text in ("one", "two"):
        write_text(tmp_path / "file.txt", text)
    assert len(set(temporary)) == 2
    assert names(tmp_path) == ["file.txt"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "text")
    assert (os.read(reader, 100), pipe.is_fifo()) == (b"text", True)
    os.close(reader)
    assert names(tmp_path) == ["pipe"]


def test_a_pipe_is_read_only_if_something_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with monkeypatch.context() as patched:
        patched.setattr(files, "WRITER_SECONDS", 0.0)
        with pytest.raises(DataError, match="pipe: nothing was written to this pipe"):
            read_text(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pipe.open("w") as writer, ThreadPoolExecutor() as pool:
        content = pool.submit(read_text, pipe)
        writer.write("text")
        writer.close()
        assert content.result() == "text"
    os.close(reader)


def test_an_open_file_is_appended_to_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "redirected.txt"
    with path.open("w") as opened:
        for text in ("one\n", "two\n"):
            write_text(Path(f"/dev/fd/{opened.fileno()}"), text)
    assert path.read_text() == "one\ntwo\n"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no /dev/shm")
def test_files_in_shared_memory_are_replaced() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for text in ("one", "two"):
            write_text(Path(folder) / "file.txt", text)
        assert (Path(folder) / "file.txt").read_text() == "two"


def test_a_text_has_the_hash_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes("\ufeff12 × 3\r\n\r5\n".encode())
    assert text_sha256(read_text(path)) == sha256(path)
    path.write_bytes(b"abc")  # the example of FIPS 180-2, appendix B.1
    assert sha256(path).startswith("ba7816bf8f01cfea414140de5dae2223")


def test_a_text_may_have_as_many_bytes_as_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file.txt").write_text("1234")
    assert read_text(tmp_path / "file.txt", 4) == "1234"
    assert files.MAX_TEXT_BYTES == 2**31
    monkeypatch.setattr(files, "MAX_TEXT_BYTES", 3)
    for path in (tmp_path / "file.txt", Path("/dev/zero")):
        with pytest.raises(DataError, match=rf"^{path} has more than 3 bytes$"):
            read_text(path)


def test_json_reads_back_as_it_was(tmp_path: Path) -> None:
    content = {"name": "÷", "by": {"+": [1, None]}}
    write_json(tmp_path / "file.json", content)
    text = '{\n  "name": "÷",\n  "by": {\n    "+": [\n      1,\n      null\n    ]\n  }\n}\n'
    assert (tmp_path / "file.json").read_text("utf-8") == text
    assert read_json(tmp_path / "file.json") == content


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"\xff", "not UTF-8 text"),
        (b"", "not JSON: "),
        (b'{"a": 1', "not JSON: "),
        (b"[" * 100_000, "not JSON: "),
        (b'{"a": {"b": 1, "b": 1}}', "not JSON: an object has a duplicate member"),
        (b'{"a": NaN}', "not JSON: NaN is not a JSON number"),
        (b"[1]", "not a JSON object"),
    ],
)
def test_a_file_without_a_json_object_is_one_line(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "file.json"
    if content is not None:
        path.write_bytes(content)
    for error in (DataError, ConfigError):
        with pytest.raises(error) as caught:
            read_json(path, error)
        assert str(caught.value).startswith(f"{path}: {reason}")
        assert "\n" not in str(caught.value)


def test_a_locked_folder_is_refused_until_it_is_free(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with locked(folder, "training"):
        for timeout in (0.0, 0.1):
            with (
                pytest.raises(DataError, match=rf"^another process is training in {folder}$"),
                locked(folder, "training", DataError, timeout),
            ):
                pass
    assert list(tmp_path.iterdir()) == []  # nothing was written
    with locked(folder, "training"):
        (folder / "written").touch()
    assert {path.name for path in folder.iterdir()} == {".lock", "written"}


def test_a_folder_that_nobody_can_write_to_needs_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with locked(tmp_path, "serving"), locked(tmp_path, "serving"):
        assert names(tmp_path) == []


def test_a_folder_appears_with_its_content_and_replaces_the_old_one_whole(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    for name in ("old", "new"):
        with new_folder(folder) as staging:
            (staging / name).write_text("1")
            assert not (folder / name).exists()
        assert (names(folder.parent), names(folder)) == (["folder"], [name])


def test_the_files_of_a_folder_are_on_the_disk_before_it_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, synced = tmp_path / "folder", list[tuple[int, bool]]()

    def sync(file: int) -> None:
        synced.append((os.fstat(file).st_size, folder.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    with new_folder(folder) as staging:
        (staging / "below").mkdir()
        (staging / "below" / "file").write_text("123")
    assert synced == [(3, False)]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_folder_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    with new_folder(tmp_path / "folder") as staging:
        (staging / "old").write_text("old")

    def fail() -> None:
        with new_folder(tmp_path / "folder") as staging:
            (staging / "half").write_text("written")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == ["old"]


@pytest.fixture
def refuse_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], Path]:
    """Makes a folder that cannot be replaced and, if asked, not be put back. Returns its path."""

    def refuse(put_back_too: bool) -> Path:
        target, rename = tmp_path / "folder", Path.replace
        target.mkdir()
        (target / "old").write_text("old")

        def replace(self: Path, to: Path) -> Path:
            if to == target and (put_back_too or ".old." not in str(self)):
                raise OSError("no")
            return rename(self, to)

        monkeypatch.setattr(Path, "replace", replace)
        return target

    return refuse


@pytest.mark.parametrize("put_back_too", [False, True])
def test_a_folder_that_cannot_be_replaced_is_put_back_or_kept(
    put_back_too: bool, tmp_path: Path, refuse_renames: Callable[[bool], Path]
) -> None:
    target = refuse_renames(put_back_too)
    with pytest.raises(OSError, match="no"), new_folder(target) as staging:
        (staging / "new").write_text("new")
    [kept] = tmp_path.iterdir()
    assert (kept == target) != put_back_too
    assert ((kept / "folder" if put_back_too else kept) / "old").read_text() == "old"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError("the disk is gone"), "cannot write: the disk is gone"),
        (OSError(errno.ENOSPC, "No space left on device"), "cannot write: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), "a.txt: Permission denied"),
    ],
)
def test_an_error_of_the_system_is_one_line(error: OSError, expected: str) -> None:
    assert file_error(error) == expected
