"""The one interface that all positional schemes share.

Shapes: B batch, T new tokens, S all tokens (cached and new), C n_embd, H query heads, G key/value
heads, D head width, N positions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.sizes import Sizes
from calcgpt.registry import Registry


class PositionalScheme(nn.Module):
    """How a decoder knows where a token stands. One instance serves all layers.

    A scheme overrides what it uses of five hooks: `embed` adds to the token embeddings, `rotate`
    turns queries and keys, `keys` adds to the keys of a layer, `bias` adds to the scores of all
    layers, `scores` to those of one, from its queries. The rest is the identity, so attention calls
    them all and knows no scheme by name. `start` is the number of tokens that stand before the
    first one given (those in the key/value cache).
    """

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__()

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        """Raise ConfigError where `config` cannot carry this scheme."""

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        """Parameters of all layers together."""
        return 0

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        """Token embeddings -> embeddings that know their position. `tokens_BS` are all tokens so
        far, S = start + T, for schemes that read the position off the text."""
        return x_BTC

    def rotate(self, x_BHTD: torch.Tensor, start: int) -> torch.Tensor:
        """Queries or keys -> the same, turned by their position; any number of heads H."""
        return x_BHTD

    def keys(self, k_BGTD: torch.Tensor, start: int, layer: int) -> torch.Tensor:
        """The keys of one layer -> keys that know their position."""
        return k_BGTD

    def bias(self, n_query: int, start: int) -> torch.Tensor | None:
        """What is added to the scores of `n_query` queries over start + n_query keys in every
        layer, (H or 1, T, S), without the causal mask; None is zero."""
        return None

    def scores(self, q_BHTD: torch.Tensor, start: int, layer: int) -> torch.Tensor | None:
        """What is added to the scores of one layer, (B, H, T, S), from its queries, divided by
        sqrt(D) as the scores are, without the causal mask; None is zero."""
        return None


POSITIONS: Registry[type[PositionalScheme]] = Registry("position")
