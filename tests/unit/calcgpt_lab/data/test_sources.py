"""The data of a run, with files and without."""

import json
import shutil
from pathlib import Path

import pytest

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.base.files import sha256
from calcgpt.config import DataConfig, TrainConfig
from calcgpt.tokenizer import CharTokenizer
from calcgpt_lab.data.batches import ProblemBatches
from calcgpt_lab.data.problems import split_line
from calcgpt_lab.data.sources import (
    VALIDATION_POOL,
    DataFolder,
    FreshBatches,
    FreshData,
    tokenizer_for,
    training_data,
)
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.recipe import load_recipe
from datagen.notation import parse
from datagen.splits import Split, problem_hash, split_of_hash

FRESH = ("data.format=direct", "data.mixture.blog=1")
TOKENIZER = TOKENIZERS["scratchpad"]("")
PROBLEMS = TrainConfig(batches="problems")


def config(**fields: object) -> DataConfig:
    return DataConfig.model_validate({"format": "direct", "mixture": {"blog": 1.0}, **fields})


def test_a_folder_comes_before_the_recipes_own_data(data_folder: Path) -> None:
    assert isinstance(training_data(load_recipe("nano", FRESH), data_folder), DataFolder)
    assert isinstance(training_data(load_recipe("nano", FRESH), None), FreshData)
    with pytest.raises(ConfigError, match=r"the recipe has no \[data\] section: --data"):
        training_data(load_recipe("nano"), None)


def test_the_fingerprint_tells_data_from_other_data() -> None:
    plain = FreshData(config(), 1).fingerprint
    others = [
        config(format="scratchpad"),
        config(format="scratchpad-second-choices"),
        config(mixture={"blog": 2.0}),
        config(operations={"+": 2.0}),
        config(validation="calculator"),
    ]
    assert len({plain, *(FreshData(other, 1).fingerprint for other in others)}) == 6
    same = config(operations={"/": 1.0, "+": 1.0})  # order and omitted weights do not matter
    assert FreshData(same, 1).fingerprint == plain


@pytest.mark.parametrize("file", ["train.txt", "val.txt"])
def test_the_fingerprint_of_a_text_covers_both_files(file: str, tmp_path: Path) -> None:
    for name in ("train.txt", "val.txt"):
        (tmp_path / name).write_text("to be")
    before = DataFolder.load(tmp_path).fingerprint
    (tmp_path / file).write_text("or not")
    assert DataFolder.load(tmp_path).fingerprint != before


@pytest.mark.parametrize("file", ["train.txt", "val.txt"])
def test_the_fingerprint_of_problems_is_that_of_their_manifest_until_a_file_is_edited(
    file: str, data_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(data_folder, tmp_path, dirs_exist_ok=True)
    manifest = tmp_path / "manifest.json"
    original = DataFolder.load(tmp_path).fingerprint
    assert original == sha256(manifest)
    lines = (tmp_path / file).read_text().splitlines(keepends=True)
    (tmp_path / file).write_text("".join(reversed(lines)))  # of the same size
    edited = DataFolder.load(tmp_path)
    assert edited.fingerprint != original
    assert edited.holds_problems
    manifest.write_text("{}")  # of another program
    assert DataFolder.load(tmp_path).fingerprint == edited.fingerprint
    manifest.write_text("{")
    with pytest.raises(DataError, match=r"manifest\.json: not JSON"):
        DataFolder.load(tmp_path)


def test_fresh_validation_problems_are_the_first_of_the_pool() -> None:
    data = FreshData(config(), 1)
    lines = data.validation_problems(50)
    pool = (
        data.problems.render(data.problems.validation_problems(VALIDATION_POOL))
        .decode()
        .splitlines()
    )
    assert len(pool) == VALIDATION_POOL
    assert lines == [split_line(text) for text in pool[:50]]
    assert {split_of_hash(problem_hash(parse(text))) for text in pool} == {Split.VAL}


def test_validation_problems_of_worked_steps_end_in_the_answer() -> None:
    direct = FreshData(config(), 1).validation_problems(50)
    worked = FreshData(config(format="scratchpad"), 1).validation_problems(50)
    # What the model is asked, and what it is to say in the end.
    assert [(line.prompt, line.answer) for line in worked] == [
        (line.prompt, line.answer) for line in direct
    ]


def test_fresh_batches_are_problems_of_their_split() -> None:
    data = FreshData(config(), 1)
    train = data.batches(Split.TRAIN, TOKENIZER, PROBLEMS, 64)
    val = data.batches(Split.VAL, TOKENIZER, PROBLEMS, 64)
    assert isinstance(train, FreshBatches)
    assert isinstance(val, ProblemBatches)
    for source, split in ((train, Split.TRAIN), (val, Split.VAL)):
        rows = [TOKENIZER.decode(row) + "$" for row in source.batch(3, 100)[0]]
        assert {split_of_hash(problem_hash(parse(row))) for row in rows} == {split}


def test_fresh_problems_make_no_stream() -> None:
    with pytest.raises(ConfigError, match="batches must be 'problems'"):
        FreshData(config(), 1).batches(Split.TRAIN, TOKENIZER, TrainConfig(), 64)


def test_a_folder_without_a_manifest_holds_no_problems(data_folder: Path, tmp_path: Path) -> None:
    lines = DataFolder.load(data_folder).validation_problems(5)
    assert lines is not None
    assert len(lines) == 5
    for name in ("train.txt", "val.txt"):
        (tmp_path / name).write_bytes((data_folder / name).read_bytes())
    assert DataFolder.load(tmp_path).validation_problems(5) is None


def test_the_last_tenth_of_a_text_is_for_validation(tmp_path: Path) -> None:
    text, file = (
        "Ærlig talt:\r\n\u2028 to be, or nøt to be\n\r🎭\ufeff fin",
        tmp_path / "hamlet.txt",
    )
    file.write_bytes(text.encode())
    data = DataFolder.load(file)
    assert data.train_text + data.val_text == text
    assert len(data.train_text) == 9 * len(text) // 10
    assert (
        data.fingerprint
        == DataFolder.load(folder_of(tmp_path / "two", data.train_text, data.val_text)).fingerprint
    )
    assert data.validation_problems(5) is None
    file.write_text("x")
    with pytest.raises(DataError, match="too short to be divided: 1 characters"):
        DataFolder.load(file)
    with pytest.raises(DataError, match=r"cannot read .*absent: No such file"):
        DataFolder.load(tmp_path / "absent")


def folder_of(path: Path, train: str, val: str, data_format: str | None = None) -> Path:
    """Makes a data folder. With a format, it has a manifest, and so holds problems."""
    path.mkdir(exist_ok=True)
    (path / "train.txt").write_bytes(train.encode())
    (path / "val.txt").write_bytes(val.encode())
    if data_format:
        (path / "manifest.json").write_text(json.dumps({"format": data_format}))
    return path


@pytest.mark.parametrize(
    ("name", "data_format", "reason"),
    [
        ("calculator", "direct", "has no worked steps: `calcgpt datagen --format scratchpad`"),
        ("adder", "direct", "has no worked steps"),
        ("nano", "scratchpad", "has worked steps, which this recipe does not write"),
        ("direct", "scratchpad-second-choices", "has worked steps"),
        ("calculator", "scratchpad", None),
        ("calculator", "scratchpad-second-choices", None),
        ("nano", "direct", None),
        ("calculator", None, None),  # it is not known what the folder holds
        ("task", "scratchpad", "has worked steps"),
        ("task", "direct", None),
        ("small", "scratchpad", None),  # a stream
    ],
)
def test_a_recipe_is_trained_on_worked_steps_only_if_it_writes_them(
    name: str, data_format: str | None, reason: str | None, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, "1=1", "1=1", data_format)
    if reason is None:
        training_data(load_recipe(name), folder)
        return
    with pytest.raises(ConfigError, match=reason):
        training_data(load_recipe(name), folder)


def test_the_characters_of_a_text_are_those_of_both_splits(tmp_path: Path) -> None:
    data = DataFolder.load(folder_of(tmp_path, "abba", "abc"))
    tokenizer = tokenizer_for(load_recipe("nano", ("tokenizer=chars",)), data, [])
    assert isinstance(tokenizer, CharTokenizer)
    assert tokenizer.vocabulary == "abc"


def test_sources_need_the_characters_of_the_tokenizer() -> None:
    recipe = load_recipe("calculator")
    data = training_data(recipe, None)
    tokenizer = tokenizer_for(recipe, data, [])
    assert isinstance(tokenizer, CharTokenizer)
    assert tokenizer.vocabulary == recipe.model.characters
    for wrong in ("tokenizer=arithmetic", "model.characters='=+'"):
        with pytest.raises(ConfigError, match=r"characters must be '\$\(\)\*\+-\./0123456789"):
            tokenizer_for(load_recipe("calculator", (wrong,)), data, [])


def test_an_unknown_character_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    sums = "$(1+1)=2$\n" * 9
    data = DataFolder.load(folder_of(tmp_path, sums, f"{sums}$(1+x)=2$\n"))
    with pytest.raises(DataError) as caught:
        data.batches(Split.VAL, TOKENIZERS["arithmetic"](""), PROBLEMS, 64)
    path = tmp_path / "val.txt"
    assert str(caught.value) == f"{path}, line 10: character 'x' is not in the vocabulary"


@pytest.mark.parametrize("tokenizer", [TOKENIZER, CharTokenizer(" =beot"), CharTokenizer(" beot")])
def test_plain_text_in_place_of_problems_is_told_how_to_train_on_it(
    tokenizer: CharTokenizer, tmp_path: Path
) -> None:
    data = DataFolder.load(folder_of(tmp_path, "a = b\nto be or not\n", "to be\n"))
    hint = "for plain text: --set tokenizer=chars --set train.batches=stream"
    with pytest.raises(DataError, match=hint):
        data.batches(Split.VAL, tokenizer, PROBLEMS, 64)
