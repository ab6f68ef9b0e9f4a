"""Blocks, by where they normalise: attention, then feed-forward, each added to what came in.

Shapes: B batch, T tokens, C n_embd.

The interface that all models share: tokens in, logits over the next token out.

Shapes: B batch, T tokens, V vocabulary.

The bigram model: the floor under all others.

The decoder-only transformer.

Shapes: B batch, T tokens, C n_embd, V vocabulary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.attention import ATTENTIONS, CausalSelfAttention, Context, KVCache
from calcgpt.model.layers import FEEDFORWARDS, NORMS, Linear, dropout, feed_forward
from calcgpt.model.positions import POSITIONS
from calcgpt.model.sizes import Sizes


class Block(nn.Module, ABC):
    """The parts of a block."""

    final_norm: bool  # whether the last block's output is still to be normalised

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attn_norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.attn = CausalSelfAttention(config, layer)
        self.ff_norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.ff = feed_forward(config)

    @abstractmethod
    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)."""


class PreNormBlock(Block):
    """x + f(norm(x)): the residual stream itself is never normalised (GPT-2; Radford et al. 2019,
    section 2.3. Xiong et al. 2020)."""

    final_norm = True

    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        x_BTC = x_BTC + self.attn(self.attn_norm(x_BTC), context)
        x_BTC = x_BTC + self.ff(self.ff_norm(x_BTC))
        return x_BTC


class PostNormBlock(Block):
    """norm(x + f(x)), as in the first transformer (Vaswani et al. 2017, section 3.1)."""

    final_norm = False

    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        x_BTC = self.attn_norm(x_BTC + self.attn(x_BTC, context))
        x_BTC = self.ff_norm(x_BTC + self.ff(x_BTC))
        return x_BTC


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


class GPT(LanguageModel):
    """A decoder built from a config; which variants it is made of, only the config says."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.scheme = ATTENTIONS[config.attention](config, vocab_size)
        self.token_embedding = nn.Embedding(vocab_size + self.scheme.n_token, config.n_embd)
        n_positions = self.n_positions(config, config.block_size)
        self.positions = POSITIONS[config.position](config, n_positions)
        self.embed_dropout = dropout(config.dropout)
        block = BLOCKS[config.norm_position]
        self.blocks = nn.ModuleList(block(config, layer) for layer in range(config.n_layer))
        self.norm: nn.Module = nn.Identity()
        if block.final_norm:
            self.norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.head = Linear(config.n_embd, vocab_size, bias=config.head_bias)
        if config.tie_embeddings:
            self.head.weight = self.token_embedding.weight
        INITS[config.init](self)

    @classmethod
    def n_positions(cls, config: ModelConfig, n_token: int) -> int:
        return ATTENTIONS[config.attention].n_positions(config, n_token)

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> dict[str, Any]:
        norm = NORMS[config.norm].count(s.C, config.norm_bias)
        network, _ = FEEDFORWARDS[config.feedforward]
        final = norm if BLOCKS[config.norm_position].final_norm else 0
        head = (0 if config.tie_embeddings else s.C * s.V) + (s.V if config.head_bias else 0)
        return {
            "token embedding": (s.V + ATTENTIONS[config.attention].n_token) * s.C,
            "positions": POSITIONS[config.position].count(config, s),
            "attention": s.L * CausalSelfAttention.count(config, s),
            "feed-forward": s.L * network.count(config, s),
            "norms": s.L * 2 * norm + final,
            "head": head,
        }

    def with_plain_attention(self) -> GPT:
        """A copy with the same weights that computes attention step by step: a fused kernel never
        holds all its weights, and is called in ways that no graph can hold."""
        plain = GPT(self.config.model_copy(update={"attention_kernel": "plain"}), self.vocab_size)
        plain.load_state_dict(self.state_dict())
        return plain.eval()

    def forward(
        self, tokens_BT: torch.Tensor, cache: KVCache | None = None, last_only: bool = False
    ) -> torch.Tensor:
        start = cache.length if cache else 0
        tokens_BT = self.scheme.insert(tokens_BT, start)
        T = tokens_BT.size(1)
        self._check_room(start + T)
        tokens_BS = tokens_BT if cache is None else cache.append_tokens(tokens_BT)
        x_BTC = self.positions.embed(self.token_embedding(tokens_BT), tokens_BS, start)
        x_BTC = self.embed_dropout(x_BTC)
        context = Context.of(self.positions, self.scheme, T, cache, tokens_BT.device)
        for block in self.blocks:
            x_BTC = block(x_BTC, context)
        if cache is not None:
            cache.length += T
        x_BTC = self.scheme.remove(x_BTC, start)
        if last_only:
            x_BTC = x_BTC[:, -1:]
        logits_BTV: torch.Tensor = self.head(self.norm(x_BTC))
        # A head tied to the embedding has rows for the attention scheme's tokens, too.
        return logits_BTV[..., : self.vocab_size]


def torch_init(model: GPT) -> None:
    """PyTorch's defaults, as in the blog: uniform fan-in matrices, unit normal embeddings."""


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


BLOCKS: dict[str, type[Block]] = {
    "pre": PreNormBlock,
    "post": PostNormBlock,
}


MODELS: dict[str, type[LanguageModel]] = {
    "bigram": Bigram,
    "gpt": GPT,
}


INITS: dict[str, Callable[[GPT], None]] = {
    "torch": torch_init,
    "gpt2": gpt2_init,
}
