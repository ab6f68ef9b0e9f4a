"""The variants that the tests of this folder go through, in miniature.

By a covering array, each name of the tables in `calcgpt_lab.model` is tested with every name of the
other tables. A new name is covered as soon as it is in its table.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest
import torch

from calcgpt.config import ModelConfig
from calcgpt_lab.model.attention import ATTENTIONS
from calcgpt_lab.model.base import BLOCKS, INITS, LanguageModel
from calcgpt_lab.model.gpt import MODELS, build_model
from calcgpt_lab.model.layers import FEEDFORWARDS, NORMS
from calcgpt_lab.model.positions import POSITIONS
from calcgpt_lab.recipe import PRESETS, load_preset

VOCAB = 21
Changes = dict[str, Any]  # fields of a config that differ from SMALL
# Small enough to be quick, long enough to cross windows, blocks, places and the last distance.
# Token 21 is the landmark: it is not in the vocabulary.
SMALL: Changes = {
    "n_layer": 2,
    "n_embd": 24,
    "n_head": 4,
    "block_size": 20,
    "row_marks": [2, 11, 5, 21],
    "n_place": 4,
    "window": 5,
    "landmark_block": 4,
    "max_distance": 9,
    "n_bucket": 6,
}
BIASES = ("qkv_bias", "attn_out_bias", "ff_bias", "norm_bias", "head_bias")


def small(**changes: Any) -> ModelConfig:
    return ModelConfig(**SMALL | changes)


FACTORS: dict[str, Sequence[Any]] = {
    "position": list(POSITIONS),
    "feedforward": list(FEEDFORWARDS),
    "attention": list(ATTENTIONS),
    "n_kv_head": [4, 2, 1],
    "norm": list(NORMS),
    "norm_position": list(BLOCKS),
    "init": list(INITS),
    "attention_kernel": ["sdpa", "plain"],
    "qk_norm": [False, True],
    "tie_embeddings": [False, True],
    "qkv_bias": [False, True],
    "attn_out_bias": [True, False],
    "ff_bias": [False, True],
    "norm_bias": [True, False],
}
# No code depends on both factors, and their pairs would more than double the array.
# `test_any_combination` draws some of them.
APART = {("position", "feedforward")}


def covering_array(
    factors: Mapping[str, Sequence[Any]], apart: set[tuple[str, str]]
) -> list[Changes]:
    """Returns rows, one value per factor, in which every value of a factor meets every value of
    every other factor, but for the pairs of factors in `apart`. Greedy and deterministic."""
    uncovered = {
        (f, x, g, y): None  # a dict, because a set has no order
        for f, g in combinations(factors, 2)
        if (f, g) not in apart
        for x in factors[f]
        for y in factors[g]
    }
    order = {name: index for index, name in enumerate(factors)}

    def is_new(f: str, x: Any, g: str, y: Any) -> bool:
        return ((f, x, g, y) if order[f] < order[g] else (g, y, f, x)) in uncovered

    rows = []
    while uncovered:
        f, x, g, y = next(iter(uncovered))
        row = {f: x, g: y}
        for name, values in factors.items():
            if name not in row:
                new = [sum(is_new(name, v, f, x) for f, x in row.items()) for v in values]
                row[name] = values[new.index(max(new))]
        for (f, x), (g, y) in combinations(sorted(row.items(), key=lambda item: order[item[0]]), 2):
            uncovered.pop((f, x, g, y), None)
        rows.append(row)
    return rows


def with_head(changes: Changes) -> Changes:
    """A tied head has no bias."""
    return {**changes, "head_bias": not changes["tie_embeddings"]}


def variants() -> list[Changes]:
    """The default, the other architectures, all pairs of names, the presets, and OPTIONS."""
    alone: list[Changes] = [{}, *({"architecture": name} for name in MODELS)]
    presets = [load_preset(name).model_dump(exclude_unset=True) | SMALL for name in PRESETS]
    pairs = [with_head(row) for row in covering_array(FACTORS, APART)]
    return alone + pairs + presets + OPTIONS


# Numbers and switches at their limits.
OPTIONS: list[Changes] = [
    {"qk_norm": True, "position": "rope", "norm": "layernorm"},
    {"qk_norm": True, "position": "rope", "norm": "rmsnorm", "n_kv_head": 2},
    {"qk_norm": True, "norm_bias": False},
    {"rope_base": 100.0, "position": "rope"},
    {"tie_embeddings": True, "head_bias": False},
    {"tie_embeddings": True, "head_bias": False, "attention": "landmark"},
    dict.fromkeys(BIASES, True),
    dict.fromkeys(BIASES, True) | {"feedforward": "swiglu", "n_kv_head": 1},
    dict.fromkeys(BIASES, False),
    {"norm_bias": False, "norm_position": "post"},
    {"ff_hidden": 10},
    {"ff_hidden": 10, "feedforward": "geglu"},
    {"n_head": 6, "n_kv_head": 3, "position": "alibi"},  # no power of two
    {"n_head": 1},
    {"n_layer": 1},
    {"place_offset": 2, "position": "coupled"},
    {"place_offset": 3, "position": "coupled+rope", "attention": "landmark"},
    {"row_marks": [], "position": "coupled"},
    {"max_distance": 1, "position": "shaw"},
    {"max_distance": 1_000, "position": "shaw"},
    {"max_distance": 1_000, "position": "t5-buckets", "n_bucket": 7},
    {"max_distance": 2, "position": "t5-buckets", "n_bucket": 2},
    {"window": 1, "attention": "window"},
    {"window": 1_000, "attention": "window", "position": "t5"},
    {"landmark_block": 1, "attention": "landmark"},
    {"landmark_block": 20, "attention": "landmark", "position": "rope"},
    {"landmark_block": 1_000, "attention": "landmark"},
]


def label(changes: Changes) -> str:
    return " ".join(f"{key}={value}" for key, value in changes.items() if SMALL.get(key) != value)


# Many changes give the same config: each config is tested once.
CONFIGS = {small(**changes).model_dump_json(): changes for changes in variants()}
every_variant = pytest.mark.parametrize(
    "config", [pytest.param(small(**changes), id=label(changes)) for changes in CONFIGS.values()]
)


def build(config: ModelConfig, vocab_size: int = VOCAB) -> LanguageModel:
    """Returns a float64 model. Noise is added to its weights, because some initial values, such as
    a bias of 0, would have no effect."""
    torch.manual_seed(0)
    model = build_model(config, vocab_size).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def like(model: LanguageModel, config: ModelConfig) -> LanguageModel:
    """Returns a model of another config with the same weights."""
    other = build_model(config, model.vocab_size).double().eval()
    other.load_state_dict(model.state_dict())
    return other


def random_tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(VOCAB, (batch, length))


def assert_close(actual: torch.Tensor, expected: torch.Tensor, rtol: float = 1e-5) -> None:
    """Asserts that max|actual - expected| <= rtol * max(1, max|expected|), in float64."""
    assert actual.numel()
    actual, expected = actual.double(), expected.double()
    largest = expected.abs().max().clamp(min=1).item()
    torch.testing.assert_close(actual, expected, rtol=0, atol=rtol * largest)
