"""Comparison of runs: their results, and the fields in which their recipes differ."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.checkpoint import load_metrics
from calcgpt.config import Recipe
from calcgpt.errors import CheckpointError
from calcgpt.section import build
from calcgpt_lab.recipe import differences, flatten
from calcgpt_lab.records import Row, perplexity, read_rows
from calcgpt_lab.tables import duration, printable, significant, text_table
from calcgpt_lab.training.environment import read_starts
from calcgpt_lab.training.run_folder import RunFolder
from datagen.operations import SIGNS

MAX_VALUE = 24  # characters of a field's value in a table


@dataclass(frozen=True)
class Run:
    """A run, as its folder describes it."""

    name: str
    rows: list[Row]
    parameters: int | None  # None without a checkpoint
    fields: dict[str, Any] | None  # of its recipe, as `train.lr`; None if it is not known

    def summary(self) -> dict[str, Any]:
        """Returns the results of the run; None for what was not measured.

        The validation loss is the lowest. The scores are those of the validation with the highest
        exact match, by which a checkpoint is chosen. Both come with their step. `train_loss` is
        that of the last row, a mean over its steps.
        """
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
            "perplexity": None if val_loss is None else perplexity(val_loss),
            "char_accuracy": best.val_char_accuracy if best else None,
            "exact_match": best.exact_match["all"] if best else None,
            "exact_match_step": best.step if best else None,
            **{
                f"exact_match{operation}": best.exact_match.get(operation) if best else None
                for operation in SIGNS
            },
        }


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Returns the runs in `folders`. Raises DataError, one line, if one is not the folder of a run,
    or is listed twice."""
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder} is not a folder")
        if not RunFolder(folder).metrics_path.is_file():
            raise DataError(f"{folder} is not the folder of a run: it has no metrics.jsonl")
    return [_read_run(folder, name) for folder, name in zip(folders, names(folders), strict=True)]


def names(folders: Sequence[Path]) -> list[str]:
    """Returns the paths of folders from the folder that holds all of them. Raises DataError if one
    is listed twice."""
    paths = [folder.resolve() for folder in folders]
    for folder, path in zip(folders, paths, strict=True):
        if paths.count(path) > 1:
            raise DataError(f"{folder} is listed twice")
    common = os.path.commonpath([path.parent for path in paths])
    return [printable(str(path.relative_to(common))) for path in paths]


def field_differences(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Returns field -> its value in each run, for the fields in which the recipes differ. The value
    is None for a run without the field or without a recipe."""
    recipes = [run.fields for run in runs if run.fields is not None]
    different = {field for fields in recipes[1:] for field in differences(recipes[0], fields)}
    return {
        field: [None if run.fields is None else run.fields.get(field) for run in runs]
        for field in dict.fromkeys(field for fields in recipes for field in fields)
        if field in different
    }


def comparison(runs: Sequence[Run]) -> dict[str, Any]:
    """Returns the content of the file of `calcgpt compare --json`."""
    return {"runs": [run.summary() for run in runs], "differences": field_differences(runs)}


def comparison_text(runs: Sequence[Run]) -> str:
    """Returns the comparison for a terminal, a column for each run."""
    header, *results = zip(HEADINGS, *(_cells(run.summary()) for run in runs), strict=True)
    measured = [row for row in results if any(cell is not None for cell in row[1:])]
    parts = [text_table(header, measured)]
    if fields := list(field_differences(runs)):
        rows = [[field, *(_field_cell(run, field) for run in runs)] for field in fields]
        parts.append(f"recipe fields that differ:\n{text_table(header, rows)}")
    elif len(runs) > 1 and all(run.fields is not None for run in runs):
        parts.append("the recipes are the same")
    if unknown := [run.name for run in runs if run.fields is None]:
        parts.append(
            f"no recipe could be read for {', '.join(unknown)} (one with a plug-in needs --plugin)"
        )
    return "\n\n".join(parts)


HEADINGS = [
    *("", "parameters", "steps", "tokens", "time", "tokens/s", "train loss", "val loss"),
    *("loss at step", "perplexity", "val char acc.", "val EM", "EM at step"),
    *(f"EM {operation}" for operation in SIGNS),
]


def _cells(summary: dict[str, Any]) -> list[str | None]:
    """Returns a summary as a column beside HEADINGS."""
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


def _field_cell(run: Run, field: str) -> str | None:
    """Returns a field's value, cut to one line of MAX_VALUE characters."""
    if run.fields is None or field not in run.fields:
        return None
    value = run.fields[field]
    text = value if isinstance(value, str) else json.dumps(value)
    text = printable(text)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


def _read_run(folder: Path, name: str) -> Run:
    """Reads what a folder has: the recipe of the last start, and the parameters of the newest
    checkpoint that is not damaged."""
    run, parameters, fields = RunFolder(folder), None, None
    for checkpoint in run.checkpoints():
        with suppress(CheckpointError):
            parameters = load_metrics(checkpoint).get("parameters")
    with suppress(ConfigError, IndexError):  # written by another version; not written
        recipe = build(Recipe, read_starts(folder)[-1].get("recipe"), "")
        fields = flatten(recipe.model_dump(exclude={"description"}))
    return Run(name, read_rows(run.metrics_path), parameters, fields)
