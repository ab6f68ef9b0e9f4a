"""Spaces: hyperparameters, the recipes that they give, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sweeps import SPACE

pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` installs it")
pytest.importorskip("optuna")
import math

import numpy as np

from calcgpt.cli.experiments import sweep
from calcgpt.errors import ConfigError, UserError
from calcgpt.lab import space as space_module
from calcgpt.lab.space import (
    HYPERPARAMETERS,
    METRICS,
    Choice,
    Hyperparameter,
    Space,
    load_space,
    space_names,
)
from calcgpt.lab.sweep import ALGORITHMS, SCHEDULERS, make_search
from calcgpt.recipe import load_recipe

Write = Callable[[str], str]


def axis(**table: Any) -> Hyperparameter:
    return HYPERPARAMETERS[table["type"]].model_validate(table)


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
def test_a_draw_gives_a_value_within_the_bounds_and_survives_json(axis: Hyperparameter) -> None:
    examples = axis.examples()
    for draw in axis.domain().sample(size=50, random_state=1):
        value = axis.value(draw)
        if isinstance(axis, Choice):
            assert repr(value) in map(repr, examples)
        else:
            assert examples[0] <= value <= examples[-1]
        assert repr(axis.value(json.loads(json.dumps(np.asarray(draw).item())))) == repr(value)


def test_a_draw_beyond_a_bound_by_rounding_is_the_bound() -> None:
    rate = axis(type="loguniform", low=1e-5, high=3e-2)
    assert rate.value(math.nextafter(3e-2, 1)) == 3e-2
    assert rate.value(math.nextafter(1e-5, 0)) == 1e-5


def test_steps_of_q_are_exact_decimals() -> None:
    steps = axis(type="quniform", low=0.1, high=0.75, q=0.1).examples()
    assert steps == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


@pytest.mark.parametrize("high", [1e12, 1e40])
def test_a_grid_has_a_bound(high: float) -> None:
    with pytest.raises(ValidationError, match=r"q 0\.5 is too small"):
        axis(type="quniform", low=1.0, high=high, q=0.5)


def test_integers_include_both_bounds() -> None:
    integers = axis(type="int", low=2, high=4)
    samples = integers.domain().sample(size=100, random_state=1)
    assert {integers.value(sample) for sample in samples} == {2, 3, 4}
    assert isinstance(integers.value(np.int64(0)), int)


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (space_module.Algorithm, ALGORITHMS),
        (space_module.Scheduler, SCHEDULERS),
        (space_module.Metric, METRICS),
    ],
    ids=["algorithm", "scheduler", "metric"],
)
def test_names_and_table_are_equal(names: Any, table: dict[str, Any]) -> None:
    assert list(get_args(names)) == sorted(table)


@pytest.mark.parametrize("name", HYPERPARAMETERS)
def test_a_type_of_hyperparameter_has_the_name_of_its_class(name: str) -> None:
    assert get_args(HYPERPARAMETERS[name].model_fields["type"].annotation) == (name,)


@pytest.mark.parametrize("name", space_names())
def test_every_shipped_space_has_a_scheduler_and_a_search(name: str) -> None:
    space = load_space(name)
    SCHEDULERS[space.search.scheduler](space)
    make_search(space, [], 0)
    assert space.description


def test_the_help_lists_the_spaces() -> None:
    assert f"Spaces: {', '.join(space_names())}." in " ".join((sweep.help or "").split())


def test_a_trial_is_the_recipe_with_its_values_for_the_steps_of_the_sweep(space: Space) -> None:
    values = {"train.lr": 0.005, "train.schedule": "cosine"}
    train = space.trial_recipe(values).train
    assert (train.lr, train.schedule, train.steps) == (0.005, "cosine", 40)
    assert (train.eval_interval, train.checkpoint_interval) == (10, 10)
    assert space.recipe_with(values).train.steps == load_recipe("nano").train.steps != 40


@pytest.mark.parametrize(("grace", "interval"), [(10, 1), (40, 2)])
def test_a_trial_has_a_row_soon_after_each_checkpoint(
    space: Space, grace: int, interval: int
) -> None:
    """With that row, its round is reported: what a pause loses is the training in between."""
    search = space.search.model_copy(update={"grace_steps": grace})
    values = {"train.lr": 0.005, "train.schedule": "cosine"}
    recipe = space.model_copy(update={"search": search}).trial_recipe(values)
    assert recipe.train.log_interval == interval


LR = '[space."train.lr"]\ntype = "loguniform"\nlow = 1e-4\nhigh = 1e-2\n'
N_HEAD = '[space."model.n_head"]\ntype = "int"\nlow = 1\nhigh = 4\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("train.lr", "train.speed", "unknown field 'train.speed'; valid fields: batches"),
        ("train.lr", "lr", "'lr' is not a field of a recipe"),
        ('"train.lr"', "train", "'train' is not a field of a recipe"),
        ('"train.lr"', "train.lr", "a hyperparameter is a table with a type"),
        ("train.lr", "train.steps", "train.steps is the same in all trials"),
        ("train.lr", "train.batch_size", "train.batch_size: Input should be a valid integer"),
        ("low = 1e-4", "low = 1.0", "low 1.0 is not below high 0.01"),
        ("low = 1e-4", "low = -1.0", "low: Input should be greater than 0"),
        ("low = 1e-4", "low = nan", "low: Input should be a finite number"),
        ("low = 1e-4", "", "train.lr: low: Field required"),
        ("low = 1e-4", "low = 1e-4\nq = 2", "unknown field 'q'; valid fields: low, high, type"),
        ("loguniform", "normal", "unknown type of hyperparameter 'normal'; valid names: choice"),
        ('"cosine"', '"sawtooth"', "unknown schedule 'sawtooth'"),
        ('"cosine"', '"linear"', "a value is listed twice"),
        ("trials = 3", "trials = 0", "search.trials: Input should be greater than or equal"),
        ("trials = 3", "trials = 3\ntries = 3", "unknown field 'search.tries'"),
        (
            "trials = 3",
            'trials = 3\nmetric = "loss"',
            "unknown metric 'loss'; valid names: val_char_accuracy, val_exact_match, val_loss",
        ),
        (
            "trials = 3",
            'trials = 3\nalgorithm = "grid"',
            "unknown algorithm 'grid'; valid names: hyperopt, optuna, random",
        ),
        (
            "trials = 3",
            'trials = 3\nscheduler = "pbt"',
            "unknown scheduler 'pbt'; valid names: asha, bohb, hyperband, none",
        ),
        ("grace_steps = 10", "grace_steps = 15", "grace_steps 15 does not divide max_steps 40"),
        ('recipe = "nano"', 'recipe = "nono"', "unknown recipe 'nono'"),
        ("[search]", "[fixed.train]\nsped = 1\n[search]", "unknown field 'train.sped'"),
        (
            LR,
            N_HEAD,
            "with model.n_head = 1, train.schedule = 'linear': recipe 'nano': model: n_head 1",
        ),
    ],
)
def test_an_invalid_space_is_refused_in_one_line(
    recipe_file: Write, old: str, new: str, message: str
) -> None:
    assert old in SPACE
    with pytest.raises(UserError) as caught:
        load_space(recipe_file(SPACE.replace(old, new)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_invalid_combination_is_found_among_very_many(recipe_file: Write) -> None:
    many = "".join(
        f'[space."train.{field}"]\ntype = "int"\nlow = 1\nhigh = 90\n'
        for field in ("batch_size", "warmup_steps", "seed", "log_interval")
    )
    invalid = '[space."model.norm"]\ntype = "choice"\nvalues = ["rmsnorm", "layernorm", "none"]\n'
    with pytest.raises(ConfigError, match="unknown norm 'none'"):
        load_space(recipe_file(SPACE + many + invalid))


def test_a_recipe_path_is_relative_to_the_space(recipe_file: Write, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('extends = "nano"\n[train]\nbatch_size = 8\n')
    space = load_space(recipe_file(SPACE.replace('"nano"', '"own.toml"')))
    assert space.base_recipe().train.batch_size == 8
