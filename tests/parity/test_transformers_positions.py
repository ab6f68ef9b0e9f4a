"""Comparisons with parts of `transformers`: ALiBi with the bias of BLOOM, T5's buckets with T5's.

Each test imports `transformers` itself: the import takes seconds, and only one process of the tests
needs it."""

from collections.abc import Callable

import pytest
import torch

from calcgpt.config import ModelConfig
from calcgpt_lab.model.positions import POSITIONS, t5_buckets

LENGTH = 40
Compare = Callable[..., None]


def alibi_of_bloom(n_head: int) -> torch.Tensor:
    """Returns BLOOM's bias, (H, 1, S) float64."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    return build_alibi_tensor(torch.ones(1, LENGTH), n_head, torch.float64)


@pytest.mark.parametrize("n_head", range(1, 18))
def test_alibi_is_blooms(compare: Compare, n_head: int) -> None:
    """Up to a shift of all scores of a query, which a softmax ignores."""
    config = ModelConfig(position="alibi", n_head=n_head, n_embd=n_head, block_size=LENGTH)
    bias_HTS = POSITIONS["alibi"](config, LENGTH).bias(LENGTH, 0)
    bloom_HS = alibi_of_bloom(n_head).squeeze(1)
    bloom_HTS = bloom_HS[:, None, :] - bloom_HS[:, :, None]  # 0 at the query's own position
    compare(bias_HTS.tril(), bloom_HTS.tril(), "ALiBi, 1 to 17 heads vs BLOOM's alibi")


BUCKETS = [(32, 128), (32, 17), (2, 3), (3, 50), (8, 20), (33, 100), (64, 1_000), (128, 4_000)]


@pytest.mark.parametrize(("n_bucket", "max_distance"), BUCKETS)
def test_buckets_are_t5s(compare: Compare, n_bucket: int, max_distance: int) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    expected = T5Attention._relative_position_bucket(
        -torch.arange(5_001), bidirectional=False, num_buckets=n_bucket, max_distance=max_distance
    )
    actual = t5_buckets(5_001, n_bucket, max_distance)
    assert actual.max() == n_bucket - 1
    compare(actual, expected, "T5's buckets of distances up to 5000", rtol=0)
