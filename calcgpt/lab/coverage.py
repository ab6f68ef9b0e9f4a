"""Coverage: how often a mixture draws each class of problems, and how exact a model is in each.

The classes are those of `datagen.problem_classes`. A file of scored problems has one JSON object a
line, in any order: `{"prompt": "$(0000000012+0000000003)=", "right": true}`. Other fields are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress, product
from pathlib import Path
from typing import Any

from calcgpt.config import DataConfig
from calcgpt.data.problems import FreshProblems
from calcgpt.errors import DataError
from calcgpt.evaluation.shards import ScoredProblem, read_scored
from calcgpt.metrics import OPERATIONS
from calcgpt.plots import wilson_interval
from calcgpt.tables import text_table
from datagen.arithmetic import Problem
from datagen.errors import NotationError
from datagen.notation import parse_prompt
from datagen.problem_classes import TABLES, Counts, count_classes, digits

BLOCK = 16_384  # problems drawn at a time
RARE = 20_000  # a class is rare if it is drawn less than once in so many problems
MAX_SCORED = 10**7


@dataclass(frozen=True)
class Scored:
    """How many problems of each class were scored, and how many answers were right."""

    file: str
    n: Counts
    right: Counts


@dataclass(frozen=True)
class Coverage:
    """How often each class is drawn in `n` problems, and how a model scored in it."""

    recipe: str
    data: DataConfig
    seed: int
    n: int
    most_digits: int | None  # of the operands; longer ones are not counted
    drawn: Counts
    scored: Scored | None

    def rare(self, name: str) -> list[str]:
        """Returns the classes of a table that are drawn less than once in RARE problems."""
        return [label for label, cell in _classes(name) if self.drawn[name][cell] * RARE < self.n]

    def record(self) -> dict[str, Any]:
        """Returns what `calcgpt coverage --json` writes."""
        return {
            "recipe": self.recipe,
            "mixture": self.data.mixture,
            "operations": self.data.operations,
            "format": self.data.format,
            "seed": self.seed,
            "drawn": self.n,
            "most_digits": self.most_digits,
            "scored": self.scored.file if self.scored else None,
            "tables": {name: self._table_record(name) for name in TABLES},
        }

    def _table_record(self, name: str) -> dict[str, Any]:
        table = TABLES[name]
        record: dict[str, Any] = {
            "title": table.title,
            "rows": {"name": table.rows.name, "labels": table.rows.labels},
            "columns": {"name": table.columns.name, "labels": table.columns.labels},
        }
        for code, operation in enumerate(OPERATIONS):
            counts: dict[str, Any] = {"drawn": self.drawn[name][code].tolist()}
            if self.scored:
                n, right = self.scored.n[name][code], self.scored.right[name][code]
                counts |= {"scored": n.tolist(), "right": right.tolist()}
                counts["interval"] = [
                    [_interval(*cell) for cell in zip(*row, strict=True)]
                    for row in zip(n.tolist(), right.tolist(), strict=True)
                ]
            record[operation] = counts
        return record

    def table(self) -> str:
        """Returns a summary for a terminal: the rare classes and the weakest one of each table."""
        header = ["", "classes", "rare", "never drawn", "weakest class", "right", "95% interval"]
        return text_table(header, [self._summary(name) for name in TABLES])

    def _summary(self, name: str) -> list[str | None]:
        drawn = self.drawn[name]
        cells = [f"{drawn.size:,}", f"{len(self.rare(name)):,}", f"{int((drawn == 0).sum()):,}"]
        weakest = self._weakest(name)
        if weakest is None:
            return [name, *cells, None, None, None]
        label, n, right = weakest
        low, high = wilson_interval(right / n, n)
        return [name, *cells, label, f"{right:,} of {n:,}", f"{low:.4f} to {high:.4f}"]

    def _weakest(self, name: str) -> tuple[str, int, int] | None:
        """Returns the class whose share of right answers is certainly lower than that of others:
        the one with the lowest upper end of the interval; with `n` and `right`."""
        if not self.scored:
            return None
        counts = (
            (label, int(self.scored.n[name][cell]), int(self.scored.right[name][cell]))
            for label, cell in _classes(name)
        )
        measured = [count for count in counts if count[1]]
        return min(measured, key=lambda c: wilson_interval(c[2] / c[1], c[1])[1], default=None)


def _interval(n: int, right: int) -> list[float] | None:
    return [round(bound, 6) for bound in wilson_interval(right / n, n)] if n else None


def _classes(name: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Yields the label and the index of each class of a table: `+ 3, 7`."""
    table = TABLES[name]
    for code, row, column in product(*map(range, table.shape)):
        labels = table.rows.labels[row], table.columns.labels[column]
        yield f"{OPERATIONS[code]} {', '.join(filter(None, labels))}", (code, row, column)


def measure(
    recipe: str,
    data: DataConfig,
    n: int,
    seed: int,
    most_digits: int | None = None,
    scored: Path | None = None,
    progress: Callable[[int], Any] = lambda n: None,
) -> Coverage:
    """Draws `n` training problems as `data` says, counts their classes, and those of a file.

    Problems with an operand of more than `most_digits` digits are not counted in any class.
    `progress` is called with the number of problems of each block. Errors as `count_scored`.
    """
    scores = count_scored(scored, most_digits) if scored else None
    fresh = FreshProblems(data, seed)
    drawn: Counts = {}
    for index in range(-(-n // BLOCK)):
        size = min(BLOCK, n - index * BLOCK)
        problems = fresh.block(index, BLOCK)[:size].to_problems()
        counts = count_classes(p for p in problems if _is_counted(p, most_digits))
        drawn = {name: drawn[name] + counts[name] for name in drawn} or counts
        progress(size)
    return Coverage(recipe, data, seed, n, most_digits, drawn, scores)


def _is_counted(problem: Problem, most_digits: int | None) -> bool:
    return most_digits is None or max(len(digits(problem.a)), len(digits(problem.b))) <= most_digits


def count_scored(path: Path, most_digits: int | None = None) -> Scored:
    """Returns the counts of a file of scored problems. Raises DataError or ConfigError, which names
    the first bad line."""
    problems, right = [], []
    for number, row in enumerate(read_scored(path, ScoredProblem), start=1):
        if number > MAX_SCORED:
            raise DataError(f"{path}: more than {MAX_SCORED:,} lines")
        try:
            problem = parse_prompt(row.prompt)
        except NotationError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
        if _is_counted(problem, most_digits):
            problems.append(problem)
            right.append(row.right)
    if not problems:
        raise DataError(f"{path} has no scored problems")
    return Scored(path.name, count_classes(problems), count_classes(compress(problems, right)))
