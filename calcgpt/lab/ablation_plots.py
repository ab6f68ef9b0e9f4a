"""The pictures of an ablation, task by task.

Each variant has one colour and one line style in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt.lab.summary import TaskSummary, VariantSummary
from calcgpt.metrics import Row, read_rows
from calcgpt.plots import new_figure
from calcgpt.training.run_folder import METRICS_FILE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito (2008), without the yellow, which hardly shows on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
LINES = ["-", "--", ":", "-."]
MARKERS = ["o", "s", "D", "^"]


def draw_task(task: TaskSummary, out: Path) -> dict[str, Callable[[], Figure]]:
    """Name -> a function that draws it, for each picture that the task has. `out` is the
    ablation's folder."""
    figures: dict[str, Callable[[], Figure]] = {
        f"{task.name}-curves": lambda: draw_curves(task, out),
        f"{task.name}-losses": lambda: draw_losses(task),
        f"{task.name}-parameters": lambda: draw_parameters(task),
    }
    if len(task.variants[0].scores[0].contexts) > 1:
        figures[f"{task.name}-contexts"] = lambda: draw_contexts(task)
    return figures


def style(task: TaskSummary, variant: VariantSummary) -> dict[str, Any]:
    """Colour and line of one variant; no two of the first 28 are alike."""
    place = task.variants.index(variant)
    turn = place // len(COLOURS)
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": LINES[turn % len(LINES)],
        "marker": MARKERS[turn % len(MARKERS)],
    }


def draw_curves(task: TaskSummary, out: Path) -> Figure:
    """Training and validation loss against steps: the mean over the seeds, and a band of one
    standard deviation around it."""
    figure = new_figure(10, 9)
    upper, lower = figure.subplots(2, sharex=True)
    for variant in sorted(task.variants, key=lambda v: v.of(lambda s: s.val_loss).mean):
        look = style(task, variant)
        folders = [out / "runs" / task.name / variant.name / f"seed-{s}" for s in variant.seeds]
        runs = [read_rows(folder / METRICS_FILE) for folder in folders]
        look["marker"] = ""
        _band(upper, runs, lambda row: row.loss, variant.name, look)
        _band(lower, runs, lambda row: row.val_loss, variant.name, look)
    upper.set_ylabel("training loss (nats per token)")
    upper.set_title(f"{task.title}\n{task.budget}", fontsize=10)
    lower.set(ylabel="validation loss (nats per token)", xlabel="steps")
    for axes in (upper, lower):
        axes.grid()
        _trim(axes)
    upper.legend(loc="upper left", bbox_to_anchor=(1, 1), title="by validation loss")
    return figure


def _band(
    axes: Axes,
    runs: Sequence[Sequence[Row]],
    value: Callable[[Row], float | None],
    label: str,
    look: dict[str, Any],
) -> None:
    """The mean of several runs at the steps that all of them have."""
    curves = [{row.step: found for row in rows if (found := value(row)) is not None}
              for rows in runs]  # fmt: skip
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not steps:
        return
    values = np.array([[curve[step] for step in steps] for curve in curves])
    mean = values.mean(axis=0)
    axes.plot(steps, mean, label=label, linewidth=1.5, **look)
    if len(runs) > 1:
        spread = values.std(axis=0, ddof=1)
        axes.fill_between(steps, mean - spread, mean + spread, color=look["color"], alpha=0.15,
                          linewidth=0)  # fmt: skip


def _trim(axes: Axes) -> None:
    """Leave the first steps' high losses out of the picture: the variants part further down."""
    curves = [np.asarray(line.get_ydata(), float) for line in axes.get_lines()]
    if curves and min(map(len, curves)) >= 5:
        low = min(curve.min() for curve in curves)
        high = max(curve[len(curve) // 10] for curve in curves)
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def draw_losses(task: TaskSummary) -> Figure:
    """Each seed's validation loss as a dot, the mean as a line, the best variant on top."""
    ranked = sorted(task.variants, key=lambda v: v.of(lambda s: s.val_loss).mean, reverse=True)
    figure = new_figure(9, 1.8 + 0.42 * len(ranked))
    axes = figure.subplots()
    for height, variant in enumerate(ranked):
        estimate, colour = variant.of(lambda s: s.val_loss), style(task, variant)["color"]
        axes.plot(estimate.values, [height] * len(estimate.values), "o", color=colour, alpha=0.6)
        axes.vlines(estimate.mean, height - 0.3, height + 0.3, color=colour, linewidth=2.5)
    heights = {variant.name: height for height, variant in enumerate(ranked)}
    reported = [p for p in task.published if "val_loss" in p.metrics and p.variant in heights]
    if reported:
        axes.plot([p.metrics["val_loss"] for p in reported], [heights[p.variant] for p in reported],
                  "D", color="black", markerfacecolor="none", label=reported[0].source)  # fmt: skip
        figure.legend(loc="outside lower right")
    axes.set_yticks(range(len(ranked)), list(heights))
    axes.set(xlabel="validation loss (nats per token): each seed, and their mean",
             title=f"{task.title}: {task.variants[0].scores[0].steps:,} steps")  # fmt: skip
    axes.grid(axis="x")
    return figure


def draw_parameters(task: TaskSummary) -> Figure:
    """Validation loss against the number of parameters."""
    figure = new_figure(10, 6)
    axes = figure.subplots()
    for variant in task.variants:
        estimate, look = variant.of(lambda s: s.val_loss), style(task, variant)
        look["linestyle"] = "none"
        axes.errorbar(variant.parameters, estimate.mean, estimate.sd, label=variant.name,
                      capsize=4, markersize=7, **look)  # fmt: skip
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:,.0f}k")
    axes.margins(x=0.1)
    axes.set(xlabel="parameters", ylabel="validation loss (nats per token)", title=task.title)
    axes.grid()
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def draw_contexts(task: TaskSummary) -> Figure:
    """Validation loss against the length of the context, the first being that of the training."""
    figure = new_figure(10, 6)
    axes = figure.subplots()
    for variant in task.variants:
        losses = variant.context_losses()
        known = [(size, e) for size, e in losses.items() if e is not None]
        axes.errorbar([size for size, _ in known], [e.mean for _, e in known],
                      [e.sd or 0.0 for _, e in known], label=variant.name, capsize=3,
                      **style(task, variant))  # fmt: skip
    sizes = list(task.variants[0].context_losses())
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set(xlabel=f"tokens read at a time (trained on {sizes[0]})",
             ylabel="validation loss (nats per token)", title=task.title)  # fmt: skip
    axes.grid()
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure
