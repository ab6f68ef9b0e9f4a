"""Causal self-attention: multi-head, grouped-query and multi-query in one.

Shapes: B batch, T new tokens, S all tokens (cached and new), C n_embd, H query heads,
G key/value heads, D head width.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.model.kv_cache import KVCache
from calcgpt.model.norms import NORMS
from calcgpt.model.positions import PositionalScheme


class CausalSelfAttention(nn.Module):
    """Scaled dot-product attention over the past (Vaswani et al. 2017, section 3.2).

    With n_kv_head < n_head, each key/value head serves a group of n_head / n_kv_head query heads
    (Ainslie et al. 2023); with one, all of them (Shazeer 2019). What the positional scheme does
    is the scheme's own business.
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.heads = (config.n_head, config.kv_heads, config.kv_heads)  # of q, k and v
        self.head_dim = config.head_dim
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.n_embd, sum(self.heads) * self.head_dim, bias=config.qkv_bias)
        self.out = nn.Linear(config.n_embd, config.n_embd, bias=config.attn_out_bias)
        self.out_dropout = nn.Dropout(config.dropout)
        self.q_norm: nn.Module = nn.Identity()
        self.k_norm: nn.Module = nn.Identity()
        if config.qk_norm:  # over the head's width, before the rotation (Henry et al. 2020)
            self.q_norm = NORMS[config.norm](self.head_dim)
            self.k_norm = NORMS[config.norm](self.head_dim)

    def forward(
        self, x_BTC: torch.Tensor, positions: PositionalScheme, cache: KVCache | None = None
    ) -> torch.Tensor:
        B, T, C = x_BTC.shape
        start = cache.length if cache else 0
        heads_BHTD = self.qkv(x_BTC).view(B, T, -1, self.head_dim).transpose(1, 2)
        q, k, v = heads_BHTD.split(self.heads, dim=1)  # (B,H,T,D), (B,G,T,D), (B,G,T,D)
        q = positions.rotate(self.q_norm(q), start)
        k = positions.rotate(self.k_norm(k), start)
        if cache is not None:
            k, v = cache.append(self.layer, k, v)  # (B,G,S,D)
        y_BHTD = self._attend(q, k, v, positions.bias(T, start))
        y_BTC: torch.Tensor = self.out_dropout(self.out(y_BHTD.transpose(1, 2).reshape(B, T, C)))
        return y_BTC

    def _attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        T, S = q.size(2), k.size(2)
        # SDPA's own causal flag lets it take a flash kernel, but it aligns the mask to the first
        # key: right only without cached tokens. One query sees everything and needs no mask.
        simple = bias is None and T == S
        mask = None if simple or (bias is None and T == 1) else causal_mask(T, S, q.device, bias)
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=simple and T > 1,
            enable_gqa=k.size(1) != q.size(1),
        )


def causal_mask(
    n_query: int, n_key: int, device: torch.device, bias: torch.Tensor | None
) -> torch.Tensor:
    """(n_query, n_key), aligned to the last key: True where a query may look, or, with a bias
    (heads, n_query, n_key), that bias with minus infinity elsewhere."""
    visible = torch.ones(n_query, n_key, dtype=torch.bool, device=device).tril(n_key - n_query)
    return visible if bias is None else bias.masked_fill(~visible, float("-inf"))
