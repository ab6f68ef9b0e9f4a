"""The curves of several runs over each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calcgpt.compare import Run
from calcgpt.plot_data import Point
from calcgpt.plots import new_figure, write_pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's, but for their yellow, which is hard to see on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9"]
LINES: list[Any] = ["-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5))]
MARKERS = "osD^vPX*<>h"  # their number shares no factor with that of the colours
SPREAD = 10  # runs that differ by more in what they have seen are drawn on a logarithmic axis


def draw_comparison(runs: Sequence[Run], out: Path) -> list[Path]:
    """Draw compare.png in the folder `out`; returns its path. UserError where matplotlib is
    missing."""
    return write_pictures(out, (("compare", figure(runs)) for _ in range(1)))


def figure(runs: Sequence[Run]) -> Figure:
    """Training loss, and what was measured on validation: loss, exact match; against tokens."""
    curves = [run.curves for run in runs]
    panels: dict[str, list[list[Point]]] = {
        "training loss\n(nats per token)": [of.loss for of in curves],
        "validation loss\n(nats per token)": [of.val_loss for of in curves],
        "validation\nexact match": [of.exact_match.get("all", []) for of in curves],
    }
    panels = {label: lines for label, lines in panels.items() if any(lines)}
    drawing = new_figure(11, 0.6 + 2.9 * len(panels))
    grid = drawing.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for axes, (label, lines) in zip(grid, panels.items(), strict=True):
        for index, points in enumerate(lines):
            _line(axes, points, index, thin=label.startswith("training"))
        axes.set_ylabel(label)
        axes.grid()
        if "loss" in label:
            _scale(axes, [value for points in lines for _, value in points], "y")
    ends = [of.loss[-1][0] / 1e6 for of in curves]
    _scale(grid[-1], ends, "x")
    grid[-1].set_xlabel("tokens seen in training (millions)")
    _legend(drawing, [run.name for run in runs])
    return drawing


def style(index: int) -> dict[str, Any]:
    """How the run at `index` is drawn: colours first, then lines; each with a marker of its own."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": LINES[index // len(COLOURS) % len(LINES)],
        "marker": MARKERS[index % len(MARKERS)],
    }


def _line(axes: Axes, points: list[Point], index: int, thin: bool) -> None:
    chosen = style(index)
    if thin:
        chosen |= {"linewidth": 0.9, "marker": "o" if len(points) == 1 else "", "markersize": 3}
    else:
        chosen |= {"linewidth": 1.5, "markersize": 4, "markevery": max(1, len(points) // 12)}
    axes.plot([tokens / 1e6 for tokens, _ in points], [v for _, v in points], **chosen)


def _legend(drawing: Figure, names: Sequence[str]) -> None:
    """Beside the panels, for all of them."""
    from matplotlib.lines import Line2D

    keys = [Line2D([], [], linewidth=1.5, markersize=5, **style(i)) for i in range(len(names))]
    labels = [name.replace("$", r"\$") for name in names]  # not as mathematics
    drawing.legend(keys, labels, loc="outside right upper", ncols=1 + len(names) // 36)


def _scale(axes: Axes, values: list[float], which: str) -> None:
    """A logarithmic axis where the values call for one."""
    if values and min(values) > 0 and max(values) > SPREAD * min(values):
        axes.set(**{f"{which}scale": "log"})
