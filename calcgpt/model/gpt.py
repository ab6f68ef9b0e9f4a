"""The decoder-only transformer: tokens in, logits over the next token out.

Shapes: B batch, T tokens, C n_embd, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.attention import CausalSelfAttention
from calcgpt.model.feedforward import FEEDFORWARDS
from calcgpt.model.kv_cache import KVCache
from calcgpt.model.norms import NORMS
from calcgpt.model.positions import POSITIONS, PositionalScheme
from calcgpt.registry import Registry


class Block(nn.Module):
    """Attention, then feed-forward, each normalised before and added to the residual stream."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attn_norm = NORMS[config.norm](config.n_embd)
        self.attn = CausalSelfAttention(config, layer)
        self.ff_norm = NORMS[config.norm](config.n_embd)
        self.ff = FEEDFORWARDS[config.feedforward](config)

    def forward(
        self, x_BTC: torch.Tensor, positions: PositionalScheme, cache: KVCache | None
    ) -> torch.Tensor:
        x_BTC = x_BTC + self.attn(self.attn_norm(x_BTC), positions, cache)
        x_BTC = x_BTC + self.ff(self.ff_norm(x_BTC))
        return x_BTC


class GPT(nn.Module):
    """A decoder built from a config; which variants it is made of, only the config says."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        check_config(config)
        self.config = config
        self.vocab_size = vocab_size
        self.token_embedding = nn.Embedding(vocab_size, config.n_embd)
        self.positions = POSITIONS[config.position](config)
        self.embed_dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.n_layer))
        self.norm = NORMS[config.norm](config.n_embd)
        self.head = nn.Linear(config.n_embd, vocab_size, bias=config.head_bias)
        if config.tie_embeddings:
            self.head.weight = self.token_embedding.weight
        INITS[config.init](self)

    def forward(
        self, tokens_BT: torch.Tensor, cache: KVCache | None = None, last_only: bool = False
    ) -> torch.Tensor:
        """Logits (B, T, V), or (B, 1, V) of the last token with `last_only`.

        With a cache, `tokens_BT` are the tokens after those it holds, and it holds them afterwards.
        Raises ValueError beyond `block_size` tokens.
        """
        start = cache.length if cache else 0
        if start + tokens_BT.size(1) > self.config.block_size:
            raise ValueError(
                f"{start + tokens_BT.size(1)} tokens do not fit in {self.config.block_size}"
            )
        tokens_BS = tokens_BT if cache is None else cache.append_tokens(tokens_BT)
        x_BTC = self.positions.embed(self.token_embedding(tokens_BT), tokens_BS, start)
        x_BTC = self.embed_dropout(x_BTC)
        for block in self.blocks:
            x_BTC = block(x_BTC, self.positions, cache)
        if cache is not None:
            cache.length += tokens_BT.size(1)
        if last_only:
            x_BTC = x_BTC[:, -1:]
        logits: torch.Tensor = self.head(self.norm(x_BTC))
        return logits

    def new_cache(self, batch: int, capacity: int) -> KVCache:
        """An empty key/value cache for `batch` sequences of at most `capacity` tokens."""
        weight = self.head.weight
        return KVCache(self.config, batch, capacity, weight.device, weight.dtype)

    def n_parameters(self) -> int:
        """Trainable numbers, shared ones counted once."""
        return sum(p.numel() for p in self.parameters())


INITS: Registry[Callable[[GPT], None]] = Registry("init")


@INITS.register("torch")
def torch_init(model: GPT) -> None:
    """PyTorch's defaults, as in the blog: uniform fan-in matrices, unit normal embeddings."""


@INITS.register("gpt2")
def gpt2_init(model: GPT) -> None:
    """Normal(0, 0.02), and what writes to the residual stream scaled by 1/sqrt(2 n_layer)
    (GPT-2; Radford et al. 2019, section 2.3)."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() == 2:
            writes_residual = name.endswith(("attn.out.weight", "ff.down.weight"))
            scale = math.sqrt(2 * model.config.n_layer) if writes_residual else 1.0
            nn.init.normal_(parameter, std=0.02 / scale)


def check_config(config: ModelConfig) -> None:
    """Raise ConfigError for a name that no registry has, or a scheme that does not fit."""
    _ = FEEDFORWARDS[config.feedforward], NORMS[config.norm], INITS[config.init]
    POSITIONS[config.position].check(config)
