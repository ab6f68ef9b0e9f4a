"""Configs refuse what cannot work, in one line that lists what can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from calcgpt.config import ModelConfig, Recipe
from calcgpt.errors import ConfigError
from calcgpt.recipe import load_recipe


def refusal(name: str, *overrides: str) -> str:
    """The message with which a recipe is refused."""
    with pytest.raises(ConfigError) as caught:
        load_recipe(name, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("override", "offered"),
    [
        ("model.position=ropes", "learned, none, rope"),
        ("model.feedforward=gelu2", "relu, swiglu"),
        ("model.norm=batchnorm", "layernorm, rmsnorm"),
        ("model.init=zeros", "gpt2, torch"),
        ("train.batches=lines", "problems, stream"),
        ("train.optimizer=adm", "adamw"),
        ("train.schedule=step", "constant, cosine, linear"),
    ],
)
def test_an_unknown_name_is_refused_with_the_valid_ones(override: str, offered: str) -> None:
    message = refusal("blog", override)
    assert repr(override.partition("=")[2]) in message
    for name in offered.split(", "):
        assert name in message


@pytest.mark.parametrize(
    ("override", "offered"),
    [
        ("model.n_layers=4", "n_layer"),
        ("train.learning_rate=1", "weight_decay"),
        ("modell.n_layer=4", "model"),
    ],
)
def test_an_unknown_field_is_refused_with_the_valid_ones(override: str, offered: str) -> None:
    message = refusal("blog", override)
    assert "unknown field" in message
    assert f"{offered}, " in message


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ("model.n_layer=four", "model.n_layer"),
        ("model.n_layer=0", "model.n_layer"),
        ("model.n_layer=1.5", "model.n_layer"),
        ("model.n_layer=[4]", "model.n_layer"),
        ("model.dropout=1.0", "model.dropout"),
        ("model.qkv_bias=perhaps", "model.qkv_bias"),
        ("train.lr=-1", "train.lr"),
        ("train.lr=nan", "train.lr"),
        ("train.seed=-1", "train.seed"),
        ("train.precision=fp8", "unknown precision 'fp8'; valid names: auto, fp32, bf16"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_field(override: str, field: str) -> None:
    assert field in refusal("blog", override)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["model.n_head=7"], "n_embd 96 is not divisible by n_head 7"),
        (["model.n_kv_head=3"], "n_head 8 is not divisible by n_kv_head 3"),
        (["model.position=rope", "model.n_head=32"], "rope needs an even head width, not 3"),
        (["model.tie_embeddings=true"], "tie_embeddings needs head_bias = false"),
        (["train.grad_accum=3"], "batch_size 16 is not divisible by grad_accum 3"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(overrides: list[str], reason: str) -> None:
    assert reason in refusal("blog", *overrides)


@pytest.mark.parametrize(
    ("override", "section", "field", "value"),
    [
        ("model.n_layer=4", "model", "n_layer", 4),
        ("model.position=rope", "model", "position", "rope"),
        ('model.position="rope"', "model", "position", "rope"),
        ("model.qkv_bias=true", "model", "qkv_bias", True),
        ("train.lr=1e-3", "train", "lr", 1e-3),
        (" train.steps = 20 ", "train", "steps", 20),
    ],
)
def test_an_override_is_read_as_toml(
    override: str, section: str, field: str, value: object
) -> None:
    changed = getattr(getattr(load_recipe("blog", (override,)), section), field)
    assert changed == value
    assert type(changed) is type(value)


def test_overrides_leave_the_other_fields_alone() -> None:
    plain, changed = load_recipe("nano"), load_recipe("nano", ("model.n_layer=1",))
    assert changed.model == plain.model.model_copy(update={"n_layer": 1})
    assert changed.train == plain.train


def test_a_field_outside_the_sections_can_be_overridden() -> None:
    assert load_recipe("blog", ("tokenizer=chars",)).tokenizer == "chars"
    assert load_recipe("blog", ("model.n_kv_head=null",)).model.n_kv_head is None


def test_the_last_of_two_overrides_counts() -> None:
    assert load_recipe("blog", ("train.steps=1", "train.steps=2")).train.steps == 2


@pytest.mark.parametrize("override", ["model.n_layer", "=4", "model.=4", ""])
def test_an_override_of_another_form_is_refused(override: str) -> None:
    assert "section.field=value" in refusal("blog", override)


def test_an_override_of_what_is_no_section_is_refused() -> None:
    assert "'description' is not a section" in refusal("blog", "description.text=4")


def test_an_unknown_recipe_is_refused_with_the_valid_ones() -> None:
    message = refusal("blogg")
    assert "'blogg'" in message
    assert "blog, blog-gqa" in message


def test_a_recipe_file_extends_a_recipe(recipe_file: Callable[[str], str]) -> None:
    # nano differs from the defaults in every section, so what is lost on the way shows.
    recipe = load_recipe(recipe_file('extends = "nano"\n[model]\nn_layer = 5\n'))
    base = load_recipe("nano")
    assert recipe.model == base.model.model_copy(update={"n_layer": 5})
    assert recipe.train == base.train


def test_a_recipe_file_alone_has_the_defaults(recipe_file: Callable[[str], str]) -> None:
    recipe = load_recipe(recipe_file("[model]\nn_layer = 2\n"))
    assert recipe == Recipe(model=ModelConfig(n_layer=2))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n_layer 4", "is not valid TOML"),
        ("model = 4", "model"),
        ("[model]\nn_layer = 1\nn_layer = 2", "is not valid TOML"),
        ('extends = "blogg"', "unknown recipe 'blogg'"),
        ('extends = "blog-rope"', "itself extends a recipe"),
    ],
)
def test_a_recipe_file_that_is_none_is_refused(
    recipe_file: Callable[[str], str], text: str, reason: str
) -> None:
    assert reason in refusal(recipe_file(text))


def test_a_recipe_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "absent.toml" in refusal(str(tmp_path / "absent.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    assert "binary.toml is not UTF-8" in refusal(str(tmp_path / "binary.toml"))


def test_a_config_cannot_be_changed_after_it_was_checked() -> None:
    config = ModelConfig()
    with pytest.raises(ValidationError):
        config.n_head = 7


def test_key_value_heads_default_to_the_query_heads() -> None:
    assert ModelConfig(n_head=8).kv_heads == 8
    assert ModelConfig(n_head=8, n_kv_head=2).kv_heads == 2


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["data.format=direct"], "data.mixture: Field required"),
        (["data.mixture={}"], "data.mixture: Dictionary should have at least 1 item"),
        (["data.mixture.blog=0"], "data.mixture.blog: Input should be greater than 0"),
        (["data.mixture.blogg=1"], "unknown distribution 'blogg'; valid names: blog"),
        (
            ["data.mixture.blog=1", "data.validation=x"],
            "unknown distribution 'x'; valid names: blog",
        ),
        (
            ["data.mixture.blog=1", "data.format=x"],
            "unknown format 'x'; valid names: direct, loose",
        ),
        (
            ["data.mixture.blog=1", "data.digits=99"],
            "data.digits: Input should be less than or equal to 9",
        ),
        (
            ["data.mixture.blog=1", "data.operations.^=1"],
            "unknown operation '^'; valid names: +, -",
        ),
        (["data.mixture.blog=1", "data.operations.+=-1"], "data.operations.+: Input should be gr"),
        (["data.mixture.blog=1", "data.mixtures.blog=1"], "valid fields: format, digits, mixture"),
        (
            ["data.mixture.blog=1", "data.operations={'+'=0, '-'=0, '*'=0, '/'=0}"],
            "data.operations: one operation needs a weight above 0",
        ),
    ],
)
def test_data_that_cannot_be_drawn_is_refused(overrides: list[str], reason: str) -> None:
    assert reason in refusal("nano", *overrides)


def test_an_operation_that_is_not_named_weighs_one() -> None:
    data = load_recipe("nano", ("data.mixture.blog=1", "data.operations.*=3")).data
    assert data is not None
    assert data.operations == {"+": 1.0, "-": 1.0, "*": 3.0, "/": 1.0}


def test_a_recipe_with_data_is_written_and_read_as_it_is() -> None:
    recipe = load_recipe("nano", ("data.mixture.blog=1", "data.operations.*=3"))
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
