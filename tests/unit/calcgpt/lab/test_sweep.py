"""A sweep without Ray's machinery: spaces, proposals, what is kept, the report."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` brings it")
pytest.importorskip("optuna")
from calcgpt.cli.experiments import sweep
from calcgpt.errors import ConfigError, DataError, TrainingError, UserError, look_up
from calcgpt.lab import trials as trial_module
from calcgpt.lab.search import (
    SCHEDULERS,
    RecordedSearch,
    algorithm_name,
    has_bohb,
    make_search,
    plain,
)
from calcgpt.lab.space import HYPERPARAMETERS, Hyperparameter, Space, load_space, space_names
from calcgpt.lab.sweep import _seed
from calcgpt.lab.sweep_plots import coordinate
from calcgpt.lab.sweep_report import how, table, write_report
from calcgpt.lab.trials import Params, Rounds, Status, SweepFolder, Trial, ranked, run_trial
from calcgpt.recipe import load_recipe

NANO = """
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
LinesOf = Callable[[str], str]


@pytest.fixture
def space(recipe_file: LinesOf) -> Space:
    return load_space(recipe_file(NANO))


def axis(**table: Any) -> Hyperparameter:
    return HYPERPARAMETERS[table["type"]].model_validate(table)


# Hyperparameters

AXES = st.sampled_from(
    [
        axis(type="uniform", low=-1.0, high=2.5),
        axis(type="loguniform", low=1e-5, high=3e-2),
        axis(type="quniform", low=0.1, high=0.75, q=0.1),
        axis(type="int", low=-3, high=7),
        axis(type="choice", values=["a", 1, True, 1.5]),
    ]
)


@given(AXES)
def test_what_is_drawn_is_a_value_within_bounds_and_kept_exactly(one: Hyperparameter) -> None:
    for drawn in one.domain().sample(size=50, random_state=1):
        value = one.value(drawn)
        examples = one.examples()
        if one.scale == "choice":
            assert repr(value) in map(repr, examples)
        else:
            assert examples[0] <= value <= examples[-1]
        assert repr(one.value(json.loads(json.dumps(plain(drawn))))) == repr(value)


def test_steps_of_q_are_exact_decimals() -> None:
    steps = axis(type="quniform", low=0.1, high=0.75, q=0.1).examples()
    assert steps == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def test_whole_numbers_include_both_bounds() -> None:
    one = axis(type="int", low=2, high=4)
    assert {one.value(drawn) for drawn in one.domain().sample(size=100, random_state=1)} == {
        2,
        3,
        4,
    }
    assert isinstance(one.value(0), int)


# Spaces


@pytest.mark.parametrize("name", space_names())
def test_every_shipped_space_builds_and_its_scheduler_and_search_exist(name: str) -> None:
    space = load_space(name)
    SCHEDULERS[space.search.scheduler].make(space)
    make_search(space, [], 0)
    assert space.description


def test_the_help_names_the_spaces() -> None:
    assert f"Spaces: {', '.join(space_names())}." in " ".join((sweep.help or "").split())


def test_a_trial_is_the_recipe_with_its_values_for_the_steps_of_the_sweep(space: Space) -> None:
    values = {"train.lr": 0.005, "train.schedule": "cosine"}
    train = space.trial_recipe(values).train
    assert (train.lr, train.schedule, train.steps) == (0.005, "cosine", 40)
    assert (train.eval_interval, train.checkpoint_interval) == (10, 10)
    assert space.recipe_of(values).train.steps == load_recipe("nano").train.steps != 40


LR = '[space."train.lr"]\ntype = "loguniform"\nlow = 1e-4\nhigh = 1e-2\n'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("train.lr", "train.speed"), "unknown field 'train.speed'; valid fields: batches"),
        (("train.lr", "lr"), "'lr' is no field of a recipe"),
        (('"train.lr"', "train"), "'train' is no field of a recipe"),
        (('"train.lr"', "train.lr"), "a hyperparameter is a table with a type"),
        (("train.lr", "train.steps"), "train.steps is the same in all trials"),
        (("train.lr", "train.batch_size"), "train.batch_size: Input should be a valid integer"),
        (("low = 1e-4", "low = 1.0"), "low 1.0 is not below high 0.01"),
        (("low = 1e-4", "low = -1.0"), "low: Input should be greater than 0"),
        (("low = 1e-4", "low = nan"), "low: Input should be a finite number"),
        (("low = 1e-4", ""), "train.lr: low: Field required"),
        (("low = 1e-4", "low = 1e-4\nq = 2"), "unknown field 'q'; valid fields: low, high, type"),
        (("loguniform", "normal"), "unknown type of hyperparameter 'normal'; valid names: choice"),
        (('"cosine"', '"sawtooth"'), "unknown schedule 'sawtooth'"),
        (('"cosine"', '"linear"'), "a value is named twice"),
        (("trials = 3", "trials = 0"), "search.trials: Input should be greater than or equal"),
        (("trials = 3", "trials = 3\ntries = 3"), "unknown field 'search.tries'"),
        (("trials = 3", 'trials = 3\nmetric = "loss"'), "unknown metric 'loss'; valid names"),
        (("grace_steps = 10", "grace_steps = 15"), "grace_steps 15 does not divide max_steps 40"),
        (('recipe = "nano"', 'recipe = "nono"'), "unknown recipe 'nono'"),
        (("[search]", "[fixed.train]\nsped = 1\n[search]"), "unknown field 'train.sped'"),
        ((LR, '[space."model.n_head"]\ntype = "int"\nlow = 1\nhigh = 4\n'),
         "with model.n_head = 1, train.schedule = 'linear': recipe 'nano': model: n_head 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_space_is_said_in_one_line(
    recipe_file: LinesOf, change: tuple[str, str], message: str
) -> None:
    assert change[0] in NANO
    with pytest.raises(UserError) as caught:
        load_space(recipe_file(NANO.replace(*change)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_invalid_combination_is_found_among_very_many(recipe_file: LinesOf) -> None:
    many = "".join(
        f'[space."train.{field}"]\ntype = "int"\nlow = 1\nhigh = 90\n'
        for field in ("batch_size", "warmup_steps", "seed", "log_interval")
    )
    wrong = '[space."model.norm"]\ntype = "choice"\nvalues = ["rmsnorm", "layernorm", "none"]\n'
    with pytest.raises(ConfigError, match="unknown norm 'none'"):
        load_space(recipe_file(NANO + many + wrong))


def test_a_recipe_beside_the_space_is_found(recipe_file: LinesOf, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('extends = "nano"\n[train]\nbatch_size = 8\n')
    space = load_space(recipe_file(NANO.replace('"nano"', '"own.toml"')))
    assert space.base().train.batch_size == 8


def test_names_of_algorithms_and_schedulers_are_checked(space: Space) -> None:
    def named(**names: str) -> str:
        search = space.search.model_copy(update=names)
        return algorithm_name(space.model_copy(update={"search": search}))

    assert named() == "optuna"
    assert named(scheduler="bohb") == ("bohb" if has_bohb() else "optuna")
    with pytest.raises(ConfigError, match="unknown search algorithm 'grid'; valid names: hyperopt"):
        named(algorithm="grid")
    with pytest.raises(ConfigError, match="leave out the algorithm"):
        named(scheduler="bohb", algorithm="optuna")
    with pytest.raises(ConfigError, match="unknown scheduler 'pbt'; valid names: asha"):
        look_up(SCHEDULERS, "pbt", "scheduler")


# Proposals


def propose(
    space: Space, out: Path, count: int, algorithm: str = "optuna", seed: int = 0
) -> list[Params]:
    """The parameters of `count` trials, as a sweep in `out` proposes them; each of them gets a
    result."""
    search = space.search.model_copy(update={"algorithm": algorithm})
    space = space.model_copy(update={"search": search})
    folder = SweepFolder(out)
    known = folder.trials()
    inner = make_search(space, known, _seed(seed, len(known)))
    searcher = RecordedSearch(inner, space, folder, known, lambda t: {"folder": str(t.path)})
    found = []
    for number in range(count):
        name = f"ray{number}"
        config = searcher.suggest(name)
        assert config
        trial = Trial.load(Path(config["folder"]))
        found.append(trial.params)
        loss = -math.log(float(trial.params.values["train.lr"]))
        result = {"round": 1, "training_iteration": 1, "val_loss": loss}
        searcher.on_trial_result(name, result)
        searcher.on_trial_complete(name, result)
    return found


ALGORITHMS = ["optuna", "hyperopt", "random"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_restarted_search_proposes_what_is_known_and_then_what_is_new(
    space: Space, tmp_path: Path, algorithm: str
) -> None:
    first = propose(space, tmp_path, 4, algorithm)
    again = propose(space, tmp_path, 8, algorithm)
    assert again[:4] == first
    drawn = [params.values["train.lr"] for params in again]
    assert len(set(drawn)) == 8  # the seed's first numbers do not come again


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_seed_determines_the_search(space: Space, tmp_path: Path, algorithm: str) -> None:
    one, same, other = (
        propose(space, tmp_path / name, 4, algorithm, seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert one == same != other


def test_known_results_lead_the_search(space: Space, tmp_path: Path) -> None:
    propose(space, tmp_path, 12)  # optuna's first ten are random
    later = propose(space, tmp_path, 30)[12:]
    # Large rates are good here: uniform draws would be above the middle, 1e-3, half of the time.
    assert sum(params.values["train.lr"] > 1e-3 for params in later) >= 15


def test_a_trial_without_a_result_does_no_harm(space: Space, tmp_path: Path) -> None:
    for algorithm in ALGORITHMS:
        search = space.search.model_copy(update={"algorithm": algorithm})
        folder = SweepFolder(tmp_path / algorithm)
        chosen = space.model_copy(update={"search": search})
        searcher = RecordedSearch(make_search(chosen, [], 0), chosen, folder, [], lambda t: {})
        searcher.suggest("a")
        searcher.on_trial_complete("a", {"done": True})
        searcher.suggest("b")
        searcher.on_trial_complete("b", error=True)
        assert searcher.suggest("c") is not None
        assert len(folder.trials()) == 3


# Folders


def row(step: int, loss: float, **more: float) -> str:
    return json.dumps({"step": step, "val_loss": loss, **more}) + "\n"


def trial_with(out: Path, index: int, metrics: str, lr: float = 1e-3) -> Trial:
    values = {"train.lr": lr, "train.schedule": "linear"}
    params = Params(values=values, drawn={"train.lr": lr, "train.schedule": 0})
    trial = SweepFolder(out).new_trial(index, params)
    (trial.path / "metrics.jsonl").write_text(metrics)
    return trial


def test_lines_that_are_no_validation_are_passed_over(tmp_path: Path) -> None:
    lines = row(10, 2.0) + '{"step": 15, "loss": 1.0}\n[1]\n{"step": 20, "val_loss": NaN}\nnull\n'
    lines += (
        '{"step": "x", "val_loss": 1}\n' + "[" * 9_999 + "\n" + row(20, 1.5) + '{"step": 30, "v'
    )
    trial = trial_with(tmp_path, 0, lines)
    assert [found["step"] for found in trial.validations()] == [10, 20]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"values": {}, "drawn": {"x": "y"}}', "\udcff"]
)
def test_a_file_that_is_not_ours_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    path = trial_with(tmp_path, 0, "").path / "params.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=r"params\.json[^\n]*$"):
        SweepFolder(tmp_path).trials()


def test_another_sweep_in_the_folder_is_refused(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path)
    folder.begin({"space": {"lr": {"low": 1.0}}}, {"seed": 1})
    folder.begin({"space": {"lr": {"low": 1.0}}}, {"seed": 2})
    with pytest.raises(
        ConfigError, match=r"another sweep: space.lr.low is 2.0, it was begun with 1"
    ):
        folder.begin({"space": {"lr": {"low": 2.0}}}, {})
    with pytest.raises(ConfigError, match=r"another sweep: space\.n is 1"):
        folder.begin({"space": {"lr": {"low": 1.0}, "n": 1}}, {})
    assert len(json.loads((tmp_path / "sweep.json").read_text())["starts"]) == 2
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(DataError, match="was not written by a sweep"):
        folder.begin({}, {})


# Trials


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    monkeypatch.setattr(trial_module.tune, "report", found.append)
    return found


def test_a_round_is_told_once_and_after_its_checkpoint(told: list[Mapping[str, Any]]) -> None:
    rounds = Rounds("val_loss", 10)
    rounds.tell({"step": 10, "val_loss": 3.0})  # what the folder holds
    for known in ({"step": 10, "val_loss": 3.0}, {"step": 15, "val_loss": 2.9}):
        rounds.write(known)
    rounds.write({"step": 20, "val_loss": 2.0})
    assert [each["round"] for each in told] == [1]  # the checkpoint comes after the row
    rounds.write({"step": 21, "loss": 2.0})
    assert told[1] == {"round": 2, "step": 20, "val_loss": 2.0}
    rounds.write({"step": 30, "val_loss": 1.0})
    rounds.close()
    rounds.close()
    assert [each["round"] for each in told] == [1, 2, 3]
    with pytest.raises(TrainingError, match="val_loss is nan at step 40"):
        rounds.write({"step": 40, "val_loss": math.nan})


def config_for(space: Space, trial: Trial, data: Path) -> Any:
    recipe = space.trial_recipe(trial.params.values)
    tiny = recipe.train.model_copy(update={"eval_batches": 1, "eval_problems": 0})
    return {
        "folder": str(trial.path), "recipe": recipe.model_copy(update={"train": tiny}).model_dump(),
        "data": str(data), "metric": "val_loss", "grace_steps": 10, "threads": 1, "device": "cpu",
    }  # fmt: skip


def test_a_stopped_trial_goes_on_from_the_step_at_which_it_was_stopped(
    space: Space, tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_with(tmp_path, 0, "")
    told: list[int] = []

    def report(result: Mapping[str, Any]) -> None:
        told.append(result["step"])
        if result["step"] == 20:
            raise SystemExit  # as Ray ends the thread of a trial

    monkeypatch.setattr(trial_module.tune, "report", report)
    config = config_for(space, trial, data_folder)
    with pytest.raises(SystemExit):
        run_trial(config)
    assert [path.name for path in sorted(trial.path.glob("step-*"))][-1] == "step-00000020"
    monkeypatch.setattr(trial_module.tune, "report", lambda result: told.append(result["step"]))
    run_trial(config)
    assert told == [10, 20, 10, 20, 30, 40]
    assert [found["step"] for found in trial.validations()] == [10, 20, 30, 40]


def test_how_a_trial_failed_is_kept_and_it_is_not_trained_again(
    space: Space, tmp_path: Path, data_folder: Path, told: list[Mapping[str, Any]]
) -> None:
    diverging, failing = (trial_with(tmp_path, number, "") for number in range(2))
    config = config_for(space, diverging, data_folder)
    config["recipe"]["train"] |= {"lr": 1e30, "grad_clip": 0.0}
    run_trial(config)
    assert diverging.ending.status is Status.DIVERGED
    assert "the loss is" in diverging.ending.reason
    run_trial(config_for(space, failing, tmp_path / "nowhere"))
    assert failing.ending.status is Status.FAILED
    assert "cannot read" in failing.ending.reason
    (failing.path / "metrics.jsonl").write_text(row(10, 1.0))
    told.clear()
    run_trial(config_for(space, failing, data_folder))
    assert [each["step"] for each in told] == [10]  # only what it holds


# Report


def test_the_report_ranks_trials_by_their_best_validation(space: Space, tmp_path: Path) -> None:
    trial_with(tmp_path, 0, row(10, 3.0) + row(20, 2.0)).end(Status.STOPPED)
    trial_with(tmp_path, 1, row(10, 1.5) + row(20, 1.75), lr=0.004).end(Status.COMPLETED)
    trial_with(tmp_path, 2, "").end(Status.DIVERGED, "the loss\nis nan")
    trials = ranked(SweepFolder(tmp_path).trials(), space)
    assert [(each.trial, each.best, each.best_step, each.steps) for each in trials] == [
        ("0001", 1.5, 10, 20), ("0000", 2.0, 20, 20), ("0002", None, None, 0)
    ]  # fmt: skip
    files = write_report(space, trials, tmp_path, "optuna")
    assert all(file.exists() for file in files)
    assert {file.name for file in files} == {
        "report.md", "report.json", "best.toml", "parallel-coordinates.png", "history.png"
    }  # fmt: skip
    page = (tmp_path / "report.md").read_text("utf-8")
    assert table(space, trials) in page
    assert "| 0001 | 1.5000 | 10 | 20 | completed | 0.004 | linear |" in page
    assert "- 0002 diverged: the loss is nan" in page
    best = load_recipe(str(tmp_path / "best.toml"))
    assert best.train == space.recipe_of(trials[0].values).train
    assert best.train.steps == 200
    written = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert written["trials"][0]["values"] == {"train.lr": 0.004, "train.schedule": "linear"}


def test_scores_are_ranked_from_the_largest(space: Space, tmp_path: Path) -> None:
    search = space.search.model_copy(update={"metric": "val_exact_match"})
    space = space.model_copy(update={"search": search})
    for number, score in enumerate((0.2, 0.9, 0.0)):
        trial_with(tmp_path, number, row(10, 1.0, val_exact_match=score))
    assert [each.best for each in ranked(SweepFolder(tmp_path).trials(), space)] == [0.9, 0.2, 0.0]


def test_it_is_said_what_stands_in_for_bohb(space: Space) -> None:
    search = space.search.model_copy(update={"scheduler": "bohb"})
    space = space.model_copy(update={"search": search})
    assert "hpbandster and ConfigSpace are missing" in how(space, "optuna")
    assert "its own model" in how(space, "bohb")


@given(AXES)
def test_the_axes_of_the_plot_hold_all_values(one: Hyperparameter) -> None:
    drawn = coordinate("train.x", one)
    assert len(drawn.ticks) >= 2
    assert all(-1e-9 <= drawn.height(value) <= 1 + 1e-9 for value in drawn.ticks)
    heights = [drawn.height(value) for value in sorted(drawn.ticks)]
    assert heights == sorted(heights)
    if one.scale == "log":
        assert drawn.height(math.sqrt(drawn.low * drawn.high)) == pytest.approx(0.5)


# The command


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--data names a folder to train on"),
        (["--data", "nowhere"], "cannot read nowhere/train.txt"),
    ],
)
def test_no_data_is_said_in_one_line(
    run_cli: Callable[..., Any], tmp_path: Path, flags: list[str], message: str
) -> None:
    outcome = run_cli("sweep", "nano", "--out", tmp_path / "out", *flags)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_score_needs_problems(
    run_cli: Callable[..., Any], recipe_file: LinesOf, tmp_path: Path
) -> None:
    for name in ("train.txt", "val.txt"):
        (tmp_path / name).write_text("To be, or not to be, that is the question. " * 20)
    text = NANO.replace("trials", 'metric = "val_exact_match"\ntrials')
    text = text.replace(
        "[search]", '[fixed]\ntokenizer = "chars"\n[fixed.train]\nbatches = "stream"\n[search]'
    )
    outcome = run_cli("sweep", recipe_file(text), "--out", tmp_path / "out", "--data", tmp_path)
    assert outcome.code == 2
    assert "'val_exact_match' needs problems" in outcome.err
