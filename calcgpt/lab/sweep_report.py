"""The report of a sweep: report.json, report.md, best.toml and plots."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt.lab.space import Hyperparameter, Space, Value
from calcgpt.lab.trials import Trial
from calcgpt.plots import HEAT_MAP, RC_PARAMS, save_figures
from calcgpt.recipe import recipe_toml
from calcgpt.tables import counted, markdown_table
from datagen.files import write_json, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from optuna import Study
    from optuna.distributions import BaseDistribution

STATUSES = ("running", "completed", "stopped", "diverged", "failed")
MAX_ROWS = 10  # of the table on a terminal


@dataclass(frozen=True)
class TrialResult:
    """A trial and its result: the best of its validations."""

    trial: str
    values: dict[str, Value]
    status: str
    reason: str
    steps: int  # of its last validation
    best: float | None  # value of the metric; None without a validation
    best_step: int | None


@dataclass(frozen=True)
class Outcome:
    """The result of a sweep."""

    trials: list[TrialResult]  # best first, those without a result last
    algorithm: str  # that proposed them
    files: list[Path]


def results_of(trials: Sequence[Trial], space: Space) -> list[TrialResult]:
    """Returns the results of the trials, the best first and those without one last."""
    metric, sign = space.search.metric, 1 if space.search.mode == "min" else -1
    results = []
    for trial in trials:
        rows, file = trial.validations(metric), trial.file
        best = min(rows, key=lambda row: sign * row[metric], default={})
        steps = max((row["step"] for row in rows), default=0)
        result = best.get(metric), best.get("step")
        results.append(
            TrialResult(trial.path.name, file.values, file.status, file.reason, steps, *result)
        )
    return sorted(results, key=lambda result: (result.best is None, sign * (result.best or 0.0)))


def write_report(space: Space, trials: Sequence[Trial], out: Path, algorithm: str) -> Outcome:
    """Writes the report on the trials to the folder `out`.

    `algorithm` is the name of the search algorithm that proposed the trials.
    """
    results = results_of(trials, space)
    report, page, best = out / "report.json", out / "report.md", out / "best.toml"
    plots = draw_sweep(space, results, out / "plots")
    write_json(
        report,
        {
            "metric": space.search.metric,
            "mode": space.search.mode,
            "max_steps": space.max_steps,
            "algorithm": algorithm,
            "scheduler": space.search.scheduler,
            "trials": [asdict(result) for result in results],
        },
    )
    files = [page, report, *plots]
    if results and results[0].best is not None:
        write_text(best, _best_recipe(space, results[0]))
        files.append(best)
    names = [plot.relative_to(out) for plot in plots]
    write_text(page, _page(space, results, names, algorithm))
    return Outcome(results, algorithm, files)


def _best_recipe(space: Space, best: TrialResult) -> str:
    """Returns the recipe with the best values as TOML, with its own number of steps."""
    recipe = space.recipe_with(best.values)
    result = f"{space.search.metric} {best.best:.4f} at step {best.best_step}"
    description = f"{space.recipe} with the best values of a sweep: trial {best.trial}, {result}."
    return recipe_toml(recipe.model_copy(update={"description": description}))


def _page(
    space: Space, trials: Sequence[TrialResult], plots: Sequence[Path], algorithm: str
) -> str:
    search = space.search
    superlative = "smallest" if search.mode == "min" else "largest"
    parts = [
        "# Hyperparameter search",
        " ".join(space.description.split()),
        f"{summary(space, trials, algorithm)} A trial has at most {space.max_steps} steps, with a "
        f"validation every {search.grace_steps}. Its result is its {superlative} {search.metric}. "
        f"The seed is {search.seed}.",
        table(space, trials),
        "\n".join(f"- {t.trial} {t.status}: {t.reason}" for t in trials if t.reason),
    ]
    if trials and trials[0].best is not None:
        parts.append("The best values as a recipe: `calcgpt train --recipe best.toml --out RUN`.")
    parts += [f"![{plot.stem}]({plot.as_posix()})" for plot in plots]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(space: Space, trials: Sequence[TrialResult], algorithm: str) -> str:
    """Returns how the trials ended and how the space was searched, in two sentences."""
    counts = Counter(trial.status for trial in trials)
    ended = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
    scheduler = space.search.scheduler
    if scheduler != "bohb":
        method = f"Proposed by {algorithm}, stopped early by {scheduler}."
    elif algorithm == "bohb":
        method = "BOHB: proposed by its own model, stopped early by HyperBand."
    else:
        method = (
            "BOHB without its own model, because its packages hpbandster and ConfigSpace are "
            f"missing or do not work: proposed by {algorithm}, stopped early by HyperBand."
        )
    return f"{counted(len(trials), 'trial')}: {ended}. {method}"


def table(space: Space, trials: Sequence[TrialResult], limit: int | None = None) -> str:
    """Returns the first `limit` trials, or all, as a Markdown table."""
    names = list(space.space)
    header = ["trial", space.search.metric, "at step", "steps", "status", *names]
    rows = []
    for trial in trials[:limit]:
        result = ["–", "–"] if trial.best is None else [f"{trial.best:.4f}", f"{trial.best_step}"]
        values = [trial.values[name] for name in names]
        cells = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
        rows.append([trial.trial, *result, f"{trial.steps}", trial.status, *cells])
    return markdown_table(header, rows)


def draw_sweep(space: Space, results: Sequence[TrialResult], out: Path) -> list[Path]:
    """Draws the results into the folder `out`; returns the paths of the plots."""
    if all(result.best is None for result in results):
        return []
    study = make_study(space, results)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's plots are experimental
        return save_figures(
            out, {name: partial(_draw, name, study, space.search.metric) for name in PLOTS}
        )


def make_study(space: Space, results: Sequence[TrialResult]) -> Study:
    """Returns the trials as a study of Optuna, in the order of their numbers.

    A trial's value is its result, even if the scheduler stopped it. Without one it has failed.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="minimize" if space.search.mode == "min" else "maximize")
    distributions = {name: _distribution(axis) for name, axis in space.space.items()}
    for result in sorted(results, key=lambda result: result.trial):
        state = "FAIL" if result.best is None else "COMPLETE"
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[state],
                value=result.best,
                params=dict(result.values),
                distributions=distributions,
            )
        )
    return study


def _distribution(axis: Hyperparameter) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.type == "choice":
        return CategoricalDistribution(axis.values or [])
    low, high = axis.low or 0, axis.high or 0
    if axis.type == "int":
        return IntDistribution(int(low), int(high))
    return FloatDistribution(low, high, log=axis.type == "loguniform")


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
