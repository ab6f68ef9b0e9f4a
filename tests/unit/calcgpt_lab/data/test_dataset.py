"""Data sets on disk."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calcgpt import __version__
from calcgpt.base.errors import ConfigError, DataError
from calcgpt_lab.data.dataset import DatasetPlan, Manifest, generate, load_manifest
from calcgpt_lab.data.plan import GENERATOR_VERSION
from datagen.arithmetic import Problem, ProblemArray
from datagen.distributions import DISTRIBUTIONS, Distribution
from datagen.notation import parse
from datagen.operations import OPERATIONS
from datagen.splits import Split, problem_hash, split_of_hash

SMALL = DatasetPlan(train=300, val=40, test=20, seed=7)
FILES = ["manifest.json", "test.txt", "train.txt", "val.txt"]


def make(out: Path, plan: DatasetPlan = SMALL, **options: object) -> Manifest:
    return generate(out, plan, progress=False, **options)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, those with a dot apart."""
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return {path.name: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 140,000 problems, two full blocks and a part of one for training."""
    out = tmp_path_factory.mktemp("large")
    make(out, DatasetPlan(train=135_600, val=2_000, test=2_000, seed=3))
    return out


def test_no_held_out_problem_occurs_in_training_or_twice(large: Path) -> None:
    lines = {split: (large / f"{split}.txt").read_text().splitlines() for split in Split}
    assert {split: len(some) for split, some in lines.items()} == {
        Split.TRAIN: 135_600,
        Split.VAL: 2_000,
        Split.TEST: 2_000,
    }
    pattern = re.compile(r"\$\(([\d.]+)([-+*/])([\d.]+)\)=")

    def question(line: str) -> tuple[object, ...]:
        """Returns the question of a line, independent of how it is written."""
        match = pattern.match(line)
        assert match, line
        a, operation, b = match.groups()
        operands = [float(a), float(b)]
        return operation, *(sorted(operands) if operation in "+*" else operands)

    training = {question(line) for line in lines[Split.TRAIN]}
    held_out = [question(line) for split in (Split.VAL, Split.TEST) for line in lines[split]]
    assert len(set(held_out)) == len(held_out) == 4_000
    assert not training & set(held_out)
    # Nor with any other seed, because the split depends on the problem alone.
    some = {split: lines[split][::10] for split in Split}
    assert all(
        split_of_hash(problem_hash(parse(line))) == split for split in Split for line in some[split]
    )


def test_the_manifest_says_what_the_files_hold(large: Path) -> None:
    entries = json.loads((large / "manifest.json").read_text())
    assert (entries["seed"], entries["distribution"], entries["format"]) == (3, "blog", "direct")
    assert entries["package_version"] == __version__
    for split in Split:
        data = (large / f"{split}.txt").read_bytes()
        lines = data.decode("ascii").splitlines()
        assert data.endswith(b"$\n")
        assert entries["counts"][split] == len(lines)
        assert entries["bytes"][split] == len(data)
        assert entries["sha256"][split] == hashlib.sha256(data).hexdigest()
        assert entries["operations"][split] == Counter(line[12] for line in lines)
    manifest = load_manifest(large)
    assert manifest.plan == DatasetPlan(train=135_600, val=2_000, test=2_000, seed=3)
    assert manifest.operations.val.keys() == set(OPERATIONS)


def test_the_bytes_depend_on_the_plan_alone(large: Path, tmp_path: Path) -> None:
    make(tmp_path, load_manifest(large).plan, workers=2)
    assert contents(tmp_path) == contents(large)


def test_pinned_bytes(tmp_path: Path) -> None:
    # A change of these bytes must raise `plan.GENERATOR_VERSION`.
    manifest = make(tmp_path)
    assert [manifest.sha256.train[:16], manifest.sha256.val[:16], manifest.sha256.test[:16]] == [
        "4b7b9370be4fd2fa",
        "30f47da2cf1e0791",
        "d2119e58743ac289",
    ]


@pytest.mark.parametrize("places", [0, 2, 12])
def test_all_problems_ask_for_the_places_of_the_plan(tmp_path: Path, places: int) -> None:
    fields = {"train": 30, "val": 10, "test": 10, "seed": 1, "distribution": "everyday"}
    usual = make(tmp_path / "usual", DatasetPlan(**fields))  # type: ignore[arg-type]
    plan = DatasetPlan(**fields, places=places)  # type: ignore[arg-type]
    assert make(tmp_path / "asked", plan).plan == plan == load_manifest(tmp_path / "asked").plan
    for split in Split:
        lines = [(tmp_path / name / f"{split}.txt").read_text() for name in ("usual", "asked")]
        before, after = ([parse(line) for line in text.splitlines()] for text in lines)
        assert after == [replace(problem, places=places) for problem in before]
    assert "places" not in json.loads((tmp_path / "usual" / "manifest.json").read_text())
    with pytest.raises(DataError, match="different data set"):
        make(tmp_path / "asked", usual.plan)


def test_training_data_continues_with_more(tmp_path: Path) -> None:
    make(tmp_path / "less")
    make(tmp_path / "more", DatasetPlan(train=500, val=40, test=20, seed=7))
    less, more = contents(tmp_path / "less"), contents(tmp_path / "more")
    assert more["train.txt"].startswith(less["train.txt"])
    assert more["val.txt"] == less["val.txt"]


def test_another_seed_gives_other_problems(tmp_path: Path) -> None:
    make(tmp_path / "7")
    make(tmp_path / "8", DatasetPlan(train=300, val=40, test=20, seed=8))
    for split in Split:
        lines = [(tmp_path / seed / f"{split}.txt").read_text().splitlines() for seed in "78"]
        assert len(set(lines[0]) & set(lines[1])) < len(lines[0]) / 10


def test_a_finished_data_set_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = make(tmp_path)
    assert sorted(contents(tmp_path)) == FILES
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert generate(tmp_path, SMALL, workers=2) == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == times
    assert capsys.readouterr().err == f"{tmp_path} is already complete\n"


def test_the_progress_bar_counts_the_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(tmp_path, SMALL)
    captured = capsys.readouterr()
    assert "360/360" in captured.err
    assert "problems/s" in captured.err
    assert captured.out == ""


def rewrite(name: str, old: bytes, new: bytes) -> Callable[[Path], object]:
    """Returns a change of a file of a data set."""

    def change(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes().replace(old, new, 1))

    return change


OLDER = (b'"generator": %d' % GENERATOR_VERSION, b'"generator": 0')


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (rewrite("val.txt", b"1", b"2"), "val.txt is damaged"),
        (rewrite("train.txt", b"\n", b""), "train.txt is damaged"),
        (lambda folder: (folder / "test.txt").unlink(), "test.txt is missing"),
        (lambda folder: (folder / "manifest.json").unlink(), "of unknown origin"),
        (rewrite("manifest.json", b"{", b""), "manifest.json: not JSON"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "not a JSON object"),
        (rewrite("manifest.json", *OLDER), "holds a different data set"),
        (
            lambda folder: make(folder, SMALL.model_copy(update={"seed": 8}), force=True),
            "a different data set",
        ),
    ],
)
def test_another_or_damaged_data_set_is_not_changed_unless_forced(
    tmp_path: Path, change: Callable[[Path], object], complaint: str
) -> None:
    make(tmp_path)
    good = contents(tmp_path)
    (tmp_path / "notes.md").write_text("mine")
    change(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(DataError, match=complaint) as caught:
        make(tmp_path)
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == before
    make(tmp_path, force=True)
    assert contents(tmp_path) == good | {"notes.md": b"mine"}


@pytest.mark.parametrize("force", [False, True])
def test_an_interruption_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    if force:
        make(tmp_path)
    before = contents(tmp_path)
    other = DatasetPlan(train=500, val=40, test=20, seed=7)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("calcgpt_lab.data.dataset.train_shard", stop)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path, other, force=force)
    assert contents(tmp_path) == before
    assert make(tmp_path, other, force=force).plan == other


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".new").mkdir()
    (tmp_path / ".new" / "val.txt").write_text("half of a file")
    make(tmp_path)
    assert sorted(contents(tmp_path)) == FILES


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("train", 0),
        ("train", -1),
        ("train", 10**10 + 1),
        ("train", 1.5),
        ("train", True),
        ("val", 0),
        ("val", 1_000_001),
        ("test", -5),
        ("test", "10"),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", None),
        ("distribution", "bolg"),
        ("format", "indirect"),
        ("places", -1),
        ("places", 31),
        ("places", "8"),
    ],
)
def test_a_plan_refuses_values_that_are_not_allowed(field: str, value: object) -> None:
    fields = {"train": 1, "val": 1, "test": 1, "seed": 0, field: value}
    with pytest.raises(ConfigError, match=rf"\b{field}\b") as caught:
        DatasetPlan(**fields)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 10_000])
def test_options_that_are_not_allowed_are_refused_before_anything_is_written(
    tmp_path: Path, workers: int
) -> None:
    with pytest.raises(DataError, match="workers"):
        make(tmp_path / "out", workers=workers)
    assert not (tmp_path / "out").exists()


def test_out_may_not_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "absent")
    for out in (file, file / "below", link):
        with pytest.raises(DataError, match=r"file|link to nothing") as caught:
            make(out)
        assert "\n" not in str(caught.value)
    assert file.read_text() == "mine"


def test_a_distribution_with_too_few_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sums_below_40(words: np.ndarray) -> ProblemArray:
        a, b = 100 * (words[0] % 40).astype(np.int64), 100 * (words[1] % 40).astype(np.int64)
        whole = np.zeros(len(a), np.bool_)
        return ProblemArray(a, whole, np.zeros(len(a), np.uint8), b, whole)

    monkeypatch.setitem(DISTRIBUTIONS, "sums", Distribution(2, sums_below_40))
    numbers = range(40)
    array = [(100 * a, 100 * b) for a in numbers for b in numbers if a <= b]
    problems = sums_problems(array)
    possible = sum(split_of_hash(problem_hash(problem)) == Split.VAL for problem in problems)
    assert len({problem_hash(problem) for problem in problems}) == 820
    make(tmp_path / "all", DatasetPlan(train=1000, val=possible, test=1, distribution="sums"))
    lines = (tmp_path / "all" / "val.txt").read_text().splitlines()
    assert len(set(lines)) == len(lines) == possible
    with pytest.raises(DataError, match=f"val={possible + 1}: only {possible}"):
        make(
            tmp_path / "more",
            DatasetPlan(train=1000, val=possible + 1, test=1, distribution="sums"),
        )


def sums_problems(operands: list[tuple[int, int]]) -> list[Problem]:
    a, b = np.array(operands).T
    whole = np.zeros(len(a), np.bool_)
    return ProblemArray(a, whole, np.zeros(len(a), np.uint8), b, whole).to_problems()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        *((key, None, f"{key}: Field required") for key in ("seed", "counts", "generator")),
        *((key, None, f"{key}: Field required") for key in ("sha256", "operations")),
        ("seed", "7", "seed: Input should be a valid integer"),
        ("seed", -1, "DatasetPlan: seed: Input should be greater than or equal to 0, not -1"),
        ("counts", {"train": 300, "val": 40}, "counts.test: Field required"),
        ("sha256", {"train": 1, "val": "", "test": ""}, "sha256.train: Input should be a valid"),
        ("distribution", "bolg", "DatasetPlan: unknown distribution 'bolg'"),
        ("format", "steps", "DatasetPlan: unknown format 'steps'; valid names: direct, scratch"),
    ],
)
def test_a_missing_or_wrong_entry_in_a_manifest(
    tmp_path: Path, key: str, value: object, reason: str
) -> None:
    with pytest.raises(DataError, match=r"manifest.json: No such file"):
        load_manifest(tmp_path)
    make(tmp_path)
    path = tmp_path / "manifest.json"
    entries = {**json.loads(path.read_text()), key: value}
    path.write_text(json.dumps({k: entry for k, entry in entries.items() if entry is not None}))
    with pytest.raises(DataError) as caught:
        load_manifest(tmp_path)
    assert str(caught.value).startswith(f"{path}: {reason}")
    assert "\n" not in str(caught.value)
