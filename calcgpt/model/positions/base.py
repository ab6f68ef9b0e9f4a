"""The one interface that all positional schemes share."""

from __future__ import annotations

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.registry import Registry


class PositionalScheme(nn.Module):
    """How a decoder knows where a token stands. One instance serves all layers.

    A scheme overrides what it uses of three hooks: `embed` adds to the token embeddings, `rotate`
    turns queries and keys, `bias` adds to the attention scores. The rest is the identity, so
    attention calls all three and knows no scheme by name. `start` is the number of tokens that
    stand before the first one given (those in the key/value cache).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        """Raise ConfigError where `config` cannot carry this scheme."""

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        """Token embeddings -> embeddings that know their position. `tokens_BS` are all tokens so
        far, S = start + T, for schemes that read the position off the text."""
        return x_BTC

    def rotate(self, x_BHTD: torch.Tensor, start: int) -> torch.Tensor:
        """Queries or keys -> the same, turned by their position; any number of heads H."""
        return x_BHTD

    def bias(self, n_query: int, start: int) -> torch.Tensor | None:
        """What is added to the scores of `n_query` queries over start + n_query keys, shape
        (heads or 1, n_query, start + n_query), without the causal mask; None is zero."""
        return None


POSITIONS: Registry[type[PositionalScheme]] = Registry("position")
