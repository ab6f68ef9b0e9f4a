"""A model that cannot work is refused when its config is built, in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calcgpt.errors import ConfigError
from calcgpt.model.attention import ATTENTIONS
from calcgpt.model.gpt import BLOCKS, INITS, MODELS
from calcgpt.model.layers import FEEDFORWARDS, NORMS
from calcgpt.model.positions import POSITIONS
from calcgpt.recipe import load_recipe, preset_names

TABLES = {
    "architecture": MODELS,
    "position": POSITIONS,
    "attention": ATTENTIONS,
    "feedforward": FEEDFORWARDS,
    "norm": NORMS,
    "norm_position": BLOCKS,
    "init": INITS,
}

# Overrides of [model] in `nano`: 4 heads of width 8, 2 key/value heads, rotary positions.
REFUSED = {
    # Parts that do not fit together.
    "n_kv_head=3": "n_head 4 is not divisible by n_kv_head 3",
    "n_kv_head=8": "n_head 4 is not divisible by n_kv_head 8",
    "n_embd=30": "n_embd 30 is not divisible by n_head 4",
    "n_head=64 n_kv_head=1": "n_embd 32 is not divisible by n_head 64",
    "n_embd=20": "rope needs an even head width, not 5",
    "n_embd=20 position=learned+rope": "rope needs an even head width, not 5",
    "n_embd=20 position=coupled+rope": "rope needs an even head width, not 5",
    "n_embd=15 n_head=1 n_kv_head=1 position=sinusoidal": "need an even n_embd, not 15",
    "tie_embeddings=true head_bias=true": "tie_embeddings needs head_bias = false",
    "position=t5-buckets max_distance=16": "max_distance 16 must be above half of n_bucket 32",
    "position=t5-buckets max_distance=1 n_bucket=2": "max_distance 1 must be above half of",
    "position=coupled n_place=8 place_offset=8": "place_offset 8 must be below n_place 8",
    "position=coupled+rope place_offset=32": "place_offset 32 must be below n_place 32",
    "position=coupled row_marks=[3,3]": "row_marks must be different token ids",
    "position=coupled+rope row_marks=[1,2,1]": "row_marks must be different token ids",
    # A name is wrong even where the architecture makes no use of it.
    "architecture=bigram position=nope": "unknown position 'nope'; valid names: ",
    # Numbers out of range.
    "row_marks=[-1]": "model.row_marks.0: Input should be greater than or equal to 0",
    "row_marks=[99999999999]": "model.row_marks.0: Input should be less than 65536",
    "window=0": "model.window: Input should be greater than or equal to 1",
    "window=-3": "model.window: Input should be greater than or equal to 1",
    "landmark_block=0": "model.landmark_block: Input should be greater than or equal to 1",
    "max_distance=0": "model.max_distance: Input should be greater than or equal to 1",
    "n_bucket=1": "model.n_bucket: Input should be greater than or equal to 2",
    "n_place=1": "model.n_place: Input should be greater than or equal to 2",
    "place_offset=-1": "model.place_offset: Input should be greater than or equal to 0",
    "rope_base=1": "model.rope_base: Input should be greater than 1",
    "rope_base=inf": "model.rope_base: Input should be a finite number",
    "dropout=1": "model.dropout: Input should be less than 1",
    "dropout=1.0": "model.dropout: Input should be less than 1",
    "dropout=-0.1": "model.dropout: Input should be greater than or equal to 0",
    "ff_hidden=0": "model.ff_hidden: Input should be greater than or equal to 1",
    "n_layer=0": "model.n_layer: Input should be greater than or equal to 1",
    "n_head=0": "model.n_head: Input should be greater than or equal to 1",
    "n_kv_head=0": "model.n_kv_head: Input should be greater than or equal to 1",
    "block_size=0": "model.block_size: Input should be greater than or equal to 1",
    # Values of another kind.
    "attention_kernel=flash": "unknown attention_kernel 'flash'; valid names: sdpa, plain",
    "window=2.5": "model.window: Input should be a valid integer",
    'row_marks=["="]': "model.row_marks.0: Input should be a valid integer",
    "norm_bias=1": "model.norm_bias: Input should be a valid boolean",
    "norm_possition=pre": "unknown field 'model.norm_possition'; valid fields: architecture, ",
}  # fmt: skip


def overrides(words: str) -> tuple[str, ...]:
    return tuple(f"model.{word}" for word in words.split())


def refusal(words: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe("nano", overrides(words))
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("words", REFUSED)
def test_a_model_that_cannot_work_is_refused(words: str) -> None:
    assert REFUSED[words] in refusal(words)


@pytest.mark.parametrize("field", TABLES)
def test_an_unknown_name_is_refused_with_the_valid_ones(field: str) -> None:
    expected = f"unknown {field} 'nope'; valid names: {', '.join(sorted(TABLES[field]))}"
    assert refusal(f"{field}=nope").endswith(expected)


def test_an_unknown_preset_is_refused_with_the_valid_ones() -> None:
    assert refusal("preset=nope").endswith(f"'nope'; valid names: {', '.join(preset_names())}")


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
def test_what_is_next_to_it_works(words: str) -> None:
    load_recipe("nano", overrides(words))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("n_kv_head=3", "n_head 4 is not divisible by n_kv_head 3"),
        ("attention=sparse", "unknown attention 'sparse'; valid names: full, landmark, window"),
    ],
)
def test_the_command_line_refuses_in_one_line(
    words: str, reason: str, run_cli: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    sets = [word for override in overrides(words) for word in ("--set", override)]
    outcome = run_cli("train", "--recipe", "nano", "--out", out, *sets)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert outcome.err.endswith(f"{reason}\n")
    assert outcome.err.count("\n") == 1
    assert not out.exists()
