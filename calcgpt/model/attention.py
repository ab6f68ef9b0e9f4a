"""The key/value cache of decoding: preallocated, so that a step copies only its own token.

The interface that all attention schemes share; on its own, full causal attention.

Shapes: B batch, T new tokens (queries), S all tokens (keys), H heads, C n_embd.

Sliding-window attention (Longformer; Beltagy et al. 2020, section 3.1. Mistral 7B; Jiang et al.
2023, section 2).

Landmark attention (Mohtashami & Jaggi 2023, section 3.1).

Causal self-attention: multi-head, grouped-query and multi-query in one.

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
from calcgpt.model.layers import NORMS, Linear, dropout
from calcgpt.model.positions import PositionalScheme
from calcgpt.model.sizes import Sizes


class KVCache:
    """Keys and values of every layer, each (B, n_kv_head, capacity, head_dim), and the tokens
    themselves, (B, capacity), from which some positional schemes read where they are.

    `length` is the number of tokens all layers hold; the model advances it after a forward pass.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = (batch, config.kv_heads, capacity, config.head_dim)
        layers = range(config.n_layer)
        self.k = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.v = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.tokens = torch.empty((batch, capacity), device=device, dtype=torch.int64)
        self.length = 0

    def append_tokens(self, tokens_BT: torch.Tensor) -> torch.Tensor:
        """Store the new tokens; return all tokens so far, (B,S)."""
        return _append(self.tokens, tokens_BT, self.length, dim=1)

    def append(
        self, layer: int, k_BGTD: torch.Tensor, v_BGTD: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new tokens of one layer; return all of its keys and values so far."""
        k_BGSD = _append(self.k[layer], k_BGTD, self.length, dim=2)
        v_BGSD = _append(self.v[layer], v_BGTD, self.length, dim=2)
        return k_BGSD, v_BGSD

    def select(self, rows: torch.Tensor) -> None:
        """Keep only these rows of the batch, rows: (B',) indices, which may repeat."""
        self.k = [_select(k, rows, self.length, dim=2) for k in self.k]
        self.v = [_select(v, rows, self.length, dim=2) for v in self.v]
        self.tokens = _select(self.tokens, rows, self.length, dim=1)


def _append(store: torch.Tensor, new: torch.Tensor, length: int, dim: int) -> torch.Tensor:
    """Write `new` behind the first `length` of `store` along `dim`; return all there is now."""
    n_new = new.size(dim)
    store.narrow(dim, length, n_new).copy_(new)
    return store.narrow(dim, 0, length + n_new)


def _select(store: torch.Tensor, rows: torch.Tensor, length: int, dim: int) -> torch.Tensor:
    """These rows of `store`, of which only the first `length` along `dim` are filled."""
    selected = store.new_empty((len(rows), *store.shape[1:]))
    selected.narrow(dim, 0, length).copy_(store.narrow(dim, 0, length)[rows])
    return selected


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


class WindowAttention(AttentionScheme):
    """A query sees the last `window` tokens, itself included."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        self.window = config.window

    def visible(self, n_query: int, n_key: int, device: torch.device) -> torch.Tensor | None:
        past = causal(n_query, n_key, device)
        return past.triu(n_key - n_query - self.window + 1)


class LandmarkAttention(AttentionScheme):
    """After every `landmark_block` tokens stands a landmark, which stands for its block.

    A query weighs the tokens of its own block against the landmarks of earlier blocks, and what a
    landmark gets is shared among the tokens of its block: eqs. 1 to 4, the grouped softmax. The
    landmarks themselves get nothing: only their keys count.
    """

    softmax = False
    n_token = 1

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        self.block = config.landmark_block
        self.landmark = vocab_size  # the id after those of the vocabulary

    @classmethod
    def n_positions(cls, config: ModelConfig, n_token: int) -> int:
        return n_token + n_token // config.landmark_block

    def insert(self, tokens_BT: torch.Tensor, start: int) -> torch.Tensor:
        is_text = self._is_text(tokens_BT.size(1), start, tokens_BT.device)
        with_landmarks = tokens_BT.new_full((tokens_BT.size(0), len(is_text)), self.landmark)
        with_landmarks[:, is_text] = tokens_BT
        return with_landmarks

    def remove(self, x_BTC: torch.Tensor, start: int) -> torch.Tensor:
        positions = start + torch.arange(x_BTC.size(1), device=x_BTC.device)
        return x_BTC[:, ~self._is_landmark(positions)]

    def weights(self, scores_BHTS: torch.Tensor) -> torch.Tensor:
        B, H, T, S = scores_BHTS.shape
        key_S = torch.arange(S, device=scores_BHTS.device)
        size = self.block + 1
        own_TS = key_S[S - T :, None] // size == key_S // size  # keys in the query's block
        landmark_S = self._is_landmark(key_S)
        # The query's own group: the tokens of its block and the landmarks of the others.
        minus_inf = float("-inf")
        top_BHTS = scores_BHTS.masked_fill(own_TS == landmark_S, minus_inf).softmax(dim=-1)
        # The other groups: a block each, the last one filled up; its landmark is in no group.
        n_block = -(-S // size)
        shape, fill = (B, H, T, n_block, size), (0, n_block * size - S)
        inside = F.pad(scores_BHTS, fill, value=minus_inf).view(shape)[..., : self.block]
        # A block in the future is minus infinity throughout, which has no softmax.
        hidden = inside.amax(dim=-1, keepdim=True) == minus_inf
        inside = inside.masked_fill(hidden, 0.0).softmax(dim=-1)
        gates = F.pad(top_BHTS, fill).view(shape)[..., self.block :]  # what each landmark got
        others_BHTS = F.pad(inside * gates, (0, 1)).flatten(-2)[..., :S]
        return torch.where(own_TS, top_BHTS, others_BHTS)

    def _is_landmark(self, position: torch.Tensor) -> torch.Tensor:
        return position % (self.block + 1) == self.block

    def _is_text(self, n_token: int, start: int, device: torch.device) -> torch.Tensor:
        """For the positions that `n_token` tokens take after `start`: True at the tokens."""
        before = start % (self.block + 1)  # tokens already in the block that is open
        n_landmark = (before + n_token) // self.block
        return ~self._is_landmark(start + torch.arange(n_token + n_landmark, device=device))


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


ATTENTIONS: dict[str, type[AttentionScheme]] = {
    "full": AttentionScheme,
    "window": WindowAttention,
    "landmark": LandmarkAttention,
}
