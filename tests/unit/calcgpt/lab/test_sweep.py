"""Sweeps before and after Ray runs: spaces, searches, trials, their folder, and the report."""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import RunCli
from forks import PATIENCE
from sweeps import SPACE, new_trial, validation

pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` installs it")
pytest.importorskip("optuna")
from ray import tune

from calcgpt.errors import TrainingError, UserError
from calcgpt.lab.search import Progress, make_scheduler, make_search
from calcgpt.lab.space import Hyperparameter, Space, load_space
from calcgpt.lab.sweep_report import PLOTS, draw_sweep, results_of, summary, table, write_report
from calcgpt.lab.trials import Resources, RoundReporter, Trial, run_trial, trials_in
from calcgpt.recipe import load_recipe

ALGORITHMS = ["hyperopt", "optuna", "random"]
SCHEDULERS = ["asha", "bohb", "hyperband", "none"]
AXES = {
    "x.uniform": Hyperparameter(type="uniform", low=-1.0, high=2.5),
    "x.loguniform": Hyperparameter(type="loguniform", low=1e-5, high=3e-2),
    "x.quniform": Hyperparameter(type="quniform", low=0.1, high=0.7, q=0.1),
    "x.int": Hyperparameter(type="int", low=-3, high=7),
    "x.choice": Hyperparameter(type="choice", values=["a$b", 1, True, 1.5]),
}


@pytest.fixture
def space(recipe_file: Callable[[str], str]) -> Space:
    """A space of two hyperparameters over the recipe `nano`."""
    return load_space(recipe_file(SPACE))


def with_search(space: Space, **changes: Any) -> Space:
    return space.model_copy(update={"search": space.search.model_copy(update=changes)})


# Spaces.


@pytest.mark.parametrize("axis", AXES.values(), ids=AXES)
def test_a_draw_gives_a_value_within_the_bounds_and_survives_json(axis: Hyperparameter) -> None:
    values = [axis.value(draw) for draw in axis.domain().sample(size=200, random_state=1)]
    for value in values:
        assert repr(axis.value(json.loads(json.dumps(value)))) == repr(value)
    if axis.type in ("int", "choice"):  # both bounds of an int, and the type of each value
        assert set(map(repr, values)) == set(map(repr, axis.examples()))
    else:
        assert axis.low <= min(values) <= max(values) <= axis.high


def test_a_draw_beyond_a_bound_by_rounding_is_the_bound() -> None:
    rate = AXES["x.loguniform"]
    assert rate.value(math.nextafter(3e-2, 1)) == 3e-2
    assert rate.value(np.float64(math.nextafter(1e-5, 0))) == 1e-5


def test_a_trial_is_the_recipe_with_its_values_for_the_steps_of_the_sweep(space: Space) -> None:
    values = {"train.lr": 0.005, "train.schedule": "cosine"}
    train = space.trial_recipe(values).train
    assert (train.lr, train.schedule, train.steps) == (0.005, "cosine", 40)
    assert (train.eval_interval, train.checkpoint_interval) == (10, 10)
    assert train.log_interval == 1  # a round is reported with the row after its checkpoint
    assert space.recipe_with(values).train.steps == load_recipe("nano").train.steps != 40


LR = '[space."train.lr"]\ntype = "loguniform"\nlow = 1e-4\nhigh = 1e-2\n'
N_HEAD = '[space."model.n_head"]\ntype = "int"\nlow = 1\nhigh = 4\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("train.lr", "train.speed", "unknown field 'train.speed'; valid fields: batches"),
        ("train.lr", "lr", "'lr' is not a field of a recipe"),
        ("train.lr", "train.steps", "train.steps is the same in all trials"),
        ("train.lr", "train.batch_size", "train.batch_size: Input should be a valid integer"),
        ("low = 1e-4", "low = 1.0", "low 1.0 is not below high 0.01"),
        ("low = 1e-4", "low = -1.0", "low must be greater than 0"),
        ("low = 1e-4", "", "'loguniform' has the fields low, high"),
        ("low = 1e-4", "low = 1e-4\nq = 2.0", "'loguniform' has the fields low, high"),
        ("loguniform", "int", "low and high must be integers"),
        ("loguniform", "normal", "unknown type 'normal'; valid names: choice"),
        ('"cosine"', '"sawtooth"', "unknown schedule 'sawtooth'"),
        ("trials = 3", "trials = 3\ntries = 3", "unknown field 'search.tries'"),
        ("trials = 3", 'trials = 3\nalgorithm = "grid"', "unknown algorithm 'grid'; valid names"),
        (
            "trials = 3",
            'trials = 3\nscheduler = "bohb"\nalgorithm = "random"',
            "leave out the algo",
        ),
        ("grace_steps = 10", "grace_steps = 15", "grace_steps 15 does not divide max_steps 40"),
        ('recipe = "nano"', 'recipe = "nono"', "unknown recipe 'nono'"),
        ("[search]", "[fixed.train]\nsped = 1\n[search]", "unknown field 'train.sped'"),
        (LR, N_HEAD, "recipe 'nano': model: n_head"),
    ],
)
def test_an_invalid_space_is_refused_in_one_line(
    recipe_file: Callable[[str], str], old: str, new: str, message: str
) -> None:
    assert old in SPACE
    with pytest.raises(UserError) as caught:
        load_space(recipe_file(SPACE.replace(old, new)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# The search.


def proposals(space: Space, previous: list[Trial], count: int) -> list[dict[str, Any]]:
    """Returns the values of `count` trials that a search proposes. Large rates get good results."""
    search = make_search(space, previous)
    domains = {name: axis.domain() for name, axis in space.space.items()}
    search.set_search_properties("val_loss", "min", domains)
    values = []
    for number in range(count):
        values.append(space.values_of(search.suggest(str(number))))
        result = {"training_iteration": 1, "val_loss": -math.log(values[-1]["train.lr"])}
        search.on_trial_result(str(number), result)
        search.on_trial_complete(str(number), result)
    return values


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_resumed_search_proposes_the_known_trials_and_then_new_ones(
    space: Space, tmp_path: Path, algorithm: str
) -> None:
    space = with_search(space, algorithm=algorithm)
    first = proposals(space, [], 4)
    assert first == proposals(space, [], 4) != proposals(with_search(space, seed=1), [], 4)
    previous = [Trial.write(tmp_path / str(n), values) for n, values in enumerate(first)]
    again = proposals(space, previous, 8)
    assert again[:4] == first
    assert len({values["train.lr"] for values in again}) == 8  # no draw of the seed is repeated


def test_known_results_lead_the_search(space: Space) -> None:
    later = proposals(space, [], 30)[12:]  # optuna's first ten are random
    # Half of uniform draws would be above the middle, 1e-3.
    assert sum(values["train.lr"] > 1e-3 for values in later) >= 15


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_and_what_bohb_searches_with(space: Space, scheduler: str) -> None:
    space = with_search(space, scheduler=scheduler)
    assert make_scheduler(space)
    if scheduler == "bohb":
        is_whole = space.search.method == "bohb"  # its packages may be missing
        assert ("by its own model" in summary(space, [])) == is_whole
        assert ("hpbandster and ConfigSpace are missing" in summary(space, [])) != is_whole


def test_ray_is_not_imported_before_its_settings_are_made() -> None:
    code = """
import sys, calcgpt.lab.sweep
from calcgpt.lab.space import load_space
load_space("blog")
assert "ray" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_the_progress_records_how_trials_end(space: Space, tmp_path: Path) -> None:
    class RayTrial(SimpleNamespace):
        def __str__(self) -> str:
            return str(self.name)

    known = new_trial(tmp_path, 0, status="completed")
    trials = [
        RayTrial(
            name=f"{index:04d}",
            status="RUNNING",
            config={"train.lr": 1e-3, "train.schedule": "linear"},
            last_result={"step": step},
            error_file=None,
        )
        for index, step in enumerate((40, 40, 20, 20))
    ]
    with closing(Progress(space, tmp_path, [known], True)) as progress:
        for trial, loss in zip(trials, (0.5, 0.25, 0.75, 1.0), strict=True):
            progress.on_trial_result(1, trials, trial, {"val_loss": loss})
        for trial in trials[:3]:
            progress.on_trial_complete(1, trials, trial)
        progress.on_trial_error(1, trials, trials[3])
        assert (progress.bar.initial, progress.bar.n) == (1, 4)  # the known one did not train
        assert "4 running, best val_loss 0.2500 (0001)" in str(progress.bar)
    statuses = [trial.status for trial in trials_in(tmp_path)]
    assert statuses == ["completed", "completed", "stopped", "failed"]


# Trials.


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """What trials report to Ray Tune."""
    results: list[Mapping[str, Any]] = []
    monkeypatch.setattr(tune, "report", results.append)
    return results


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
    assert [row["step"] for row in trial.validations("val_loss")] == [10, 20]


def test_a_round_is_reported_once_and_after_its_checkpoint(
    space: Space, reports: list[Mapping[str, Any]]
) -> None:
    reporter = RoundReporter(space.search)
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


VALUES: Any = {"train.lr": 1e-3, "train.schedule": "linear"}


def test_a_stopped_trial_continues_from_the_step_at_which_it_was_stopped(
    space: Space, tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space.model_copy(update={"fixed": {"train": {"eval_batches": 1, "eval_problems": 0}}})
    steps: list[int] = []
    stops = iter([20])

    def report(result: Mapping[str, Any]) -> None:
        steps.append(result["step"])
        if result["step"] == 20 and next(stops, 0):
            raise SystemExit  # Ray ends the thread of a trial like this

    monkeypatch.setattr(tune, "report", report)
    trial = (tmp_path / "trial", VALUES, space, data_folder, Resources())
    with pytest.raises(SystemExit):
        run_trial(*trial)
    assert max(path.name for path in tmp_path.glob("trial/step-*")) == "step-00000020"
    run_trial(*trial)
    assert steps == [10, 20, 10, 20, 30, 40]
    steps.clear()
    run_trial(trial[0], VALUES | {"train.lr": 2e-3}, *trial[2:])  # of a search that was killed
    assert steps == [10, 20, 30, 40]


def test_a_failure_is_recorded_and_the_trial_is_not_trained_again(
    space: Space, tmp_path: Path, data_folder: Path, reports: list[Mapping[str, Any]]
) -> None:
    wild = space.model_copy(update={"fixed": {"train": {"grad_clip": 0.0}}})
    for _ in range(2):
        with pytest.raises(TrainingError, match="the loss is"):
            run_trial(tmp_path, VALUES | {"train.lr": 1e30}, wild, data_folder, Resources())
        assert Trial.load(tmp_path).status == "diverged"
    failed = new_trial(tmp_path, 0, validation(10, 1.0), status="failed", reason="r\n" * 1_000)
    assert len(failed.reason) == 500
    run_trial(failed.path, VALUES, space, data_folder, Resources())
    assert [result["step"] for result in reports] == [10]  # only what the folder holds


# The folder and the report.


def test_a_score_needs_problems(
    run_cli: RunCli, recipe_file: Callable[[str], str], tmp_path: Path
) -> None:
    for name in ("train.txt", "val.txt"):
        (tmp_path / name).write_text("To be, or not to be, that is the question. " * 20)
    text = SPACE.replace("trials", 'metric = "val_exact_match"\ntrials')
    text = text.replace(
        "[search]", '[fixed]\ntokenizer = "chars"\n[fixed.train]\nbatches = "stream"\n[search]'
    )
    outcome = run_cli("sweep", recipe_file(text), "--out", tmp_path / "out", "--data", tmp_path)
    assert "'val_exact_match' needs problems" in outcome.error


@pytest.mark.parametrize("content", ["", "[]", '{"values": {}}', '{"values": {"x": null}}'])
def test_a_bad_trial_is_refused(
    run_cli: RunCli,
    recipe_file: Callable[[str], str],
    data_folder: Path,
    tmp_path: Path,
    content: str,
) -> None:
    file = new_trial(tmp_path, 0).path / "trial.json"
    file.write_text(content)
    outcome = run_cli("sweep", recipe_file(SPACE), "--out", tmp_path, "--data", data_folder)
    assert outcome.error.startswith(f"{file}")


def test_a_sweep_may_go_on_with_more_trials_and_with_nothing_else_changed(
    run_cli: RunCli,
    recipe_file: Callable[[str], str],
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calcgpt.lab.search.search", lambda *args, **options: None)
    flags = ("--out", tmp_path / "out", "--data", data_folder)
    for text, message in {
        SPACE: "no trial has a result",
        SPACE.replace("trials = 3", "trials = 5"): "no trial has a result",
        SPACE.replace("max_steps = 40", "max_steps = 80"): "another sweep: search.max_steps is 80",
    }.items():
        assert message in run_cli("sweep", recipe_file(text), *flags).err


def test_the_report_has_all_trials_and_the_best_recipe(space: Space, tmp_path: Path) -> None:
    new_trial(tmp_path, 0, validation(10, 3.0) + validation(20, 2.0), status="stopped")
    metrics = validation(10, 1.5) + validation(20, 1.75)
    new_trial(tmp_path, 1, metrics, lr=0.004, status="completed")
    new_trial(tmp_path, 2, status="diverged", reason="the loss\nis nan")
    results, files = write_report(space, trials_in(tmp_path), tmp_path)
    assert all(file.exists() for file in files)
    plots = {f"{name}.png" for name in PLOTS}
    assert {file.name for file in files} == {"report.md", "report.json", "best.toml"} | plots
    page = (tmp_path / "report.md").read_text("utf-8")
    assert table(space, results) in page
    assert "| 0001 | 1.5000 | 10 | 20 | completed | 0.004 | linear |" in page
    assert "- 0002 diverged: the loss is nan" in page
    best = load_recipe(str(tmp_path / "best.toml"))
    assert best.train == space.recipe_with(results[0]["values"]).train
    assert best.train.steps == 200
    record = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert record["trials"][0]["values"] == {"train.lr": 0.004, "train.schedule": "linear"}


def test_trials_are_ranked_by_their_best_validation(space: Space, tmp_path: Path) -> None:
    metrics = [validation(10, 3.0) + validation(20, 2.0), validation(10, 1.5), ""]
    trials = [new_trial(tmp_path / "loss", index, rows) for index, rows in enumerate(metrics)]
    assert [(result["best"], result["best_step"]) for result in results_of(trials, space)] == [
        (1.5, 10),
        (2.0, 20),
        (None, None),
    ]
    scores = [validation(10, 1.0, val_exact_match=score) for score in (0.2, 0.9, 0.0)]
    trials = [new_trial(tmp_path / "score", index, row) for index, row in enumerate(scores)]
    results = results_of(trials, with_search(space, metric="val_exact_match"))
    assert [result["best"] for result in results] == [0.9, 0.2, 0.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "losses", [[0.5, 0.5], [*np.linspace(0.1, 5, 11), None]], ids=["equal", "many and a failure"]
)
def test_every_type_of_hyperparameter_is_drawn(
    space: Space, tmp_path: Path, losses: list[float | None]
) -> None:
    space = space.model_copy(update={"space": AXES})
    samples = {
        name: axis.domain().sample(size=len(losses), random_state=1) for name, axis in AXES.items()
    }
    trials = []
    for index, loss in enumerate(losses):
        values = space.values_of({name: draws[index] for name, draws in samples.items()})
        trials.append(Trial.write(tmp_path / f"{index:04d}", values))
        if loss is not None:
            (trials[-1].path / "metrics.jsonl").write_text(validation(10, loss))
    plots = draw_sweep(space, results_of(trials, space), tmp_path)
    assert [plot.stem for plot in plots] == list(PLOTS)
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)
