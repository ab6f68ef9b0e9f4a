"""The report of a sweep: report.json, report.md, best.toml and plots."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt.lab.space import Space
from calcgpt.lab.trials import Trial
from calcgpt.plots import HEAT_MAP, RC_PARAMS, save_figures
from calcgpt.recipe import recipe_toml
from calcgpt.tables import counted, markdown_table
from datagen.files import write_json, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from optuna import Study

Result = dict[str, Any]  # of a trial: one of `trials` in report.json
STATUSES = ("running", "completed", "stopped", "diverged", "failed")
MAX_ROWS = 10  # of the table on a terminal


def results_of(trials: Sequence[Trial], space: Space) -> list[Result]:
    """Returns the results of the trials, the best first and those without a validation last."""
    metric, sign = space.search.metric, 1 if space.search.mode == "min" else -1
    results = []
    for trial in trials:
        rows = trial.validations(metric)
        best = min(rows, key=lambda row: sign * row[metric], default={})
        results.append(
            {
                "trial": trial.path.name,
                **trial.model_dump(),
                "steps": max((row["step"] for row in rows), default=0),
                "best": best.get(metric),
                "best_step": best.get("step"),
            }
        )
    return sorted(results, key=lambda r: (r["best"] is None, sign * (r["best"] or 0.0)))


def write_report(
    space: Space, trials: Sequence[Trial], out: Path
) -> tuple[list[Result], list[Path]]:
    """Writes the report on the trials to the folder `out`; returns their results and its files."""
    results, search = results_of(trials, space), space.search
    report, page, best = out / "report.json", out / "report.md", out / "best.toml"
    plots = draw_sweep(space, results, out / "plots")
    record: dict[str, Any] = {
        "metric": search.metric,
        "mode": search.mode,
        "max_steps": space.max_steps,
    }
    record |= {"algorithm": search.method, "scheduler": search.scheduler, "trials": results}
    write_json(report, record)
    files = [page, report, *plots]
    if results and results[0]["best"] is not None:
        write_text(best, _best_recipe(space, results[0]))
        files.append(best)
    write_text(page, _page(space, results, [plot.relative_to(out) for plot in plots]))
    return results, files


def _best_recipe(space: Space, best: Result) -> str:
    """Returns the recipe with the best values as TOML, with its own number of steps."""
    recipe = space.recipe_with(best["values"])
    result = f"{space.search.metric} {best['best']:.4f} at step {best['best_step']}"
    source = f"trial {best['trial']}, {result}"
    description = f"{space.recipe} with the best values of a sweep: {source}."
    return recipe_toml(recipe.model_copy(update={"description": description}))


def _page(space: Space, results: Sequence[Result], plots: Sequence[Path]) -> str:
    search = space.search
    superlative = "smallest" if search.mode == "min" else "largest"
    parts = [
        "# Hyperparameter search",
        " ".join(space.description.split()),
        f"{summary(space, results)} A trial has at most {space.max_steps} steps, with a "
        f"validation every {search.grace_steps}. Its result is its {superlative} {search.metric}. "
        f"The seed is {search.seed}.",
        table(space, results),
        "\n".join(f"- {r['trial']} {r['status']}: {r['reason']}" for r in results if r["reason"]),
    ]
    if results and results[0]["best"] is not None:
        parts.append("The best values as a recipe: `calcgpt train --recipe best.toml --out RUN`.")
    parts += [f"![{plot.stem}]({plot.as_posix()})" for plot in plots]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(space: Space, results: Sequence[Result]) -> str:
    """Returns how the trials ended and how the space was searched, in two sentences."""
    counts = Counter(result["status"] for result in results)
    ended = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
    scheduler, method = space.search.scheduler, space.search.method
    how = f"Proposed by {method}, stopped early by {scheduler}."
    if scheduler == "bohb":
        how = "BOHB: proposed by its own model, stopped early by HyperBand."
        if method != "bohb":
            how = (
                "BOHB without its own model, because its packages hpbandster and ConfigSpace are "
                f"missing or do not work: proposed by {method}, stopped early by HyperBand."
            )
    return f"{counted(len(results), 'trial')}: {ended}. {how}"


def table(space: Space, results: Sequence[Result], limit: int | None = None) -> str:
    """Returns the first `limit` trials, or all, as a Markdown table."""
    names = list(space.space)
    header = ["trial", space.search.metric, "at step", "steps", "status", *names]
    rows = []
    for result in results[:limit]:
        best = ["–", "–"]
        if result["best"] is not None:
            best = [f"{result['best']:.4f}", str(result["best_step"])]
        values = [result["values"][name] for name in names]
        cells = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
        rows.append([result["trial"], *best, str(result["steps"]), result["status"], *cells])
    return markdown_table(header, rows)


def draw_sweep(space: Space, results: Sequence[Result], out: Path) -> list[Path]:
    """Draws the results into the folder `out`; returns the paths of the plots."""
    if all(result["best"] is None for result in results):
        return []
    study = make_study(space, results)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's plots are experimental
        return save_figures(
            out, {name: partial(_draw, name, study, space.search.metric) for name in PLOTS}
        )


def make_study(space: Space, results: Sequence[Result]) -> Study:
    """Returns the trials as a study of Optuna, in the order of their numbers.

    A trial's value is its result, even if the scheduler stopped it. Without one it has failed.
    """
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="minimize" if space.search.mode == "min" else "maximize")
    distributions = OptunaSearch.convert_search_space(
        {name: axis.domain() for name, axis in space.space.items()}
    )
    for result in sorted(results, key=lambda result: str(result["trial"])):
        state = "FAIL" if result["best"] is None else "COMPLETE"
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[state],
                value=result["best"],
                params=dict(result["values"]),
                distributions=distributions,
            )
        )
    return study


PLOTS = {  # name -> function of Optuna, title
    "parallel-coordinates": (
        "plot_parallel_coordinate",
        "Hyperparameters and result of each trial",
    ),
    "history": ("plot_optimization_history", "Result of each trial"),
    "slices": ("plot_slice", "Result against each hyperparameter"),
    "importances": ("plot_param_importances", "Importance of each hyperparameter (PED-ANOVA)"),
}


def _draw(name: str, study: Study, metric: str) -> Figure:
    """Returns one of Optuna's plots in the project's style; Optuna would choose ggplot."""
    from matplotlib import RcParams, rc_context
    from matplotlib import pyplot as plt
    from optuna import visualization
    from optuna.importance import PedAnovaImportanceEvaluator

    plt.switch_backend("agg")  # needs no display
    function, title = PLOTS[name]
    # The default evaluator of Optuna 4 needs scikit-learn.
    options = {"evaluator": PedAnovaImportanceEvaluator()} if name == "importances" else {}
    n_axes = len(study.trials[0].params)
    width = 3 + 1.8 * n_axes if name == "parallel-coordinates" else 5.2
    size: dict[Any, Any] = {"figure.figsize": (width, 4.5), "figure.constrained_layout.use": True}
    ggplot, plt.style.library["ggplot"] = plt.style.library["ggplot"], RcParams(RC_PARAMS)
    try:
        with rc_context(size):
            axes = getattr(visualization.matplotlib, function)(study, target_name=metric, **options)
    finally:
        plt.style.library["ggplot"] = ggplot
    panels = np.ravel(np.asarray(axes))
    figure: Figure = panels[0].figure
    plt.close(figure)  # pyplot does not keep it
    for panel in panels:
        panel.set_title("")
        panel.set_title("", loc="left")
        panel.tick_params(axis="x", rotation=30)
    if name == "parallel-coordinates":  # Optuna's best colour is dark, its worst white
        reverse = "_r" if study.direction.name == "MINIMIZE" else ""
        panels[0].collections[0].set_cmap(HEAT_MAP + reverse)
    figure.suptitle(title)
    return figure
