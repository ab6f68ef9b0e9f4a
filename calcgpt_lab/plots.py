"""Plots: one style for the whole project, and the plots of runs and of confidence.

Matplotlib comes with the extra `lab` and is imported where it is used. The palette is that of
Okabe and Ito (2008), which works for every kind of colour vision, without its yellow, which is hard
to see on white. Heat maps use viridis. Figure sizes are in inches.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calcgpt.base.extras import require
from calcgpt.base.files import write_bytes
from calcgpt_lab.records import Curves, Point, wilson_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def draw_curves(runs: Mapping[str, Curves]) -> Figure:
    """Draws the losses and the exact match on validation of runs, by name, against tokens seen."""
    panels: dict[str, list[list[Point]]] = {
        "training loss\n(nats per token)": [run.loss for run in runs.values()],
        "validation loss\n(nats per token)": [run.val_loss for run in runs.values()],
        "validation\nexact match": [run.exact_match.get("all", []) for run in runs.values()],
    }
    panels = {label: lines for label, lines in panels.items() if any(lines)}
    figure = new_figure(11, 0.6 + 2.9 * len(panels))
    grid = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for axes, (label, lines) in zip(grid, panels.items(), strict=True):
        for index, (name, points) in enumerate(zip(runs, lines, strict=True)):
            style = {**series_style(index), "linewidth": 1.2, "markersize": 4}
            style |= {"markevery": max(1, len(points) // 12), "label": name.replace("$", r"\$")}
            axes.plot([tokens / 1e6 for tokens, _ in points], [y for _, y in points], **style)
        axes.set_ylabel(label)
        axes.grid()
        if "exact match" in label:
            axes.set_ylim(bottom=0)  # a share
        elif needs_log_scale([value for points in lines for _, value in points]):
            axes.set_yscale("log")
    if needs_log_scale([run.loss[-1][0] for run in runs.values()]):
        grid[-1].set_xscale("log")
    grid[-1].set_xlabel("tokens seen in training (millions)")
    handles, labels = grid[0].get_legend_handles_labels()  # a run always has a training loss
    figure.legend(handles, labels, loc="outside right upper", ncols=1 + len(runs) // 36)
    return figure


def draw_reliability(record: Mapping[str, Any]) -> Figure:
    """Draws accuracy against confidence, bin by bin, and the number of problems in each bin, of a
    record of `calcgpt eval`."""
    figure = new_figure(6.5, 7.5)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    reliability = record["confidence"]["reliability"]
    bins = [b for b in reliability["bins"] if b["n"]]
    colour, counts = PALETTE["blue"], [b["n"] for b in bins]
    x, y = ([b[key] for b in bins] for key in ("confidence", "accuracy"))
    intervals = [wilson_interval(share, n) for share, n in zip(y, counts, strict=True)]
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
    lows, widths = [b["low"] for b in bins], [b["high"] - b["low"] for b in bins]
    bars = lower.bar(lows, counts, widths, align="edge", color=colour, ec="white")
    lower.bar_label(bars, [f"{n:,}" for n in counts], fontsize=9)
    lower.set_yscale("log")
    lower.set_ylim(0.5, 10 * max(counts))
    lower.set(ylabel="problems", xlabel="confidence (probability of work and answer together)")
    scores = f"{record['n']:,} problems, exact match {record['exact_match']:.4f}"
    error = f"expected calibration error {reliability['expected_calibration_error']:.4f}"
    upper.set_title(f"{record['checkpoint']}: {scores}\n{error}", parse_math=False)
    return figure
