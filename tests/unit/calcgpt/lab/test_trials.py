"""Trials: their files, what they report to Ray Tune, and how they resume."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sweeps import new_trial, validation

pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` installs it")
from ray import tune

from calcgpt.errors import ConfigError, DataError, TrainingError, UserError
from calcgpt.lab.space import Space
from calcgpt.lab.trials import RoundReporter, Status, SweepFolder, Trial, rank_trials, run_trial


def test_lines_that_are_not_validations_are_skipped(tmp_path: Path) -> None:
    lines = [
        validation(10, 2.0),
        '{"step": 15, "loss": 1.0}\n[1]\n{"step": 20, "val_loss": NaN}\nnull\n',
        '{"step": "x", "val_loss": 1}\n' + "[" * 9_999 + "\n",
        validation(20, 1.5),
        '{"step": 25, "val_loss": 1' + "0" * 400 + "}\n",
        '{"step": 30, "v',
    ]
    trial = new_trial(tmp_path, 0, "".join(lines))
    assert [row["step"] for row in trial.validations()] == [10, 20]
    assert trial.last_step() == 20


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"values": {}, "drawn": {"x": "y"}}', "\udcff"]
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    path = new_trial(tmp_path, 0).path / "params.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=r"params\.json[^\n]*$"):
        SweepFolder(tmp_path).trials()


def test_another_sweep_in_the_folder_is_refused(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path)
    folder.begin({"space": {"lr": {"low": 1.0}}}, {"seed": 1})
    folder.begin({"space": {"lr": {"low": 1.0}}}, {"seed": 2})
    with pytest.raises(
        ConfigError, match=r"another sweep: space.lr.low is 2.0, but it was started with 1"
    ):
        folder.begin({"space": {"lr": {"low": 2.0}}}, {})
    with pytest.raises(ConfigError, match=r"another sweep: space\.n is 1"):
        folder.begin({"space": {"lr": {"low": 1.0}, "n": 1}}, {})
    assert len(json.loads((tmp_path / "sweep.json").read_text())["starts"]) == 2
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(DataError, match="was not written by a sweep"):
        folder.begin({}, {})


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """What trials report to Ray Tune."""
    results: list[Mapping[str, Any]] = []
    monkeypatch.setattr(tune, "report", results.append)
    return results


def test_a_round_is_reported_once_and_after_its_checkpoint(
    reports: list[Mapping[str, Any]],
) -> None:
    reporter = RoundReporter("val_loss", 10)
    reporter.report({"step": 10, "val_loss": 3.0})  # the folder holds it
    reporter.write({"step": 10, "val_loss": 3.0})
    reporter.write({"step": 15, "val_loss": 2.9})
    reporter.write({"step": 20, "val_loss": 2.0})
    assert [result["round"] for result in reports] == [1]  # the checkpoint comes after the row
    reporter.write({"step": 21, "loss": 2.0})
    assert reports[1] == {"round": 2, "step": 20, "val_loss": 2.0}
    reporter.write({"step": 30, "val_loss": 1.0})
    reporter.close()
    reporter.close()
    assert [result["round"] for result in reports] == [1, 2, 3]
    with pytest.raises(TrainingError, match="val_loss is nan at step 40"):
        reporter.write({"step": 40, "val_loss": math.nan})


def config_for(space: Space, trial: Trial, data: Path) -> Any:
    recipe = space.trial_recipe(trial.params.values)
    train = recipe.train.model_copy(update={"eval_batches": 1, "eval_problems": 0})
    return {
        "folder": str(trial.path),
        "recipe": recipe.model_copy(update={"train": train}).model_dump(),
        "data": str(data),
        "metric": "val_loss",
        "grace_steps": 10,
        "threads": 1,
        "device": "cpu",
    }


def test_a_stopped_trial_continues_from_the_step_at_which_it_was_stopped(
    space: Space, tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = new_trial(tmp_path, 0)
    steps: list[int] = []

    def report(result: Mapping[str, Any]) -> None:
        steps.append(result["step"])
        if steps == [10, 20]:
            raise SystemExit  # Ray ends the thread of a trial like this

    monkeypatch.setattr(tune, "report", report)
    config = config_for(space, trial, data_folder)
    with pytest.raises(SystemExit):
        run_trial(config)
    assert [path.name for path in sorted(trial.path.glob("step-*"))][-1] == "step-00000020"
    run_trial(config)
    assert steps == [10, 20, 10, 20, 30, 40]
    assert [row["step"] for row in trial.validations()] == [10, 20, 30, 40]


def test_a_failure_is_recorded_and_the_trial_is_not_trained_again(
    space: Space, tmp_path: Path, data_folder: Path, reports: list[Mapping[str, Any]]
) -> None:
    diverging, failing = (new_trial(tmp_path, index) for index in range(2))
    config = config_for(space, diverging, data_folder)
    config["recipe"]["train"] |= {"lr": 1e30, "grad_clip": 0.0}
    run_trial(config)
    assert diverging.ending.status is Status.DIVERGED
    assert "the loss is" in diverging.ending.reason
    run_trial(config_for(space, failing, tmp_path / "nowhere"))
    assert failing.ending.status is Status.FAILED
    assert "cannot read" in failing.ending.reason
    (failing.path / "metrics.jsonl").write_text(validation(10, 1.0))
    reports.clear()
    run_trial(config_for(space, failing, data_folder))
    assert [result["step"] for result in reports] == [10]  # only what the folder holds


def test_the_reason_of_a_failure_is_one_line_of_moderate_length(tmp_path: Path) -> None:
    trial = new_trial(tmp_path, 0)
    trial.end(Status.FAILED, "a traceback\n" * 1_000)
    reason = trial.ending.reason
    assert reason.startswith("a traceback a traceback")
    assert len(reason) == 500


def test_trials_are_ranked_by_their_best_validation(space: Space, tmp_path: Path) -> None:
    new_trial(tmp_path, 0, validation(10, 3.0) + validation(20, 2.0))
    new_trial(tmp_path, 1, validation(10, 1.5) + validation(20, 1.75))
    new_trial(tmp_path, 2)
    trials = rank_trials(SweepFolder(tmp_path).trials(), space)
    assert [(trial.trial, trial.best, trial.best_step, trial.steps) for trial in trials] == [
        ("0001", 1.5, 10, 20),
        ("0000", 2.0, 20, 20),
        ("0002", None, None, 0),
    ]


def test_scores_are_ranked_from_the_largest(space: Space, tmp_path: Path) -> None:
    search = space.search.model_copy(update={"metric": "val_exact_match"})
    space = space.model_copy(update={"search": search})
    for index, score in enumerate((0.2, 0.9, 0.0)):
        new_trial(tmp_path, index, validation(10, 1.0, val_exact_match=score))
    trials = rank_trials(SweepFolder(tmp_path).trials(), space)
    assert [trial.best for trial in trials] == [0.9, 0.2, 0.0]
