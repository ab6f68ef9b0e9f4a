"""Heat maps of coverage: how often each class is drawn, and how exact a model is in it.

Matplotlib comes with the extra `lab` and is imported where it is used. Sizes are in inches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calcgpt.lab.coverage import RARE, Coverage
from calcgpt.plots import HEAT_MAP, OPERATIONS, PALETTE, new_figure, save_figures, short_count
from datagen.problem_classes import TABLES, Axis, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

CELL = 0.42  # side of a cell
LEAST, MOST = 0.1, 1_000.0  # problems of a class in RARE: the ends of the colours
LOWEST = 0.9  # share of right answers: the low end of the colours
TEXT: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "in_layout": False}
RARE_BOX = {"facecolor": PALETTE["vermilion"], "edgecolor": "none", "pad": 1.5}


def draw_coverage(out: Path, coverage: Coverage) -> list[Path]:
    """Draws the coverage into the folder `out`; returns the paths. Errors as `save_figures`.

    drawn-TABLE.png shows how often each class is drawn, right-TABLE.png, if problems were scored,
    how many answers are right.
    """

    def figures() -> Iterator[tuple[str, Figure]]:
        for name in TABLES:
            yield f"drawn-{name}", _draw(coverage, name, right=False)
            if coverage.scored:
                yield f"right-{name}", _draw(coverage, name, right=True)

    return save_figures(out, figures())


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
            _draw_right(axes, *panel.counts)
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
        columns = Axis("", tuple(OPERATIONS.values()))
        return [Panel("", table.rows, columns, counts[..., 0].swapaxes(1, 2))]
    return [
        Panel(title, table.rows, table.columns, counts[:, code])
        for code, title in enumerate(OPERATIONS.values())
    ]


def _draw_drawn(axes: Axes, rates: NDArray[np.float64]) -> None:
    """Draws how many of RARE problems are in each class, (rows, columns); none: blank."""
    from matplotlib.colors import LogNorm

    shown = np.ma.masked_where(rates == 0, rates)
    image = axes.imshow(shown, norm=LogNorm(LEAST, MOST), cmap=HEAT_MAP, origin="lower")
    for (row, column), rate in np.ndenumerate(rates):
        if rate:
            text = f"{rate:.1f}" if rate < 9.95 else f"{rate:,.0f}"
            colour = _contrast(image, rate) if rate >= 1 else "white"
            style = {"bbox": RARE_BOX} if rate < 1 else {}
            axes.text(column, row, text, color=colour, **TEXT, **style)


def _draw_right(axes: Axes, n: NDArray[np.int64], right: NDArray[np.int64]) -> None:
    """Draws the share of right answers in each class, (rows, columns); not scored: blank."""
    shares = right / np.maximum(n, 1)
    shown = np.ma.masked_where(n == 0, shares)
    image = axes.imshow(shown, vmin=LOWEST, vmax=1, cmap=HEAT_MAP, origin="lower")
    for row, column in np.argwhere(n):
        wrong = n[row, column] - right[row, column]
        text = short_count(n[row, column]) + (f"\n✗{short_count(wrong)}" if wrong else "")
        axes.text(column, row, text, color=_contrast(image, shares[row, column]), **TEXT)


def _contrast(image: AxesImage, value: float) -> str:
    """Returns a colour that can be read on that of a value."""
    (place,) = np.asarray(image.norm(np.array([value])), np.float64)
    return "black" if place > 0.55 else "white"


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
