"""Texts to train on, from files; tests/e2e downloads them."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datagen.dataset import DatasetPlan, generate
from datagen.errors import DataError
from datagen.splits import Split
from datagen.text import SOURCES, Limits, TextRecord, TextSource, default_folder, prepare_text

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
    for part in (Split.TRAIN, Split.VAL):
        data = files[f"{part}.txt"]
        entry = record.files[part]
        assert (entry.characters, entry.bytes) == (len(data.decode()), len(data))
        assert entry.sha256 == hashlib.sha256(data).hexdigest()
    content = json.loads(files["source.json"])
    assert (content["source"], content["sha256"], content["bytes"]) == (
        source,
        SHA256,
        len(CONTENT),
    )
    assert TextRecord.load(tmp_path / "out") == record


@given(text=st.text(min_size=2, max_size=60), hundredths=st.integers(1, 99))
def test_the_share_is_exact(
    tmp_path_factory: pytest.TempPathFactory, text: str, hundredths: int
) -> None:
    folder = tmp_path_factory.mktemp("share")
    (folder / "a").write_bytes(text.encode("utf-8"))
    n_train = len(text) * (100 - hundredths) // 100
    if not n_train:
        assert "too short" in refusal(folder / "out", str(folder / "a"), val_share=hundredths / 100)
        return
    record = prepare_text(folder / "out", str(folder / "a"), val_share=hundredths / 100)
    assert record.files[Split.TRAIN].characters == n_train
    assert (folder / "out" / "train.txt").read_bytes().decode() == text[:n_train]
    assert (folder / "out" / "val.txt").read_bytes().decode() == text[n_train:]


def test_the_share_is_exact_where_a_float_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0123456789")
    record = prepare_text(tmp_path / "out", str(tmp_path / "a"), val_share=0.9)
    assert record.files[Split.TRAIN].characters == 1  # 10 * (1 - 0.9) is below 1 in floats


def test_a_finished_text_is_not_changed(
    tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    record = prepare_text(out, source, sha256=SHA256.upper())
    times = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert prepare_text(out, source) == record
    assert capsys.readouterr().err == f"{out} is already complete\n"
    Path(source).unlink()
    assert prepare_text(out, source, sha256=SHA256) == record  # the source is not needed
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_another_text_is_refused_unless_forced(tmp_path: Path, source: str) -> None:
    out = tmp_path / "out"
    prepare_text(out, source)
    (out / "notes.md").write_text("mine")
    before = contents(out)
    Path(source).write_bytes(CONTENT * 2)
    assert refusal(out, source) == f"{out} holds another train.txt (--force replaces it)"
    assert contents(out) == before
    prepare_text(out, source, force=True)
    after = contents(out)
    assert after["train.txt"] + after["val.txt"] == CONTENT * 2
    assert after["notes.md"] == b"mine"
    assert "holds another" in refusal(out, source, val_share=0.2)


@pytest.mark.parametrize("name", ["train.txt", "val.txt"])
def test_damage_is_noticed(tmp_path: Path, source: str, name: str) -> None:
    out = tmp_path / "out"
    prepare_text(out, source)
    good = contents(out)
    (out / name).write_bytes(good[name].replace(b"n", b"m", 1))
    assert f"another {name}" in refusal(out, source, sha256=SHA256)
    prepare_text(out, source, force=True)
    assert contents(out) == good


@pytest.mark.parametrize("left", [[], ["train.txt"], ["train.txt", "val.txt"]])
def test_an_incomplete_text_is_completed(tmp_path: Path, source: str, left: list[str]) -> None:
    out = tmp_path / "out"
    prepare_text(out, source)
    good = contents(out)
    for name in good.keys() - left:
        (out / name).unlink()
    prepare_text(out, source)
    assert contents(out) == good


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"files": {"train": 1, "val": {}}}'])
def test_a_damaged_record_is_written_again(tmp_path: Path, source: str, damage: str) -> None:
    out = tmp_path / "out"
    prepare_text(out, source)
    good = contents(out)
    (out / "source.json").write_text(damage)
    prepare_text(out, source)
    assert contents(out) == good


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


def test_a_manifest_alone_is_a_data_set_of_problems(tmp_path: Path, source: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text("{}")
    assert "holds a data set of problems" in refusal(tmp_path / "out", source)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "too short to be divided: 0 characters"),
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


def test_a_wrong_hash_keeps_nothing(tmp_path: Path, source: str) -> None:
    expected = "0" * 64
    message = refusal(tmp_path / "out", source, sha256=expected)
    assert SHA256 in message
    assert expected in message
    assert not (tmp_path / "out").exists()


def test_a_large_file(tmp_path: Path, source: str) -> None:
    prepare_text(tmp_path / "out", source, limits=Limits(max_bytes=len(CONTENT)))
    limits = Limits(max_bytes=len(CONTENT) - 1)
    assert "larger than" in refusal(tmp_path / "other", source, limits=limits)


def test_a_source_that_cannot_be_read(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "out", str(tmp_path / "absent"))
    assert "Is a directory" in refusal(tmp_path / "out", str(tmp_path))
    assert "not an http or https URL" in refusal(tmp_path / "out", "ftp://127.0.0.1/x")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan"), float("inf")])
def test_a_share_that_is_not_allowed(tmp_path: Path, source: str, share: float) -> None:
    assert "between 0 and 1" in refusal(tmp_path / "out", source, val_share=share)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("sha256", ["", "abc", "g" * 64, "0" * 65, "0" * 63 + "\n"])
def test_a_hash_that_is_not_one(tmp_path: Path, source: str, sha256: str) -> None:
    assert "64 hexadecimal digits" in refusal(tmp_path / "out", source, sha256=sha256)


def test_a_known_text_is_recognised_by_its_sum(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "hamlet", TextSource("http://192.0.2.1/input.txt", SHA256))
    record = prepare_text(tmp_path / "out", source)
    assert prepare_text(tmp_path / "out", "hamlet") == record  # nothing is fetched


def test_another_share_is_another_data_set_if_the_text_is_known(
    tmp_path: Path, source: str
) -> None:
    prepare_text(tmp_path / "out", source)
    assert "holds another" in refusal(tmp_path / "out", source, sha256=SHA256, val_share=0.2)


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("tinyshakespeare", "data/tinyshakespeare"),
        ("/tmp/my text.txt", "data/my text"),
        ("../v1.2.txt", "data/v1.2"),
        ("https://example.org/hamlet/input.txt", "data/input"),
        ("https://example.org/hamlet?raw=a/b.txt", "data/hamlet"),
        ("https://example.org/%2e%2e", "data/%2e%2e"),
    ],
)
def test_the_default_folder_of_a_source(source: str, folder: str) -> None:
    assert default_folder(source) == Path(folder)


@pytest.mark.parametrize("source", ["/", "..", "https://example.org", "https://example.org/.."])
def test_a_source_without_a_file_name_is_refused(source: str) -> None:
    with pytest.raises(DataError, match="say which folder"):
        default_folder(source)


def test_a_name_that_is_nearly_that_of_a_text_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="; did you mean 'tinyshakespeare'"):
        prepare_text(tmp_path, "shakespeare")
