"""What a sweep's trials have come to: a table, the best recipe, and plots."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calcgpt.base.errors import DataError
from calcgpt.base.files import read_json, write_text
from calcgpt_lab.plots import save_figures
from calcgpt_lab.recipe import recipe_toml
from calcgpt_lab.records import step_lines
from calcgpt_lab.studies.space import Space, Values
from calcgpt_lab.tables import counted, markdown_table
from calcgpt_lab.training.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VALUES = "trial.json"


class Result(NamedTuple):
    """A trial: its values, its best validation if there is one, and the last one's step."""

    name: str
    values: Values
    best: float | None
    best_step: int
    steps: int


def validations(path: Path, metric: str) -> list[dict[str, Any]]:
    """Returns the validation rows of a trial's `metrics.jsonl`, in order. Other lines, such as the
    one a killed run leaves, are ignored."""
    rows = [row for _, row in step_lines(RunFolder(path).metrics_path)]
    return [row for row in rows if type(row.get(metric)) is float and math.isfinite(row[metric])]


def results_in(out: Path, space: Space) -> list[Result]:
    """Returns the trials that were started, in order. Raises UserError for a bad file."""
    metric, better = space.search.metric, min if space.search.mode == "min" else max
    results: list[Result] = []
    while (path := out / "trials" / f"{len(results):04d}" / VALUES).exists():
        values = read_json(path)
        if not isinstance(values, dict) or values.keys() != space.space.keys():
            raise DataError(f"{path} is not of this sweep")
        space.recipe_with(values)
        rows = validations(path.parent, metric)
        none: dict[str, Any] = {metric: None, "step": 0}
        best = better(rows, key=lambda row: row[metric], default=none)
        last = max((row["step"] for row in rows), default=0)
        results.append(Result(path.parent.name, values, best[metric], best["step"], last))
    return results


def write_report(
    space: Space, results: Sequence[Result], failures: Mapping[str, str], out: Path
) -> None:
    """Writes report.md and, if a trial has a result, best.toml and plots."""
    search, sign = space.search, 1 if space.search.mode == "min" else -1
    ranked = sorted(results, key=lambda r: (r.best is None, sign * (r.best or 0)))
    how = f"proposed by {search.method}, stopped early by {search.scheduler}"
    if search.scheduler == "bohb" != search.method:
        how += " without its own model: hpbandster and ConfigSpace are missing or do not work"
    page = [f"# Hyperparameter search\n\n{space.description}".strip()]
    page.append(f"{counted(len(results), 'trial')}, {how}.")
    header = ["trial", search.metric, "at step", "steps", "ended", *space.space]
    rows = []
    for result in ranked:
        ended = "failed" if result.name in failures else "stopped"
        ended = "completed" if result.steps == space.max_steps else ended
        best = "" if result.best is None else f"{result.best:.4f}"
        cells = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in result.values.values()]
        rows.append([result.name, best, str(result.best_step), str(result.steps), ended, *cells])
    page.append(markdown_table(header, rows))
    page += [f"{name} failed: {reason}" for name, reason in failures.items()]
    if results and ranked[0].best is not None:
        best_recipe = space.recipe_with(ranked[0].values)
        value = f"trial {ranked[0].name}, {search.metric} {ranked[0].best:.4f}"
        description = f"{best_recipe.description} From a sweep: {value}".strip()
        best_recipe = best_recipe.model_copy(update={"description": description})
        write_text(out / "best.toml", recipe_toml(best_recipe))
        page.append("The best values as a recipe: `calcgpt train --recipe best.toml --out RUN`.")
        plots = draw_sweep(space, results, out / "plots")
        page += [f"![{plot.stem}](plots/{plot.name})" for plot in plots]
    write_text(out / "report.md", "\n\n".join(page) + "\n")


def draw_sweep(space: Space, results: Sequence[Result], out: Path) -> list[Path]:
    """Draws the results into the folder `out`, by Optuna; returns the paths of the plots.

    A trial's value is its result, even if the scheduler stopped it. Without one it has failed.
    """
    import optuna
    from matplotlib import pyplot as plt
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.visualization import matplotlib as plots
    from ray.tune.search.optuna import OptunaSearch

    plt.switch_backend("agg")  # needs no display
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="minimize" if space.search.mode == "min" else "maximize")
    distributions = OptunaSearch.convert_search_space(space.domains())
    for result in results:
        state = optuna.trial.TrialState["FAIL" if result.best is None else "COMPLETE"]
        trial = optuna.trial.create_trial(
            state=state, value=result.best, params=result.values, distributions=distributions
        )
        study.add_trial(trial)

    def draw(function: Callable[..., Any], **options: Any) -> Figure:
        axes = function(study, target_name=space.search.metric, **options)
        figure: Figure = np.ravel(np.asarray(axes))[0].figure
        plt.close(figure)  # pyplot does not keep it
        return figure

    evaluator = PedAnovaImportanceEvaluator()  # the default one needs scikit-learn
    figures = {
        "parallel-coordinates": lambda: draw(plots.plot_parallel_coordinate),
        "history": lambda: draw(plots.plot_optimization_history),
        "slices": lambda: draw(plots.plot_slice),
        "importances": lambda: draw(plots.plot_param_importances, evaluator=evaluator),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's plots are experimental
        return save_figures(out, figures)
