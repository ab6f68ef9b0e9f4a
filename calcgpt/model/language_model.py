"""The interface that all models share: tokens in, logits over the next token out.

Shapes: B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.kv_cache import KVCache
from calcgpt.model.sizes import Sizes
from calcgpt.registry import Registry


class LanguageModel(nn.Module, ABC):
    """Predicts the next token from those before it."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size

    @abstractmethod
    def forward(
        self, tokens_BT: torch.Tensor, cache: KVCache | None = None, last_only: bool = False
    ) -> torch.Tensor:
        """Logits (B, T, V), or (B, 1, V) of the last token with `last_only`.

        With a cache, `tokens_BT` are the tokens after those it holds, and it holds them afterwards.
        Raises ValueError beyond `block_size` tokens.
        """

    def new_cache(self, batch: int, n_token: int) -> KVCache:
        """An empty key/value cache for `batch` sequences of at most `n_token` tokens."""
        weight = next(self.parameters())
        capacity = self.n_positions(self.config, n_token)
        return KVCache(self.config, batch, capacity, weight.device, weight.dtype)

    def n_parameters(self) -> int:
        """Trainable numbers, shared ones counted once."""
        return sum(p.numel() for p in self.parameters())

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        """Raise ConfigError for parts that do not fit together."""

    @classmethod
    def n_positions(cls, config: ModelConfig, n_token: int) -> int:
        """How many positions `n_token` tokens take."""
        return n_token

    @classmethod
    @abstractmethod
    def count(cls, config: ModelConfig, s: Sizes) -> dict[str, Any]:
        """The parameters of each part, as arithmetic over `s`."""

    def _check_room(self, n_position: int) -> None:
        room = self.n_positions(self.config, self.config.block_size)
        if n_position > room:
            raise ValueError(f"{n_position} tokens do not fit in {room}")


MODELS: Registry[type[LanguageModel]] = Registry("architecture")
