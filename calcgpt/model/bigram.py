"""The bigram model: the floor under all others."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.kv_cache import KVCache
from calcgpt.model.language_model import MODELS, LanguageModel
from calcgpt.model.sizes import Sizes


@MODELS.register("bigram")
class Bigram(LanguageModel):
    """The next token from the last one alone: a row of logits for each token (Karpathy's
    `makemore`). Of the config it uses `block_size`."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.table = nn.Embedding(vocab_size, vocab_size)

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> dict[str, Any]:
        return {"table of logits": s.V * s.V}

    def forward(
        self, tokens_BT: torch.Tensor, cache: KVCache | None = None, last_only: bool = False
    ) -> torch.Tensor:
        length = tokens_BT.size(1) + (cache.length if cache else 0)
        self._check_room(length)
        if cache is not None:
            cache.length = length
        logits: torch.Tensor = self.table(tokens_BT[:, -1:] if last_only else tokens_BT)
        return logits
