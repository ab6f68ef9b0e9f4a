"""Texts to train on."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.base.errors import DataError
from calcgpt_lab.data import text
from calcgpt_lab.data.dataset import DatasetPlan, generate
from calcgpt_lab.data.text import default_folder, prepare_text

CONTENT = "Ærlig talt:\r\n\u2028 to be, or nøt to be\n\r🎭\ufeff fin".encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "hamlet.txt"
    path.write_bytes(CONTENT)
    return str(path)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, its lock apart."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def refusal(*args: object, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        prepare_text(*args, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def test_a_text_is_cut_once_and_not_changed_otherwise(tmp_path: Path, source: str) -> None:
    record = prepare_text(tmp_path / "out", source)
    files = contents(tmp_path / "out")
    assert sorted(files) == ["source.json", "train.txt", "val.txt"]
    assert files["train.txt"] + files["val.txt"] == CONTENT
    n_characters = len(CONTENT.decode())
    assert len(files["train.txt"].decode()) == 9 * n_characters // 10
    for name, entry in record.files:
        data = files[f"{name}.txt"]
        assert (entry.characters, entry.bytes) == (len(data.decode()), len(data))
        assert entry.sha256 == hashlib.sha256(data).hexdigest()
    content = json.loads(files["source.json"])
    assert (content["source"], content["sha256"], content["bytes"]) == (
        source,
        SHA256,
        len(CONTENT),
    )
    assert content == record.model_dump()


@given(content=st.text(min_size=2, max_size=60), hundredths=st.integers(1, 99))
def test_the_share_is_exact(
    tmp_path_factory: pytest.TempPathFactory, content: str, hundredths: int
) -> None:
    folder = tmp_path_factory.mktemp("share")
    (folder / "a").write_bytes(content.encode("utf-8"))
    n_train = len(content) * (100 - hundredths) // 100
    if not n_train:
        assert "too short" in refusal(folder / "out", str(folder / "a"), val_share=hundredths / 100)
        return
    record = prepare_text(folder / "out", str(folder / "a"), val_share=hundredths / 100)
    assert record.files.train.characters == n_train
    assert (folder / "out" / "train.txt").read_bytes().decode() == content[:n_train]
    assert (folder / "out" / "val.txt").read_bytes().decode() == content[n_train:]


def test_the_share_is_exact_where_a_float_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0123456789")
    record = prepare_text(tmp_path / "out", str(tmp_path / "a"), val_share=0.9)
    assert record.files.train.characters == 1  # 10 * (1 - 0.9) is below 1 in floats


def test_a_finished_text_is_not_changed(tmp_path: Path, source: str) -> None:
    out = tmp_path / "out"
    record = prepare_text(out, source)
    times = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert prepare_text(out, source) == record
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_another_text_is_refused_unless_forced(tmp_path: Path, source: str) -> None:
    out = tmp_path / "out"
    prepare_text(out, source)
    (out / "notes.md").write_text("mine")
    before = contents(out)
    Path(source).write_bytes(CONTENT * 2)
    assert refusal(out, source) == f"{out} holds another source.json (--force replaces it)"
    assert contents(out) == before
    prepare_text(out, source, force=True)
    after = contents(out)
    assert after["train.txt"] + after["val.txt"] == CONTENT * 2
    assert after["notes.md"] == b"mine"
    assert "holds another" in refusal(out, source, val_share=0.2)


def _damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("name", ["source.json", "train.txt", "val.txt"])
@pytest.mark.parametrize("change", [_damage, Path.unlink])
def test_damage_is_noticed(
    tmp_path: Path, source: str, name: str, change: Callable[[Path], None]
) -> None:
    out = tmp_path / "out"
    prepare_text(out, source)
    good = contents(out)
    change(out / name)
    damaged = contents(out)
    assert "(--force replaces it)" in refusal(out, source)
    assert contents(out) == damaged
    prepare_text(out, source, force=True)
    assert contents(out) == good


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"files": {"train": 1, "val": {}}}'])
def test_a_record_that_is_none_is_not_replaced(tmp_path: Path, source: str, damage: str) -> None:
    (tmp_path / "source.json").write_text(damage)
    assert "holds another source.json" in refusal(tmp_path, source)


def test_problems_and_texts_do_not_mix(tmp_path: Path, source: str) -> None:
    plan = DatasetPlan(train=20, val=5, test=5, seed=0)
    out = tmp_path / "out"
    generate(out, plan, progress=False)
    problems = contents(out)
    assert "--force" in refusal(out, source)
    assert contents(out) == problems
    prepare_text(out, source, force=True)
    assert sorted(contents(out)) == ["source.json", "train.txt", "val.txt"]
    with pytest.raises(DataError, match="--force"):
        generate(out, plan, progress=False)
    generate(out, plan, progress=False, force=True)
    assert contents(out) == problems


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "a is empty"),
        (b"a", "too short to be divided: 1 characters"),
        (b"abc\xff", "not UTF-8 text: byte 3"),
        ("abc\ud800".encode("utf-8", "surrogatepass"), "not UTF-8 text: byte 3"),
        ("text".encode("utf-16"), "not UTF-8 text: byte 0"),
    ],
)
def test_a_source_that_is_not_text(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "a").write_bytes(content)
    assert complaint in refusal(tmp_path / "out", str(tmp_path / "a"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"val_share": 0.0}, "between 0 and 1"),
        ({"val_share": 1.0}, "between 0 and 1"),
        ({"val_share": float("nan")}, "between 0 and 1"),
        ({"source": "absent"}, "No such file"),
        ({"source": "."}, "Is a directory"),
    ],
)
def test_what_is_not_allowed_leaves_nothing(
    tmp_path: Path, source: str, options: dict[str, Any], complaint: str
) -> None:
    assert complaint in refusal(tmp_path / "out", **{"source": source, **options})
    assert not (tmp_path / "out").exists()


def test_a_large_file(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_BYTES", len(CONTENT))
    prepare_text(tmp_path / "out", source)
    monkeypatch.setattr(text, "MAX_BYTES", len(CONTENT) - 1)
    assert "has more than" in refusal(tmp_path / "other", source)


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("/tmp/my text.txt", "data/my text"),
        ("../v1.2.txt", "data/v1.2"),
    ],
)
def test_the_default_folder_of_a_source(source: str, folder: str) -> None:
    assert default_folder(Path(source)) == Path(folder)


@pytest.mark.parametrize("source", ["/", ".."])
def test_a_source_without_a_file_name_is_refused(source: str) -> None:
    with pytest.raises(DataError, match="say which folder"):
        default_folder(Path(source))
