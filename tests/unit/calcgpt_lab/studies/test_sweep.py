"""Sweeps before and after Ray runs: spaces, searches, trials, and the report."""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from commands import RunCli
from waiting import PATIENCE

pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` installs it")
pytest.importorskip("optuna")
import pandas
from ray import tune

from calcgpt.base.errors import UserError
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.studies import sweep as module
from calcgpt_lab.studies.space import Search, Space, load_space
from calcgpt_lab.studies.sweep import (
    Resources,
    Rounds,
    make_scheduler,
    make_search,
    run_trial,
    write_report,
)

SPACE = """
recipe = "nano"
[search]
trials = 3
max_steps = 40
grace_steps = 10
[space]
"train.lr" = { loguniform = [1e-4, 1e-2] }
"train.schedule" = { choice = ["linear", "cosine"] }
"""
VALUES: dict[str, Any] = {"train.lr": 1e-3, "train.schedule": "linear"}


@pytest.fixture
def space(recipe_file: Callable[[str], str]) -> Space:
    """A space of two hyperparameters over the recipe `nano`."""
    return load_space(recipe_file(SPACE))


def with_search(space: Space, **changes: Any) -> Space:
    return space.model_copy(update={"search": space.search.model_copy(update=changes)})


def test_a_trial_is_the_recipe_with_its_values_for_the_steps_of_the_sweep(space: Space) -> None:
    values = {name: domain.sample(random_state=1) for name, domain in space.domains().items()}
    train = space.trial_recipe(values).train
    assert (train.lr, train.schedule, train.steps) == (*values.values(), 40)
    assert (train.eval_interval, train.checkpoint_interval) == (10, 10)
    assert train.log_interval == 1  # a round is reported with the row after its checkpoint
    assert space.recipe_with(values).train.steps == load_recipe("nano").train.steps != 40


LR = "loguniform = [1e-4, 1e-2]"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("train.lr", "train.speed", "unknown field 'train.speed'; valid fields: batches"),
        ("train.lr", "lr", "unknown field 'lr'"),
        ("train.lr", "train.steps", "train.steps is the same in all trials"),
        ("train.lr", "train.batch_size", "train.batch_size: Input should be a valid integer"),
        (LR, "loguniform = [1.0, 1e-2]", "`low <= high` must hold"),
        (LR, "loguniform = [-1.0, 1e-2]", "requires a lower bound greater than 0"),
        (LR, "loguniform = [1e-2]", "missing 1 required positional argument: 'upper'"),
        (LR, "loguniform = [[], 1e-2]", "not supported between instances of"),
        (LR, "quniform = [0.1, 1.0, 0]", "float division by zero"),
        (LR, "normal = [0, 1]", "normal"),
        (LR, f"{LR}, uniform = [0, 1]", "too many values"),
        ('"cosine"', '"sawtooth"', "unknown schedule 'sawtooth'"),
        ('["linear", "cosine"]', "[1999-12-31, 2000-01-01]", "unknown schedule"),
        ("trials = 3", "trials = 3\ntries = 3", "unknown field 'search.tries'"),
        ("trials = 3", 'trials = 3\nalgorithm = "grid"', "unknown algorithm 'grid'; valid names"),
        ("grace_steps = 10", "grace_steps = 15", "grace_steps 15 does not divide max_steps 40"),
        ('recipe = "nano"', 'recipe = "nono"', "unknown recipe 'nono'"),
        ("[search]", "[fixed.train]\nsped = 1\n[search]", "unknown field 'train.sped'"),
        (f'"train.lr" = {{ {LR} }}', '"model.n_head" = { randint = [1, 5] }', "model: n_head"),
    ],
)
def test_an_invalid_space_is_refused_in_one_line(
    recipe_file: Callable[[str], str], old: str, new: str, message: str
) -> None:
    assert old in SPACE
    with pytest.raises(UserError) as caught:
        load_space(recipe_file(SPACE.replace(old, new))).domains()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def proposals(space: Space, count: int) -> list[dict[str, Any]]:
    """Returns the values of `count` trials that a search proposes. Large rates get good results."""
    search = make_search(space.search)
    search.set_search_properties("val_loss", "min", space.domains())
    values = []
    for number in range(count):
        values.append(search.suggest(str(number)))
        result = {"training_iteration": 1, "val_loss": -math.log(values[-1]["train.lr"])}
        search.on_trial_result(str(number), result)
        search.on_trial_complete(str(number), result)
    return values


@pytest.mark.parametrize(
    ("algorithm", "scheduler"),
    [("optuna", "asha"), ("optuna", "none"), ("optuna", "bohb"), ("random", "bohb")],
)
def test_the_seed_determines_the_search(space: Space, algorithm: str, scheduler: str) -> None:
    space = with_search(space, algorithm=algorithm, scheduler=scheduler)
    first = proposals(space, 4)
    assert first == proposals(space, 4) != proposals(with_search(space, seed=1), 4)
    assert make_scheduler(space)


def test_results_lead_the_search(space: Space) -> None:
    later = proposals(space, 30)[12:]  # optuna's first ten are random
    # Half of uniform draws would be above the middle, 1e-3.
    assert sum(values["train.lr"] > 1e-3 for values in later) >= 15


def test_ray_is_not_imported_before_its_settings_are_made() -> None:
    code = """
import sys
import calcgpt_lab.studies.sweep
from calcgpt_lab.studies.space import load_space
load_space("blog")
assert "ray" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_a_round_is_reported_once_and_after_its_checkpoint(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[Mapping[str, Any]] = []
    monkeypatch.setattr(tune, "report", reports.append)
    rounds = Rounds(space.search)
    rounds.report({"step": 10, "val_loss": 3.0})  # the folder holds it
    rounds.write({"step": 10, "val_loss": 3.0})
    rounds.write({"step": 15, "val_loss": 2.9})
    rounds.write({"step": 20, "val_loss": 2.0})
    assert [result["round"] for result in reports] == [1]  # the checkpoint comes after the row
    rounds.write({"step": 30, "loss": 2.0})
    assert reports[1] == {"round": 2, "val_loss": 2.0}
    rounds.write({"step": 30, "val_loss": 1.0})
    rounds.close()
    rounds.close()
    assert [result["round"] for result in reports] == [1, 2, 3]


def test_a_stopped_trial_continues_from_the_step_at_which_it_was_stopped(
    space: Space, tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space.model_copy(update={"fixed": {"train": {"eval_batches": 1, "eval_problems": 0}}})
    rounds: list[int] = []
    stops = iter([2])

    def report(result: Mapping[str, Any]) -> None:
        rounds.append(result["round"])
        if result["round"] == 2 and next(stops, 0):
            raise SystemExit  # Ray ends the thread of a trial like this

    monkeypatch.setattr(tune, "report", report)
    trial = (tmp_path / "trial", VALUES, space, data_folder, Resources())
    with pytest.raises(SystemExit):
        run_trial(*trial)
    assert max(path.name for path in tmp_path.glob("trial/step-*")) == "step-00000020"
    run_trial(*trial)
    assert rounds == [1, 2, 1, 2, 3, 4]
    steps = [json.loads(row)["step"] for row in (tmp_path / "trial/metrics.jsonl").open()]
    assert steps == sorted(steps)


class Results(list[Any]):
    """A ResultGrid: for each trial its rounds and its values, or an error."""

    @property
    def errors(self) -> list[Any]:
        return [trial for trial in self if isinstance(trial, Exception)]

    def get_dataframe(self, metric: str | None = None, mode: str = "") -> Any:
        rows = []
        for index, trial in enumerate(self):
            if not isinstance(trial, Exception):
                scores, values = trial
                best = scores.index((max if mode == "max" else min)(scores)) if metric else -1
                row = {"trial_id": f"t{index}", "round": (best % len(scores)) + 1}
                row |= {f"config/{name}": value for name, value in values.items()}
                rows.append(row | {"val_loss": scores[best], "val_exact_match": scores[best]})
        return pandas.DataFrame(rows)


def test_the_report_has_all_trials_and_the_best_recipe(space: Space, tmp_path: Path) -> None:
    better = VALUES | {"train.lr": 0.004}
    results = Results([([3.0, 2.0], VALUES), ([1.5, 2.0, 1.6, 1.75], better)])
    results.append(ValueError("it\ndied"))
    write_report(space, results, tmp_path)
    page = (tmp_path / "report.md").read_text("utf-8").splitlines()
    assert [line for line in page if line.startswith("| t")] == [
        "| trial | val_loss | at step | of | train.lr | train.schedule |",
        "| t1 | 1.5000 | 10 | 40 | 0.004 | linear |",
        "| t0 | 2.0000 | 20 | 20 | 0.001 | linear |",
    ]
    assert page[-1] == "A trial failed: it died"
    best = load_recipe(str(tmp_path / "best.toml"))
    assert best.train == space.recipe_with(better).train
    assert best.train.steps == 200
    scored = Results([([0.2], VALUES), ([0.9], better), ([0.0], VALUES)])
    write_report(with_search(space, metric="val_exact_match"), scored, tmp_path)
    page = (tmp_path / "report.md").read_text("utf-8").splitlines()
    assert [line[:4] for line in page if line.startswith("| t")] == ["| tr", "| t1", "| t0", "| t2"]


def test_without_a_result_nothing_is_best(space: Space, tmp_path: Path) -> None:
    write_report(space, Results([ValueError("a machine died")]), tmp_path)
    assert not (tmp_path / "best.toml").exists()
    assert "A trial failed: a machine died" in (tmp_path / "report.md").read_text("utf-8")


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


def test_a_folder_holds_one_sweep(
    run_cli: RunCli,
    recipe_file: Callable[[str], str],
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[Search] = []

    def run_trials(space: Space, *rest: Any) -> Results:
        runs.append(space.search)
        return Results([([1.0], VALUES)])

    monkeypatch.setattr(module, "run_trials", run_trials)
    flags = ("--out", tmp_path / "out", "--data", data_folder)
    for _ in range(2):
        outcome = run_cli("sweep", recipe_file(SPACE), *flags)
        assert (outcome.code, len(runs)) == (0, 1)  # a whole sweep is not repeated
        assert "| t0 " in outcome.out
    other = SPACE.replace("max_steps = 40", "max_steps = 80")
    outcome = run_cli("sweep", recipe_file(other), *flags)
    assert "another sweep: search.max_steps is 80" in outcome.error
