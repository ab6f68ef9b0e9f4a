"""Every shipped recipe is valid, and what its name says."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.config import Recipe
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.model.gpt import GPT
from calcgpt.recipe import differences, load_recipe, recipe_names, recipe_toml
from datagen.arithmetic import Number, Operation, Problem
from datagen.notation import ALPHABET, PROMPT_LENGTH, WIDTH
from datagen.steps import MARKS, render


def build(recipe: Recipe) -> GPT:
    with torch.device("meta"):  # shapes without numbers: nothing is allocated
        return GPT(recipe.model, len(ALPHABET))


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_builds_a_model_that_can_hold_a_problem(name: str) -> None:
    recipe = load_recipe(name)
    model = build(recipe)
    logits = model(torch.zeros(2, PROMPT_LENGTH + WIDTH, dtype=torch.long, device="meta"))
    assert logits.shape == (2, PROMPT_LENGTH + WIDTH, len(ALPHABET))


def test_the_rows_of_the_steps_begin_where_the_notation_says() -> None:
    recipe = load_recipe("steps")
    tokenizer = TOKENIZERS[recipe.tokenizer]("")
    assert sorted(recipe.model.row_marks) == sorted(tokenizer.encode(MARKS).tolist())


def test_the_longest_line_with_steps_fits_in_the_context() -> None:
    recipe = load_recipe("steps")
    assert recipe.data is not None
    digits = recipe.data.digits or 0
    most, least = Number(10**digits - 1, True), Number(-1, True)
    longest = max(len(render(Problem(most, op, least), digits)) for op in Operation)
    assert longest == max(
        len(render(Problem(a, op, b), digits))
        for op in Operation
        for a in (most, least)
        for b in (most, least)
    )
    assert longest - 1 <= recipe.model.block_size


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_says_what_it_is(name: str) -> None:
    assert load_recipe(name).description


def test_the_recipes_of_the_first_experiments_stay() -> None:
    assert {"blog", "blog-gqa", "blog-rope", "blog-swiglu", "nano"} <= set(recipe_names())


def test_the_baseline_is_the_blogs() -> None:
    recipe = load_recipe("blog")
    model, train = recipe.model, recipe.train
    assert (model.n_layer, model.n_embd, model.n_head, model.block_size) == (8, 96, 8, 128)
    assert (model.position, model.feedforward, model.norm) == ("learned", "relu", "layernorm")
    assert (train.steps, train.batch_size, train.lr) == (5_000, 16, 3e-4)
    assert (train.batches, train.schedule, model.dropout) == ("stream", "constant", 0.0)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("blog-swiglu", {"feedforward": "swiglu"}),
        ("blog-rope", {"position": "rope"}),
        ("blog-gqa", {"n_kv_head": 2}),
    ],
)
def test_a_variant_differs_from_the_baseline_in_its_one_choice(
    name: str, changed: dict[str, object]
) -> None:
    baseline, variant = load_recipe("blog"), load_recipe(name)
    assert variant.model == baseline.model.model_copy(update=changed)
    assert variant.train == baseline.train


def test_swiglu_has_as_many_parameters_as_the_baseline() -> None:
    baseline = build(load_recipe("blog")).n_parameters()
    swiglu = build(load_recipe("blog-swiglu")).n_parameters()
    assert abs(swiglu - baseline) / baseline < 0.01


@pytest.mark.parametrize("name", recipe_names())
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
    found = differences(a, b)
    assert found["train.lr"] == (3e-3, 0.5)
    assert found["tokenizer"] == ("arithmetic", "chars")
    assert found["data.mixture.blog"] == (None, 1)
    assert {field.partition(".")[0] for field in found} == {"train", "tokenizer", "data"}
    assert not differences(a, a)
    assert differences(b, a) == {field: (y, x) for field, (x, y) in found.items()}
