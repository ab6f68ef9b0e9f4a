"""The report of a sweep: report.json, report.md, best.toml and plots."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt.lab.space import Choice, Hyperparameter, Int, LogUniform, Range, Space
from calcgpt.lab.trials import Status, TrialResult
from calcgpt.plots import HEAT_MAP, RC_PARAMS, needs_log_scale, save_figures
from calcgpt.recipe import recipe_toml
from calcgpt.tables import counted, markdown_table
from datagen.files import write_json, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from optuna import Study
    from optuna.distributions import BaseDistribution

MAX_ROWS = 10  # of the table on a terminal


def write_report(
    space: Space, trials: Sequence[TrialResult], out: Path, algorithm: str
) -> list[Path]:
    """Writes the report on `trials`, best first, to the folder `out`; returns the files.

    `algorithm` is the name of the search algorithm that proposed the trials.
    """
    report, page, best = out / "report.json", out / "report.md", out / "best.toml"
    plots = draw_sweep(space, trials, out / "plots")
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
    files = [page, report, *plots]
    if trials and trials[0].best is not None:
        write_text(best, _best_recipe(space, trials[0]))
        files.append(best)
    plots = [plot.relative_to(out) for plot in plots]
    write_text(page, _page(space, trials, plots, algorithm))
    return files


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
    ended = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
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


def draw_sweep(space: Space, trials: Sequence[TrialResult], out: Path) -> list[Path]:
    """Draws the results into the folder `out`; returns the paths of the plots."""
    if all(trial.best is None for trial in trials):
        return []
    study, metric = make_study(space, trials), space.search.metric
    with _optuna_style():
        return save_figures(
            out, {name: partial(_drawn, draw, study, metric) for name, draw in PLOTS.items()}
        )


@contextmanager
def _optuna_style() -> Iterator[None]:
    """Gives Optuna's plots, which choose the style ggplot, the project's style."""
    from matplotlib import RcParams, rc_context
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")  # needs no display
    ggplot = plt.style.library["ggplot"]
    plt.style.library["ggplot"] = RcParams(RC_PARAMS)
    try:
        with warnings.catch_warnings(), rc_context({"savefig.bbox": "tight"}):
            # Optuna's plots are experimental, and matplotlib widens the axis of a single value.
            warnings.simplefilter("ignore")
            yield
    finally:
        plt.style.library["ggplot"] = ggplot


def _drawn(draw: Callable[[Study, str], Figure], study: Study, metric: str) -> Figure:
    """Returns a figure that pyplot has drawn. Closes it, so that pyplot does not keep it."""
    from matplotlib import pyplot as plt

    figure = draw(study, metric)
    plt.close(figure)
    return figure


def make_study(space: Space, trials: Sequence[TrialResult]) -> Study:
    """Returns the trials as a study of Optuna, in the order of their numbers.

    A trial's value is its result, even if the scheduler stopped it. Without one it has failed.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    minimize = space.search.mode == "min"
    study = optuna.create_study(direction="minimize" if minimize else "maximize")
    distributions = {name: _distribution(axis) for name, axis in space.space.items()}
    for trial in sorted(trials, key=lambda trial: trial.trial):
        state = "FAIL" if trial.best is None else "COMPLETE"
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[state],
                value=trial.best,
                params=dict(trial.values),
                distributions=distributions,
            )
        )
    return study


def _distribution(axis: Hyperparameter) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(axis, Choice):
        return CategoricalDistribution(axis.values)
    if isinstance(axis, Int):
        return IntDistribution(axis.low, axis.high)
    assert isinstance(axis, Range)
    return FloatDistribution(axis.low, axis.high, log=isinstance(axis, LogUniform))


def draw_parallel_coordinates(study: Study, metric: str) -> Figure:
    """One line per trial, coloured by its result, and one axis per hyperparameter."""
    from matplotlib import rc_context
    from optuna.visualization.matplotlib import plot_parallel_coordinate

    names = sorted(study.trials[0].params)  # in Optuna's order
    rc: Any = {
        "axes.spines.right": True,
        "figure.constrained_layout.use": True,
        "figure.figsize": (3 + 1.8 * len(names), 5),
    }
    with rc_context(rc):
        axes = plot_parallel_coordinate(study, target_name=metric)
    [lines] = axes.collections
    lines.set_cmap(HEAT_MAP if study.direction.name == "MAXIMIZE" else f"{HEAT_MAP}_r")
    labels = [metric, *(name.replace(".", "\n") for name in names)]
    axes.set_xticks(range(len(labels)), labels, rotation=0)
    axes.set_title("Hyperparameters and result of each trial", pad=14)
    for name, axis in zip(names, axes.figure.axes[2:], strict=True):  # after the colour bar
        _integer_ticks(study, name, axis.yaxis)
        for label in axis.get_yticklabels(which="both"):
            label.set_bbox({"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8})
    return _figure(axes)


def draw_history(study: Study, metric: str) -> Figure:
    """The result of each trial in order, and the best so far."""
    from matplotlib.ticker import MaxNLocator
    from optuna.visualization.matplotlib import plot_optimization_history

    axes = plot_optimization_history(study, target_name=metric)
    axes.set_title("Result of each trial")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid()
    results = [trial.value for trial in study.trials if trial.value is not None]
    if needs_log_scale(results):
        axes.set_yscale("log")
    return _figure(axes)


def draw_slices(study: Study, metric: str) -> Figure:
    """The result of each trial against each hyperparameter."""
    from matplotlib import rc_context
    from optuna.visualization.matplotlib import plot_slice

    with rc_context({"figure.figsize": (5.2, 4)}):
        panels: Any = np.ravel(np.asarray(plot_slice(study, target_name=metric)))
    for name, axes in zip(sorted(study.trials[0].params), panels, strict=True):
        axes.tick_params(axis="x", which="both", rotation=45)
        axes.grid()
        _integer_ticks(study, name, axes.xaxis)
    figure = _figure(panels[0])
    figure.suptitle("Result against each hyperparameter")
    return figure


def draw_importances(study: Study, metric: str) -> Figure:
    """How much each hyperparameter matters for a good result (PED-ANOVA; Watanabe et al. 2023)."""
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.visualization.matplotlib import plot_param_importances

    # The default of Optuna 4 is another evaluator, which needs scikit-learn.
    axes = plot_param_importances(study, PedAnovaImportanceEvaluator(), target_name=metric)
    axes.set(xlabel="importance (PED-ANOVA)", ylabel="")
    axes.set_title("Importance of each hyperparameter", loc="left")
    axes.legend().remove()
    return _figure(axes)


def _integer_ticks(study: Study, name: str, axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator
    from optuna.distributions import IntDistribution

    if isinstance(study.trials[0].distributions[name], IntDistribution):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _figure(axes: Any) -> Figure:
    figure: Figure = axes.figure
    return figure


PLOTS = {
    "parallel-coordinates": draw_parallel_coordinates,
    "history": draw_history,
    "slices": draw_slices,
    "importances": draw_importances,
}
