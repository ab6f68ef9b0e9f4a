"""Runs beside each other: what each came to, and in which fields of their recipes they differ.

The curves of several runs over each other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calcgpt.checkpoint import Checkpoint, load_metrics
from calcgpt.config import Recipe
from calcgpt.errors import CheckpointError, ConfigError, DataError
from calcgpt.metrics import EXACT_MATCH, Curves, Point, Row, curves, read_rows
from calcgpt.plots import new_figure, save_figures
from calcgpt.recipe import build, flatten
from calcgpt.recipe import differences as recipe_differences
from calcgpt.tables import duration, printable, significant, text_table
from calcgpt.training.environment import read_starts
from calcgpt.training.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LONGEST_VALUE = 24  # characters of a field's value in a table


@dataclass(frozen=True)
class Run:
    """What a run's folder says of it."""

    name: str  # the shortest tail of its path that no other run has
    rows: list[Row]
    parameters: int | None  # None where it has no checkpoint yet
    fields: dict[str, Any] | None  # of its recipe, as `train.lr`; None where no file tells

    @property
    def curves(self) -> Curves:
        """Its losses and scores against tokens."""
        return curves(self.rows)

    def summary(self) -> dict[str, Any]:
        """What it came to. A loss is the lowest on validation, scores are those of the validation
        with the highest exact match, as a checkpoint is chosen, each with its step; None for what
        was not measured. `train_loss` is the mean of the last row."""
        last = [row for row in self.rows if row.loss is not None][-1]
        validations = [row for row in self.rows if row.val_loss is not None]
        lowest = min(validations, key=lambda row: row.val_loss or 0.0, default=None)
        scored = [row for row in validations if "all" in row.exact_match]
        best = min(scored, key=lambda row: (-row.exact_match["all"], row.val_loss), default=None)
        val_loss = lowest.val_loss if lowest else None
        return {
            "name": self.name,
            "parameters": self.parameters,
            "steps": last.step,
            "tokens": last.tokens,
            "seconds": last.seconds,
            "tokens_per_s": last.tokens / last.seconds if last.tokens and last.seconds else None,
            "train_loss": last.loss,
            "val_loss": val_loss,
            "val_loss_step": lowest.step if lowest else None,
            "perplexity": perplexity(val_loss),
            "char_accuracy": best.val_char_accuracy if best else None,
            "exact_match": best.exact_match["all"] if best else None,
            "exact_match_step": best.step if best else None,
            **{
                f"exact_match{operation}": best.exact_match.get(operation) if best else None
                for operation in EXACT_MATCH
                if operation != "all"
            },
        }


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs in `folders`; DataError, one line, for a folder that is none, or is given twice."""
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder} is no folder")
        if not RunFolder(folder).metrics_path.is_file():
            raise DataError(f"{folder} holds no metrics.jsonl: it is not the folder of a run")
    return [_read(folder, name) for folder, name in zip(folders, names(folders), strict=True)]


def names(folders: Sequence[Path]) -> list[str]:
    """For each folder the shortest tail of its path, in whole parts, that tells it from the
    others; DataError where one is given twice."""
    parts = [folder.resolve().parts for folder in folders]
    for folder, its in zip(folders, parts, strict=True):
        if parts.count(its) > 1:
            raise DataError(f"{folder} is given twice")

    def tail(its: tuple[str, ...]) -> str:
        for length in range(1, len(its) + 1):
            if sum(others[-length:] == its[-length:] for others in parts) == 1:
                return printable("/".join(its[-length:]))
        return printable(str(Path(*its)))  # the end of another, whole

    return [tail(its) for its in parts]


def differences(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """The fields of the recipes that are not alike in all runs: their values, None for a run
    without the field, or without a recipe."""
    known = [run.fields for run in runs if run.fields is not None]
    different = {field for fields in known[1:] for field in recipe_differences(known[0], fields)}
    return {
        field: [None if run.fields is None else run.fields.get(field) for run in runs]
        for field in dict.fromkeys(field for fields in known for field in fields)
        if field in different
    }


def perplexity(loss: float | None) -> float | None:
    """e to a loss in nats; None where that is no number."""
    return None if loss is None or loss > 700 else math.exp(loss)


def comparison(runs: Sequence[Run]) -> dict[str, Any]:
    """What `calcgpt compare --json` writes."""
    return {"runs": [run.summary() for run in runs], "differences": differences(runs)}


def comparison_text(runs: Sequence[Run], width: int | None = None) -> str:
    """The comparison for a terminal of `width` characters; None: without an end."""
    parts = [text_table(HEADINGS, [_cells(run.summary()) for run in runs], width=width)]
    if fields := list(differences(runs)):
        header = ["", *(run.name for run in runs)]
        rows = [[field, *(_shown(run, field) for run in runs)] for field in fields]
        parts.append(f"different in the recipes:\n{text_table(header, rows, width=width)}")
    elif len(runs) > 1 and all(run.fields is not None for run in runs):
        parts.append("the recipes are alike")
    if unknown := [run.name for run in runs if run.fields is None]:
        parts.append(f"no recipe is known of {', '.join(unknown)}")
    return "\n\n".join(parts)


HEADINGS = [
    "", "parameters", "steps", "tokens", "time", "tokens/s", "train loss", "val loss",
    "loss at step", "perplexity", "val char acc.", "val EM", "EM at step", "EM +", "EM -", "EM *",
    "EM /",
]  # fmt: skip


def _cells(summary: dict[str, Any]) -> list[str | None]:
    """A summary as a row below HEADINGS."""
    cells: list[str | None] = []
    for key, value in summary.items():
        if value is None:
            cells.append(None)
        elif key == "seconds":
            cells.append(duration(value))
        elif key == "tokens_per_s" or isinstance(value, int):
            cells.append(f"{value:,.0f}")
        elif key in ("train_loss", "val_loss", "perplexity"):
            cells.append(significant(value))
        else:
            cells.append(value if isinstance(value, str) else f"{value:.4f}")
    return cells


def _shown(run: Run, field: str) -> str | None:
    """A field's value, cut to one line of LONGEST_VALUE characters."""
    if run.fields is None or field not in run.fields:
        return None
    value = run.fields[field]
    text = value if isinstance(value, str) else json.dumps(value)
    text = printable(text)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _read(folder: Path, name: str) -> Run:
    run = RunFolder(folder)
    recipe, parameters = _recipe(run), None
    for checkpoint in reversed(run.checkpoints()):
        try:
            counted = load_metrics(checkpoint).get("parameters")
        except CheckpointError:
            continue
        if isinstance(counted, int):
            parameters = counted
            break
    fields = None if recipe is None else flatten(recipe.model_dump(exclude={"description"}))
    return Run(name, read_rows(run.metrics_path), parameters, fields)


def _recipe(run: RunFolder) -> Recipe | None:
    """As the last start says, or the newest checkpoint that loads; None if none does."""
    for start in reversed(read_starts(run.path)):
        try:
            return build(Recipe, start.recipe, "")
        except ConfigError:  # of another version
            break
    for folder in reversed(run.checkpoints()):
        try:
            return Checkpoint.load(folder).recipe
        except CheckpointError:
            continue
    return None


# Okabe and Ito's, but for their yellow, which is hard to see on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9"]
LINES: list[Any] = ["-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5))]
MARKERS = "osD^vPX*<>h"  # their number shares no factor with that of the colours
SPREAD = 10  # runs that differ by more in what they have seen are drawn on a logarithmic axis


def draw_comparison(runs: Sequence[Run], out: Path) -> list[Path]:
    """Draw compare.png in the folder `out`; returns its path. UserError where matplotlib is
    missing."""
    return save_figures(out, (("compare", figure(runs)) for _ in range(1)))


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
