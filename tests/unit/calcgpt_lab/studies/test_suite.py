"""Suites: the shipped ones, and those that are not valid."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from calcgpt.base.errors import ConfigError
from calcgpt.section import build
from calcgpt_lab.model.attention import ATTENTIONS
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.layers import FEEDFORWARDS
from calcgpt_lab.model.positions import POSITIONS
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.studies.suite import SUITES, Suite, load_suite


def small(**changes: Any) -> dict[str, Any]:
    return {
        "recipe": "nano",
        "seeds": [1],
        "tasks": {"sums": {"problems": {"train": 10, "val": 5, "test": 5}}},
        "variants": {"plain": {}, "wide": {"model": {"n_embd": 64}}},
        **changes,
    }


def published(**changes: Any) -> dict[str, Any]:
    entry = {"source": "x", "task": "sums", "variant": "plain", "metrics": {"val_loss": 1.0}}
    return {"published": [{**entry, **changes}]}


def models(name: str) -> list[Any]:
    suite = load_suite(name)
    return [suite.recipe_of(task, variant, 0, ()).model for task, variant in suite.pairs()]


@pytest.mark.parametrize("name", SUITES)
def test_every_run_of_a_shipped_suite_can_be_built(name: str) -> None:
    suite = load_suite(name)
    assert suite.description
    for task, variant in suite.pairs():
        for seed in suite.seeds:
            recipe = suite.recipe_of(task, variant, seed, ())
            assert recipe.train.seed == seed
            build_model(recipe.model, 65)


@pytest.mark.parametrize("name", SUITES)
def test_runs_of_a_task_differ_only_in_the_model(name: str) -> None:
    suite = load_suite(name)
    for task in suite.tasks:
        variants = [variant for owner, variant in suite.pairs() if owner == task]
        recipes = [suite.recipe_of(task, variant, 1, ()) for variant in variants]
        assert len({recipe.train.model_dump_json() for recipe in recipes}) == 1
        assert len({recipe.model.model_dump_json() for recipe in recipes}) == len(variants)


def test_the_suites_cover_the_tables() -> None:
    assert {model.position for model in models("positions")} == set(POSITIONS)
    assert {model.feedforward for model in models("feedforward")} == set(FEEDFORWARDS)
    attention = models("attention")
    assert {model.attention for model in attention} == set(ATTENTIONS)
    assert {8, 1} < {model.kv_heads for model in attention}


def test_the_blog_suite_has_the_settings_and_results_of_the_post() -> None:
    suite = load_suite("blog")
    for task, variant in suite.pairs():
        recipe = suite.recipe_of(task, variant, 42, ())
        shape = recipe.model.n_layer, recipe.model.n_embd, recipe.model.n_head
        assert (*shape, recipe.model.block_size) == (8, 96, 8, 128)
        train = recipe.train
        assert (train.steps, train.batch_size, train.lr) == (5_000, 16, 3e-4)
    metrics = {(p.task, p.variant): p.metrics for p in suite.published}
    assert metrics == {
        ("arithmetic", "baseline"): {"char_accuracy": 0.5928, "exact_match": 0.0007},
        ("tinyshakespeare", "baseline"): {"train_loss": 1.598, "val_loss": 1.758},
        ("tinyshakespeare", "swiglu"): {"train_loss": 1.521, "val_loss": 1.711},
    }


def test_a_variant_overrides_the_task_and_both_override_the_recipe() -> None:
    task = {"text": "x", "tokenizer": "chars", "model": {"n_layer": 1, "n_embd": 16}}
    suite = build(Suite, small(tasks={"sums": task}), "suite")
    recipe = suite.recipe_of("sums", "wide", 7, ["train.lr=0.5"])
    base = load_recipe("nano")
    assert (recipe.model.n_layer, recipe.model.n_embd) == (1, 64)
    assert recipe.model.n_head == base.model.n_head
    assert (recipe.tokenizer, recipe.train.seed, recipe.train.lr) == ("chars", 7, 0.5)
    assert recipe.train.steps == base.train.steps


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seeds": []}, "seeds"),
        ({"seeds": [1, 1]}, "twice"),
        ({"seeds": [-1]}, "seeds"),
        ({"tasks": {}}, "tasks"),
        ({"variants": {}}, "variants"),
        ({"variants": {"../up": {}}}, "cannot name a folder"),
        ({"variants": {".hidden": {}}}, "cannot name a folder"),
        ({"variants": {"a": {"tasks": ["nowhere"]}}}, "unknown task 'nowhere'"),
        ({"variants": {"a": {"mode": {}}}}, "unknown field"),
        ({"variants": {"a": {"train": {"seed": 1}}}}, "variants.a.train: seed is the suite's"),
        ({"tasks": {"t": {"text": "x", "train": {"seed": 1}}}}, "tasks.t.train: seed is the"),
        (
            {"tasks": {"t": {"problems": {"train": 0, "val": 5, "test": 5}}}},
            "tasks.t.problems.train: Input should be greater",
        ),
        ({"tasks": {"t": {}}}, "either problems or text"),
        ({"score": {"contexts": [2]}}, "must include 1"),
        ({"score": {"batches": 0}}, "batches"),
        ({"score": {"temperatures": [0.0, 1e-5]}}, "temperature must be 0, or"),
        (published(variant="b"), "unknown variant 'b'"),
        (published(metrics={"loss": 1.0}), "metrics"),
    ],
)
def test_an_invalid_suite_is_refused_in_one_line(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        build(Suite, small(**changes), "suite 'x'")
    assert str(error.value).startswith("suite 'x': ")
    assert "\n" not in str(error.value)


def test_the_error_of_a_variant_names_it() -> None:
    suite = build(Suite, small(variants={"odd": {"model": {"n_embd": 33}}}), "suite")
    with pytest.raises(ConfigError, match=r"task 'sums', variant 'odd': .*n_embd 33"):
        suite.recipe_of("sums", "odd", 1, ())


def test_an_override_cannot_give_all_runs_one_seed() -> None:
    suite = build(Suite, small(seeds=[1, 2, 3]), "suite")
    with pytest.raises(ConfigError, match=r"^train.seed is the suite's: use --seed$"):
        suite.recipe_of("sums", "plain", 1, ["train.seed=7"])


def test_only_selects_tasks_and_pairs() -> None:
    suite = load_suite("blog")
    assert len(suite.pairs()) == 10
    assert {task for task, _ in suite.pairs(["arithmetic"])} == {"arithmetic"}
    assert suite.pairs(["arithmetic/rope"]) == [("arithmetic", "rope")]
    with pytest.raises(
        ConfigError, match=r"unknown task or variant 'rope'; valid names: arithmetic, "
    ):
        suite.pairs(["rope"])


def test_a_recipe_given_by_its_path_is_beside_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    (tmp_path / "mine.toml").write_text('extends = "nano"\n[train]\nsteps = 7\n')
    table = small(recipe="mine.toml")
    (tmp_path / "suite.toml").write_text(tomli_w.dumps(table))
    suite = load_suite(str(tmp_path / "suite.toml"))
    assert suite.recipe_of("sums", "wide", 1, ()).train.steps == 7
