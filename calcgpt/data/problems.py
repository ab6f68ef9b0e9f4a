"""Training problems that are drawn as they are needed, without files.

They come in blocks. A block is a pure function of the config, the seed, its index and its size, so
a resumed run that begins in the middle of one draws it again as it was. Only problems that a file
of training problems could hold are drawn (`datagen.splits`): none is a validation or test problem
of any seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.random import BitGenerator
from numpy.typing import NDArray

from calcgpt.config import DataConfig
from calcgpt.data.batches import Batch, BatchSource, ProblemLines
from calcgpt.data.tokenizer import Tokenizer
from calcgpt.errors import DataError
from datagen.arithmetic import OPERATIONS, ProblemArray
from datagen.distributions import distribution
from datagen.drawing import bit_generator
from datagen.errors import NotationError
from datagen.files import read_text
from datagen.formats import line_format
from datagen.notation import parse_answer, parse_prompt
from datagen.splits import Split, belongs, problem_hashes

DRAWING = 1  # to be raised by whatever changes the problems that a config stands for
BLOCK = 16_384  # problems, about: some hundred batches, made in some 50 ms
_PROBE = 4 * BLOCK  # problems that are looked at before a run begins
_ROUND = 16_384  # problems of one distribution drawn at a time
_PATIENCE = 64  # rounds in a row that may bring nothing
# Streams of the seed; those before belong to the files of datagen, one for each split.
_CHOICES = len(Split)
_FIRST_DISTRIBUTION = _CHOICES + 1


@dataclass(frozen=True)
class Line:
    """A problem as it stands in a file, cut where the model takes over."""

    prompt: str  # up to and including the first `=`
    field: str  # the true answer field: after the last `=`, with the closing `$`
    operation: str


def split_line(text: str) -> Line:
    """Cut one problem; raises NotationError where it is none."""
    prompt = text[: text.find("=") + 1]
    problem = parse_prompt(prompt or text)
    field = text.rpartition("=")[2]
    start = len(text) - len(field)
    if not field.endswith("$"):
        raise NotationError("the closing '$' is missing", len(text))
    try:
        parse_answer(field[:-1])
    except NotationError as error:
        raise NotationError("not an answer", start + error.position) from None
    return Line(prompt, field, problem.op.value)


def read_problems(path: Path, limit: int | None = None) -> list[Line]:
    """The problems of a file, one a line; raises DataError naming the first bad line."""
    lines = []
    for number, text in enumerate(read_text(path).splitlines()[:limit], start=1):
        try:
            lines.append(split_line(text))
        except NotationError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
    return lines


class FreshProblems:
    """The problems that a config and a seed stand for."""

    def __init__(self, config: DataConfig, seed: int) -> None:
        self.seed = seed
        self.format = line_format(config.format, config.digits)
        self.names = sorted(config.mixture)
        self.validation = config.validation
        self._mixture = np.array([config.mixture[name] for name in self.names])
        self._operations = np.array(
            [config.operations[operation.value] for operation in OPERATIONS]
        )

    def block(self, index: int, size: int) -> ProblemArray:
        """`size` training problems, independent of each other and of every other block.

        Raises DataError where a distribution of the mixture hardly ever has an operation.
        """
        choices = bit_generator(self.seed, _CHOICES, index)
        source = _choose(choices, self._mixture, size)
        operation = _choose(choices, self._operations, size)
        kinds = source * len(OPERATIONS) + operation
        counts = np.bincount(kinds, minlength=len(self.names) * len(OPERATIONS))
        drawn = [
            piece
            for place, wanted in enumerate(counts.reshape(len(self.names), -1))
            for piece in self._draw(place, index, wanted)
        ]
        # They are drawn kind by kind; each goes where its kind was chosen.
        places = np.empty(size, np.intp)
        places[np.argsort(kinds, kind="stable")] = np.arange(size)
        return _joined(drawn).take(places)

    def _draw(self, place: int, index: int, wanted: NDArray[np.int64]) -> list[ProblemArray]:
        """Training problems of one distribution, `wanted` of each operation, (4,), in order."""
        draw = distribution(self.names[place])
        bits = bit_generator(self.seed, _FIRST_DISTRIBUTION + place, index)
        found: list[list[ProblemArray]] = [[] for _ in OPERATIONS]
        missing, idle = wanted.copy(), 0
        while missing.any():
            before = missing.sum()
            for problems in draw(bits, _ROUND):
                usable = self._usable(problems, Split.TRAIN)
                for code in np.flatnonzero(missing):
                    rows = np.flatnonzero(usable & (problems.op == code))[: missing[code]]
                    found[code].append(problems.take(rows))
                    missing[code] -= len(rows)
            idle = idle + 1 if missing.sum() == before else 0
            if idle == _PATIENCE:
                operation = OPERATIONS[int(missing.argmax())].value
                raise DataError(
                    f"the distribution {self.names[place]!r} has too few training problems "
                    f"with {operation!r}"
                )
        return [piece for pieces in found for piece in pieces]

    def held_out(self, count: int) -> ProblemArray:
        """The first `count` validation problems, none twice; fewer, if the distribution has not so
        many. Raises DataError if it has none."""
        draw = distribution(self.validation)
        stream = list(Split).index(Split.VAL)
        kept: dict[int, None] = {}  # hashes of what was taken, for none to come twice
        found: list[ProblemArray] = []
        round_, last_new = 0, 0
        while len(kept) < count and round_ - last_new < _PATIENCE:
            for problems in draw(bit_generator(self.seed, stream, round_), _ROUND):
                hashes = problem_hashes(problems).tolist()
                rows = []
                for row in np.flatnonzero(self._usable(problems, Split.VAL)).tolist():
                    if hashes[row] not in kept and len(kept) < count:
                        kept[hashes[row]] = None
                        rows.append(row)
                found.append(problems.take(np.array(rows, np.intp)))
                last_new = round_ if rows else last_new
            round_ += 1
        if not kept:
            raise DataError(f"the distribution {self.validation!r} has no validation problems")
        return _joined(found)

    def _usable(self, problems: ProblemArray, split: Split) -> NDArray[np.bool_]:
        """Which of these belong to a split and can be written; (n,)."""
        return belongs(problem_hashes(problems), split) & self.format.fits(problems)

    def text(self, problems: ProblemArray) -> str:
        """Problems in the config's format, each with its newline."""
        return self.format.render_lines(problems).decode("ascii")


class FreshBatches(BatchSource):
    """Fresh problems, one a row; a block of them is kept for the steps that share it.

    Raises DataError where the context is too short for them. A problem so rarely long that none
    like it was met before the run began is left out: no run ends over it.
    """

    def __init__(self, problems: FreshProblems, tokenizer: Tokenizer, block_size: int) -> None:
        self.problems, self.tokenizer, self.block_size = problems, tokenizer, block_size
        self._key = 0, _PROBE
        text = problems.text(problems.block(*self._key))
        self._lines = ProblemLines(text, tokenizer, block_size)

    def batch(self, step: int, size: int) -> Batch:
        steps = max(1, BLOCK // size)  # that share a block
        key = (step // steps, steps * size)
        if key != self._key:
            self._lines, self._key = self._block(*key), key
        return self._lines.batch(np.arange(size) + step % steps * size)

    def _block(self, index: int, size: int) -> ProblemLines:
        lines = self.problems.text(self.problems.block(index, size)).splitlines()
        fitting = [line for line in lines if len(line) <= self.block_size + 1]
        fitting += fitting[: size - len(fitting)]  # in place of those left out
        return ProblemLines("\n".join(fitting), self.tokenizer, self.block_size)


def _choose(bits: BitGenerator, weights: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """`count` indices of `weights`, each with its share of probability; (count,)."""
    uniform = (bits.random_raw(count) >> np.uint64(11)) * 2.0**-53
    bounds = np.cumsum(weights)
    return np.searchsorted(bounds / bounds[-1], uniform, side="right")


def _joined(pieces: Sequence[ProblemArray]) -> ProblemArray:
    """All problems of `pieces`, in order."""
    columns = [field.name for field in fields(ProblemArray)]
    return ProblemArray(*(np.concatenate([getattr(p, name) for p in pieces]) for name in columns))
