"""Files and folders are whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datagen.files import new_folder, sha256, write_json, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_is_written_in_utf8_and_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("before")
    write_text(path, "12 × 3\n")
    assert path.read_bytes() == "12 × 3\n".encode()
    assert names(tmp_path) == ["file.txt"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "a lone surrogate cannot be written: \ud800")
    assert path.read_text() == "before"
    assert names(tmp_path) == ["file.txt"]


def test_json_reads_back_as_it_was(tmp_path: Path) -> None:
    content = {"name": "÷", "share": 0.1, "by": {"+": [1, None, True]}}
    write_json(tmp_path / "file.json", content)
    assert json.loads((tmp_path / "file.json").read_text("utf-8")) == content


def test_a_folder_appears_with_its_content(tmp_path: Path) -> None:
    with new_folder(tmp_path / "new" / "folder") as staging:
        (staging / "a").write_text("1")
        assert not (tmp_path / "new" / "folder").exists()
    assert names(tmp_path / "new") == ["folder"]
    assert (tmp_path / "new" / "folder" / "a").read_text() == "1"


def test_a_folder_replaces_the_old_one_whole(tmp_path: Path) -> None:
    for name in ("old", "new"):
        with new_folder(tmp_path / "folder") as staging:
            (staging / name).write_text(name)
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == ["new"]


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


def test_sha256_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")  # the example of FIPS 180-2, appendix B.1
    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_folder_that_cannot_be_replaced_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").write_text("old")
    rename = Path.replace

    def refuse(self: Path, to: Path) -> Path:
        if to == target and ".old." not in str(self):
            raise OSError("no")
        return rename(self, to)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no"), new_folder(target) as staging:
        (staging / "new").write_text("new")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]
    assert (target / "old").read_text() == "old"
