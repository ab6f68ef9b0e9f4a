"""Every variant equals its naive implementation."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from parity import naive, naive_layers
from parity.variants import VOCAB, assert_close, build, every_variant, random_tokens

from calcgpt.config import ModelConfig
from calcgpt_lab.model.attention import ATTENTIONS
from calcgpt_lab.model.base import BLOCKS
from calcgpt_lab.model.gpt import MODELS
from calcgpt_lab.model.layers import FEEDFORWARDS, NORMS
from calcgpt_lab.model.positions import POSITIONS, alibi_slopes, t5_buckets

TABLES: dict[str, Mapping[str, Any]] = {
    "POSITIONS": POSITIONS,
    "ATTENTIONS": ATTENTIONS,
    "FEEDFORWARDS": FEEDFORWARDS,
    "NORMS": NORMS,
    "BLOCKS": BLOCKS,
    "MODELS": MODELS,
}


@pytest.mark.parametrize("table", TABLES)
def test_every_name_has_its_naive_implementation(table: str) -> None:
    own = naive_layers if hasattr(naive_layers, table) else naive
    names, naive_names = set(TABLES[table]), set(getattr(own, table))
    missing, unknown = sorted(names - naive_names), sorted(naive_names - names)
    assert not missing, f"write {missing} from the paper into {table} of {own.__name__}"
    assert not unknown, f"{unknown} in {table} of {own.__name__}: the models have no such"


@every_variant
def test_equals_the_naive_implementation(config: ModelConfig) -> None:
    model = build(config)
    tokens = random_tokens(1, 18)
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    expected = naive.logits(weights, config, VOCAB, tokens[0].tolist())[None]
    with torch.no_grad():
        actual = model(tokens)
    # Not closer than 1e-5: the tables of angles and slopes are float32.
    assert_close(actual, torch.from_numpy(expected))


@pytest.mark.parametrize("n_head", range(1, 41))
def test_slopes_equal_the_authors(n_head: int) -> None:
    assert alibi_slopes(n_head) == pytest.approx(naive.alibi_slopes(n_head), rel=1e-12)


@pytest.mark.parametrize("max_distance", [17, 20, 100, 127, 128, 1000])
@pytest.mark.parametrize("n_bucket", [2, 3, 7, 31, 32])
def test_buckets_equal_mesh_tensorflows(n_bucket: int, max_distance: int) -> None:
    expected = [naive.t5_bucket(d, n_bucket, max_distance) for d in range(300)]
    assert t5_buckets(300, n_bucket, max_distance).tolist() == expected
