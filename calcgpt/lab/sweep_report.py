"""Trials by what they reached.

What a sweep found: report.json, report.md, best.toml and plots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calcgpt.lab.space import Space
from calcgpt.lab.sweep_plots import draw_sweep
from calcgpt.lab.trials import Ranked, Status
from calcgpt.recipe import recipe_toml
from calcgpt.tables import markdown_table
from datagen.files import write_json, write_text

MOST_ROWS = 10  # of the table on a terminal


def write_report(space: Space, trials: Sequence[Ranked], out: Path, algorithm: str) -> list[Path]:
    """Write what was found of the trials, which are in order, to `out`; returns the files.
    `algorithm` is what proposed them."""
    report, page, best = out / "report.json", out / "report.md", out / "best.toml"
    pictures = draw_sweep(space, trials, out / "plots")
    write_json(
        report,
        {
            "metric": space.search.metric,
            "mode": space.search.mode,
            "max_steps": space.max_steps,
            "algorithm": algorithm,
            "scheduler": space.search.scheduler,
            "trials": [asdict(trial) for trial in trials],
        },
    )
    files = [page, report, *pictures]
    if trials and trials[0].best is not None:
        write_text(best, _best_recipe(space, trials[0]))
        files.append(best)
    pictures = [picture.relative_to(out) for picture in pictures]
    write_text(page, _page(space, trials, pictures, how(space, algorithm)))
    return files


def _best_recipe(space: Space, best: Ranked) -> str:
    """The recipe with the best values, to be trained with its own number of steps."""
    recipe = space.recipe_of(best.values)
    found = f"{space.search.metric} {best.best:.4f} at step {best.best_step}"
    description = f"{space.recipe} with the best values of a sweep: trial {best.trial}, {found}."
    return recipe_toml(recipe.model_copy(update={"description": description}))


def table(space: Space, trials: Sequence[Ranked], limit: int | None = None) -> str:
    """The trials as a Markdown table."""
    names = list(space.space)
    heads = ["trial", space.search.metric, "at step", "steps", "status", *names]
    rows = []
    for each in trials[:limit]:
        result = ["–", "–"] if each.best is None else [f"{each.best:.4f}", f"{each.best_step}"]
        cells = [each.trial, *result, f"{each.steps}", each.status]
        cells += [_cell(each.values[name]) for name in names]
        rows.append(cells)
    return markdown_table(heads, rows)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def counts(trials: Sequence[Ranked]) -> str:
    """How the trials ended, in words."""
    found = Counter(trial.status for trial in trials)
    ended = ", ".join(f"{found[status]} {status}" for status in Status if found[status])
    return f"{len(trials)} trials: {ended}"


def how(space: Space, algorithm: str) -> str:
    """How the space was searched, in a sentence."""
    scheduler = space.search.scheduler
    if scheduler != "bohb":
        return f"Proposed by {algorithm}, ended early by {scheduler}."
    if algorithm == "bohb":
        return "BOHB: proposed by its own model, ended early by HyperBand."
    return (
        "BOHB without its own model, whose packages hpbandster and ConfigSpace are missing here or "
        f"do not run: proposed by {algorithm}, ended early by HyperBand."
    )


def _page(space: Space, trials: Sequence[Ranked], pictures: Sequence[Path], how: str) -> str:
    search = space.search
    goal = "smallest" if search.mode == "min" else "largest"
    parts = [
        "# Hyperparameter search",
        " ".join(space.description.split()),
        f"{counts(trials)}. {how} A trial has at most {space.max_steps} steps, with a validation "
        f"every {search.grace_steps}, and counts by the {goal} {search.metric} of all. "
        f"The seed is {search.seed}.",
        table(space, trials),
        "\n".join(f"- {each.trial} {each.status}: {each.reason}" for each in trials if each.reason),
    ]
    if trials and trials[0].best is not None:
        parts.append("The best values as a recipe: `calcgpt train --recipe best.toml --out RUN`.")
    parts += [f"![{picture.stem}]({picture.as_posix()})" for picture in pictures]
    return "\n\n".join(part for part in parts if part) + "\n"
