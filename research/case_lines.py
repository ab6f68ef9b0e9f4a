"""Lines for the outcome of a model: problems, with their work, that have cases of rules which
need more contexts (`research.check_rules`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calcgpt.errors import DataError
from datagen.distributions import distribution
from datagen.notation import WIDTH, render_prompt
from datagen.parallel import make_map
from datagen.sampling import bit_generator
from datagen.work import render
from research.line_cases import line_cases
from research.local_steps import LOCAL_STEPS, N_CASES, OFFSETS, SAMPLED, Ints, LocalStep

# Where problems come from, in turns: distributions, and shapes that have many cases.
SOURCES = (
    *("wide-12", "tricky-12", "hard", "everyday", "wide-12", "tricky-5", "hard", "blog"),
    *("$(111111111111+111111111111)=", "$(111111111111-111111111111)="),
    *("$(111111111111+111111111111)=", "$(111111111111-111111111111)="),
    *("$(1111111.11111*1111111.11111)=", "$(1111111111.11/111111111111)="),
    *("$3(0000111.11*0000111.11)=", "$(0000001111/0000000111)=", "$1(011.111111/0000000111)="),
    *("$1(0000111.11+0000111.11)=", "$1(0000111.11-0000111.11)="),
)
STREAM = 20_000  # of the seed: no data set, no training and no test set uses it
BLOCK = 500  # problems that are drawn together
VARIANTS = 10  # of a distribution's problem: the same shape with other digits


def draw_lines(seed: int, block: int) -> list[bytes]:
    """Returns a block of problems with their work.

    In every other round of the SOURCES, a quarter of the quotient digits are the second nearest. A
    model may write such digits, and the steps after them must be right too.
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
            for step, part in by_step(self.counts)
            if step.name not in SAMPLED
        )


def by_step(column: NDArray[Any]) -> Iterator[tuple[LocalStep, NDArray[Any]]]:
    """Yields each step, and its part of an array over all cases, (N_CASES,)."""
    for step in LOCAL_STEPS:
        start = OFFSETS[step.name]
        yield step, column[start : start + step.size]


_IS_SAMPLED = np.zeros(N_CASES, bool)
for _step, _part in by_step(_IS_SAMPLED):
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
    compute = make_map("local", workers)
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
