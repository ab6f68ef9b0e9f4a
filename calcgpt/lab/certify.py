"""The certificate of a model: whether it writes what the rules say in every case of every rule.

A rule of worked steps reads a few characters, so that it has a limited number of cases
(`datagen.local_steps`). Each position of a problem's work at which a case occurs is a context of
the case. Problems are drawn, and kept if they have a case that needs more contexts. The model reads
their correct work and predicts each character from those before it. A case is certified if it has
enough contexts and the prediction is right in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calcgpt.checkpoint import Checkpoint
from calcgpt.data.batches import ProblemLines
from calcgpt.errors import ConfigError, DataError
from calcgpt.evaluation.shards import load_for_scoring
from calcgpt.inference.drafts import Reading, read_lines
from calcgpt.inference.generate import log_softmax
from calcgpt.tables import text_table
from datagen.distributions import distribution
from datagen.line_cases import line_cases, quotient_choices
from datagen.local_steps import (
    LOCAL_STEPS,
    N_CASES,
    OFFSETS,
    SAMPLED,
    LocalStep,
)
from datagen.notation import WIDTH, render_prompt
from datagen.sampling import bit_generator
from datagen.work import render
from datagen.workers import make_engine

# Where problems come from, in turns: distributions, and shapes that have many cases.
SOURCES = (
    *("wide-12", "corner", "hard", "everyday", "wide-12", "edge", "hard", "blog"),
    *("$(111111111111+111111111111)=", "$(111111111111-111111111111)="),
    *("$(111111111111+111111111111)=", "$(111111111111-111111111111)="),
    *("$(1111111.11111*1111111.11111)=", "$(1111111111.11/111111111111)="),
    *("$3(0000111.11*0000111.11)=", "$(0000001111/0000000111)=", "$1(011.111111/0000000111)="),
    *("$1(0000111.11+0000111.11)=", "$1(0000111.11-0000111.11)="),
)
STREAM = 20_000  # of the seed: no data set, no training and no test set uses it
BLOCK = 500  # problems that are drawn together
VARIANTS = 10  # of a distribution's problem: the same shape with other digits
SHARD = 200  # lines that are read together
MAX_SHOWN = 20  # wrong positions of a rule in the record

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def draw_lines(seed: int, block: int) -> list[bytes]:
    """Returns a block of problems with their work.

    In every other round of the SOURCES, a quarter of the quotient digits are the second nearest. A
    model may write these, and what follows must then be right, too.
    """
    round_, source = divmod(block, len(SOURCES))
    rng = Generator(bit_generator(seed, STREAM + 1, block))
    name = SOURCES[source]
    if name.startswith("$"):
        prompts = [_variant(name, rng) for _ in range(BLOCK)]
    else:
        bits = bit_generator(seed, STREAM, block)
        [problems] = distribution(name)(bits, BLOCK // VARIANTS)
        prompts = [
            _variant(prompt, rng) if index else prompt
            for prompt in map(render_prompt, problems.to_problems())
            for index in range(VARIANTS)
        ]
    words = rng.integers(2**64, size=len(prompts), dtype=np.uint64) if round_ % 2 else None
    return render([prompt.encode("ascii") for prompt in prompts], words)


def _variant(prompt: str, rng: Generator) -> str:
    """Returns a prompt of the same shape: zeros at the ends of an operand stay, other digits are
    drawn. A quarter of the operands have only nines and zeros between their ends."""
    text = np.frombuffer(prompt.encode("ascii"), np.uint8).copy()
    op = next(i for i, c in enumerate(prompt) if i >= prompt.index("(") + WIDTH and c in "+-*/")
    for part in (slice(prompt.index("(") + 1, op), slice(op + 1, len(prompt) - 2)):
        operand = text[part]
        digits = np.flatnonzero((operand > ord("0")) & (operand <= ord("9")))
        if not len(digits):
            continue
        inner = np.arange(digits[0], digits[-1])
        inner = inner[operand[inner] != ord(".")]
        drawn = rng.integers(10, size=len(inner))
        operand[inner] = ord("0") + (drawn // 5 * 9 if rng.integers(4) == 0 else drawn)
        operand[digits[[0, -1]]] = ord("1") + rng.integers(9, size=2)
    return text.tobytes().decode("ascii")


class LineCases(NamedTuple):
    """A line, and its cases without repetition. Sampled cases are left out."""

    line: bytes
    cases: Ints


def draw_cases(seed: int, block: int) -> list[LineCases]:
    """Returns the lines of `draw_lines` with their cases."""
    lines = draw_lines(seed, block)
    cases = (np.unique(cases[~_IS_SAMPLED[cases]]) for cases in line_cases(lines))
    return [*map(LineCases, lines, cases)]


@dataclass
class CaseCounter:
    """How many contexts each case has, and which cases need more."""

    contexts: int
    counts: Ints = field(default_factory=lambda: np.zeros(N_CASES, np.int64))

    def select(self, drawn: Iterable[LineCases]) -> list[bytes]:
        """Returns the lines that have a case that needs more contexts, and counts their cases."""
        chosen = []
        for line, cases in drawn:
            if (self.counts[cases] < self.contexts).any():
                self.counts[cases] += 1
                chosen.append(line)
        return chosen

    def missing(self) -> int:
        """Returns how many possible cases have too few contexts."""
        return sum(
            int((step.possible(part > 0) & (part < self.contexts)).sum())
            for step, part in _parts(self.counts)
            if step.name not in SAMPLED
        )


def _parts(column: NDArray[Any]) -> Iterator[tuple[LocalStep, NDArray[Any]]]:
    for step in LOCAL_STEPS:
        start = OFFSETS[step.name]
        yield step, column[start : start + step.size]


_IS_SAMPLED = np.zeros(N_CASES, bool)
for _step, _part in _parts(_IS_SAMPLED):
    _part[:] = _step.name in SAMPLED


def choose_lines(
    contexts: int,
    max_problems: int,
    max_length: int,
    seed: int,
    *,
    workers: int | None = None,
    progress: Callable[[int], Any] = lambda n: None,
) -> tuple[list[bytes], int]:
    """Draws up to `max_problems` problems until `contexts` of them have each possible case.

    Returns the lines that are worth reading, and how many were drawn. Leaves out lines longer than
    `max_length`. Draws in `workers` processes, by default in a thread. Calls `progress` with
    numbers of problems. Raises DataError if no line is short enough.
    """
    counter, chosen, n_drawn = CaseCounter(contexts), list[bytes](), 0
    compute = make_engine("local", workers)
    n_block = max_problems  # at most: each block has a problem
    with closing(compute(partial(draw_cases, seed), range(n_block))) as blocks:
        for block, drawn in enumerate(blocks, 1):
            drawn = drawn[: max_problems - n_drawn]
            chosen += counter.select(item for item in drawn if len(item.line) <= max_length)
            n_drawn += len(drawn)
            progress(len(drawn))
            complete = block % len(SOURCES) == 0 and not counter.missing()
            if complete or n_drawn == max_problems:
                break
    if not chosen:
        raise DataError(f"no problem fits in the model's context, {max_length - 1} characters")
    return chosen, n_drawn


class WrongPrediction(NamedTuple):
    """A position at which a model would write a wrong character."""

    case: int
    line: str
    position: int  # in the line
    written: str


@dataclass(frozen=True)
class ReadCases:
    """The cases at the positions of some lines, and how probable the right characters are there."""

    cases: Ints
    right: Flags
    probability: NDArray[np.float32]
    wrong: list[WrongPrediction]


@dataclass(frozen=True)
class CaseReader:
    """A function from lines to their cases that can be sent to other processes."""

    checkpoint: Path
    engine: str
    threads: int | None

    def __call__(self, lines: Sequence[bytes]) -> ReadCases:
        checkpoint, decoder = load_for_scoring(self.checkpoint, "cpu", self.engine, self.threads)
        tokenizer = checkpoint.tokenizer.require_characters()
        tokens = ProblemLines(b"".join(line + b"\n" for line in lines), tokenizer)
        digits = tokenizer.encode("0123456789").astype(np.int64)
        cases = line_cases(lines)
        parts: list[tuple[Ints, Flags, NDArray[np.float32]]] = []
        wrong: list[WrongPrediction] = []
        for reading in read_lines(decoder, tokens):
            rows = reading.rows.tolist()
            right, probability = check_reading(reading, [lines[row] for row in rows], digits)
            part = np.concatenate([cases[row] for row in rows])
            parts.append((part, right, probability))
            written, end = tokenizer.decode(reading.logits_NV.argmax(axis=1)), 0
            for row, count in zip(rows, reading.counts, strict=True):
                start, end = end, end + count
                for index in np.flatnonzero(~right[start:end]).tolist():
                    position = len(lines[row]) - count + index
                    character = written[start + index]
                    case = int(part[start + index])
                    wrong.append(WrongPrediction(case, lines[row].decode(), position, character))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return ReadCases(columns[0], columns[1], columns[2], wrong)


def check_reading(
    reading: Reading, lines: Sequence[bytes], digits: Ints
) -> tuple[Flags, NDArray[np.float32]]:
    """Returns whether the most probable character is right at each position, (N,), and the
    probability of the right one, (N,). Several digits of a quotient can be right: all that leave
    less than the divisor."""
    probability_NV = np.exp(log_softmax(reading.logits_NV))
    chosen_N = reading.logits_NV.argmax(axis=1)
    right_N = chosen_N == reading.targets_N
    probability_N = probability_NV[np.arange(len(chosen_N)), reading.targets_N]
    start = 0
    for line, count in zip(lines, reading.counts, strict=True):
        for position, valid in quotient_choices(line):
            index, ids = start + position, digits[valid]
            right_N[index] = chosen_N[index] in ids
            probability_N[index] = probability_NV[index, ids].sum()
        start += count
    return right_N, probability_N


@dataclass(frozen=True)
class Certificate:
    """How often each case was tried and right, and the lowest probability of the right character;
    each (N_CASES,)."""

    checkpoint: str
    seed: int
    contexts: int  # that a case needs
    drawn: int  # problems
    lines: int  # that were read
    tried: Ints
    right: Ints
    lowest: NDArray[np.float64]
    wrong: list[WrongPrediction]

    def table(self) -> str:
        """Returns the summary of each rule for a terminal."""
        header = ["rule", "cases", "tried", "certified", "wrong", "positions", "lowest"]
        rows = []
        for summary in self.summaries():
            cells = [summary[key] for key in ("cases", "tried", "certified", "wrong", "places")]
            name = f"{summary['rule']}{' (sampled)' if summary['sampled'] else ''}"
            lowest = "" if summary["lowest"] is None else f"{summary['lowest']:.4f}"
            rows.append([name, *(f"{cell:,}" for cell in cells), lowest])
        return text_table(header, rows)

    def summaries(self) -> list[dict[str, Any]]:
        """Returns a summary of each rule.

        `cases` are those that can occur, of which `tried` were read in any context, `certified` in
        enough of them and right in all, and `wrong` in some. A sampled rule needs one context.
        `places` are all contexts of its cases, `lowest` the least probability of the right
        character in any, None if there is none.
        """
        result = []
        columns = (self.tried, self.right, self.lowest)
        for (step, tried), (_, right), (_, lowest) in zip(*map(_parts, columns), strict=True):
            needed = 1 if step.name in SAMPLED else self.contexts
            result.append(
                {
                    "rule": step.name,
                    "sampled": step.name in SAMPLED,
                    "cases": int(step.possible(tried > 0).sum()),
                    "tried": int((tried > 0).sum()),
                    "certified": int(((tried >= needed) & (right == tried)).sum()),
                    "wrong": int((right < tried).sum()),
                    "places": int(tried.sum()),
                    "wrong_places": int((tried - right).sum()),
                    "lowest": float(lowest.min()) if tried.any() else None,
                }
            )
        return result

    def record(self) -> dict[str, Any]:
        """Returns what `calcgpt certify --json` writes."""
        rules = self.summaries()
        for summary, step in zip(rules, LOCAL_STEPS, strict=True):
            first = OFFSETS[step.name]
            wrong = [w for w in self.wrong if first <= w.case < first + step.size]
            summary["wrong_at"] = [
                {
                    "case": step.describe(prediction.case - first),
                    "line": prediction.line,
                    "position": prediction.position,
                    "written": prediction.written,
                }
                for prediction in wrong[:MAX_SHOWN]
            ]
            summary["not_tried"] = [step.describe(case) for case in self._not_tried(step)]
        return {
            "checkpoint": self.checkpoint,
            "seed": self.seed,
            "contexts": self.contexts,
            "drawn": self.drawn,
            "lines": self.lines,
            "rules": rules,
        }

    def _not_tried(self, step: LocalStep) -> list[int]:
        if step.name in SAMPLED:
            return []
        start = OFFSETS[step.name]
        tried = self.tried[start : start + step.size] > 0
        return [int(case) for case in np.flatnonzero(step.possible(tried) & ~tried)[:MAX_SHOWN]]


def certify(
    checkpoint: Checkpoint,
    folder: Path,
    lines: Sequence[bytes],
    *,
    drawn: int,
    seed: int,
    contexts: int,
    engine: str = "auto",
    workers: int | None = None,
    progress: Callable[[int], Any] = lambda n: None,
) -> Certificate:
    """Lets the model of a checkpoint read the lines of `choose_lines`.

    The model runs in `workers` processes with one thread each, by default in this process. Calls
    `progress` with numbers of lines.
    """
    tried, right = np.zeros(N_CASES, np.int64), np.zeros(N_CASES, np.int64)
    lowest, wrong = np.ones(N_CASES), list[WrongPrediction]()
    shards = [lines[start : start + SHARD] for start in range(0, len(lines), SHARD)]
    read = CaseReader(folder, engine, 1 if workers else None)
    compute = make_engine("local", workers)
    with closing(compute(read, shards)) as results:
        for shard, result in zip(shards, results, strict=True):
            np.add.at(tried, result.cases, 1)
            np.add.at(right, result.cases, result.right)
            np.minimum.at(lowest, result.cases, result.probability)
            wrong += result.wrong
            progress(len(shard))
    return Certificate(
        checkpoint.name, seed, contexts, drawn, len(lines), tried, right, lowest, wrong
    )


def check_certifiable(checkpoint: Checkpoint) -> None:
    """Raises ConfigError unless the model writes worked steps."""
    if not checkpoint.recipe.has_work:
        raise ConfigError(
            f"{checkpoint.name} does not write worked steps: only these have rules whose cases can "
            "be counted"
        )
