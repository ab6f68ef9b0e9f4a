"""Every preset builds a model, and lies under what a recipe says itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.model.gpt import build_model
from calcgpt.recipe import load_preset, load_recipe, preset_names, recipe_names


def test_the_presets_of_the_posts_are_there() -> None:
    assert {"gpt2", "llama", "minigpt", "mpt", "nano", "t5-decoder"} <= set(preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_builds_a_model_that_runs(name: str) -> None:
    preset = load_preset(name).model_dump(exclude_unset=True)
    config = ModelConfig(**preset | {"n_layer": 2, "n_embd": 32, "n_head": 4, "block_size": 16})
    logits = build_model(config, 21)(torch.zeros(2, 16, dtype=torch.long))
    assert logits.shape == (2, 16, 21)
    assert logits.isfinite().all()


def test_nano_is_a_llama_in_miniature() -> None:
    nano = load_preset("nano")
    assert (nano.n_layer, nano.n_embd, nano.n_head, nano.kv_heads) == (2, 32, 4, 2)
    assert nano.block_size == 64
    assert (nano.position, nano.feedforward, nano.norm) == ("rope", "swiglu", "rmsnorm")


def test_minigpt_is_what_a_config_is_by_itself() -> None:
    assert load_preset("minigpt") == ModelConfig()


@pytest.mark.parametrize("name", ["gpt2", "mpt"])
def test_the_presets_that_tie_the_head_to_the_embedding(name: str) -> None:
    assert load_preset(name).tie_embeddings


@pytest.mark.parametrize("name", preset_names())
def test_a_recipe_has_the_fields_of_its_preset(
    name: str, recipe_file: Callable[[str], str]
) -> None:
    recipe = load_recipe(recipe_file(f'[model]\npreset = "{name}"\n'))
    assert recipe.model == load_preset(name)


def test_a_recipe_counts_for_more_than_its_preset(recipe_file: Callable[[str], str]) -> None:
    recipe = load_recipe(recipe_file('[model]\nn_layer = 3\npreset = "llama"\nnorm = "layernorm"'))
    expected = load_preset("llama").model_copy(update={"n_layer": 3, "norm": "layernorm"})
    assert recipe.model == expected


def test_an_override_chooses_a_preset_or_counts_for_more() -> None:
    assert load_recipe("nano", ("model.preset=t5-decoder",)).model == load_preset("t5-decoder")
    for overrides in (
        ("model.preset=mpt", "model.position=rope"),
        ("model.position=rope", "model.preset=mpt"),
    ):
        expected = load_preset("mpt").model_copy(update={"position": "rope"})
        assert load_recipe("nano", overrides).model == expected


def test_a_recipe_that_extends_another_has_its_preset(recipe_file: Callable[[str], str]) -> None:
    recipe = load_recipe(recipe_file('extends = "nano"\n[model]\nqk_norm = true\n'))
    assert recipe.model == load_preset("nano").model_copy(update={"qk_norm": True})
    recipe = load_recipe(recipe_file('extends = "nano"\n[model]\npreset = "gpt2"\n'))
    assert recipe.model == load_preset("gpt2")


@pytest.mark.parametrize("wrong", ['"gpt3"', "3", '["gpt2"]'])
def test_an_unknown_preset_is_refused_with_the_valid_ones(
    wrong: str, recipe_file: Callable[[str], str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe(recipe_file(f"[model]\npreset = {wrong}\n"))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("unknown preset ")
    assert message.endswith(", ".join(preset_names()))


def test_presets_are_no_recipes() -> None:
    assert not set(preset_names()) & set(recipe_names()) - {"nano"}
