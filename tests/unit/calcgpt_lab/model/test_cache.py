"""The memory of a cache of keys and values."""

import torch

from calcgpt.config import ModelConfig
from calcgpt_lab.model.attention import FIRST_CAPACITY, KVCache

CONFIG = ModelConfig(n_layer=2, n_embd=8, n_head=2, n_kv_head=1)
CAPACITY = 3 * FIRST_CAPACITY


def filled(n_token: int) -> tuple[KVCache, list[int]]:
    """Returns a cache to which tokens were added one by one, and the sizes that its memory had."""
    cache = KVCache(CONFIG, 2, CAPACITY, torch.device("cpu"), torch.float32)
    sizes = []
    for token in range(n_token):
        cache.append_tokens(torch.full((2, 1), token))
        for layer in range(CONFIG.n_layer):
            cache.append(layer, *torch.full((2, 2, 1, 1, CONFIG.head_dim), float(token)))
        cache.length += 1
        sizes.append(cache.tokens.size(1))
    return cache, sizes


def test_the_memory_doubles_up_to_the_capacity_and_keeps_all_tokens() -> None:
    cache, sizes = filled(CAPACITY)
    assert sorted(set(sizes)) == [FIRST_CAPACITY, 2 * FIRST_CAPACITY, CAPACITY]
    expected = torch.arange(CAPACITY)
    assert torch.equal(cache.tokens, expected.expand(2, -1))
    for stored in (*cache.k, *cache.v):
        assert torch.equal(stored, expected.float()[:, None].expand(2, 1, -1, CONFIG.head_dim))
