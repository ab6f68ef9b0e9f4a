"""Coverage: how often a mixture draws each class of problems, and how exact a model is in each.

    python -m research.coverage RECIPE [--n N] [--digits N] [--scored FILE] \
        [--out FOLDER] [--json FILE]

The classes are those of `tools.problem_classes`. A file of scored problems has one JSON object
per line, in any order: `{"prompt": "$(0000000012+0000000003)=", "right": true}`. Other fields are
ignored.

Heat maps show both. Matplotlib comes with the extra `lab` and is imported where it is used. Sizes
are in inches.

Ran at commit 6ccd8f9 and before, as a command of `calcgpt`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import compress, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import parser, positive, run, write
from calcgpt.config import DataConfig
from calcgpt.data.problems import FreshProblems
from calcgpt.errors import ConfigError, DataError
from calcgpt.evaluation.shards import ScoredAnswer, read_scored
from calcgpt.plots import (
    HEAT_MAP,
    OPERATION_TITLES,
    PALETTE,
    draw_right_answers,
    new_figure,
    readable_on,
    save_figures,
)
from calcgpt.recipe import load_recipe
from calcgpt.statistics import wilson_interval
from calcgpt.tables import text_table
from datagen.arithmetic import Problem
from datagen.errors import NotationError
from datagen.notation import parse_prompt
from datagen.operations import SIGNS
from datagen.progress import progress_bar
from tools.problem_classes import TABLES, Axis, Counts, Table, count_classes, most_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLOCK = 16_384  # problems drawn at a time
RARE = 20_000  # a class is rare if it is drawn less than once in this many problems
MAX_SCORED = 10**7
CELL = 0.42  # side of a cell
MIN_RATE, MAX_RATE = 0.1, 1_000.0  # problems of a class in RARE: the ends of the colours
LOWEST = 0.9  # share of right answers: the low end of the colours
TEXT: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "in_layout": False}
RARE_BOX = {"facecolor": PALETTE["vermilion"], "edgecolor": "none", "pad": 1.5}


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
        """Returns what `--json` writes."""
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
        for code, operation in enumerate(SIGNS):
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
        """Returns the class whose share of right answers has the interval with the lowest upper
        end, with its `n` and `right`. Returns None if no class was scored."""
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
        yield f"{SIGNS[code]} {', '.join(filter(None, labels))}", (code, row, column)


def measure(
    recipe: str,
    data: DataConfig,
    n: int,
    seed: int,
    most_digits: int | None = None,
    scored: Path | None = None,
    progress: Callable[[int], Any] = lambda n: None,
) -> Coverage:
    """Draws `n` training problems from `data`, and counts their classes and those of a file.

    Problems with an operand of more than `most_digits` digits are not counted in any class. Calls
    `progress` with the number of problems of each block. Raises what `count_scored` raises.
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


def _is_counted(problem: Problem, max_digits: int | None) -> bool:
    return max_digits is None or most_digits(problem) <= max_digits


def scored_problems(path: Path) -> Iterator[tuple[Problem, ScoredAnswer]]:
    """Yields the problems of a file of scored problems, each with its score. Raises DataError or
    ConfigError, which names the first bad line."""
    for number, row in enumerate(read_scored(path), start=1):
        try:
            problem = parse_prompt(row.prompt)
        except NotationError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
        yield problem, row


def count_scored(path: Path, most_digits: int | None = None) -> Scored:
    """Returns the counts of a file of scored problems. Raises DataError or ConfigError, which names
    the first bad line."""
    problems, right = [], []
    for number, (problem, row) in enumerate(scored_problems(path), start=1):
        if number > MAX_SCORED:
            raise DataError(f"{path}: more than {MAX_SCORED:,} lines")
        if _is_counted(problem, most_digits):
            problems.append(problem)
            right.append(row.right)
    if not problems:
        at_most = f" whose operands have at most {most_digits} digits" if most_digits else ""
        raise DataError(f"{path} has no scored problems{at_most}")
    return Scored(path.name, count_classes(problems), count_classes(compress(problems, right)))


def draw_coverage(out: Path, coverage: Coverage) -> list[Path]:
    """Draws the coverage into the folder `out`; returns the paths.

    drawn-TABLE.png shows how often each class is drawn. If problems were scored, right-TABLE.png
    shows how many answers are right. Raises what `save_figures` raises.
    """
    figures: dict[str, Callable[[], Figure]] = {}
    for name in TABLES:
        figures[f"drawn-{name}"] = partial(_draw, coverage, name, right=False)
        if coverage.scored:
            figures[f"right-{name}"] = partial(_draw, coverage, name, right=True)
    return save_figures(out, figures)


def _draw(coverage: Coverage, name: str, right: bool) -> Figure:
    """Returns the heat maps of one table: of what was drawn, or of what was right."""
    table = TABLES[name]
    if right and coverage.scored:
        counts = np.stack([coverage.scored.n[name], coverage.scored.right[name]])
    else:
        counts = coverage.drawn[name][None]
    panels = _panels(table, counts)
    n_rows, n_columns = panels[0].counts.shape[-2:]
    width, height = max(1.6, CELL * n_columns) + 1.0, max(1.6, CELL * n_rows) + 0.8
    across = min(2 if n_columns > 3 else 4, len(panels))
    down = math.ceil(len(panels) / across)
    figure = new_figure(max(7.5, across * width + 1), down * height + 1)
    grid = figure.subplots(down, across, squeeze=False).flatten()
    for axes, panel in zip(grid, panels, strict=True):
        if right:
            n, n_right = panel.counts
            draw_right_answers(axes, n, n_right, LOWEST, TEXT)
        else:
            _draw_drawn(axes, panel.counts[0] * RARE / coverage.n)
        _label(axes, panel)
    label = "share of right answers" if right else f"problems in {RARE:,}"
    figure.colorbar(grid[0].images[0], ax=list(grid), label=label, shrink=0.7, extend="both")
    figure.suptitle(_title(coverage, table, right), parse_math=False, fontsize=11)
    return figure


@dataclass(frozen=True)
class Panel:
    """One heat map. The counts have the shape (k, rows, columns)."""

    title: str
    rows: Axis
    columns: Axis
    counts: NDArray[np.int64]


def _panels(table: Table, counts: NDArray[np.int64]) -> list[Panel]:
    """Returns a heat map for each operation, or one with a column for each if the table has one
    column. `counts` has the shape (k, 4, R, C)."""
    if len(table.columns.labels) == 1:
        columns = Axis("", tuple(OPERATION_TITLES.values()))
        return [Panel("", table.rows, columns, counts[..., 0].swapaxes(1, 2))]
    return [
        Panel(title, table.rows, table.columns, counts[:, code])
        for code, title in enumerate(OPERATION_TITLES.values())
    ]


def _draw_drawn(axes: Axes, rates: NDArray[np.float64]) -> None:
    """Draws how many of RARE problems are in each class, (rows, columns). Zero is blank."""
    from matplotlib.colors import LogNorm

    shown = np.ma.masked_where(rates == 0, rates)
    image = axes.imshow(shown, norm=LogNorm(MIN_RATE, MAX_RATE), cmap=HEAT_MAP, origin="lower")
    for (row, column), rate in np.ndenumerate(rates):
        if rate:
            text = f"{rate:.1f}" if rate < 9.95 else f"{rate:,.0f}"
            colour = readable_on(image, rate) if rate >= 1 else "white"
            style = {"bbox": RARE_BOX} if rate < 1 else {}
            axes.text(column, row, text, color=colour, **TEXT, **style)


def _label(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title)
    axes.set(xlabel=panel.columns.name, ylabel=panel.rows.name)
    axes.set_xticks(range(len(panel.columns.labels)), panel.columns.labels)
    axes.set_yticks(range(len(panel.rows.labels)), panel.rows.labels)
    axes.set_aspect("auto")


def _title(coverage: Coverage, table: Table, right: bool) -> str:
    limit = f", operands of at most {coverage.most_digits} digits" if coverage.most_digits else ""
    if right and coverage.scored:
        what = f"{coverage.scored.file}: problems, and ✗ wrong answers"
    else:
        what = f"recipe {coverage.recipe}: problems in {RARE:,} drawn; boxed: less than one"
    return f"{table.title}{limit}\n{what}"


def main() -> None:
    """Counts how often a recipe draws each class of problems in training."""
    options = parser("Count how often a recipe draws each class of problems in training.")
    options.add_argument("recipe")
    options.add_argument("--n", type=positive, default=100_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--digits", type=positive, help="operands have at most so many digits")
    options.add_argument("--scored", type=Path, help="a file of scored problems")
    options.add_argument("--out", type=Path, help="draw heat maps in this folder")
    options.add_argument("--set", action="append", default=[], help="FIELD=VALUE of the recipe")
    given = options.parse_args()
    data = load_recipe(given.recipe, given.set).data
    if data is None:
        raise ConfigError(f"the recipe {given.recipe} has no [data] section: it draws no problems")
    with progress_bar(given.n, True, unit="problem", leave=False) as bar:
        measured = measure(
            given.recipe, data, given.n, given.seed, given.digits, given.scored, bar.update
        )
    if given.out:
        print(*draw_coverage(given.out, measured), sep="\n")
    write(given.json, measured.record())
    print(measured.table())


if __name__ == "__main__":
    run(main)
