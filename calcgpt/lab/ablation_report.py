"""The report of an ablation: report.md to read, report.json to compute with, and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt.lab.ablation_summary import (
    TaskSummary,
    VariantSummary,
    contexts_table,
    scores_table,
    summarise,
)
from calcgpt.lab.job import Score
from calcgpt.lab.suite import Suite
from calcgpt.metrics import Row, read_rows
from calcgpt.plots import LEGEND_OUTSIDE, escape_dollars, new_figure, save_figures
from calcgpt.training.run_folder import METRICS_FILE
from datagen.files import write_json, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOTE = (
    "Losses are in nats per token. They are taken after the last step, over windows that are the "
    "same for all runs; ± is the standard deviation over the seeds. Δ is the difference of the "
    "validation loss from that of the first variant, seed by seed, with its 95% interval "
    "(Student's t). No checkpoint was chosen by any of these numbers. Tokens per second are those "
    "of the training, while other runs shared the machine."
)


def write_report(suite: Suite, scores: Sequence[Score], out: Path) -> list[Path]:
    """Writes the report of the runs that are done; returns its files. Raises UserError, after the
    text is written, if matplotlib is not installed."""
    if not scores:
        return []
    tasks = summarise(suite, scores)
    write_json(out / "report.json", report_record(suite, tasks))
    figures = {name: draw for task in tasks for name, draw in task_figures(task, out).items()}
    write_text(out / "report.md", report_text(suite, tasks, list(figures)))
    plots = save_figures(out / "plots", figures)
    return [out / "report.md", out / "report.json", *plots]


def report_record(suite: Suite, tasks: Sequence[TaskSummary]) -> dict[str, Any]:
    """Returns the content of `report.json`: all that the report shows, and each seed's values."""
    return {
        "description": suite.description,
        "tasks": {
            task.name: {
                "title": task.title,
                "budget": task.budget,
                "variants": {variant.name: _variant_record(variant) for variant in task.variants},
                "published": [entry.model_dump() for entry in task.published],
            }
            for task in tasks
        },
    }


def _variant_record(variant: VariantSummary) -> dict[str, Any]:
    run_fields = {"seed", "steps", "tokens", "seconds", "answers"}
    return {
        "seeds": variant.seeds,
        "parameters": variant.parameters,
        "train_loss": variant.estimate(lambda score: score.train_loss).as_json(),
        "val_loss": variant.val_loss.as_json(),
        "val_loss_difference": variant.difference.as_json() if variant.difference else None,
        "perplexity": variant.estimate(lambda score: score.perplexity).as_json(),
        "tokens_per_s": variant.tokens_per_s.as_json(),
        "val_loss_at_context": {
            str(size): estimate.as_json() if estimate else None
            for size, estimate in variant.context_losses().items()
        },
        "runs": [score.model_dump(include=run_fields) for score in variant.scores],
    }


def report_text(suite: Suite, tasks: Sequence[TaskSummary], plots: Sequence[str]) -> str:
    """Returns the content of `report.md`: for each task its tables and its plots."""
    parts = ["# " + (suite.description or "Ablation"), NOTE]
    for task in tasks:
        parts += [f"## {task.title}", f"{task.budget}.", scores_table(task)]
        if len(task.example.contexts) > 1:
            parts += ["Validation loss by the length of the windows:", contexts_table(task)]
        task_plots = [name for name in plots if name.rpartition("-")[0] == task.name]
        parts += [f"![{name}](plots/{name}.png)" for name in task_plots]
    return "\n\n".join(parts) + "\n"


def task_figures(task: TaskSummary, out: Path) -> dict[str, Callable[[], Figure]]:
    """Returns name -> function that draws it, for each plot of the task. `out` is the folder of the
    ablation."""
    figures: dict[str, Callable[[], Figure]] = {
        f"{task.name}-curves": lambda: draw_curves(task, out),
        f"{task.name}-losses": lambda: draw_losses(task),
        f"{task.name}-parameters": lambda: draw_parameters(task),
    }
    if len(task.example.contexts) > 1:
        figures[f"{task.name}-contexts"] = lambda: draw_contexts(task)
    return figures


def draw_curves(task: TaskSummary, out: Path) -> Figure:
    """Draws training and validation loss against steps: the mean over the seeds, with a band of one
    standard deviation."""
    figure = new_figure(10, 9)
    upper, lower = figure.subplots(2, sharex=True)
    for variant in sorted(task.variants, key=lambda v: v.val_loss.mean):
        folders = [out / "runs" / task.name / variant.name / f"seed-{s}" for s in variant.seeds]
        runs = [read_rows(folder / METRICS_FILE) for folder in folders]
        _draw_band(upper, runs, lambda row: row.loss, variant)
        _draw_band(lower, runs, lambda row: row.val_loss, variant)
    upper.set_ylabel("training loss (nats per token)")
    upper.set_title(f"{task.title}\n{task.budget}", parse_math=False, fontsize=10)
    lower.set(ylabel="validation loss (nats per token)", xlabel="steps")
    for axes in (upper, lower):
        axes.grid()
        _trim(axes)
    upper.legend(**LEGEND_OUTSIDE, title="by validation loss")
    return figure


def _draw_band(
    axes: Axes,
    runs: Sequence[Sequence[Row]],
    value: Callable[[Row], float | None],
    variant: VariantSummary,
) -> None:
    """Draws the mean of several runs at the steps that all of them have."""
    curves = [{row.step: y for row in rows if (y := value(row)) is not None} for rows in runs]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not steps:
        return
    values = np.array([[curve[step] for step in steps] for curve in curves])  # (runs, steps)
    mean, style = values.mean(axis=0), {**variant.style, "marker": ""}
    axes.plot(steps, mean, label=variant.name, linewidth=1.5, **style)
    if len(runs) > 1:
        sd = values.std(axis=0, ddof=1)
        band = {"color": style["color"], "alpha": 0.15, "linewidth": 0}
        axes.fill_between(steps, mean - sd, mean + sd, **band)


def _trim(axes: Axes) -> None:
    """Cuts off the high losses of the first steps: the variants differ further down."""
    curves = [np.asarray(line.get_ydata(), float) for line in axes.get_lines()]
    if curves and min(map(len, curves)) >= 5:
        low = min(curve.min() for curve in curves)
        high = max(curve[len(curve) // 10] for curve in curves)
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def draw_losses(task: TaskSummary) -> Figure:
    """Draws each seed's validation loss as a dot, their mean as a line; the best is on top."""
    ranked = sorted(task.variants, key=lambda v: v.val_loss.mean, reverse=True)
    figure = new_figure(9, 1.8 + 0.42 * len(ranked))
    axes = figure.subplots()
    for y, variant in enumerate(ranked):
        estimate, colour = variant.val_loss, variant.style["color"]
        axes.plot(estimate.values, [y] * len(estimate.values), "o", color=colour, alpha=0.6)
        axes.vlines(estimate.mean, y - 0.3, y + 0.3, color=colour, linewidth=2.5)
    heights = {variant.name: y for y, variant in enumerate(ranked)}
    published = [p for p in task.published if "val_loss" in p.metrics and p.variant in heights]
    if published:
        losses = [entry.metrics["val_loss"] for entry in published]
        rows = [heights[entry.variant] for entry in published]
        source = escape_dollars(published[0].source)
        axes.plot(losses, rows, "D", color="black", markerfacecolor="none", label=source)
        figure.legend(loc="outside lower right")
    axes.set_yticks(range(len(ranked)), list(heights))
    axes.set_xlabel("validation loss (nats per token): each seed, and their mean")
    axes.set_title(f"{task.title}: {task.example.steps:,} steps", parse_math=False)
    axes.grid(axis="x")
    return figure


def draw_parameters(task: TaskSummary) -> Figure:
    """Draws validation loss against the number of parameters."""
    figure = new_figure(10, 6)
    axes = figure.subplots()
    for variant in task.variants:
        style = {**variant.style, "linestyle": "none", "capsize": 4, "markersize": 7}
        loss = variant.val_loss
        axes.errorbar(variant.parameters, loss.mean, loss.sd, label=variant.name, **style)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:,g}k")
    axes.margins(x=0.1)
    axes.set(xlabel="parameters", ylabel="validation loss (nats per token)")
    axes.set_title(task.title, parse_math=False)
    axes.grid()
    axes.legend(**LEGEND_OUTSIDE)
    return figure


def draw_contexts(task: TaskSummary) -> Figure:
    """Draws validation loss against the length of the windows, from the training context on."""
    figure = new_figure(10, 6)
    axes = figure.subplots()
    for variant in task.variants:
        losses = {size: e for size, e in variant.context_losses().items() if e is not None}
        means = [loss.mean for loss in losses.values()]
        errors = [loss.sd or 0.0 for loss in losses.values()]
        axes.errorbar(list(losses), means, errors, label=variant.name, capsize=3, **variant.style)
    sizes = list(task.variants[0].context_losses())
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_xlabel(f"tokens per window (trained on {sizes[0]})")
    axes.set_ylabel("validation loss (nats per token)")
    axes.set_title(task.title, parse_math=False)
    axes.grid()
    axes.legend(**LEGEND_OUTSIDE)
    return figure
