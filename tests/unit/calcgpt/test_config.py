"""Configs that cannot work are refused in one line, which lists the valid names or fields."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from calcgpt import config
from calcgpt.base.errors import ConfigError
from calcgpt.config import Recipe
from calcgpt_lab.data.sources import BATCHES
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.model.attention import ATTENTIONS
from calcgpt_lab.model.base import BLOCKS, INITS
from calcgpt_lab.model.gpt import MODELS
from calcgpt_lab.model.layers import FEEDFORWARDS, NORMS
from calcgpt_lab.model.positions import POSITIONS
from calcgpt_lab.recipe import RECIPES, commented_toml, load_recipe
from calcgpt_lab.training.optim import OPTIMIZERS, SCHEDULES
from datagen.distributions import DISTRIBUTIONS
from datagen.formats import FORMATS

DATA = "data.mixture.blog=1"  # a recipe has no [data] without it

# Field -> (the names that a config accepts, the table that they stand for).
TABLES: dict[str, tuple[Any, Mapping[str, Any] | tuple[str, ...]]] = {
    "model.architecture": (config.Architecture, MODELS),
    "model.position": (config.Position, POSITIONS),
    "model.attention": (config.Attention, ATTENTIONS),
    "model.feedforward": (config.FeedForward, FEEDFORWARDS),
    "model.norm": (config.Norm, NORMS),
    "model.norm_position": (config.NormPosition, BLOCKS),
    "model.init": (config.Init, INITS),
    "train.batches": (config.Batches, BATCHES),
    "train.optimizer": (config.Optimizer, OPTIMIZERS),
    "train.schedule": (config.Schedule, SCHEDULES),
    "tokenizer": (config.TokenizerName, TOKENIZERS),
    "data.format": (config.Format, FORMATS),
    "data.validation": (config.Distribution, DISTRIBUTIONS),
}

# Overrides of [model] in `nano`: 4 heads of width 8, 2 key/value heads, rotary positions.
REFUSED = {
    # Parts that do not fit together.
    "n_kv_head=3": "n_head 4 is not divisible by n_kv_head 3",
    "n_embd=30": "n_embd 30 is not divisible by n_head 4",
    "n_head=64 n_kv_head=1": "n_embd 32 is not divisible by n_head 64",
    "n_embd=20": "rope needs an even head width, not 5",
    "n_embd=20 position=learned+rope": "rope needs an even head width, not 5",
    "n_embd=15 n_head=1 n_kv_head=1 position=sinusoidal": "need an even n_embd, not 15",
    "block_size=1000000 n_embd=96": "block_size must be at most 699050 with position 'rope'",
    "block_size=1000000 position=sinusoidal": "block_size must be at most 524288 with position",
    "tie_embeddings=true head_bias=true": "tie_embeddings needs head_bias = false",
    "position=t5-buckets max_distance=16": "max_distance 16 must be above half of n_bucket 32",
    "position=t5-buckets max_distance=1 n_bucket=2": "max_distance 1 must be above half of",
    "position=coupled n_place=8 place_offset=8": "place_offset 8 must be below n_place 8",
    "position=coupled row_marks=[3,3]": "row_marks must be different token ids",
    # A name is wrong even where the architecture makes no use of it.
    "architecture=bigram position=nope": "unknown position 'nope'; valid names: ",
    # Numbers out of range.
    "row_marks=[-1]": "model.row_marks.0: Input should be greater than or equal to 0",
    "rope_base=1": "model.rope_base: Input should be greater than 1",
    "rope_base=inf": "model.rope_base: Input should be a finite number",
    "dropout=1": "model.dropout: Input should be less than 1",
    # Values of another kind.
    "attention_kernel=flash": "unknown attention_kernel 'flash'; valid names: sdpa, plain",
    "window=2.5": "model.window: Input should be a valid integer, not 2.5",
    "n_layer=four": "model.n_layer: Input should be a valid integer",
    "qkv_bias=perhaps": "model.qkv_bias: Input should be true or false, not 'perhaps'",
    "norm_possition=pre": "unknown field 'model.norm_possition'; valid fields: architecture, ",
}


REFUSED_ELSEWHERE = {
    "train.grad_accum=3": "batch_size 16 is not divisible by grad_accum 3",
    "train.batch_size=1000001": "train.batch_size: Input should be less than or equal to 1000000",
    "train.lr=-1": "train.lr: Input should be greater than 0, not -1",
    "train.steps=null": "train.steps: Input should be a valid integer, not null",
    "train=3": "train: must be a table",
    "model.feedforward=SwiGLU": "did you mean 'swiglu'?",
    "train.precision=fp8": "unknown precision 'fp8'; valid names: auto, fp32, bf16",
    "train.learning_rate=1": "unknown field 'train.learning_rate'; valid fields: batches, ",
    "modell.n_layer=4": "unknown field 'modell'; valid fields: description, ",
}


def refusal(*overrides: str) -> str:
    """Returns the message with which `nano` with these overrides is refused."""
    with pytest.raises(ConfigError) as caught:
        load_recipe("nano", overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def of_model(words: str) -> list[str]:
    return [f"model.{word}" for word in words.split()]


@pytest.mark.parametrize("field", TABLES)
def test_names_and_table_are_equal(field: str) -> None:
    names, table = TABLES[field]
    assert list(get_args(names)) == sorted(table)


@pytest.mark.parametrize("field", TABLES)
def test_an_unknown_name_is_refused_with_the_valid_ones(field: str) -> None:
    overrides = [f"{field}=nope", *([DATA] if field.startswith("data.") else [])]
    kind = "distribution" if field == "data.validation" else field.rpartition(".")[2]
    valid = ", ".join(sorted(TABLES[field][1]))
    message = refusal(*overrides).partition("; did you mean ")[0]
    assert message.endswith(f"unknown {kind} 'nope'; valid names: {valid}")


@pytest.mark.parametrize("words", REFUSED)
def test_a_model_that_cannot_work_is_refused(words: str) -> None:
    assert REFUSED[words] in refusal(*of_model(words))


@pytest.mark.parametrize(
    "words",
    [
        "n_embd=20 position=alibi",
        "n_embd=15 n_head=3 n_kv_head=1 position=learned",
        "position=t5-buckets max_distance=17",
        "position=coupled n_place=8 place_offset=7",
        "tie_embeddings=true head_bias=false",
        "window=1000 attention=window",
        "landmark_block=1000 attention=landmark",
        "n_kv_head=null",
        "dropout=0.99",
    ],
)
def test_values_at_the_limits_are_accepted(words: str) -> None:
    load_recipe("nano", of_model(words))


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        *(([override], reason) for override, reason in REFUSED_ELSEWHERE.items()),
        (["data.format=direct"], "data.mixture: Field required"),
        (["data.mixture={}"], "data.mixture: Dictionary should have at least 1 item"),
        (["data.mixture.blog=0"], "data.mixture.blog: Input should be greater than 0"),
        (["data.mixture.blogg=1"], "unknown distribution 'blogg'; valid names: blog"),
        ([DATA, "data.digits=7"], "unknown field 'data.digits'; valid fields: format, mixture"),
        ([DATA, "data.operations.^=1"], "unknown operation '^'; valid names: +, -"),
        ([DATA, "data.operations.+=-1"], "data.operations.+: Input should be gr"),
        (
            [DATA, "data.operations={'+'=0, '-'=0, '*'=0, '/'=0}"],
            "data.operations: one operation needs a weight above 0",
        ),
    ],
)
def test_what_cannot_be_trained_on_is_refused(overrides: list[str], reason: str) -> None:
    assert reason in refusal(*overrides)


def test_the_default_weight_of_an_operation_is_1() -> None:
    data = load_recipe("nano", (DATA, "data.operations.*=3")).data
    assert data is not None
    assert data.operations == {"+": 1.0, "-": 1.0, "*": 3.0, "/": 1.0}


def test_the_format_says_whether_there_are_worked_steps() -> None:
    formats = {f: load_recipe("nano", (DATA, f"data.format={f}")).has_work for f in FORMATS}
    assert formats.pop("direct") is load_recipe("nano").has_work is False
    assert all(formats.values())


def test_a_recipe_with_data_survives_json() -> None:
    recipe = load_recipe("nano", (DATA, "data.operations.*=3"))
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_shown_with_its_comments_is_that_recipe(name: str, tmp_path: Path) -> None:
    shown, file = load_recipe(name), tmp_path / "shown.toml"
    file.write_text(commented_toml(shown), "utf-8")
    assert load_recipe(str(file)) == shown
    lines = [line for line in file.read_text("utf-8").splitlines() if " = " in line]
    assert all("  # " in line for line in lines)  # every field has its meaning


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("train.warmup=3", "warmup_steps"),
        ("n_layer=3", "model.n_layer"),
        ("model.lr=1", None),
        ("model.norm=rmsnorn", "rmsnorm"),
    ],
)
def test_a_message_asks_whether_a_close_name_is_meant(override: str, meant: str | None) -> None:
    message = refusal(override)
    assert message.endswith(f"; did you mean {meant!r}?") if meant else "mean" not in message
