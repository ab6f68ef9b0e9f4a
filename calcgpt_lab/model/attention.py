"""Causal self-attention, its key/value cache, and which part of the past each query sees.

Shapes: B batch, T new tokens (queries), S all tokens (cached and new), C n_embd, H query heads,
G key/value heads, D head width.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.variants import register
from calcgpt_lab.model.layers import NORMS, dropout
from calcgpt_lab.model.positions import PositionalScheme

MINUS_INF = float("-inf")
FIRST_CAPACITY = 256  # tokens for which a cache has memory at first


class KVCache:
    """The keys and values of every layer, each (B, G, allocated, D), and the tokens themselves,
    (B, allocated), from which some positional schemes compute positions.

    The memory doubles when it is full, up to `capacity` tokens, so most decoding steps copy only
    their own token. `length` is the number of tokens that every layer holds. The model advances it
    after a forward pass.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.capacity, self.length = capacity, 0
        allocated = min(capacity, FIRST_CAPACITY)
        shape = (batch, config.kv_heads, allocated, config.head_dim)
        layers = range(config.n_layer)
        self.k = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.v = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.tokens = torch.empty((batch, allocated), device=device, dtype=torch.int64)

    def append_tokens(self, tokens_BT: torch.Tensor) -> torch.Tensor:
        """Stores the new tokens. Returns all tokens so far, (B, S)."""
        self.reserve(self.length + tokens_BT.size(1))
        return _append(self.tokens, tokens_BT, self.length, dim=1)

    def reserve(self, n_token: int) -> None:
        """Makes room for `n_token` tokens in all."""
        allocated = self.tokens.size(1)
        if n_token > allocated:
            allocated = max(n_token, min(2 * allocated, self.capacity))
            self.k = [_enlarge(k, self.length, allocated, dim=2) for k in self.k]
            self.v = [_enlarge(v, self.length, allocated, dim=2) for v in self.v]
            self.tokens = _enlarge(self.tokens, self.length, allocated, dim=1)

    def append(
        self, layer: int, k_BGTD: torch.Tensor, v_BGTD: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores new keys and values of a layer. Returns all of them so far, each (B, G, S, D)."""
        k_BGSD = _append(self.k[layer], k_BGTD, self.length, dim=2)
        v_BGSD = _append(self.v[layer], v_BGTD, self.length, dim=2)
        return k_BGSD, v_BGSD

    def select(self, rows: torch.Tensor | NDArray[np.int64]) -> None:
        """Keeps the rows of the batch at these indices, in this order. An index may repeat."""
        self.k = [_select(k, rows, self.length, dim=2) for k in self.k]
        self.v = [_select(v, rows, self.length, dim=2) for v in self.v]
        self.tokens = _select(self.tokens, rows, self.length, dim=1)


def _append(store: torch.Tensor, new: torch.Tensor, length: int, dim: int) -> torch.Tensor:
    """Writes `new` after the first `length` entries along `dim`. Returns all entries so far."""
    n_new = new.size(dim)
    store.narrow(dim, length, n_new).copy_(new)
    return store.narrow(dim, 0, length + n_new)


def _enlarge(store: torch.Tensor, length: int, size: int, dim: int) -> torch.Tensor:
    """Returns `store` with `size` entries along `dim`. Only the first `length` are copied."""
    enlarged = store.new_empty((*store.shape[:dim], size, *store.shape[dim + 1 :]))
    enlarged.narrow(dim, 0, length).copy_(store.narrow(dim, 0, length))
    return enlarged


def _select(
    store: torch.Tensor, rows: torch.Tensor | NDArray[np.int64], length: int, dim: int
) -> torch.Tensor:
    """Returns these rows of `store`. Only the first `length` entries along `dim` are copied."""
    selected = store.new_empty((len(rows), *store.shape[1:]))
    selected.narrow(dim, 0, length).copy_(store.narrow(dim, 0, length)[rows])
    return selected


class AttentionScheme:
    """Which keys a query sees, and how scores become weights. This class is full attention.

    One instance serves all layers. The last query is at the position of the last key. A scheme may
    insert tokens of its own into the text. They take positions like all others.
    """

    softmax = True  # the weights are the softmax of the scores: a fused kernel may compute them
    n_inserted_ids = 0  # ids of tokens that the scheme inserts; they follow those of the vocabulary

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        pass

    def n_positions(self, n_token: int) -> int:
        """Returns how many positions `n_token` tokens of text take."""
        return n_token

    def insert(self, tokens_BT: torch.Tensor, start: int) -> torch.Tensor:
        """Returns the tokens of the text with the scheme's own between them. `start` positions
        come before them."""
        return tokens_BT

    def remove(self, x_BTC: torch.Tensor, start: int) -> torch.Tensor:
        """Drops the positions that `insert` added from the output of the blocks."""
        return x_BTC

    def visible(self, n_query: int, n_key: int, device: torch.device) -> torch.Tensor | None:
        """Returns a mask (T, S), True where a query sees a key, or None for all of the past."""
        return None

    def weights(self, scores_BHTS: torch.Tensor) -> torch.Tensor:
        """Returns weights that sum to 1 over S. Scores of hidden keys are minus infinity."""
        return scores_BHTS.softmax(dim=-1)


def causal_mask(n_query: int, n_key: int, device: torch.device) -> torch.Tensor:
    """Returns a mask (T, S), True at the query's own position and before it."""
    ones = torch.ones(n_query, n_key, dtype=torch.bool, device=device)
    return ones.tril(n_key - n_query)


class WindowAttention(AttentionScheme):
    """A query sees the last `window` tokens, its own included (Longformer; Beltagy et al. 2020,
    section 3.1. Mistral 7B; Jiang et al. 2023, section 2)."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        self.window = config.window

    def visible(self, n_query: int, n_key: int, device: torch.device) -> torch.Tensor | None:
        past_TS = causal_mask(n_query, n_key, device)
        return past_TS.triu(n_key - n_query - self.window + 1)


class LandmarkAttention(AttentionScheme):
    """A landmark token follows every `landmark_block` tokens and represents their block (Mohtashami
    & Jaggi 2023, section 3.1).

    A query weighs the tokens of its own block against the landmarks of earlier blocks. The weight
    of a landmark is then shared among the tokens of its block: the grouped softmax of eqs. 1 to 4.
    Landmarks themselves get no weight, so their values are never read.
    """

    softmax = False
    n_inserted_ids = 1

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        self.block = config.landmark_block
        self.landmark = vocab_size  # the id after those of the vocabulary

    def n_positions(self, n_token: int) -> int:
        return n_token + n_token // self.block

    def insert(self, tokens_BT: torch.Tensor, start: int) -> torch.Tensor:
        n_token, device = tokens_BT.size(1), tokens_BT.device
        n_before = start % (self.block + 1)  # tokens already in the open block
        n_landmark = (n_before + n_token) // self.block
        positions = start + torch.arange(n_token + n_landmark, device=device)
        # For a position that is not a landmark, the index of its token: the position minus the
        # number of landmarks before it.
        index = positions - positions // (self.block + 1) - self._n_text(start)
        tokens = tokens_BT[:, index.clamp(max=n_token - 1)]
        return tokens.masked_fill(self._is_landmark(positions), self.landmark)

    def remove(self, x_BTC: torch.Tensor, start: int) -> torch.Tensor:
        first = self._n_text(start)
        n_token = self._n_text(start + x_BTC.size(1)) - first
        text = first + torch.arange(n_token, device=x_BTC.device)
        return x_BTC[:, text + text // self.block - start]

    def _n_text(self, n_position: int) -> int:
        """Returns how many of the first positions are not landmarks."""
        return n_position - n_position // (self.block + 1)

    def weights(self, scores_BHTS: torch.Tensor) -> torch.Tensor:
        B, H, T, S = scores_BHTS.shape
        key_S = torch.arange(S, device=scores_BHTS.device)
        size = self.block + 1
        same_block_TS = key_S[S - T :, None] // size == key_S // size
        landmark_S = self._is_landmark(key_S)
        # The query's own group: the tokens of its block and the landmarks of the others.
        top_BHTS = scores_BHTS.masked_fill(same_block_TS == landmark_S, MINUS_INF).softmax(dim=-1)
        # One group for each other block. The last block is padded. Its landmark is in no group.
        n_block = -(-S // size)
        shape, padding = (B, H, T, n_block, size), (0, n_block * size - S)
        blocks = F.pad(scores_BHTS, padding, value=MINUS_INF).view(shape)[..., : self.block]
        # A block in the future is all minus infinity, which has no softmax.
        hidden = blocks.amax(dim=-1, keepdim=True) == MINUS_INF
        shares = blocks.masked_fill(hidden, 0.0).softmax(dim=-1)  # (B, H, T, n_block, block)
        gates = F.pad(top_BHTS, padding).view(shape)[..., self.block :]  # weights of the landmarks
        others_BHTS = F.pad(shares * gates, (0, 1)).flatten(-2)[..., :S]
        return torch.where(same_block_TS, top_BHTS, others_BHTS)

    def _is_landmark(self, position: torch.Tensor) -> torch.Tensor:
        return position % (self.block + 1) == self.block


ATTENTIONS: dict[str, type[AttentionScheme]] = {
    "full": AttentionScheme,
    "window": WindowAttention,
    "landmark": LandmarkAttention,
}
register("attention", ATTENTIONS)


class Context:
    """What all layers share in one forward pass of `n_query` tokens after the tokens in the cache.

    `start` is the number of tokens in the cache. `mask` has one of three forms:

    - bool, (T, S): True where a query sees a key.
    - float, (1, H or 1, T, S): what the positional scheme adds to the scores, and minus infinity
      where a query does not see a key.
    - None: a query sees all of the past, and nothing is added. In this case T is 1 or the cache is
      empty, so torch's own causal mask is right. `is_causal` says whether that mask is needed.
    """

    def __init__(
        self,
        positions: PositionalScheme,
        scheme: AttentionScheme,
        n_query: int,
        cache: KVCache | None,
        device: torch.device,
    ) -> None:
        self.positions = positions
        self.scheme = scheme
        self.cache = cache
        self.start = cache.length if cache else 0
        n_key = self.start + n_query
        visible_TS = scheme.visible(n_query, n_key, device)
        bias_HTS = positions.bias(n_query, self.start)
        needs_mask = bias_HTS is not None or n_query not in (1, n_key)
        if visible_TS is None and needs_mask:
            visible_TS = causal_mask(n_query, n_key, device)
        self.mask = visible_TS
        if visible_TS is not None and bias_HTS is not None:
            # Four dimensions: torch's kernels for a CPU do not take a mask of three.
            self.mask = bias_HTS.masked_fill(~visible_TS, MINUS_INF)[None]
        self.is_causal = False  # one query sees all keys
        if n_query > 1:  # a branch, so that a compiled pass has a bool here and no symbol
            self.is_causal = True


class CausalSelfAttention(nn.Module):
    """Scaled dot-product attention over the past (Vaswani et al. 2017, section 3.2).

    With n_kv_head < n_head, each key/value head serves a group of n_head / n_kv_head query heads
    (grouped-query attention; Ainslie et al. 2023). With one, it serves all of them (multi-query;
    Shazeer 2019).
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.n_head, self.n_kv_head = config.n_head, config.kv_heads
        self.head_dim = config.head_dim
        self.fused = config.attention_kernel == "sdpa"
        self.copies_views = False  # `compiled` sets it
        self.qkv = nn.Linear(
            config.n_embd, (self.n_head + 2 * self.n_kv_head) * self.head_dim, bias=config.qkv_bias
        )
        self.out = nn.Linear(config.n_embd, config.n_embd, bias=config.attn_out_bias)
        self.dropout = config.dropout
        self.weights_dropout = dropout(config.dropout)
        self.out_dropout = dropout(config.dropout)
        self.qk_norm = config.qk_norm
        if config.qk_norm:  # over the head width, before the rotation (Henry et al. 2020)
            self.q_norm = NORMS[config.norm](self.head_dim, config.norm_bias)
            self.k_norm = NORMS[config.norm](self.head_dim, config.norm_bias)

    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        B, T, C = x_BTC.shape
        H, G = self.n_head, self.n_kv_head
        positions, start = context.positions, context.start
        qkv = self.qkv(x_BTC).view(B, T, -1, self.head_dim).transpose(1, 2)
        if self.qk_norm or positions.rotates:
            # Queries and keys stay in one tensor, (B, H + G, T, D), until they are rotated: that
            # takes half as many operations.
            qk, v_BGTD = qkv.split_with_sizes((H + G, G), dim=1)
            if self.qk_norm:
                q_BHTD, k_BGTD = qk.split_with_sizes((H, G), dim=1)
                qk = torch.cat((self.q_norm(q_BHTD), self.k_norm(k_BGTD)), dim=1)
            qk = positions.rotate(qk, start)
            q_BHTD, k_BGTD = qk.split_with_sizes((H, G), dim=1)
        else:
            q_BHTD, k_BGTD, v_BGTD = qkv.split_with_sizes((H, G, G), dim=1)
        k_BGSD, v_BGSD = positions.keys(k_BGTD, start, self.layer), v_BGTD
        if context.cache is not None:
            k_BGSD, v_BGSD = context.cache.append(self.layer, k_BGSD, v_BGSD)
        mask = context.mask
        if (scores_BHTS := positions.scores(q_BHTD, start, self.layer)) is not None:
            mask = apply_mask(scores_BHTS, mask)
        if self.fused and context.scheme.softmax:
            is_causal = mask is None and context.is_causal
            y_BHTD = self._fused(q_BHTD, k_BGSD, v_BGSD, mask, is_causal)
        else:
            y_BHTD = self._plain(q_BHTD, k_BGSD, v_BGSD, mask, context.scheme)
        y_BTC: torch.Tensor = self.out_dropout(self.out(y_BHTD.transpose(1, 2).reshape(B, T, C)))
        return y_BTC

    def _fused(
        self,
        q_BHTD: torch.Tensor,
        k_BGSD: torch.Tensor,
        v_BGSD: torch.Tensor,
        mask: torch.Tensor | None,
        is_causal: bool,
    ) -> torch.Tensor:
        """Computes attention through torch's kernels. On a CPU, the flash kernel takes a mask or a
        bias. With dropout or a learned bias, torch uses its slow formula there."""
        if self.training and q_BHTD.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            # In bf16, the flash kernel's backward pass takes 6 times as long (research/LOG.md).
            with torch.autocast("cpu", enabled=False):
                q, k, v = (x.float() for x in (q_BHTD, k_BGSD, v_BGSD))
                return self._fused(q, k, v, mask, is_causal)
        group = q_BHTD.size(1) // k_BGSD.size(1)
        if mask is not None and mask.is_floating_point():
            mask = mask.to(q_BHTD.dtype)
        if group > 1 and mask is not None and q_BHTD.device.type != "cpu":
            # CUDA's kernels with a mask take no groups: the slow formula would be used instead. On
            # a CPU, the flash kernel takes both (research/LOG.md).
            k_BGSD, v_BGSD = (x.repeat_interleave(group, dim=1) for x in (k_BGSD, v_BGSD))
            group = 1
        if self.copies_views and mask is None and q_BHTD.device.type != "cpu":
            q_BHTD, k_BGSD, v_BGSD = (x.contiguous() for x in (q_BHTD, k_BGSD, v_BGSD))
        return F.scaled_dot_product_attention(
            q_BHTD,
            k_BGSD,
            v_BGSD,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
            enable_gqa=group > 1,
        )

    def _plain(
        self,
        q_BHTD: torch.Tensor,
        k_BGSD: torch.Tensor,
        v_BGSD: torch.Tensor,
        mask: torch.Tensor | None,
        scheme: AttentionScheme,
    ) -> torch.Tensor:
        """Computes attention by the formula, step by step. Tests compare the fused kernel with it,
        attention maps use it, and schemes whose weights are not a plain softmax need it."""
        group = q_BHTD.size(1) // k_BGSD.size(1)
        k_BHSD, v_BHSD = k_BGSD, v_BGSD
        if group > 1:
            k_BHSD, v_BHSD = (x.repeat_interleave(group, dim=1) for x in (k_BGSD, v_BGSD))
        scores_BHTS = q_BHTD @ k_BHSD.transpose(2, 3) / math.sqrt(self.head_dim)
        weights_BHTS = self.weights_dropout(scheme.weights(apply_mask(scores_BHTS, mask)))
        y_BHTD: torch.Tensor = weights_BHTS.to(v_BHSD.dtype) @ v_BHSD
        return y_BHTD


def apply_mask(scores_BHTS: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Returns the scores with the mask of a `Context` applied: minus infinity where a query does
    not see a key."""
    if mask is None:
        mask = causal_mask(scores_BHTS.size(2), scores_BHTS.size(3), scores_BHTS.device)
    if mask.dtype == torch.bool:
        return scores_BHTS.masked_fill(~mask, MINUS_INF)
    return scores_BHTS + mask
