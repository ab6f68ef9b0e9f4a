"""Every variant of the models in miniature: what the tests of this folder go through.

The names come from the registries, so a new one is covered by being registered.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from calcgpt.config import ModelConfig
from calcgpt.model.attention import ATTENTIONS
from calcgpt.model.gpt import BLOCKS, INITS, MODELS, LanguageModel, build_model
from calcgpt.model.layers import FEEDFORWARDS, NORMS
from calcgpt.model.positions import POSITIONS
from calcgpt.recipe import load_preset, preset_names

VOCAB = 21
# Small enough to be quick; long enough to cross windows, blocks, places and the last distance.
# 21 is no token of the text, but the landmark.
SMALL: dict[str, Any] = {
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


def combinations() -> list[dict[str, Any]]:
    """What differs from SMALL: the registries multiplied where they meet in the code."""
    changes: list[dict[str, Any]] = [
        {"position": position, "attention": attention, "n_kv_head": heads}
        for position, attention, heads in product(POSITIONS, ATTENTIONS, (1, 2, 4))
    ]
    changes += [
        {"feedforward": feedforward, "norm": norm, "norm_position": block}
        for feedforward, norm, block in product(FEEDFORWARDS, NORMS, BLOCKS)
    ]
    changes += [{"architecture": name} for name in MODELS]
    changes += [{"init": name} for name in INITS]
    changes += [{"attention_kernel": "plain", "attention": name} for name in ATTENTIONS]
    for name in preset_names():
        changes.append(load_preset(name).model_dump(exclude_unset=True) | SMALL)
    return changes


OPTIONS: list[dict[str, Any]] = [
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


def label(changes: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in changes.items() if SMALL.get(key) != value)


every_variant = pytest.mark.parametrize(
    "config", [pytest.param(small(**c), id=label(c)) for c in combinations() + OPTIONS]
)


def build(config: ModelConfig) -> LanguageModel:
    """In float64, with no weight at a value that has no effect, as a bias or a gain may be."""
    torch.manual_seed(0)
    model = build_model(config, VOCAB).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def like(model: LanguageModel, config: ModelConfig) -> LanguageModel:
    """A model of another config with the same weights."""
    other = build_model(config, model.vocab_size).double().eval()
    other.load_state_dict(model.state_dict())
    return other


def random_tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(VOCAB, (batch, length))
