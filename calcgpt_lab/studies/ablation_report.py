"""The report of an ablation: report.json to compute with, report.md to read, and plots.

report.json holds the numbers that the report shows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt.base.files import write_json, write_text
from calcgpt_lab.plots import new_figure, save_figures, series_style
from calcgpt_lab.records import Row, read_rows
from calcgpt_lab.studies.job import Score
from calcgpt_lab.studies.suite import Suite
from calcgpt_lab.tables import markdown_table
from calcgpt_lab.training.run_folder import METRICS_FILE
from datagen.operations import SIGNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The 97.5% quantiles of Student's t for 1, 2, ... 20 degrees of freedom. The last one stands for
# more degrees, for which it is slightly too large.
STUDENT_T = [
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
]

Record = dict[str, Any]  # a part of report.json
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
    record = report_record(suite, scores)
    write_json(out / "report.json", record)
    write_text(out / "report.md", report_text(record))
    tasks = record["tasks"].items()
    figures = {name: partial(draw_curves, task, out / "runs" / name) for name, task in tasks}
    plots = save_figures(out / "plots", figures)
    return [out / "report.md", out / "report.json", *plots]


# The numbers.


def estimate(values: Sequence[float]) -> Record:
    """Returns the mean of a quantity that was measured once with each seed, its sample standard
    deviation, and half the 95% interval of the mean by Student's t. The last two are None for one
    value."""
    n = len(values)
    sd = statistics.stdev(values) if n > 1 else None
    margin = sd and STUDENT_T[min(n - 1, len(STUDENT_T)) - 1] * sd / math.sqrt(n)
    return {"mean": statistics.fmean(values), "sd": sd, "margin_95": margin, "values": list(values)}


def report_record(suite: Suite, scores: Sequence[Score]) -> Record:
    """Returns the content of report.json: the tasks that have scores, each with the variants that
    have scores, and the values of each seed."""
    tasks = {}
    for name, task in suite.tasks.items():
        by_variant = {
            variant: sorted(
                (score for score in scores if (score.task, score.variant) == (name, variant)),
                key=lambda score: score.seed,
            )
            for variant in suite.variants
        }
        if rows := [runs for runs in by_variant.values() if runs]:
            tasks[name] = {
                "title": task.title or name,
                "budget": _budget(rows[0][0]),
                "variants": {runs[0].variant: _variant_record(runs, rows[0]) for runs in rows},
                "published": [e.model_dump() for e in suite.published if e.task == name],
            }
    return {"description": suite.description, "tasks": tasks}


def _variant_record(runs: Sequence[Score], baseline: Sequence[Score]) -> Record:
    """Returns the scores of a variant. The difference of the validation loss is taken seed by seed:
    runs with one seed see the same batches, so that it varies less than the losses do."""
    known = {} if runs is baseline else {score.seed: score.val_loss for score in baseline}
    differences = [run.val_loss - known[run.seed] for run in runs if run.seed in known]
    contexts = {}
    for losses in zip(*(run.contexts for run in runs), strict=True):
        values = [context.val_loss for context in losses if context.val_loss is not None]
        is_whole = len(values) == len(runs)
        contexts[str(losses[0].block_size)] = estimate(values) if is_whole else None
    run_fields = {"seed", "steps", "tokens", "seconds", "answers"}
    return {
        "seeds": [run.seed for run in runs],
        "parameters": runs[0].parameters,
        "train_loss": estimate([run.train_loss for run in runs]),
        "val_loss": estimate([run.val_loss for run in runs]),
        "val_loss_difference": estimate(differences) if differences else None,
        "perplexity": estimate([run.perplexity for run in runs]),
        "tokens_per_s": estimate([run.tokens_per_s for run in runs]),
        "val_loss_at_context": contexts,
        "runs": [run.model_dump(include=run_fields) for run in runs],
    }


def _budget(score: Score) -> str:
    """Returns the length of each run of a task, in words."""
    train, context = score.recipe.train, score.recipe.model.block_size
    unit = "windows" if train.batches == "stream" else train.batches
    return (
        f"{score.steps:,} steps of {train.batch_size} {unit} of {context} tokens "
        f"({score.tokens:,} tokens), {train.optimizer} at {train.lr:g}, {train.schedule}"
    )


def _contexts(task: Record) -> list[int]:
    """Returns the lengths of the windows on which a task was measured."""
    return list(map(int, next(iter(task["variants"].values()))["val_loss_at_context"]))


# The text.


def report_text(record: Record) -> str:
    """Returns the content of report.md: for each task its tables and its plot."""
    parts = ["# " + (record["description"] or "Ablation"), NOTE]
    for name, task in record["tasks"].items():
        parts += [f"## {task['title']}", f"{task['budget']}.", scores_table(task)]
        if len(sizes := _contexts(task)) > 1:
            rows = [
                [name, *(_text(e) if e else "–" for e in variant["val_loss_at_context"].values())]
                for name, variant in task["variants"].items()
            ]
            table = markdown_table(["variant", *(f"{size} tokens" for size in sizes)], rows)
            parts += ["Validation loss by the length of the windows:", table]
        parts.append(f"![{name}](plots/{name}.png)")
    return "\n\n".join(parts) + "\n"


def _text(estimate: Record | None, form: str = ".4f", spread: str = "sd") -> str:
    """Returns the mean ± the standard deviation, or ± another spread of the estimate."""
    if not estimate:
        return ""
    width = estimate[spread]
    return f"{estimate['mean']:{form}}" + (
        "" if width is None else f" ± {width:{form.lstrip('+')}}"
    )


def scores_table(task: Record) -> str:
    """Returns a table with a row for each variant, followed by those that others published."""
    rows: list[dict[str, str]] = []
    for name, variant in task["variants"].items():
        rows.append({"variant": name, **_cells(variant)})
        rows += [
            {"variant": f"*{entry['source']}*", **_published_cells(entry)}
            for entry in task["published"]
            if entry["variant"] == name
        ]
    return markdown_table(list(rows[0]), [[row.get(key) for key in rows[0]] for row in rows])


def _cells(variant: Record) -> dict[str, str]:
    """Returns the cells of a variant by the headings of their columns."""
    cells = {
        "seeds": str(len(variant["seeds"])),
        "parameters": f"{variant['parameters']:,}",
        "train loss": _text(variant["train_loss"]),
        "val loss": _text(variant["val_loss"]),
        "Δ val loss (95%)": _text(variant["val_loss_difference"], "+.4f", "margin_95"),
        "perplexity": _text(variant["perplexity"], ".3f"),
    }
    by_temperature = list(zip(*(run["answers"] for run in variant["runs"]), strict=True))
    for answers in by_temperature:
        for metric in ("char_accuracy", "exact_match"):
            heading = _heading(metric, answers[0]["temperature"])
            cells[heading] = _text(estimate([answer[metric] for answer in answers]))
    for answers in by_temperature:
        if answers[0]["temperature"] == 0:
            for sign in filter(answers[0]["by_operation"].__contains__, SIGNS):
                shares = [answer["by_operation"][sign]["exact_match"] for answer in answers]
                cells[f"EM {sign}"] = _text(estimate(shares))
    return {**cells, "tokens/s": f"{variant['tokens_per_s']['mean']:,.0f}"}


def _heading(metric: str, temperature: float) -> str:
    decoding = "greedy" if temperature == 0 else f"T = {temperature:g}"
    return f"{metric.replace('_', ' ')}, {decoding}"


def _published_cells(entry: Record) -> dict[str, str]:
    """Returns the numbers that others published, by the headings of their columns."""
    decoded, temperature = ("char_accuracy", "exact_match"), entry["temperature"] or 0.0
    return {
        _heading(metric, temperature)
        if metric in decoded
        else metric.replace("_", " "): f"{value:g}"
        for metric, value in entry["metrics"].items()
    }


# The plot.


def draw_curves(task: Record, folder: Path) -> Figure:
    """Draws training and validation loss against steps: the mean over the seeds, with a band of one
    standard deviation. `folder` holds the runs of the task."""
    figure = new_figure(10, 9)
    upper, lower = figure.subplots(2, sharex=True)
    variants = sorted(task["variants"].items(), key=lambda item: item[1]["val_loss"]["mean"])
    for index, (name, variant) in enumerate(variants):
        style = {**series_style(index), "marker": "", "label": name}
        folders = [folder / name / f"seed-{seed}" for seed in variant["seeds"]]
        runs = [read_rows(run / METRICS_FILE) for run in folders]
        _draw_band(upper, runs, lambda row: row.loss, style)
        _draw_band(lower, runs, lambda row: row.val_loss, style)
    upper.set_ylabel("training loss (nats per token)")
    upper.set_title(f"{task['title']}\n{task['budget']}", parse_math=False, fontsize=10)
    lower.set(ylabel="validation loss (nats per token)", xlabel="steps")
    for axes in (upper, lower):
        axes.grid()
        _trim(axes)
    lines = upper.get_legend_handles_labels()
    figure.legend(*lines, loc="outside right upper", title="by validation loss")
    return figure


def _draw_band(
    axes: Axes, runs: Sequence[Sequence[Row]], value: Callable[[Row], float | None], style: Record
) -> None:
    """Draws the mean of several runs at the steps that all of them have."""
    curves = [{row.step: y for row in rows if (y := value(row)) is not None} for rows in runs]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not steps:
        return
    values = np.array([[curve[step] for step in steps] for curve in curves])  # (runs, steps)
    mean = values.mean(axis=0)
    axes.plot(steps, mean, linewidth=1.5, **style)
    if len(runs) > 1:
        sd = values.std(axis=0, ddof=1)
        axes.fill_between(
            steps, mean - sd, mean + sd, color=style["color"], alpha=0.15, linewidth=0
        )


def _trim(axes: Axes) -> None:
    """Cuts off the high losses of the first steps: the variants differ further down."""
    curves = [np.asarray(line.get_ydata(), float) for line in axes.get_lines()]
    if curves and min(map(len, curves)) >= 5:
        low = min(curve.min() for curve in curves)
        high = max(curve[len(curve) // 10] for curve in curves)
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
