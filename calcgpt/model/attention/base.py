"""The interface that all attention schemes share; on its own, full causal attention.

Shapes: B batch, T new tokens (queries), S all tokens (keys), H heads, C n_embd.
"""

from __future__ import annotations

import torch

from calcgpt.config import ModelConfig
from calcgpt.registry import Registry

ATTENTIONS: Registry[type[AttentionScheme]] = Registry("attention")


@ATTENTIONS.register("full")
class AttentionScheme:
    """Which keys a query sees, and how scores become weights. One instance serves all layers.

    The last query stands at the last key. A scheme may also put tokens of its own between those of
    the text, which then have positions like all others.
    """

    softmax = True  # weights are the softmax of the scores: a fused kernel may compute them
    n_token = 0  # tokens of its own, whose ids follow those of the vocabulary

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        pass

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        """Raise ConfigError where `config` cannot carry this scheme."""

    @classmethod
    def n_positions(cls, config: ModelConfig, n_token: int) -> int:
        """How many positions `n_token` tokens of text take."""
        return n_token

    def insert(self, tokens_BT: torch.Tensor, start: int) -> torch.Tensor:
        """Tokens of the text, after `start` positions -> the same with the scheme's own."""
        return tokens_BT

    def remove(self, x_BTC: torch.Tensor, start: int) -> torch.Tensor:
        """The inverse of `insert`, on what the blocks made of the tokens."""
        return x_BTC

    def visible(self, n_query: int, n_key: int, device: torch.device) -> torch.Tensor | None:
        """(T, S), True where a query may look; None means all of the past."""
        return None

    def weights(self, scores_BHTS: torch.Tensor) -> torch.Tensor:
        """Scores, minus infinity where nothing is to be seen -> weights that sum to 1."""
        return scores_BHTS.softmax(dim=-1)


def causal(n_query: int, n_key: int, device: torch.device) -> torch.Tensor:
    """(T, S), True where a query may look: at itself and at what came before."""
    every = torch.ones(n_query, n_key, dtype=torch.bool, device=device)
    return every.tril(n_key - n_query)
