"""Plots: one style for the whole project, and the plots of runs and evaluation records.

Matplotlib comes with the extra `lab` and is imported where it is used. The palette is that of
Okabe and Ito (2008), which works for every kind of colour vision, without its yellow, which is hard
to see on white. Heat maps use viridis. Figure sizes are in inches.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calcgpt.base.errors import DataError
from calcgpt.base.extras import require
from calcgpt.base.files import write_bytes
from calcgpt_lab.records import (
    Curves,
    Lengths,
    Point,
    Record,
    read_curves,
    read_record,
    wilson_interval,
)
from datagen.operations import OPERATIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

PALETTE = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
}
LINE_STYLES: list[Any] = ["-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5))]
MARKERS = "osD^vPX*<>h"  # 11 is prime to 7 colours: the first 77 series get distinct pairs
HEAT_MAP = "viridis"
CELL = 0.52  # inches, of a heat map with counts
MAX_PANEL = 11.0  # inches: heat maps with more cells have smaller ones, without counts
RC_PARAMS: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "savefig.dpi": 150,
}
# A legend's position.
LEGEND_OUTSIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)}

OPERATION_TITLES = {str(operation): operation.formula for operation in OPERATIONS}
# The style of exact match over all problems, and of each operation.
SERIES = {"all": {"label": "all", "color": PALETTE["black"], "marker": "o"}} | {
    str(op): {"label": op.formula, "color": PALETTE[op.colour], "marker": op.marker}
    for op in OPERATIONS
}


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure. It does not use pyplot, so it needs no display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def series_style(index: int) -> dict[str, Any]:
    """Returns the colour, line style and marker of one of many series.

    Colours change first, then line styles: the first 28 series look different as lines.
    """
    return {
        "color": list(PALETTE.values())[index % len(PALETTE)],
        "linestyle": LINE_STYLES[index // len(PALETTE) % len(LINE_STYLES)],
        "marker": MARKERS[index % len(MARKERS)],
    }


def escape_dollars(label: str) -> str:
    """Returns a label that shows each `$`, instead of a formula between two of them."""
    return label.replace("$", r"\$")


def needs_log_scale(values: Sequence[float]) -> bool:
    """Returns whether values differ so much that their axis should be logarithmic."""
    return bool(values) and 0 < 10 * min(values) < max(values)


def save_figures(out: Path, figures: Mapping[str, Callable[[], Figure]]) -> list[Path]:
    """Draws each figure and writes it as NAME.png into the folder `out`; returns the paths.

    `figures` maps names to functions, which are called in the project's style. Nothing is written
    unless all figures can be drawn. Raises UserError if matplotlib is not installed.
    """
    check_matplotlib()
    import matplotlib

    with matplotlib.rc_context(RC_PARAMS):
        images = {out / f"{name}.png": _png(draw()) for name, draw in figures.items()}
    out.mkdir(parents=True, exist_ok=True)
    for path, content in images.items():
        write_bytes(path, content)
    return list(images)


def check_matplotlib() -> None:
    """Raises UserError if matplotlib is not installed."""
    require("drawing", "matplotlib")


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")  # rendered by Agg, independent of the backend
    return buffer.getvalue()


def plot(out: Path, files: Sequence[Path]) -> list[Path]:
    """Draws each file into the folder `out`; returns the paths of the plots.

    The `metrics.jsonl` of a run gives NAME-curves.png. A record of `eval --json`, NAME.json, gives
    NAME-reliability.png, for problems NAME-lengths.png and, for worked steps, NAME-errors.png.
    Nothing is written unless every file can be drawn. Raises UserError otherwise.
    """
    check_matplotlib()
    figures: dict[str, Callable[[], Figure]] = {}
    for file in files:
        file_plots = file_figures(file)
        if duplicates := [name for name in file_plots if name in figures]:
            raise DataError(f"{file}: another file gives {duplicates[0]}.png as well")
        figures.update(file_plots)
    return save_figures(out, figures)


def file_figures(file: Path) -> Mapping[str, Callable[[], Figure]]:
    """Returns functions that draw the figures of one file, by name. A folder stands for its
    `metrics.jsonl`, whose figures are named after the folder."""
    if file.is_dir():
        file /= "metrics.jsonl"
    if file.suffix == ".jsonl":
        name = file.resolve().parent.name if file.stem == "metrics" else file.stem
        return {f"{name}-curves": partial(draw_curves, read_curves(file), name)}
    if file.suffix != ".json":
        if not file.exists():
            raise DataError(f"cannot read {file}: No such file or directory")
        raise DataError(f"{file}: neither a metrics.jsonl nor a .json that `eval` wrote")
    record, name = read_record(file), file.stem
    figures = {f"{name}-reliability": partial(draw_reliability, record)}
    if record.by_length:
        figures[f"{name}-lengths"] = partial(draw_operand_lengths, record)
    if record.first_errors is not None:
        figures[f"{name}-errors"] = partial(draw_first_errors, record)
    return figures


def draw_curves(curves: Curves, name: str) -> Figure:
    """Draws the losses and, if measured, exact match on validation against tokens seen."""
    figure = new_figure(9, 7 if curves.exact_match else 4)
    panels = figure.subplots(2 if curves.exact_match else 1, sharex=True, squeeze=False)[:, 0]
    loss = panels[0]
    training = {"color": PALETTE["blue"], "linewidth": 1.5}
    validation = {"color": PALETTE["orange"], "marker": "D", "markersize": 4}
    _plot_points(loss, curves.loss, label="training", **training)
    _plot_points(loss, curves.val_loss, label="validation", **validation)
    values = [value for _, value in curves.loss + curves.val_loss]
    if needs_log_scale(values):
        loss.set_yscale("log")
    loss.set_ylabel("loss (nats per token)")
    loss.set_title(name, parse_math=False)
    if curves.exact_match:
        for operation, points in curves.exact_match.items():
            width = 2.5 if operation == "all" else 1.5
            style: dict[str, Any] = {**SERIES[operation], "markersize": 5, "linewidth": width}
            _plot_points(panels[1], points, **style)
        panels[1].set(ylim=(-0.03, 1.03), ylabel="exact match on validation")
    for axes in panels:
        axes.grid()
        axes.legend(**LEGEND_OUTSIDE)  # inside the axes it would cover curves
    panels[-1].set_xlabel("training tokens seen (millions)")
    return figure


def _plot_points(axes: Axes, points: list[Point], **style: Any) -> None:
    if len(points) == 1:  # a line through one point shows nothing
        style.setdefault("marker", "o")
    if points:
        axes.plot([tokens / 1e6 for tokens, _ in points], [value for _, value in points], **style)


def draw_reliability(record: Record) -> Figure:
    """Draws accuracy against confidence, bin by bin, and the number of problems in each bin."""
    figure = new_figure(6.5, 7.5)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    reliability = record.confidence.reliability
    bins = [b for b in reliability.bins if b.n]
    colour = PALETTE["blue"]
    x = [b.confidence or 0.0 for b in bins]
    y = [b.accuracy or 0.0 for b in bins]
    intervals = [wilson_interval(share, b.n) for share, b in zip(y, bins, strict=True)]
    errors = [
        [max(0.0, share - low) for share, (low, _) in zip(y, intervals, strict=True)],
        [max(0.0, high - share) for share, (_, high) in zip(y, intervals, strict=True)],
    ]
    upper.plot([0, 1], [0, 1], color="#888888", linestyle="--", label="perfectly calibrated")
    label = "mean of a bin, with its 95% interval"
    points = {"color": colour, "marker": "o", "linestyle": "none", "capsize": 4}
    upper.errorbar(x, y, errors, label=label, **points)
    upper.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel="exact match (share of the bin)")
    figure.legend(loc="outside lower center", ncols=2)
    upper.grid()
    counts, widths = [b.n for b in bins], [b.high - b.low for b in bins]
    bars = lower.bar([b.low for b in bins], counts, widths, align="edge", color=colour, ec="white")
    lower.bar_label(bars, [f"{n:,}" for n in counts], fontsize=9)
    lower.set_yscale("log")
    lower.set_ylim(0.5, 10 * max(counts, default=0.1))
    lower.set(ylabel="problems", xlabel="confidence (probability of work and answer together)")
    error = f"expected calibration error {reliability.expected_calibration_error:.4f}"
    upper.set_title(f"{_title(record)}\n{error}", parse_math=False)
    return figure


def draw_operand_lengths(record: Record) -> Figure:
    """Draws one heat map per operation: exact match by the lengths of the operands."""
    tables = {op: record.by_length[op] for op in OPERATION_TITLES if op in record.by_length}
    columns = min(2, len(tables))
    rows = math.ceil(len(tables) / columns)
    n_cell = max(len(table.n) for table in tables.values())
    cell = min(CELL, MAX_PANEL / n_cell)
    size = 1.2 + cell * n_cell
    figure = new_figure(max(6.5, columns * size + 1), rows * size + 1)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, (operation, table) in zip(panels, tables.items(), strict=False):
        _heat_map(axes, table, has_counts=cell == CELL)
        axes.set_title(OPERATION_TITLES[operation])
        axes.set(xlabel="digits of B", ylabel="digits of A")
    for axes in panels[len(tables) :]:
        axes.set_axis_off()
    label = "exact match (share of the problems)"
    figure.colorbar(panels[0].images[0], ax=panels, label=label, shrink=0.7)
    cells = "each cell: problems, and ✗ wrong answers" if cell == CELL else "blank: no problems"
    digits = "digits: of the magnitude, with at least two places"
    figure.suptitle(f"{_title(record)}\n{cells}\n{digits}", parse_math=False, fontsize=11)
    return figure


def _heat_map(axes: Axes, table: Lengths, has_counts: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    n, right = np.array(table.n), np.array(table.right)
    text = {"ha": "center", "va": "center", "fontsize": 9} if has_counts else None
    draw_right_answers(axes, n, right, text=text)
    if has_counts:
        axes.set(xticks=range(len(n)), yticks=range(len(n)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def draw_right_answers(
    axes: Axes,
    n: NDArray[np.int64],
    right: NDArray[np.int64],
    lowest: float = 0.0,
    text: dict[str, Any] | None = None,
) -> None:
    """Draws the share of right answers in each cell, (rows, columns), with the colours from
    `lowest` to 1. Cells without problems stay blank. `text` is the style of the numbers of
    problems and of wrong answers, which are left out without it."""
    shares = right / np.maximum(n, 1)
    shown = np.ma.masked_where(n == 0, shares)
    image = axes.imshow(shown, vmin=lowest, vmax=1, cmap=HEAT_MAP, origin="lower")
    for row, column in np.argwhere(n) if text else []:
        wrong = n[row, column] - right[row, column]
        label = short_count(n[row, column]) + (f"\n✗{short_count(wrong)}" if wrong else "")
        colour = readable_on(image, shares[row, column])
        axes.text(column, row, label, color=colour, **(text or {}))


def readable_on(image: AxesImage, value: float) -> str:
    """Returns a colour of text that can be read on the colour of a value."""
    (brightness,) = np.asarray(image.norm(np.array([value])), np.float64)
    return "black" if brightness > 0.55 else "white"


def draw_first_errors(record: Record) -> Figure:
    """Draws how many wrong answers go wrong first in each kind of step, most frequent first."""
    from matplotlib.ticker import MaxNLocator

    by_operation = record.first_errors or {}
    totals = +sum((Counter(counts) for counts in by_operation.values()), Counter[str]())
    kinds = [kind for kind, _ in reversed(totals.most_common())]
    figure = new_figure(8, 2 + 0.45 * max(3, len(kinds)))
    axes = figure.subplots()
    subtitle = f"{sum(totals.values()):,} wrong answers, by the first wrong step"
    axes.set_title(f"{_title(record)}\n{subtitle}", parse_math=False)
    if not kinds:
        axes.text(0.5, 0.5, "no wrong answers", ha="center", va="center")
        axes.set_axis_off()
        return figure
    positions, left = range(len(kinds)), [0] * len(kinds)
    for operation, label in OPERATION_TITLES.items():
        counts = [by_operation.get(operation, {}).get(kind, 0) for kind in kinds]
        if any(counts):
            colour = SERIES[operation]["color"]
            axes.barh(positions, counts, left=left, label=label, color=colour)
            left = [start + count for start, count in zip(left, counts, strict=True)]
    for position, total in zip(positions, left, strict=True):
        text = f"{total:,}"
        axes.annotate(text, (total, position), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks(positions, kinds, parse_math=False)
    axes.set(xlabel="wrong answers", xlim=(0, 1.1 * max(left)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="x")
    axes.legend(**LEGEND_OUTSIDE)
    return figure


def _title(record: Record) -> str:
    sampling = f" at temperature {record.temperature:g}" if record.temperature else ""
    return (
        f"{record.checkpoint} on {record.source}{sampling}\n{record.n:,} problems, "
        f"exact match {record.exact_match:.4f}"
    )


def short_count(count: int) -> str:
    """Returns a count below a million as at most five characters: 9,876 or 12k."""
    return f"{count:,}" if count < 10_000 else f"{count // 1000:,}k"
