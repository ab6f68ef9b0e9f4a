"""Heat maps of a outcome: how sure a model is in the cases of each rule.

Matplotlib comes with the extra `lab` and is imported where it is used. Sizes are in inches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calcgpt.plots import HEAT_MAP, new_figure, save_figures
from research.check_rules import RuleCheck
from research.local_steps import LOCAL_STEPS, OFFSETS, QUOTIENT_CHOICE, LocalStep, leading_quotient

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NINES = 5  # the ends of the colours are 0 and so many nines: 0.99999
# The rows and columns of each map, and what is fixed.
MAPS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("digit of a sum", "A", "B", {"operation": "+"}),
    ("digit of a sum", "A", "B", {"operation": "-"}),
    ("digit of a product", "digit of B", "A", {}),
    ("carry of a product", "digit of B", "A", {}),
    ("digit of a remainder", "quotient digit", "B", {"sign": "+"}),
    ("digit of a remainder", "quotient digit", "B", {"sign": "-"}),
    ("digit of a quotient", "digit", "before", {}),
)
_STEPS = {step.name: step for step in LOCAL_STEPS}


@dataclass(frozen=True)
class Map:
    """A table of cases: the lowest probability of the right character, nan where none was tried,
    and the number of wrong cases; each (R, C)."""

    title: str
    row_name: str
    column_name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    lowest: NDArray[np.float64]
    wrong: NDArray[np.int64]


def draw_outcome(out: Path, outcome: RuleCheck) -> list[Path]:
    """Draws the heat maps into the folder `out` as NAME-rules.png; returns the path.

    Raises what `save_figures` raises.
    """
    return save_figures(out, {f"{outcome.checkpoint}-rules": lambda: _draw(outcome)})


def maps(outcome: RuleCheck) -> list[Map]:
    """Returns the tables that are drawn."""
    result = []
    for name, rows, columns, fixed in MAPS:
        step = _STEPS[name]
        lowest, wrong = _columns(outcome, step)
        names = [axis.name for axis in step.axes]
        index = tuple(
            axis.values.index(fixed[axis.name]) if axis.name in fixed else slice(None)
            for axis in step.axes
        )
        kept = [axis for axis in names if axis not in fixed]
        order = [kept.index(rows), kept.index(columns)]
        order += [i for i in range(len(kept)) if i not in order]
        tables = [t.reshape(step.shape)[index].transpose(order) for t in (lowest, wrong)]
        values = {axis.name: axis.values for axis in step.axes}
        flat = [table.reshape(*table.shape[:2], -1) for table in tables]
        title = f"{name}{''.join(f', {value}' for value in fixed.values())}"
        least, n_wrong = np.fmin.reduce(flat[0], axis=2), flat[1].sum(axis=2)
        table = Map(title, rows, columns, values[rows], values[columns], least, n_wrong)
        result.append(table)
    return [*result, _quotient_map(outcome)]


def _columns(outcome: RuleCheck, step: LocalStep) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns the lowest probability of each case of a rule, nan if it was not tried, and 1 for a
    wrong case."""
    part = slice(OFFSETS[step.name], OFFSETS[step.name] + step.size)
    tried, right = outcome.tried[part], outcome.right[part]
    lowest = np.where(tried > 0, outcome.lowest[part], np.nan)
    return lowest, (right < tried).astype(np.int64)


def _quotient_map(outcome: RuleCheck) -> Map:
    """Returns the map of quotient digits by the nearest digit and the divisor's first digit."""
    lowest, wrong = _columns(outcome, QUOTIENT_CHOICE)
    tried = np.flatnonzero(~np.isnan(lowest))
    _, leading, divisor = np.unravel_index(tried, QUOTIENT_CHOICE.shape)
    nearest = np.clip(np.rint(leading_quotient(leading, divisor)), -9, 9).astype(int)
    most = int(np.abs(nearest).max(initial=0))
    cell = nearest + most, (divisor + 100) // 100 - 1
    table = np.full((2 * most + 1, 9), np.nan)
    np.fmin.at(table, cell, lowest[tried])
    wrong_table = np.zeros(table.shape, np.int64)
    np.add.at(wrong_table, cell, wrong[tried])
    rows = tuple(str(digit) for digit in range(-most, most + 1))
    columns = tuple(str(digit) for digit in range(1, 10))
    names = ("nearest quotient digit", "first digit of the divisor")
    return Map("quotient digit", *names, rows, columns, table, wrong_table)


def _draw(outcome: RuleCheck) -> Figure:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    tables = maps(outcome)
    figure = new_figure(13, 7)
    grid = figure.subplots(2, 4).flatten()
    for axes, table in zip(grid, tables, strict=True):
        tried = ~np.isnan(table.lowest)
        rows, columns = np.flatnonzero(tried.any(axis=1)), np.flatnonzero(tried.any(axis=0))
        lowest, wrong = (part[np.ix_(rows, columns)] for part in (table.lowest, table.wrong))
        axes.set(title=table.title, ylabel=table.row_name, xlabel=table.column_name)
        if not lowest.size:
            continue
        nines = -np.log10(np.maximum(1 - lowest, 10.0**-NINES))
        axes.imshow(nines, vmin=0, vmax=NINES, cmap=HEAT_MAP, origin="lower", aspect="auto")
        for row, column in np.argwhere(wrong):
            count = f"✗{wrong[row, column]}"
            axes.text(column, row, count, ha="center", va="center", color="white", fontsize=7)
        axes.set_yticks(range(len(rows)), [table.rows[row] for row in rows])
        axes.set_xticks(range(len(columns)), [table.columns[column] for column in columns])
    label = "nines of the lowest probability of the right character"
    colours = ScalarMappable(Normalize(0, NINES), HEAT_MAP)
    figure.colorbar(colours, ax=list(grid), label=label, shrink=0.7)
    title = f"{outcome.checkpoint}: the cases of each rule, ✗ wrong ones"
    figure.suptitle(title, parse_math=False)
    return figure
