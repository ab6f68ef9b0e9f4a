"""A user's own tasks: which lines are valid, and how questions are split."""

import random as stdlib_random
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt.base.errors import ConfigError, DataError, UserError
from calcgpt.config import Recipe, TrainConfig
from calcgpt.tokenizer import CharTokenizer
from calcgpt_lab.data import sources
from calcgpt_lab.data import task as module
from calcgpt_lab.data.batches import NO_LOSS, ProblemBatches
from calcgpt_lab.data.sources import DrawnBatches, TaskData, for_task
from calcgpt_lab.data.task import Task, TextTask, load_task, split_of_text
from datagen.splits import Split

LINES = "".join(f"{n}+1={n + 1}\n" for n in range(100))


def add(random: Random) -> str:
    a, b = random.randrange(1000), random.randrange(1000)
    return f"{a}+{b}={a + b}"


def text_task(tmp_path: Path, text: str) -> TextTask:
    path = tmp_path / "own.txt"
    path.write_text(text, "utf-8", newline="")
    return TextTask.read(path)


def test_a_file_is_read_whatever_its_line_ends(tmp_path: Path) -> None:
    task = text_task(tmp_path, "\ufeff" + LINES.replace("\n", "\r\n") + "\r\nä=ö\n")
    assert [line.text for line in task.lines("all", 0)] == [*LINES.split(), "ä=ö"]
    assert task.vocabulary == "$+0123456789=äö"
    assert task.content[0].answer == "1$"


questions = st.lists(st.integers(0, 60), min_size=40, max_size=120).filter(
    lambda numbers: len(set(numbers)) >= 10
)


@settings(max_examples=25)
@given(questions, st.integers(0, 3))
def test_no_held_out_question_is_trained_on_or_comes_twice(numbers: list[int], seed: int) -> None:
    task = TextTask("own", [line_of(n) for n in numbers])
    parts = {split: [line.prompt for line in task.lines(split, seed)] for split in Split}
    assert not {*parts["train"]} & {*parts["val"]}
    assert not {*parts["train"]} & {*parts["test"]}
    assert not {*parts["val"]} & {*parts["test"]}
    assert len({*parts["val"]}) == len(parts["val"]) == len({*numbers}) // 10
    held_out = {*parts["val"], *parts["test"]}
    assert parts["train"] == [f"{n}=" for n in numbers if f"{n}=" not in held_out]
    assert {split: [line.prompt for line in task.lines(split, seed)] for split in Split} == parts


def line_of(number: int) -> module.Line:
    return module.Line(f"{number}=", f"{number % 7}$", "")


def test_the_seed_chooses_the_questions_of_a_file(tmp_path: Path) -> None:
    task = text_task(tmp_path, LINES)
    assert task.lines("test", 0) == task.lines("test", 0) != task.lines("test", 1)


def test_a_held_out_question_comes_with_its_first_line(tmp_path: Path) -> None:
    ways = ("first", "second")  # of working it out
    task = text_task(tmp_path, "".join(f"{n}={way}=7\n" for way in ways for n in range(40)))
    for split in (Split.VAL, Split.TEST):
        assert [line.completion for line in task.lines(split, 0)] == ["first=7$"] * 4


def test_a_large_file_holds_out_no_more_than_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "N_HELD_OUT", 3)
    task = text_task(tmp_path, LINES)
    assert [len(task.lines(split, 0)) for split in Split] == [94, 3, 3]


def test_the_validation_loss_is_over_all_held_out_questions_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "VALIDATION_POOL", 3)  # for functions, which draw without end
    data = TaskData(text_task(tmp_path, LINES), 0)
    batches = data.batches(Split.VAL, CharTokenizer(data.train_text), TrainConfig(), 64)
    assert isinstance(batches, ProblemBatches)
    assert len(batches.lines) == 10


def test_a_function_draws_different_questions_of_each_split() -> None:
    task = Task(add)
    for split in Split:
        lines = task.lines(split, 1, 50)
        assert len({line.prompt for line in lines}) == 50
        assert {split_of_text(line.prompt) for line in lines} == {split}
        assert lines[:20] == task.lines(split, 1, 20)
    assert len(task.lines("all", 1)) == module.N_DRAWN
    few = Task(lambda random: f"{random.randrange(8)}=1")
    assert len(few.lines("all", 1)) == 8


def test_batches_of_a_function_are_fresh_trainable_and_repeatable() -> None:
    task = Task(add)
    tokenizer = CharTokenizer(task.vocabulary)
    source = TaskData(task, 5).batches(Split.TRAIN, tokenizer, TrainConfig(seed=5), 64)
    assert isinstance(source, DrawnBatches)
    inputs, targets = source.batch(3, 16)
    again = source.batch(3, 16)
    assert (again[0] == inputs).all()
    assert inputs.tolist() != source.batch(4, 16)[0].tolist()
    for row, target in zip(inputs, targets, strict=True):
        question, _, rest = tokenizer.decode(row).partition("=")
        a, _, b = question.partition("+")
        written = tokenizer.decode(target[target != NO_LOSS])
        assert written == f"{int(a) + int(b)}$"
        assert rest.rstrip("$") == written[:-1]
        assert split_of_text(f"{question}=") is Split.TRAIN


def test_long_lines_are_refused_first_and_left_out_later(tmp_path: Path) -> None:
    task = Task(lambda random: f"{'x' * random.randrange(1, 90)}=1")
    tokenizer = CharTokenizer(task.vocabulary)
    with pytest.raises(DataError, match="does not fit in 40 tokens"):
        DrawnBatches(task, tokenizer, TrainConfig(), 40)
    lines = task.training_lines(0, 0, 50, 41)
    assert max(len(line.text) for line in lines) <= 40
    config = TrainConfig()
    data = TaskData(text_task(tmp_path, LINES + "x" * 90 + "=1\n"), 0)
    with pytest.raises(DataError, match="does not fit in 40 tokens"):
        data.batches(Split.TRAIN, CharTokenizer(data.train_text), config, 40)
    batches = data.batches(Split.TRAIN, CharTokenizer(data.train_text), config, 100)
    assert isinstance(batches, ProblemBatches)


def test_a_long_line_that_comes_up_later_is_not_in_a_batch() -> None:
    def draw(random: Random) -> str:  # among the first lines there is no long one
        return f"{'x' * (1 if random.randrange(2_000) else 9)}{random.randrange(10, 99)}=1"

    task, config = Task(draw), TrainConfig(seed=1337)
    source = DrawnBatches(task, CharTokenizer(task.vocabulary), config, 12)
    lines = [line for step in range(9) for line in task.training_lines(config.seed, step, 64, 99)]
    assert max(len(line.text) for line in lines) == 13  # and with its `$` 14
    assert max(source.batch(step, 64)[0].size(1) for step in range(9)) == 5


def test_a_line_may_be_as_long_as_the_limit(tmp_path: Path) -> None:
    longest = "x" * (module.MAX_LINE - 2) + "=1"
    assert text_task(tmp_path, f"{LINES}{longest}\n").content[-1].text == longest


def test_zero_lines_may_be_requested(tmp_path: Path) -> None:
    for task in (Task(lambda random: f"{random.random()}=1"), text_task(tmp_path, LINES)):
        assert task.lines("val", 0, 0) == []


def test_a_check_decides_what_is_right() -> None:
    def is_factor(question: str, answer: str) -> bool:
        return answer.isdigit() and int(answer) > 1 and int(question) % int(answer) == 0

    (line, *_) = Task(lambda random: "12=2", is_factor).lines("all", 0, 1)
    assert [line.accepts(answer) for answer in ("2$", "3$", "5$", "3", "", "x$")] == [
        *(True, True, False, False, False, False)
    ]
    with pytest.raises(DataError, match="its check refuses its own line '12=5'"):
        assert Task(lambda random: "12=5", is_factor).vocabulary


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "own.txt is empty"),
        ("1=1\n", "at least 10 different questions are needed, not 1"),
        (LINES + "12\n", "line 101: '12' has no '=' between question and answer"),
        (LINES + "=12\n", "has no question"),
        (LINES + "12=\n", "has no answer"),
        (LINES + "1=$2\n", "has a '$'"),
        (LINES + "1\x00=2\n", r"has the character '\x00'"),
        (LINES + "1\u2028=2\n", r"has the character '\u2028'"),
        (LINES + "3+1=5\n", "line 101: another answer than in line 4"),
        (LINES + "x" * 5000 + "=1", "has 5,002 characters; at most 4,096 are possible"),
        (LINES + "".join(map(chr, range(0x4E00, 0x4F00))) + "=1", "269 different characters"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(DataError) as caught:
        assert text_task(tmp_path, text).vocabulary
    assert reason in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINES", 99)
    with pytest.raises(DataError, match="has more than 99 lines"):
        text_task(tmp_path, LINES)
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    with pytest.raises(DataError, match="has more than 100 bytes"):
        text_task(tmp_path, LINES)
    (tmp_path / "latin.txt").write_bytes(b"\xe4=1\n")
    with pytest.raises(DataError, match="not UTF-8 text: byte 0"):
        load_task(str(tmp_path / "latin.txt"))


def rare(random: Random) -> str:
    return f"{random.randrange(10**9)}={'z' if random.random() < 1e-4 else 'a'}"


def test_a_python_file_imports_from_its_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "first_helper_of_a_task.py").write_text("ONE = 1\n")
    (folder / "second_helper_of_a_task.py").write_text("TWO = 2\n")
    (folder / "sums.py").write_text(
        "from first_helper_of_a_task import ONE\n"
        "def draw(random):\n"
        "    from second_helper_of_a_task import TWO\n"  # only when it is called
        "    a = random.randrange(1000)\n"
        "    return f'{a}+{ONE}={a + TWO - ONE}'\n"
    )
    before = list(sys.path)
    task = load_task(f"{folder}/sums.py:draw")
    assert len(task.lines("all", 0, 5)) == 5
    assert sys.path == before


def test_an_error_in_a_python_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("def half(n):\n    return n / 0\n")
    (tmp_path / "later.py").write_text(
        "import json\nfrom half import half\n\n\ndef draw(random):\n    return half(1)\n"
        "def read(random):\n    return json.loads('{')\n"
    )
    (tmp_path / "now.py").write_text("\n1 / 0\n")
    with pytest.raises(ConfigError, match=r"division by zero \(now\.py, line 2\)"):
        load_task(f"{tmp_path}/now.py:draw")
    with pytest.raises(DataError, match=r"division by zero \(half\.py, line 2\)"):
        load_task(f"{tmp_path}/later.py:draw").lines("all", 0, 5)
    with pytest.raises(DataError, match=r"line 1 column 2 \(char 1\) \(later\.py, line 8\)"):
        load_task(f"{tmp_path}/later.py:read").lines("all", 0, 5)


@pytest.mark.parametrize(
    ("draw", "reason"),
    [
        (lambda random: 7, "draws int, not a line"),
        (lambda random: "7", "the line '7' has no '='"),
        (lambda random: f"{stdlib_random.random()}=1", "all randomness must come from its"),
        (lambda random: 1 / 0, "its draw failed with ZeroDivisionError"),
        (lambda random: sys.exit(3), "its draw failed with SystemExit: 3"),
        (rare, "'z' in '[0-9]+=z' is not in its alphabet, that of the first"),
    ],
)
def test_a_bad_function_is_named(draw: Callable[[Random], Any], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        Task(draw).lines("train", 0, 30_000)


def test_a_function_that_draws_only_held_out_questions_is_refused() -> None:
    held_out = next(n for n in range(1_000) if split_of_text(f"{n}=") is Split.TEST)
    drawn = 0

    def draw(random: Random) -> str:
        nonlocal drawn
        drawn += 1
        assert drawn < 2 * module.MAX_IDLE
        return f"{held_out}=1"

    with pytest.raises(DataError, match="too few questions to train on"):
        Task(draw).training_lines(0, 0, 1, 99)


def test_an_alphabet_can_be_named() -> None:
    assert Task(rare, alphabet="0123456789az").vocabulary == "$0123456789=az"
    with pytest.raises(DataError, match=r"'a' in '[0-9]+=a' is not in its alphabet$"):
        _ = Task(rare, alphabet="0123456789").fingerprint  # before a model is trained on it
    with pytest.raises(ConfigError, match="unknown split 'tset'; valid names: train, val, test"):
        Task(add).lines("tset", 0)


def test_a_task_of_a_python_file(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "from calcgpt_lab import Task\n"
        "def one(random):\n    return f'{random.randrange(99)}=1'\n"
        "two = Task(one, check=lambda question, answer: True)\n"
        "three = 3\n"
    )
    one, two = load_task(f"{path}:one"), load_task(f"{path}:two")
    assert isinstance(one, Task)
    assert isinstance(two, Task)
    assert (one.name, one.check, one.fingerprint) == (f"{path}:one", None, two.fingerprint)
    assert two.check
    (tmp_path / "bad.py").write_text("raise SystemExit('stop')\n")
    lazy = "def __getattr__(name):\n    raise RuntimeError(f'no {name} today')\n"
    (tmp_path / "lazy.py").write_text(lazy)
    (tmp_path / "words.py").write_text("open('words.txt')\n")
    for reference, reason in {
        f"{path}:tow": "has no task 'tow'; did you mean 'two'",
        f"{path}:three": "has no task 'three'",
        f"{path}": "does not name a task",
        f"{tmp_path}/none.py:one": "no such file",
        f"{tmp_path}/bad.py:one": "failed with SystemExit: stop",
        f"{tmp_path}/lazy.py:one": "lazy.py failed with RuntimeError: no one today",
        f"{tmp_path}/words.py:one": "words.py failed with FileNotFoundError.*words.txt",
        f"{tmp_path}/none.txt": "No such file",
    }.items():
        with pytest.raises(UserError, match=reason):
            load_task(reference)


def test_a_python_file_may_have_dataclasses(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "@dataclass\nclass Sum:\n    a: int\n    sign: ClassVar[str] = '+'\n"
        "def own(random):\n    return f'{Sum(random.randrange(99)).a}=1'\n"
    )
    assert load_task(f"{tmp_path}/own.py:own").lines("all", 0, 3)


def test_a_recipe_for_arithmetic_is_made_one_for_a_task() -> None:
    data = {"mixture": {"blog": 1.0}}
    recipe = Recipe.model_validate({"tokenizer": "scratchpad", "data": data})
    adapted = for_task(recipe)
    assert (adapted.tokenizer, adapted.data, adapted.train.batches) == ("chars", None, "problems")
    for model in (
        {"architecture": "sources", "characters": "="},
        {"position": "coupled"},
        {"position": "coupled+rope"},
    ):
        with pytest.raises(ConfigError, match="the notation of arithmetic"):
            for_task(Recipe.model_validate({"model": model}))
