"""A user's own tasks: lines of question, `=` and answer. This module needs no torch.

    abc=cba                   a line
    12+34=2+4:6,1+3:4=46      a line with work between the question and the answer

A task is a text file of such lines, or a Python function that draws them. Held-out questions are
never trained on. For a file they are chosen by the seed, for a function by a hash.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, Self, TypeAlias

from calcgpt.base.errors import (
    ConfigError,
    DataError,
    check_integer,
    check_types,
    did_you_mean,
    unknown_name,
)
from calcgpt.base.files import read_text, text_sha256
from calcgpt.base.plugins import code_of, described, imports_from, load_installed, run_file
from calcgpt.variants import register
from calcgpt_lab.data.problems import Line
from datagen.sampling import MAX_SEED
from datagen.splits import Split, split_of_hash

ALL = "all"
SPLITS = (*map(str, Split), ALL)
MAX_BYTES = 64 * 2**20  # of a file
MAX_LINES = 2_000_000  # of a file
MAX_LINE = 4_096  # characters
MAX_CHARACTERS = 256  # different ones, `=` and `$` included: an id is a byte
END = "$"  # closes each line where the model reads and writes it
N_HELD_OUT = 10_000  # questions of a file, at most, in each of validation and test
N_DRAWN = 1_000  # lines of a function, where no number is given
PROBE = 1_024  # lines of a function that are drawn and checked before all others
MAX_IDLE = 20_000  # unusable lines in a row, after which drawing stops

Draw: TypeAlias = Callable[[Random], str]
Check: TypeAlias = Callable[[str, str], bool]


@dataclass(frozen=True)
class CheckedLine(Line):
    """A line whose answer is right if a user's function says so."""

    check: Check

    def accepts(self, answer: str) -> bool:
        return answer.endswith(END) and self.check(self.prompt[:-1], answer[:-1])


@dataclass(frozen=True)
class Task:
    """A task whose lines a function draws.

    `draw` gets a `random.Random`, from which all its randomness must come, and returns a line such
    as `2+2=4`. `check` gets a question and an answer, and returns whether the answer is right.
    Without `check`, only the answer in the line is right. `alphabet` has all characters. Without
    `alphabet`, the characters are those of the first lines. Raises ArgumentError for other types.
    """

    draw: Draw
    check: Check | None = None
    alphabet: str | None = None
    name: str = ""
    folder: str | Path | None = None  # of the Python file, from which the functions may import

    def __post_init__(self) -> None:
        check_types(
            draw=(self.draw, Callable),
            check=(self.check, Callable, None),
            alphabet=(self.alphabet, str, None),
            name=(self.name, str),
            folder=(self.folder, str, Path, None),
        )

    @cached_property
    def vocabulary(self) -> str:
        """All characters, sorted, with `=` and `$`. Raises DataError if there are more than
        MAX_CHARACTERS. Without an `alphabet`, raises what `first_lines` raises."""
        text = _text(self.first_lines) if self.alphabet is None else self.alphabet
        return _vocabulary(self._source, text)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the first lines, and so of what the function does."""
        return _sha256(self.first_lines)

    @cached_property
    def first_lines(self) -> list[Line]:
        """The first lines that the function draws from a fixed seed; checked. Raises DataError if
        the function fails, draws an invalid line, or draws different lines from the same random
        numbers, or if `check` refuses one of the lines."""
        first, again = (
            [self._line(random) for _ in range(PROBE)] for random in (Random(0), Random(0))
        )
        for line, other in zip(first, again, strict=True):
            if line.text != other.text:
                raise DataError(
                    f"{self._source}: draws {line.text!r:.60} and then {other.text!r:.60} from the "
                    "same random numbers: all randomness must come from its argument"
                )
            if not line.accepts(line.answer):
                raise DataError(f"{self._source}: its check refuses its own line {line.text!r:.60}")
            if self.alphabet is not None:
                self._check_alphabet(line)
        return first

    @property
    def _source(self) -> str:
        return f"task {self.name or getattr(self.draw, '__name__', 'of yours')}"

    def lines(self, split: str, seed: int, count: int | None = None) -> list[Line]:
        """Returns `count` lines, N_DRAWN by default, with different questions of a split: `train`,
        `val`, `test` or `all`. Returns fewer if no more are found. Raises DataError if none is
        found."""
        _check_split(split)
        check_integer("seed", seed, 0, MAX_SEED)
        if count is not None:
            check_integer("count", count, 0, MAX_LINES)
        random, lines, n_idle = Random(f"{seed} {split}"), dict[str, Line](), 0  # by prompt
        wanted = N_DRAWN if count is None else count
        while len(lines) < wanted and n_idle < MAX_IDLE:
            line = self._checked_line(random)
            n_idle += 1
            if line.prompt not in lines and split in (ALL, split_of_text(line.prompt)):
                lines[line.prompt], n_idle = line, 0
        if wanted and not lines:
            raise DataError(f"{self._source}: too few different questions for {split}")
        return list(lines.values())

    def training_lines(self, seed: int, step: int, count: int, max_length: int) -> list[Line]:
        """Returns the lines of one training step. None is held out, and none is longer than
        `max_length` characters with its `$`. The lines depend on the arguments only."""
        random, lines, n_idle = Random(f"{seed} train {step}"), list[Line](), 0
        while len(lines) < count:
            line = self._checked_line(random)
            n_idle += 1
            fits = len(line.prompt) + len(line.completion) <= max_length
            if fits and split_of_text(line.prompt) is Split.TRAIN:
                lines.append(line)
                n_idle = 0
            if n_idle == MAX_IDLE:
                raise DataError(f"{self._source}: too few questions to train on")
        return lines

    def _checked_line(self, random: Random) -> Line:
        """Returns the next line. Raises DataError if it has a character beyond the vocabulary."""
        line = self._line(random)
        self._check_alphabet(line)
        return line

    def _check_alphabet(self, line: Line) -> None:
        if unknown := set(line.text).difference(self.vocabulary):
            reason = f"{min(unknown)!r} in {line.text!r:.60} is not in its alphabet"
            if self.alphabet is None:
                reason += f", that of the first {PROBE:,} lines; Task(alphabet=...) names another"
            raise DataError(f"{self._source}: {reason}")

    def _line(self, random: Random) -> Line:
        text = self._call("draw", self.draw, random)
        if not isinstance(text, str):
            raise DataError(
                f"{self._source}: draws {type(text).__name__}, not a line such as '2+2=4'"
            )
        if reason := _why_invalid(text):
            raise DataError(f"{self._source}: the line {text!r:.60} {reason}")
        prompt, completion = _parts(text)
        if self.check is None:
            return Line(prompt, completion, "")
        return CheckedLine(prompt, completion, "", self._is_right)

    def _is_right(self, question: str, answer: str) -> bool:
        assert self.check
        return bool(self._call("check", self.check, question, answer))

    def _call(self, role: str, function: Callable[..., Any], *arguments: Any) -> Any:
        with imports_from(self.folder):
            try:
                return function(*arguments)
            except (Exception, SystemExit) as error:
                reason = described(error)
                raise DataError(f"{self._source}: its {role} failed with {reason}") from error


@dataclass(frozen=True)
class TextTask:
    """A task whose lines are in a text file."""

    name: str
    content: list[Line] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a file. Raises DataError, which names the first bad line."""
        lines: list[Line] = []
        answers: dict[str, tuple[str, int]] = {}  # question -> answer, number of its first line
        text = read_text(path, MAX_BYTES).removeprefix("\ufeff")
        if text.count("\n") > MAX_LINES:
            raise DataError(f"{path} has more than {MAX_LINES:,} lines")
        for number, row in enumerate(text.split("\n"), start=1):
            row = row.removesuffix("\r")
            if not row:
                continue
            if reason := _why_invalid(row):
                raise DataError(f"{path}, line {number}: {row!r:.40} {reason}")
            line = Line(*_parts(row), "")
            answer, first = answers.setdefault(line.prompt, (line.answer, number))
            if answer != line.answer:
                raise DataError(f"{path}, line {number}: another answer than in line {first}")
            lines.append(line)
        if len(answers) < 10:
            raise DataError(
                f"{path}: at least 10 different questions are needed, not {len(answers)}"
            )
        return cls(str(path), lines)

    @cached_property
    def vocabulary(self) -> str:
        """All characters, sorted, with `=` and `$`."""
        return _vocabulary(self.name, _text(self.content))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the lines."""
        return _sha256(self.content)

    def lines(self, split: str, seed: int, count: int | None = None) -> list[Line]:
        """Returns the lines of a split, up to `count`: `train`, `val`, `test` or `all`.

        A tenth of the questions is for validation and a tenth for test, at most N_HELD_OUT each,
        drawn from the seed. A held-out question comes once, with its first line. Training has every
        line of all other questions.
        """
        _check_split(split)
        if split == ALL:
            return self.content[:count]
        first_lines = {line.prompt: line for line in reversed(self.content)}
        questions = sorted(first_lines)
        Random(f"{seed} split").shuffle(questions)
        n = min(len(questions) // 10, N_HELD_OUT)
        held_out = {str(Split.VAL): questions[:n], str(Split.TEST): questions[n : 2 * n]}
        if split in held_out:
            return [first_lines[question] for question in held_out[split][:count]]
        trained = set(questions[2 * n :])
        return [line for line in self.content if line.prompt in trained][:count]


AnyTask: TypeAlias = Task | TextTask
TASKS: dict[str, Task] = {}  # those of plug-ins, by name
register("task", TASKS)


def load_task(reference: str) -> AnyTask:
    """Returns the task `FILE.py:NAME`, the task of a plug-in, or the task of a text file.

    NAME is a Task or a function that draws lines. The Python file is executed, with all its side
    effects. Raises ConfigError or DataError if there is no such task.
    """
    if Path(reference).name == reference and not Path(reference).exists():
        load_installed()
    if reference in TASKS:
        return replace(TASKS[reference], name=reference)
    file, _, name = reference.rpartition(":")
    if file.endswith(".py"):
        return _task_of_python(Path(file), name)
    if reference.endswith(".py"):
        raise ConfigError(f"{reference} does not name a task: write {reference}:NAME")
    return TextTask.read(Path(reference))


def _task_of_python(path: Path, name: str) -> Task:
    module, folder = run_file(path), path.resolve().parent
    with imports_from(folder), code_of(path):
        task = getattr(module, name, None)  # a module can have a __getattr__ of its own
    reference = f"{path}:{name}"
    if isinstance(task, Task):
        return replace(task, name=reference, folder=folder)
    if callable(task):
        return Task(task, name=reference, folder=folder)
    names = [
        key for key, value in vars(module).items() if isinstance(value, Task) or callable(value)
    ]
    raise ConfigError(f"{path} has no task {name!r}{did_you_mean(name, names)}")


def split_of_text(question: str) -> Split:
    """Returns the split of a question that is not an arithmetic problem, by a hash of its text."""
    return split_of_hash(int.from_bytes(blake2b(question.encode(), digest_size=8).digest()))


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ConfigError(unknown_name("split", split, SPLITS))


def _parts(text: str) -> tuple[str, str]:
    """Returns a line as prompt and completion."""
    question, _, rest = text.partition("=")
    return f"{question}=", f"{rest}{END}"


def _why_invalid(text: str) -> str | None:
    """Returns what is wrong with a line, as the end of a message; None if it is valid."""
    if len(text) > MAX_LINE:
        return f"has {len(text):,} characters; at most {MAX_LINE:,} are possible"
    if "=" not in text:
        return "has no '=' between question and answer"
    if text.startswith("="):
        return "has no question"
    if text.endswith("="):
        return "has no answer"
    if END in text:
        return f"has a {END!r}, which stands for the end of a line"
    if not text.isprintable():
        bad = next(character for character in text if not character.isprintable())
        return f"has the character {bad!a}, which cannot be printed"
    return None


def _text(lines: list[Line]) -> str:
    return "\n".join(line.text for line in lines)


def _sha256(lines: list[Line]) -> str:
    return text_sha256(_text(lines))


def _vocabulary(source: str, text: str) -> str:
    characters = {*text, "=", END} - {"\n"}
    if len(characters) > MAX_CHARACTERS:
        raise DataError(
            f"{source}: {len(characters):,} different characters; "
            f"at most {MAX_CHARACTERS} are possible"
        )
    return "".join(sorted(characters))
