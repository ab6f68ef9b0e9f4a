"""Causal self-attention: multi-head, grouped-query and multi-query in one.

Shapes: B batch, T new tokens, S all tokens (cached and new), C n_embd, H query heads,
G key/value heads, D head width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.model.attention.base import AttentionScheme, causal
from calcgpt.model.dropout import dropout
from calcgpt.model.kv_cache import KVCache
from calcgpt.model.linear import Linear
from calcgpt.model.norms import NORMS
from calcgpt.model.positions import PositionalScheme
from calcgpt.model.sizes import Sizes


@dataclass(frozen=True)
class Context:
    """What all layers share in one forward pass of T new tokens after `start` others."""

    positions: PositionalScheme
    scheme: AttentionScheme
    start: int
    cache: KVCache | None
    # (T, S), True where a query may look, or (H or 1, T, S), what the positions add to the scores,
    # minus infinity where it may not. None: all of the past, to which nothing is added, and either
    # T is 1 or there is nothing in the cache.
    mask: torch.Tensor | None

    @classmethod
    def of(
        cls,
        positions: PositionalScheme,
        scheme: AttentionScheme,
        n_query: int,
        cache: KVCache | None,
        device: torch.device,
    ) -> Context:
        """The context of `n_query` tokens after those in the cache."""
        start = cache.length if cache else 0
        n_key = start + n_query
        visible_TS = scheme.visible(n_query, n_key, device)
        bias_HTS = positions.bias(n_query, start)
        simple = n_query in (1, n_key) and bias_HTS is None
        if visible_TS is None and not simple:
            visible_TS = causal(n_query, n_key, device)
        if visible_TS is None or bias_HTS is None:
            mask = visible_TS
        else:
            mask = bias_HTS.masked_fill(~visible_TS, float("-inf"))
        return cls(positions, scheme, start, cache, mask)


class CausalSelfAttention(nn.Module):
    """Scaled dot-product attention over the past (Vaswani et al. 2017, section 3.2).

    With n_kv_head < n_head, each key/value head serves a group of n_head / n_kv_head query heads
    (Ainslie et al. 2023); with one, all of them (Shazeer 2019). What the positional scheme does,
    and what the attention scheme lets be seen, is their own business.
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.n_head, self.n_kv_head = config.n_head, config.kv_heads
        self.head_dim = config.head_dim
        self.fused = config.attention_kernel == "sdpa"
        self.qkv = Linear(
            config.n_embd, (self.n_head + 2 * self.n_kv_head) * self.head_dim, bias=config.qkv_bias
        )
        self.out = Linear(config.n_embd, config.n_embd, bias=config.attn_out_bias)
        self.dropout = config.dropout
        self.weights_dropout = dropout(config.dropout)
        self.out_dropout = dropout(config.dropout)
        self.qk_norm = config.qk_norm
        if config.qk_norm:  # over the head's width, before the rotation (Henry et al. 2020)
            self.q_norm = NORMS[config.norm](self.head_dim, config.norm_bias)
            self.k_norm = NORMS[config.norm](self.head_dim, config.norm_bias)

    @staticmethod
    def count(config: ModelConfig, s: Sizes) -> Any:
        """Parameters of one layer."""
        n_wide = (s.H + 2 * s.G) * s.D
        n_bias = (n_wide if config.qkv_bias else 0) + (s.C if config.attn_out_bias else 0)
        n_norm = 2 * NORMS[config.norm].count(s.D, config.norm_bias) if config.qk_norm else 0
        return s.C * n_wide + s.C * s.C + n_bias + n_norm

    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        B, T, C = x_BTC.shape
        positions, start = context.positions, context.start
        heads_BHTD = self.qkv(x_BTC).view(B, T, -1, self.head_dim).transpose(1, 2)
        H, G = self.n_head, self.n_kv_head
        qk, v = heads_BHTD.split_with_sizes((H + G, G), dim=1)
        if self.qk_norm:
            q, k = qk.split_with_sizes((H, G), dim=1)
            qk = torch.cat((self.q_norm(q), self.k_norm(k)), dim=1)
        # Queries and keys are turned alike: together, in half as many operations.
        q, k = positions.rotate(qk, start).split_with_sizes((H, G), dim=1)
        k = positions.keys(k, start, self.layer)
        if context.cache is not None:
            k, v = context.cache.append(self.layer, k, v)  # (B,G,S,D)
        mask = context.mask
        if (scores := positions.scores(q, start, self.layer)) is not None:
            mask = add_scores(scores, mask)
        attend = self._fused if self.fused and context.scheme.softmax else self._plain
        y_BHTD = attend(q, k, v, mask, context.scheme)
        y_BTC: torch.Tensor = self.out_dropout(self.out(y_BHTD.transpose(1, 2).reshape(B, T, C)))
        return y_BTC

    def _fused(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        scheme: AttentionScheme,
    ) -> torch.Tensor:
        """Through torch's kernel: a flash kernel where nothing is added to the scores."""
        if mask is not None and mask.is_floating_point():
            mask = mask.to(q.dtype)
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            # One query sees all there is; more than one, without a mask, begin at the first key.
            is_causal=mask is None and q.size(2) > 1,
            enable_gqa=k.size(1) != q.size(1),
        )

    def _plain(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        scheme: AttentionScheme,
    ) -> torch.Tensor:
        """The formula, step by step: what the fused kernel is compared with, what draws the
        attention maps, and the way of schemes whose weights are no plain softmax."""
        group = q.size(1) // k.size(1)
        if group > 1:
            k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))  # (B,H,S,D)
        scores_BHTS = add_scores(q @ k.transpose(2, 3) / math.sqrt(self.head_dim), mask)
        weights_BHTS = self.weights_dropout(scheme.weights(scores_BHTS))
        y_BHTD: torch.Tensor = weights_BHTS.to(v.dtype) @ v
        return y_BHTD


def add_scores(scores_BHTS: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The scores with a context's mask, minus infinity where a query may not look."""
    if mask is None:
        mask = causal(scores_BHTS.size(2), scores_BHTS.size(3), scores_BHTS.device)
    if mask.dtype == torch.bool:
        return scores_BHTS.masked_fill(~mask, float("-inf"))
    return scores_BHTS + mask
