"""The report of a sweep: table, best recipe and plots."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sweeps import new_trial, validation

pytest.importorskip("optuna", reason="Optuna is not installed: the extra `ray` installs it")
from calcgpt.lab.space import HYPERPARAMETERS, Space
from calcgpt.lab.sweep_report import PLOTS, draw_sweep, make_study, summary, table, write_report
from calcgpt.lab.trials import Status, SweepFolder, TrialResult, rank_trials
from calcgpt.recipe import load_recipe


def test_the_report_has_all_trials_and_the_best_recipe(space: Space, tmp_path: Path) -> None:
    new_trial(tmp_path, 0, validation(10, 3.0) + validation(20, 2.0)).end(Status.STOPPED)
    metrics = validation(10, 1.5) + validation(20, 1.75)
    new_trial(tmp_path, 1, metrics, lr=0.004).end(Status.COMPLETED)
    new_trial(tmp_path, 2).end(Status.DIVERGED, "the loss\nis nan")
    trials = rank_trials(SweepFolder(tmp_path).trials(), space)
    files = write_report(space, trials, tmp_path, "optuna")
    assert all(file.exists() for file in files)
    plots = {f"{name}.png" for name in PLOTS}
    assert {file.name for file in files} == {"report.md", "report.json", "best.toml"} | plots
    page = (tmp_path / "report.md").read_text("utf-8")
    assert table(space, trials) in page
    assert "| 0001 | 1.5000 | 10 | 20 | completed | 0.004 | linear |" in page
    assert "- 0002 diverged: the loss is nan" in page
    best = load_recipe(str(tmp_path / "best.toml"))
    assert best.train == space.recipe_with(trials[0].values).train
    assert best.train.steps == 200
    record = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert record["trials"][0]["values"] == {"train.lr": 0.004, "train.schedule": "linear"}


def test_the_summary_says_what_replaces_the_model_of_bohb(space: Space) -> None:
    search = space.search.model_copy(update={"scheduler": "bohb"})
    space = space.model_copy(update={"search": search})
    assert "hpbandster and ConfigSpace are missing" in summary(space, [], "optuna")
    assert "its own model" in summary(space, [], "bohb")


AXES: list[dict[str, Any]] = [
    {"type": "uniform", "low": -1.0, "high": 2.5},
    {"type": "loguniform", "low": 1e-5, "high": 3e-2},
    {"type": "quniform", "low": 0.1, "high": 0.75, "q": 0.1},
    {"type": "int", "low": -3, "high": 7},
    {"type": "choice", "values": ["a$b", 1, True, 1.5]},
]


def random_trials(space: Space, results: list[float | None]) -> tuple[Space, list[TrialResult]]:
    """Returns a space with every type of hyperparameter, and a trial for each of the results."""
    axes = {f"x.{axis['type']}": HYPERPARAMETERS[axis["type"]](**axis) for axis in AXES}
    space = space.model_copy(update={"space": axes})
    samples = {
        name: axis.domain().sample(size=len(results), random_state=1) for name, axis in axes.items()
    }
    trials = [
        TrialResult(
            trial=f"{index:04d}",
            values={name: axis.value(samples[name][index]) for name, axis in axes.items()},
            status=Status.COMPLETED if best is not None else Status.FAILED,
            reason="",
            steps=40,
            best=best,
            best_step=40,
        )
        for index, best in enumerate(results)
    ]
    return space, trials


def test_a_study_has_the_results_of_the_trials_under_their_numbers(space: Space) -> None:
    space, trials = random_trials(space, [0.5, None, 0.25])
    study = make_study(space, sorted(trials, key=lambda trial: trial.best or 1.0))
    assert [trial.number for trial in study.trials] == [0, 1, 2]
    assert [trial.value for trial in study.trials] == [0.5, None, 0.25]
    assert [trial.params for trial in study.trials] == [trial.values for trial in trials]
    assert study.best_trial.number == 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "results",
    [[0.5, 0.5], [*np.linspace(0.1, 5, 11), None]],
    ids=["equal results", "many results and a failure"],
)
def test_every_type_of_hyperparameter_is_drawn(
    space: Space, tmp_path: Path, results: list[float | None]
) -> None:
    space, trials = random_trials(space, results)
    plots = draw_sweep(space, trials, tmp_path)
    assert [plot.stem for plot in plots] == list(PLOTS)
    for plot in plots:
        assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_the_parallel_coordinates_have_an_axis_for_each_hyperparameter(space: Space) -> None:
    space, trials = random_trials(space, [0.5, 0.25, 2.0])
    axes, bar, *others = PLOTS["parallel-coordinates"](make_study(space, trials), "val_loss").axes
    names = sorted(name.replace(".", "\n") for name in space.space)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["val_loss", *names]
    assert len(others) == len(names)
    assert bar.get_ylabel() == "val_loss"
    [lines] = axes.collections
    assert len(lines.get_segments()) == 3


def test_without_a_result_nothing_is_drawn(space: Space, tmp_path: Path) -> None:
    assert draw_sweep(*random_trials(space, [None, None]), tmp_path / "plots") == []
    assert not (tmp_path / "plots").exists()
