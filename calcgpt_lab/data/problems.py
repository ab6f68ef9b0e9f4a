"""Problems as lines of text, and training problems that are drawn without files; without torch.

Fresh problems come in blocks. A block depends on the config, the seed, its index and its size only,
so a resumed run that starts in the middle of a block draws the same block again. Only problems that
a training file could hold are drawn (`datagen.splits`): never a validation or test problem of any
seed.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import BitGenerator
from numpy.typing import NDArray

from calcgpt.base.errors import DataError, NotationError, as_path, check_integer
from calcgpt.base.files import read_text, text_sha256
from calcgpt.base.plugins import look_up
from calcgpt.config import DataConfig
from calcgpt_lab.data.plan import held_out_problems
from datagen.arithmetic import ProblemArray, concatenate
from datagen.distributions import DISTRIBUTIONS, distribution
from datagen.formats import FORMATS
from datagen.notation import parse_answer, parse_prompt
from datagen.operations import OPERATIONS
from datagen.sampling import bit_generator
from datagen.splits import Split, is_in_split, problem_hashes

DRAWING_VERSION = 1  # a version: raise it with every change of the problems that a config gives
_ROUND = 16_384  # problems of one distribution that are drawn at a time
_MAX_IDLE_ROUNDS = 64  # rounds in a row that may bring no new problem
# Streams of the seed. The streams with lower numbers belong to the files of datagen, one per split.
_CHOICES = len(Split)
_FIRST_DISTRIBUTION = _CHOICES + 1


@dataclass(frozen=True)
class Line:
    """A problem of a file, split where the model begins to write."""

    prompt: str  # up to and including the first `=`
    completion: str  # the rest: work, if there is any, and answer
    operation: str  # empty for a line of a user's own task

    @property
    def text(self) -> str:
        """The line without its closing `$`."""
        return f"{self.prompt}{self.completion[:-1]}"

    @property
    def answer(self) -> str:
        """The true answer field: what follows the last `=`, with the closing `$`."""
        return self.completion.rpartition("=")[2]

    def accepts(self, answer: str) -> bool:
        """Whether an answer field, with its `$`, is right."""
        return answer == self.answer


def split_line(text: str) -> Line:
    """Splits one line. Raises NotationError if it is not a problem."""
    prompt = text[: text.find("=") + 1]
    problem = parse_prompt(prompt or text)
    field = text.rpartition("=")[2]
    start = len(text) - len(field)
    if not field.endswith("$"):
        raise NotationError("the closing '$' is missing", len(text))
    try:
        parse_answer(field[:-1], problem.places)
    except NotationError as error:
        raise NotationError("not an answer", start + error.position) from None
    return Line(prompt, text[len(prompt) :], problem.op)


def read_problems(path: str | Path, limit: int | None = None) -> list[Line]:
    """Returns the problems of a file, or the first `limit`. Raises DataError, which names the first
    bad line, or if `limit` is below 1."""
    return read_hashed_problems(as_path("path", path), limit)[0]


def read_hashed_problems(path: Path, limit: int | None = None) -> tuple[list[Line], str]:
    """Returns what `read_problems` returns, and the SHA-256 of the file, which is read once."""
    if limit is not None:
        check_integer("limit", limit, 1, 10**9)
    if path.is_dir():
        raise DataError(f"{path} is a folder: name a file in it, such as {path / 'test.txt'}")
    content = read_text(path)
    lines = []
    for number, text in enumerate(content.splitlines()[:limit], start=1):
        try:
            lines.append(split_line(text))
        except NotationError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
    return lines, text_sha256(content)


class FreshProblems:
    """The problems that a config and a seed determine."""

    def __init__(self, config: DataConfig, seed: int) -> None:
        self.config, self.seed = config, seed
        self._render_lines = look_up(FORMATS, config.format, "format")
        self.names = sorted(config.mixture, key=list(DISTRIBUTIONS).index)
        self.validation = config.validation
        self._mixture = np.array([config.mixture[name] for name in self.names])
        self._operations = np.array([config.operations[operation] for operation in OPERATIONS])

    def block(self, index: int, size: int) -> ProblemArray:
        """Returns `size` training problems, independent of each other and of all other blocks.

        Raises DataError if a distribution of the mixture hardly ever gives one of the operations.
        """
        choices = bit_generator(self.seed, _CHOICES, index)
        distributions = _choose(choices, self._mixture, size)
        kinds = distributions * len(OPERATIONS) + _choose(choices, self._operations, size)
        counts = np.bincount(kinds, minlength=len(self.names) * len(OPERATIONS))
        parts = [
            part
            for number, n_missing in enumerate(counts.reshape(len(self.names), -1))
            for part in self._draw(number, index, n_missing)
        ]
        # Problems are drawn kind by kind. Each goes to a row for which its kind was chosen.
        order = np.empty(size, np.intp)
        order[np.argsort(kinds, kind="stable")] = np.arange(size)
        return concatenate(parts).take(order)

    def _draw(self, number: int, index: int, counts: NDArray[np.int64]) -> list[ProblemArray]:
        """Returns training problems of one distribution, `counts` of each operation, (4,)."""
        name = self.names[number]
        draw = distribution(name)
        bits = bit_generator(self.seed, _FIRST_DISTRIBUTION + number, index)
        drawn: list[list[ProblemArray]] = [[] for _ in OPERATIONS]
        missing, n_idle = counts.copy(), 0
        while missing.any():
            before = missing.sum()
            for problems in draw(bits, _ROUND):
                usable = is_in_split(problem_hashes(problems), Split.TRAIN)
                for code in np.flatnonzero(missing):
                    rows = np.flatnonzero(usable & (problems.op == code))[: missing[code]]
                    drawn[code].append(problems.take(rows))
                    missing[code] -= len(rows)
            n_idle = n_idle + 1 if missing.sum() == before else 0
            if n_idle == _MAX_IDLE_ROUNDS:
                operation = OPERATIONS[int(missing.argmax())]
                raise DataError(
                    f"the distribution {name!r} has too few training problems with {operation!r}"
                )
        return [part for parts in drawn for part in parts]

    def validation_problems(self, count: int) -> ProblemArray:
        """Returns the first `count` validation problems, all different, or fewer if the
        distribution has no more. Operations of weight 0 are left out. Raises DataError if the
        distribution has no validation problems."""
        allowed = self._operations > 0
        drawn = held_out_problems(self.validation, self.seed, Split.VAL, count, _ROUND, allowed)
        parts = list(drawn)
        if not any(map(len, parts)):
            raise DataError(f"the distribution {self.validation!r} has no validation problems")
        return concatenate(parts)

    def render(self, problems: ProblemArray) -> bytes:
        """Returns the problems in the config's format, each line with its newline, in ASCII."""
        return self._render_lines(problems)


def _choose(bits: BitGenerator, weights: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Returns `count` indices of `weights`, drawn in proportion to them; (count,)."""
    uniform = (bits.random_raw(count) >> np.uint64(11)) * 2.0**-53
    bounds = np.cumsum(weights)
    return np.searchsorted(bounds / bounds[-1], uniform, side="right")
