"""Recipes and presets: how they are read, overridden, written and compared, and those that ship."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.base.errors import ConfigError
from calcgpt.config import ModelConfig, Recipe
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.recipe import (
    PRESETS,
    RECIPES,
    differences,
    load_preset,
    load_recipe,
    recipe_toml,
)
from datagen.notation import ALPHABET, WIDTH, WORK_ALPHABET

# Reading


def refusal(name: str, *overrides: str) -> str:
    """Returns the message with which a recipe is refused."""
    with pytest.raises(ConfigError) as caught:
        load_recipe(name, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


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


@pytest.mark.parametrize("override", ["model.n_layer", "=4", "model.=4", ""])
def test_an_override_of_another_form_is_refused(override: str) -> None:
    assert "section.field=value" in refusal("blog", override)


def test_an_override_below_a_field_is_refused() -> None:
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
def test_a_file_that_is_not_a_recipe_is_refused(
    recipe_file: Callable[[str], str], text: str, reason: str
) -> None:
    assert reason in refusal(recipe_file(text))


def test_a_recipe_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "absent.toml" in refusal(str(tmp_path / "absent.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    assert "binary.toml is not UTF-8" in refusal(str(tmp_path / "binary.toml"))


# Writing and comparing


@pytest.mark.parametrize("name", RECIPES)
def test_a_written_recipe_reads_back_equal(name: str, recipe_file: Callable[[str], str]) -> None:
    recipe = load_recipe(name)
    assert load_recipe(recipe_file(recipe_toml(recipe))) == recipe


@given(st.text(st.characters(codec="utf-8")), st.floats(1e-300, 1e300), st.integers(0, 2**62))
def test_any_text_and_number_can_be_written(text: str, lr: float, seed: int) -> None:
    train = {"lr": lr, "seed": seed, "compile": True}
    data = {"mixture": {"blog": 0.5}, "operations": {"*": 3.0, "/": 0.25}, "format": "direct"}
    recipe = Recipe.model_validate(
        {"description": text, "train": train, "data": data, "model": {"row_marks": [1, 2]}}
    )
    assert Recipe.model_validate(tomllib.loads(recipe_toml(recipe))) == recipe


def test_differences_are_named_by_section_and_field() -> None:
    a = load_recipe("nano").model_dump()
    b = load_recipe("nano", ("train.lr=0.5", "tokenizer=chars", "data.mixture.blog=1")).model_dump()
    changes = differences(a, b)
    assert changes["train.lr"] == (3e-3, 0.5)
    assert changes["tokenizer"] == ("arithmetic", "chars")
    assert changes["data.mixture.blog"] == (None, 1)
    assert {field.partition(".")[0] for field in changes} == {"train", "tokenizer", "data"}
    assert not differences(a, a)
    assert differences(b, a) == {field: (y, x) for field, (x, y) in changes.items()}


# Presets


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_a_model_that_runs(name: str) -> None:
    preset = load_preset(name).model_dump(exclude_unset=True)
    config = ModelConfig(**preset | {"n_layer": 2, "n_embd": 32, "n_head": 4, "block_size": 16})
    logits = build_model(config, 21)(torch.zeros(2, 16, dtype=torch.long))
    assert logits.shape == (2, 16, 21)
    assert logits.isfinite().all()


def test_minigpt_is_the_default_config() -> None:
    assert load_preset("minigpt") == ModelConfig()


NANO = 'extends = "nano"\n'
OWN = '[model]\nn_layer = 3\nposition = "alibi"\nnorm = "layernorm"\n'
DEEP = {"n_layer": 3, "norm": "layernorm"}


@pytest.mark.parametrize(
    ("text", "overrides", "preset", "changes"),
    [
        *((f'[model]\npreset = "{name}"\n', (), name, {}) for name in PRESETS),
        # Fields of a recipe override its preset.
        ('[model]\nn_layer = 3\npreset = "llama"\nnorm = "layernorm"', (), "llama", DEEP),
        # A preset is inherited or replaced.
        (f"{NANO}[model]\nqk_norm = true\n", (), "nano", {"qk_norm": True}),
        (f'{NANO}[model]\npreset = "gpt2"\n', (), "gpt2", {}),
        # Overrides choose one, change it, and take it away.
        (NANO, ("model.preset=t5-decoder",), "t5-decoder", {}),
        (NANO, ("model.preset=mpt", "model.position=rope"), "mpt", {"position": "rope"}),
        (NANO, ("model.position=rope", "model.preset=mpt"), "mpt", {"position": "rope"}),
        (NANO, ("model.preset=null",), "minigpt", {}),
        # That of an override replaces fields of the recipe.
        (OWN, ("model.preset=llama", "model.norm=layernorm"), "llama", DEEP),
    ],
)
def test_a_preset_has_its_place_among_recipe_and_overrides(
    text: str,
    overrides: tuple[str, ...],
    preset: str,
    changes: dict[str, object],
    recipe_file: Callable[[str], str],
) -> None:
    expected = load_preset(preset).model_copy(update=changes)
    assert load_recipe(recipe_file(text), overrides).model == expected


def test_an_overlay_stays_as_it_is(recipe_file: Callable[[str], str]) -> None:
    own = {"model": {"position": "none"}}
    assert load_recipe("nano", ["model.preset=llama"], [own]).model.position == "rope"
    name = recipe_file("[train]\nsteps = 7\n")  # no section that an overlay could be merged into
    overlay = {"model": {"preset": "llama"}, "data": {"mixture": {"blog": 1.0}}}
    overrides = ("model.n_layer=3", "data.mixture.tricky-5=0.5")
    recipes = [load_recipe(name, overrides, [overlay]) for _ in range(2)]
    assert recipes[0] == recipes[1]
    assert recipes[0].model == load_preset("llama").model_copy(update={"n_layer": 3})
    assert overlay == {"model": {"preset": "llama"}, "data": {"mixture": {"blog": 1.0}}}


@pytest.mark.parametrize("wrong", ['"gpt3"', "3", '["gpt2"]'])
def test_an_unknown_preset_is_refused_with_the_valid_ones(
    wrong: str, recipe_file: Callable[[str], str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe(recipe_file(f"[model]\npreset = {wrong}\n"))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("unknown preset ")
    assert ", ".join(PRESETS) in message


# The recipes of the package


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_builds_a_model_that_can_hold_a_problem(name: str) -> None:
    recipe = load_recipe(name)
    # What reads the tokens needs their values; of others, nothing is allocated.
    device = "cpu" if recipe.model.architecture == "sources" else "meta"
    with torch.device(device):
        model = build_model(recipe.model, len(ALPHABET))
        logits = model(torch.zeros(2, 25 + WIDTH, dtype=torch.long))
    assert logits.shape == (2, 25 + WIDTH, len(ALPHABET))


def test_the_characters_of_sources_are_those_of_the_tokenizer() -> None:
    recipe = load_recipe("calculator")
    assert list(recipe.model.characters) == list(WORK_ALPHABET)
    tokenizer = TOKENIZERS[recipe.tokenizer]("")
    assert tokenizer.decode(range(len(tokenizer))) == recipe.model.characters


def test_blog_is_the_blogs_baseline() -> None:
    recipe = load_recipe("blog")
    model, train = recipe.model, recipe.train
    assert (model.n_layer, model.n_embd, model.n_head, model.block_size) == (8, 96, 8, 128)
    assert (model.position, model.feedforward, model.norm) == ("learned", "relu", "layernorm")
    assert (train.steps, train.batch_size, train.lr) == (5_000, 16, 3e-4)
    assert (train.batches, train.schedule, model.dropout) == ("stream", "constant", 0.0)
