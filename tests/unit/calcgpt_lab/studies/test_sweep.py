"""Sweeps before and after Ray runs: spaces, searches, trials, their folder, and the report."""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import RunCli
from forks import PATIENCE

pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` installs it")
pytest.importorskip("optuna")
from ray import tune

from calcgpt.base.errors import UserError
from calcgpt.base.files import write_json
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.records import TrainingError
from calcgpt_lab.studies.search import Rounds, make_scheduler, make_search, run_trial
from calcgpt_lab.studies.space import Resources, Space, domain, load_space
from calcgpt_lab.studies.sweep_report import draw_sweep, results_in, validations, write_report

SPACE = """
recipe = "nano"
[search]
trials = 3
max_steps = 40
grace_steps = 10
[space."train.lr"]
type = "loguniform"
low = 1e-4
high = 1e-2
[space."train.schedule"]
type = "choice"
values = ["linear", "cosine"]
"""
VALUES: dict[str, Any] = {"train.lr": 1e-3, "train.schedule": "linear"}
AXES: dict[str, dict[str, Any]] = {
    "train.lr": {"type": "loguniform", "low": 1e-5, "high": 3e-2},
    "train.weight_decay": {"type": "uniform", "low": 0.0, "high": 0.5},
    "train.grad_clip": {"type": "quniform", "low": 0.1, "high": 0.7, "q": 0.1},
    "model.n_layer": {"type": "int", "low": 1, "high": 3},
    "model.tie_embeddings": {"type": "choice", "values": [True, False]},
}


@pytest.fixture
def space(recipe_file: Callable[[str], str]) -> Space:
    """A space of two hyperparameters over the recipe `nano`."""
    return load_space(recipe_file(SPACE))


def with_search(space: Space, **changes: Any) -> Space:
    return space.model_copy(update={"search": space.search.model_copy(update=changes)})


def validation(step: int, loss: float, **scores: float) -> str:
    """Returns a line of `metrics.jsonl`."""
    return json.dumps({"step": step, "val_loss": loss, **scores}) + "\n"


def new_trial(out: Path, index: int, metrics: str = "", **values: Any) -> Path:
    """Creates a trial with these metrics, which no training wrote, in the sweep's folder."""
    path = out / "trials" / f"{index:04d}"
    path.mkdir(parents=True)
    write_json(path / "trial.json", {**VALUES, **values})
    if metrics:  # training refuses metrics without a checkpoint
        (path / "metrics.jsonl").write_text(metrics)
    return path


# Spaces.


@pytest.mark.parametrize("name", AXES)
def test_a_draw_gives_a_value_within_the_bounds_and_survives_json(space: Space, name: str) -> None:
    axis, space = AXES[name], space.model_copy(update={"space": AXES})
    draws = domain(name, axis).sample(size=200, random_state=1)
    values = [space.values_of({name: draw})[name] for draw in draws]
    assert json.loads(json.dumps(values)) == values
    if axis["type"] == "choice":
        assert set(values) == set(axis["values"])
    elif axis["type"] == "int":  # both bounds
        assert set(values) == {1, 2, 3}
    else:
        assert axis["low"] <= min(values) <= max(values) <= axis["high"]


def test_a_draw_beyond_a_bound_by_rounding_is_the_bound(space: Space) -> None:
    for draw, bound in ((math.nextafter(1e-2, 1), 1e-2), (math.nextafter(1e-4, 0), 1e-4)):
        assert space.values_of({"train.lr": np.float64(draw)}) == {"train.lr": bound}


def test_a_trial_is_the_recipe_with_its_values_for_the_steps_of_the_sweep(space: Space) -> None:
    values = space.values_of({"train.lr": np.float64(0.005), "train.schedule": "cosine"})
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
        ("train.lr", "lr", "unknown field 'lr'"),
        ("train.lr", "train.steps", "train.steps is the same in all trials"),
        ("train.lr", "train.batch_size", "train.batch_size: Input should be a valid integer"),
        ("low = 1e-4", "low = 1.0", "`low <= high` must hold"),
        ("low = 1e-4", "low = -1.0", "requires a lower bound greater than 0"),
        ("low = 1e-4", "", "missing 1 required positional argument: 'lower'"),
        ("low = 1e-4", "low = 1e-4\nq = 2.0", "unexpected keyword argument 'q'"),
        ("low = 1e-4", "low = []", "not supported between instances of 'list'"),
        ("loguniform", "int", "'float' object cannot be interpreted as an integer"),
        ("loguniform", "normal", "unknown type 'normal'; valid names: choice"),
        ('"loguniform"', "5", "unknown type '5'"),
        ('"loguniform"', '"quniform"\nq = 0', "float division by zero"),
        ("low = 1e-4\nhigh = 1e-2", "low = -1e308\nhigh = 1e308", "greater than 0"),
        ('"cosine"', '"sawtooth"', "unknown schedule 'sawtooth'"),
        ('["linear", "cosine"]', "[1999-12-31, 2000-01-01]", "unknown schedule"),
        ("trials = 3", "trials = 3\ntries = 3", "unknown field 'search.tries'"),
        ("trials = 3", 'trials = 3\nalgorithm = "grid"', "unknown algorithm 'grid'; valid names"),
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
        load_space(recipe_file(SPACE.replace(old, new))).domains()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# The search.


def proposals(space: Space, known: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Returns the values of `count` trials that a search proposes. Large rates get good results."""
    search = make_search(space, known)
    search.set_search_properties("val_loss", "min", space.domains())
    values = []
    for number in range(count):
        values.append(space.values_of(search.suggest(str(number))))
        result = {"training_iteration": 1, "val_loss": -math.log(values[-1]["train.lr"])}
        search.on_trial_result(str(number), result)
        search.on_trial_complete(str(number), result)
    return values


@pytest.mark.parametrize("algorithm", ["hyperopt", "optuna", "random"])
def test_a_resumed_search_proposes_the_known_trials_and_then_new_ones(
    space: Space, algorithm: str
) -> None:
    space = with_search(space, algorithm=algorithm)
    first = proposals(space, [], 4)
    assert first == proposals(space, [], 4) != proposals(with_search(space, seed=1), [], 4)
    again = proposals(space, first, 8)
    assert again[:4] == first
    assert len({values["train.lr"] for values in again}) == 8  # no draw of the seed is repeated


def test_known_results_lead_the_search(space: Space) -> None:
    later = proposals(space, [], 30)[12:]  # optuna's first ten are random
    # Half of uniform draws would be above the middle, 1e-3.
    assert sum(values["train.lr"] > 1e-3 for values in later) >= 15


@pytest.mark.parametrize("scheduler", ["asha", "bohb", "hyperband", "none"])
def test_every_scheduler_and_what_bohb_searches_with(
    space: Space, tmp_path: Path, scheduler: str
) -> None:
    space = with_search(space, scheduler=scheduler)
    assert make_scheduler(space)
    write_report(space, [], {}, tmp_path)
    is_replaced = scheduler == "bohb" != space.search.method  # its packages may be missing
    page = (tmp_path / "report.md").read_text("utf-8")
    assert ("hpbandster and ConfigSpace are missing" in page) == is_replaced


def test_ray_is_not_imported_before_its_settings_are_made() -> None:
    code = """
import sys, calcgpt_lab.studies.sweep
from calcgpt_lab.studies.space import load_space
load_space("blog")
assert "ray" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


# Trials.


def test_lines_that_are_not_validations_are_skipped(tmp_path: Path) -> None:
    lines = [
        validation(10, 2.0),
        '{"step": 15, "loss": 1.0}\n[1]\n{"step": 20, "val_loss": NaN}\nnull\n',
        '{"step": "x", "val_loss": 1}\n' + "[" * 9_999 + "\n",
        validation(20, 1.5),
        '{"step": 25, "val_loss": 1' + "0" * 400 + "}\n",
        '{"step": 30, "v',
    ]
    rows = validations(new_trial(tmp_path, 0, "".join(lines)), "val_loss")
    assert [row["step"] for row in rows] == [10, 20]


def test_a_round_is_reported_once_and_after_its_checkpoint(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[Mapping[str, Any]] = []
    monkeypatch.setattr(tune, "report", reports.append)
    rounds = Rounds(space)
    rounds.report({"step": 10, "val_loss": 3.0})  # the folder holds it
    rounds.write({"step": 10, "val_loss": 3.0})
    rounds.write({"step": 15, "val_loss": 2.9})
    rounds.write({"step": 20, "val_loss": 2.0})
    assert [result["round"] for result in reports] == [1]  # the checkpoint comes after the row
    rounds.write({"step": 21, "loss": 2.0})
    assert reports[1] == {"round": 2, "val_loss": 2.0}
    rounds.write({"step": 30, "val_loss": 1.0})
    rounds.close()
    rounds.close()
    assert [result["round"] for result in reports] == [1, 2, 3]
    with pytest.raises(TrainingError, match="val_loss is nan at step 40"):
        rounds.write({"step": 40, "val_loss": math.nan})


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
    rounds.clear()
    monkeypatch.setattr(
        "calcgpt_lab.training.train.train", None
    )  # what is complete is only reported
    run_trial(*trial)
    assert rounds == [1, 2, 3, 4]
    monkeypatch.undo()
    monkeypatch.setattr(tune, "report", report)
    rounds.clear()
    run_trial(trial[0], VALUES | {"train.lr": 2e-3}, *trial[2:])  # of a search that was killed
    assert rounds == [1, 2, 3, 4]


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


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"train.lr": [[]], "train.schedule": "linear"}']
)
def test_a_bad_trial_is_refused(space: Space, tmp_path: Path, content: str) -> None:
    file = new_trial(tmp_path, 0) / "trial.json"
    file.write_text(content)
    with pytest.raises(UserError) as caught:
        results_in(tmp_path, space)
    assert str(file) in str(caught.value) or "train.lr" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sweep_may_go_on_with_more_trials_and_with_nothing_else_changed(
    run_cli: RunCli,
    recipe_file: Callable[[str], str],
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[int] = []

    def search(space: Space, out: Path, *rest: Any) -> dict[str, str]:
        for index in range(len([*out.glob("trials/*")]), space.search.trials):
            new_trial(out, index, validation(40, 1.0))
        searched.append(space.search.trials)
        return {}

    monkeypatch.setattr("calcgpt_lab.studies.search.search", search)
    flags = ("--out", tmp_path / "out", "--data", data_folder)
    for trials in (3, 3, 5):
        text = SPACE.replace("trials = 3", f"trials = {trials}")
        outcome = run_cli("sweep", recipe_file(text), *flags)
        assert outcome.code == 0
        assert "| 0002 " in outcome.out
    assert searched == [3, 5]
    text = SPACE.replace("max_steps = 40", "max_steps = 80")
    outcome = run_cli("sweep", recipe_file(text), *flags)
    assert "another sweep: search.max_steps is 80" in outcome.error


def test_the_report_has_all_trials_and_the_best_recipe(space: Space, tmp_path: Path) -> None:
    new_trial(tmp_path, 0, validation(10, 3.0) + validation(20, 2.0))
    metrics = validation(10, 1.5) + validation(40, 1.75)
    new_trial(tmp_path, 1, metrics, **{"train.lr": 0.004})
    new_trial(tmp_path, 2)
    write_report(space, results_in(tmp_path, space), {"0002": "the loss is nan"}, tmp_path)
    page = (tmp_path / "report.md").read_text("utf-8").splitlines()
    rows = [line for line in page if line.startswith("| 0")]
    assert rows == [
        "| 0001 | 1.5000 | 10 | 40 | completed | 0.004 | linear |",
        "| 0000 | 2.0000 | 20 | 20 | stopped | 0.001 | linear |",
        "| 0002 |  | 0 | 0 | failed | 0.001 | linear |",
    ]
    assert "0002 failed: the loss is nan" in page
    best = load_recipe(str(tmp_path / "best.toml"))
    assert best.train == space.recipe_with(VALUES | {"train.lr": 0.004}).train
    assert best.train.steps == 200


def test_a_score_is_ranked_from_the_largest(space: Space, tmp_path: Path) -> None:
    space = with_search(space, metric="val_exact_match")
    for index, score in enumerate((0.2, 0.9, 0.0)):
        new_trial(tmp_path, index, validation(10, 1.0, val_exact_match=score))
    write_report(space, results_in(tmp_path, space), {}, tmp_path)
    page = (tmp_path / "report.md").read_text("utf-8")
    assert page.index("| 0001 |") < page.index("| 0000 |") < page.index("| 0002 |")


def test_without_a_result_nothing_is_best(space: Space, tmp_path: Path) -> None:
    out = new_trial(tmp_path / "out", 0).parents[1]
    write_report(space, results_in(out, space), {"0000": "a machine died"}, out)
    assert sorted(path.name for path in out.iterdir()) == ["report.md", "trials"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "losses", [[0.5, 0.5], [*np.linspace(0.1, 5, 11), None]], ids=["equal", "many and a failure"]
)
def test_every_type_of_hyperparameter_is_drawn(
    space: Space, tmp_path: Path, losses: list[float | None]
) -> None:
    space = space.model_copy(update={"space": AXES})
    draws = np.random.RandomState(1)
    for index, loss in enumerate(losses):
        values = {
            name: domain(name, axis).sample(random_state=draws) for name, axis in AXES.items()
        }
        path = new_trial(tmp_path, index, "" if loss is None else validation(10, loss))
        write_json(path / "trial.json", space.values_of(values))
    plots = draw_sweep(space, results_in(tmp_path, space), tmp_path)
    assert len(plots) == 4
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)
